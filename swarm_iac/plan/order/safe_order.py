"""Which order of the steps keeps every law, and does it need a temporary placement?

In this order, the first that keeps them:
    as it comes      every wait that a law asks for, in the plainest order
    taking turns     the replicas of services in an order that was searched for (plan.order.sequencing)
    temporary        one replica is placed elsewhere for a while, then two, within the budget
    recalled         the same, after all lent memory was returned: it is lent again at the end
    none             Refused, with the circle or the service that the plainest order fails on
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from swarm_iac.errors import Refused
from swarm_iac.model.stack import Solve
from swarm_iac.model.state import Desired, Observed
from swarm_iac.plan.order import availability, handover, rack_power, recall, temporary_placement, waves
from swarm_iac.plan.order.sequencing import schedules
from swarm_iac.plan.order.temporary_placement import Fits, TemporaryPlacement
from swarm_iac.plan.step_graph.actions import Machine, Schedules, machines, services
from swarm_iac.plan.step_graph.draft import drafts
from swarm_iac.plan.step_graph.graph import Graph
from swarm_iac.plan.step_graph.graph import circle as find_circle
from swarm_iac.pluralize import pluralize

#: Situations that are looked at before giving up: each is a whole plan.
ATTEMPTS = 40
#: Moves that are made first, to free capacity for a temporary placement.
AHEAD = 8


@dataclass(frozen=True)
class _Trouble:
    """Why an order is not safe, and who could stand elsewhere for a while: at once, or in for itself.

    `least`: no fewer temporary placements than these resolve it.
    """

    refusal: Refused
    waiting: tuple[tuple[str, str], ...]
    leaves: bool
    least: int


@dataclass(frozen=True)
class _Situation:
    """What the fleet is after some temporary placements."""

    observed: Mapping[str, Observed]
    taken: tuple[tuple[TemporaryPlacement, Graph], ...] = ()

    @property
    def temporaries(self) -> int:
        """Those that count against the budget."""
        return sum(not temporary.final and not temporary.twice for temporary, _ in self.taken)


def safe(
    observed: Mapping[str, Observed], desired: Mapping[str, Desired], agent: str, budget: Solve, fits: Fits
) -> tuple[dict[str, Machine], Graph]:
    """Every node, and all steps with their waits. Raises Refused when no order is safe."""
    refusal: Refused | None = None
    found: tuple[dict[str, Machine], Graph] | None = None
    try:
        found = _safe(observed, desired, agent, budget, fits)
    except Refused as error:
        refusal = error
    standing = len(recall.stands(found[1], desired)) if found else None
    if standing != 0:
        # What is lent is no reason to refuse, nor to have a replica stand elsewhere: whoever borrows can do without.
        other = _recalling(observed, desired, agent, budget, fits)
        if other and (standing is None or len(recall.stands(other[1], desired)) < standing):
            return other
    if found is None:
        assert refusal is not None
        raise refusal
    return found


def _recalling(
    observed: Mapping[str, Observed], desired: Mapping[str, Desired], agent: str, budget: Solve, fits: Fits
) -> tuple[dict[str, Machine], Graph] | None:
    """The same after lent memory was returned, where there is any: where replicas stand for a while, if that is enough."""
    found: tuple[dict[str, Machine], Graph] | None = None
    every = nodes = observed.keys() | desired.keys()
    while nodes:
        less, wish = recall.unlent(observed, nodes), recall.unlent_wish(desired, nodes)
        if (less, wish) == (observed, desired):
            break
        try:
            all_of, graph = _safe(less, wish, agent, budget, fits)
        except Refused:
            break
        found = all_of, recall.join(graph, observed, desired, nodes)
        nodes = {node for node, _ in recall.stands(graph, desired)} if nodes is every else set()
    return found


def _safe(
    observed: Mapping[str, Observed], desired: Mapping[str, Desired], agent: str, budget: Solve, fits: Fits
) -> tuple[dict[str, Machine], Graph]:
    found = machines(observed, desired)
    guaranteed = availability.guaranteed(found)
    # By the temporary placements it takes at least, those taken included; among equals the one that is further on.
    queue = [(0, 0, 0, _Situation(observed))]
    count = itertools.count(1)
    first: _Trouble | None = None
    for _ in range(ATTEMPTS):
        if not queue:
            break
        *_, now = heapq.heappop(queue)
        all_of = machines(now.observed, desired) if now.taken else found
        all_of, graph, trouble = _ordered(now.observed, desired, all_of, agent, budget, guaranteed)
        if trouble is None:
            whole = _joined(graph, now, services(all_of))
            if whole is not None:
                return all_of, whole
            continue
        first = first or trouble
        if all(temporary.twice for temporary, _ in now.taken):
            for drop in temporary_placement.drops(all_of):
                heapq.heappush(queue, (0, -len(now.taken) - 1, next(count), _after(now, all_of, drop)))
        least = now.temporaries + trouble.least
        if least <= budget.moves:
            away = {temporary.name for temporary, _ in now.taken}
            waiting = [(node, name) for node, name in trouble.waiting if name not in away]
            for temporary in temporary_placement.temporaries(all_of, waiting, trouble.leaves, fits):
                heapq.heappush(queue, (least, -len(now.taken) - 1, next(count), _after(now, all_of, temporary)))
            moved = _ahead(now, all_of, desired, trouble)
            if moved is not None:
                heapq.heappush(queue, (least, -len(moved.taken), next(count), moved))
    assert first is not None
    tried = f"no temporary placement was found with solve.moves: {budget.moves}" + (
        f", and at least {pluralize(first.least, 'is', 'are')} needed" if first.least > budget.moves else ""
    )
    raise Refused(f"{first.refusal.message}\n  and {tried}", hint=first.refusal.hint)


def _after(now: _Situation, all_of: Mapping[str, Machine], temporary: TemporaryPlacement) -> _Situation:
    """The situation once this temporary placement is taken too."""
    after = temporary_placement.take(now.observed, all_of, temporary)
    return _Situation(after, (*now.taken, (temporary, temporary_placement.steps(now.observed, after, all_of, temporary))))


def _joined(graph: Graph, now: _Situation, served: Mapping[str, list[tuple[str, str]]]) -> Graph | None:
    """All steps with those of the temporary placements; None if two of them need the same place twice, or each other's."""
    for temporary, ahead in reversed(now.taken):
        if ahead.keys() & graph.keys():
            return None
        graph = temporary_placement.join(graph, ahead, temporary, served)
    return None if now.taken and find_circle(graph) else graph


def _ahead(
    now: _Situation, all_of: Mapping[str, Machine], desired: Mapping[str, Desired], trouble: _Trouble
) -> _Situation | None:
    """The situation after moves that are free to be made first; None when there is none, or some were made already."""
    if any(temporary.final for temporary, _ in now.taken):
        return None
    found = now
    while len(found.taken) - len(now.taken) < AHEAD:
        temporary = temporary_placement.ahead(all_of, trouble.waiting)
        if temporary is None:
            break
        found = _after(found, all_of, temporary)
        all_of = machines(found.observed, desired)
    return found if found is not now else None


def _ordered(
    observed: Mapping[str, Observed],
    desired: Mapping[str, Desired],
    all_of: dict[str, Machine],
    agent: str,
    budget: Solve,
    guaranteed: Mapping[str, int],
) -> tuple[dict[str, Machine], Graph, _Trouble | None]:
    """Steps with their waits, and what is wrong with them. `all_of`: the machines of the two, in no searched order."""
    graph, trouble = _try(all_of, agent, budget, guaranteed, None)
    if trouble is None:
        return all_of, graph, None
    found = schedules(all_of, guaranteed)
    if found is not None:
        other = machines(observed, desired, found)
        graph, again = _try(other, agent, budget, guaranteed, found)
        if again is None:
            return other, graph, None
    return all_of, graph, trouble


def _try(
    all_of: dict[str, Machine], agent: str, budget: Solve, guaranteed: Mapping[str, int], found: Schedules | None
) -> tuple[Graph, _Trouble | None]:
    graph: Graph = {}
    for machine in all_of.values():
        graph |= drafts(machine, agent)
    waves.order(all_of, graph, budget.max_unavailable, rack_power.order(all_of, graph))
    circle = handover.order(all_of, graph, found)
    served = services(all_of)
    replicas = {replica for each in served.values() for replica in each}
    if circle:
        inside = [(graph[one].node, graph[one].allocation) for one in circle]
        return graph, _Trouble(handover.refusal(graph, circle), tuple(one for one in inside if one in replicas), True, 1)
    broken = list(availability.broken(all_of, graph, guaranteed))
    if not broken:
        return graph, None
    workload, worst = broken[0]
    restarting = [(node, name) for node, name in served[workload] if all_of[node].actions[name].kind in ("restart", "go")]
    refusal = availability.refusal(workload, worst, guaranteed[workload])
    return graph, _Trouble(refusal, tuple(restarting), False, len(broken))
