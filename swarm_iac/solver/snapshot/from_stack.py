"""How is a stack read into plain integers?

A user over a limit keeps what runs and adds nothing; a finished job holds storage alone.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter

from swarm_iac.model.device import WHOLE
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.place.groups import LEVELS, Level
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import RESOURCES, demand_of, reader
from swarm_iac.model.stack import Node, Stack
from swarm_iac.model.workload import PRIORITIES, Workload
from swarm_iac.solver.snapshot import by_model
from swarm_iac.solver.snapshot.capacity import group_of
from swarm_iac.solver.snapshot.layout import CORES, COUNTED, FILES, FILES_ON_NODE, ITSELF, MACHINE, NODE, POWER
from swarm_iac.solver.snapshot.scopes import ceiling_of, paths_of, scopes_of
from swarm_iac.solver.snapshot.site_links import with_links
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, Over, Snapshot, WorkloadRequest, of_model
from swarm_iac.solver.snapshot.suitability import may_stay, open_to
from swarm_iac.solver.snapshot.tasks import classify


def snapshot_of(stack: Stack, last: Placement, today: datetime.date | None = None) -> Snapshot:
    """Read the stack into integers. Who holds more than a limit allows keeps what runs, and adds nothing."""
    ceilings, chains = scopes_of(stack, today)
    limited = _limited(stack, ceilings.values())
    requests = {name: request_of(name, one, chains[one.user], limited) for name, one in sorted(stack.workloads.items())}
    if any(taint.teams for node in stack.nodes.values() for taint in node.taints.values()):
        teams = {user: stack.teams_of(user) for user in {one.user for one in stack.workloads.values()}}
        requests = {name: replace(request, teams=teams[request.user]) for name, request in requests.items()}
    sought = {other for one in stack.workloads.values() for others in one.place.only_with.values() for other in others}
    requests = {name: replace(one, sought=True) if name in sought else one for name, one in requests.items()}
    if foes := foes_of(stack):
        requests = {name: replace(request, foes=foes.get(name, ())) for name, request in requests.items()}
    local, linked = (any(getattr(one, key) for one in requests.values()) for key in ("local", "linked"))
    capacities = _Capacities(stack)
    nodes = {
        name: _capacity_of_node(stack, stack.nodes[name], capacities, parts=local, links=linked) for name in sorted(stack.nodes)
    }
    ended = _ended_of(stack, last)
    requests = _less(requests, ended)
    running = _wanted_of(requests, nodes, last, ended)
    for name in _leaned_on(requests, nodes, running):
        requests[name] = replace(requests[name], movable=False)
    models = by_model.limits_of(stack, ceilings, today) if stack.limits_models else {}
    over = tuple(_over(ceilings, requests, running, [one for one in ended if one.node in nodes]))
    for one in over:
        now = ceilings[one.scope]
        ceilings[one.scope] = (*now[: one.resource], one.held, *now[one.resource + 1 :])
        for name, request in requests.items():
            # What restarts under another account is new, whoever leaves beside it.
            kept = sum(each.user in (None, request.user) for each in running.get(name, ()))
            if one.of(request) and kept < request.members:
                requests[name] = replace(request, members=0 if request.gang else kept)
    for done in (done for done in ended if done.node in nodes):
        nodes[done.node] = _beside(nodes[done.node], done)
        for scope in requests[done.workload].chain:
            for place in FILES:
                ceilings[scope] = _without(ceilings[scope], place, COUNTED[place].held(done))
    given = paths_of(stack, chains, today)
    if models:
        more, owns = _by_model(models, requests, running, nodes)
        over, ceilings = (*over, *more), ceilings | owns
        given |= dict(by_model.paths_of(stack, models, today))
    snapshot = Snapshot(
        stack=stack,
        requests=requests,
        nodes=nodes,
        scopes=ceilings,
        racks={name: _rack_of(stack, name) for name in sorted(stack.racks)},
        running=running,
        last=last.going(),
        over=over,
        given=given,
        ended=ended,
        models=models,
    )
    snapshot = with_links(snapshot) if stack.sites else snapshot
    return replace(snapshot, seats=_seats(snapshot)) if snapshot.local and running else snapshot


def _by_model(
    models: by_model.Limits,
    requests: dict[str, WorkloadRequest],
    running: dict[str, tuple[Allocation, ...]],
    nodes: dict[str, NodeCapacity],
) -> tuple[list[Over], dict[str, tuple[int, ...]]]:
    """Who holds more of a GPU model than they may, and the ceilings of all scopes of models; `requests` get to know them."""
    for name, request in requests.items():
        if chains := by_model.chains_of(request, models):
            requests[name] = replace(request, models=chains)
    over, held = by_model.over_of(models, requests, running, nodes)
    found = {of_model(scope, model): by_model.only(most) for scope, of in models.items() for model, most in of.items()}
    found |= {of_model(one.scope, one.model): by_model.only(one.held) for one in over}
    for name, request in requests.items() if over else ():
        requests[name], own = by_model.kept(request, over, held)
        found |= own
    return over, found


def _seats(snapshot: Snapshot) -> dict[str, tuple[Allocation, ...]]:
    """What runs and may stay where it is, by node."""
    found: dict[str, list[Allocation]] = {}
    stay = classify(snapshot).stay
    for allocation in (a for ones in snapshot.running.values() for a in ones if a.name in stay):
        found.setdefault(allocation.node, []).append(allocation)
    return {node: tuple(ones) for node, ones in found.items()}


def _ended_of(stack: Stack, last: Placement) -> tuple[Allocation, ...]:
    """Finished jobs that are still requested, at most as many as are. Each holds its storage alone."""
    found: dict[str, list[Allocation]] = {}
    for one in last.allocations:
        request = stack.workloads.get(one.workload) if one.ended else None
        if request is not None and one.index < (request.gang or request.replicas.most):
            found.setdefault(one.workload, []).append(one.released())
    return tuple(
        one
        for name, ones in sorted(found.items())
        for one in sorted(ones, key=lambda one: one.index)[: stack.workloads[name].members]
    )


def _less(requests: dict[str, WorkloadRequest], ended: tuple[Allocation, ...]) -> dict[str, WorkloadRequest]:
    """The requests, of which so many replicas have finished."""
    for one in ended:
        request = requests[one.workload]
        requests[one.workload] = replace(
            request, members=request.members - 1, wanted=request.wanted - 1, gang=request.gang and request.wanted > 1
        )
    return requests


def _beside(host: NodeCapacity, ended: Allocation) -> NodeCapacity:
    """The node, less the files of jobs that finished there."""
    capacity = host.capacity
    for place in FILES_ON_NODE:
        row = NODE[place].row
        capacity = _without(capacity, place, row.held(ended) if row else 0)
    return replace(host, capacity=capacity)


def _without(capacity: tuple[int, ...], place: int, files: int) -> tuple[int, ...]:
    left = capacity[place] if capacity[place] >= ENDLESS else max(0, capacity[place] - files)
    return (*capacity[:place], left, *capacity[place + 1 :])


def _wanted_of(
    requests: dict[str, WorkloadRequest], nodes: dict[str, NodeCapacity], last: Placement, ended: tuple[Allocation, ...]
) -> dict[str, tuple[Allocation, ...]]:
    """What ran and is still wanted, by workload. Of more replicas than that those go first that cannot stay anyway."""
    found: dict[str, dict[str, Allocation]] = {}
    done = Counter(one.workload for one in ended)
    for one in last.going():
        if one.workload in requests:
            request = requests[one.workload]
            if not request.gang or one.index < request.members + done[one.workload]:
                found.setdefault(one.workload, {}).setdefault(one.name, one)

    def leaves(one: Allocation) -> tuple[int, int]:
        host = nodes.get(one.node)
        if host is None or not may_stay(requests[one.workload], host):
            return (2, one.index)
        return (int(not open_to(requests[one.workload], host)), one.index)

    stay = {name: sorted(ones.values(), key=leaves)[: requests[name].members] for name, ones in sorted(found.items())}
    return {name: tuple(sorted(ones, key=lambda a: a.index)) for name, ones in stay.items() if ones}


Foes = tuple[tuple[Level, frozenset[str]], ...]


def _leaned_on(
    requests: Mapping[str, WorkloadRequest], nodes: Mapping[str, NodeCapacity], running: Mapping[str, tuple[Allocation, ...]]
) -> set[str]:
    """Those that are near who runs only with them: else one would move from some of these to the next. Pieces of GPUs aside."""

    def places(name: str, level: Level) -> set[str]:
        return {group_of(nodes[a.node], level) for a in running.get(name, ()) if a.node in nodes}

    return {
        other
        for name in running
        for level, others in requests[name].place.only_with.items()
        for other in others
        if other in requests and not requests[other].in_pieces and places(name, level) & places(other, level)
    }


def foes_of(stack: Stack) -> dict[str, Foes]:
    """For each workload, by kind of group: whom it is kept away from, or who from it."""
    found: dict[str, dict[Level, set[str]]] = {}
    for name, work in stack.workloads.items():
        for level, others in work.place.away_from.items():
            for other in others:
                if other in stack.workloads and other != name:
                    found.setdefault(name, {}).setdefault(level, set()).add(other)
                    found.setdefault(other, {}).setdefault(level, set()).add(name)
    return {
        name: tuple((level, frozenset(levels[level])) for level in LEVELS if level in levels) for name, levels in found.items()
    }


def _limited(stack: Stack, ceilings: Iterable[tuple[int, ...]]) -> bool:
    """Does any limit count replicas? Nearly none does, and every placement would be counted for nothing."""
    every = (*ceilings, ceiling_of(stack.limits.node))
    return any(ceiling[i] < ENDLESS for ceiling in every for i in ITSELF)


def request_of(name: str, workload: Workload, chain: tuple[str, ...] = (), limited: bool = True) -> WorkloadRequest:
    """One workload as integers. `chain`: the scopes of its user; without one, the user and the cluster.

    `limited`: does a limit count replicas?
    """
    each = workload.each
    size = demand_of(workload)
    usage = _counted(size)
    usage = usage if limited else tuple([0 if i in ITSELF else each for i, each in enumerate(usage)])
    need = list(_of_machine(size))
    for i, taken in _TAKEN:
        need[i] = taken(workload)
    return WorkloadRequest(
        name=name,
        user=workload.user,
        priority=PRIORITIES[workload.priority],
        members=workload.members,
        wanted=workload.members,
        gang=workload.gang is not None,
        need=(*need, *usage, 0),
        usage=usage,
        size=size,
        model=each.gpus.model if each.gpus.count else None,
        gpu_memory=int(each.gpus.memory or 0) if each.gpus.count else 0,
        place=workload.place,
        power=None if each.gpu_power is None else int(each.gpu_power),
        share=each.gpus.part if each.gpus.count else WHOLE,
        profile=each.gpus.profile if each.gpus.count else "",
        movable=workload.movable,
        single=workload.place.numa == "single" and bool(each.gpus.count or need[CORES]),
        linked=workload.place.links == "required" and each.gpus.whole and each.gpus.count > 1,
        chain=chain,
    )


class _Capacities(dict[tuple[str, str | None], tuple[int, ...]]):
    """What nodes of each hardware and tuning have, in the order of NODE: many are alike."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.stack, self.limit = stack, ceiling_of(stack.limits.node)

    def of(self, node: Node, hardware: Hardware) -> tuple[int, ...]:
        key = node.hardware, node.tuning
        if key not in self:
            amounts = (row.capacity.of(hardware) for row in MACHINE if row.capacity)
            self[key] = (*amounts, *self.limit, self._supply(node, hardware))
        return self[key]

    def _supply(self, node: Node, hardware: Hardware) -> int:
        """What its power budget leaves: the caps of all its GPUs are taken from it at once. [W]"""
        if hardware.power is None:
            return ENDLESS
        return int(hardware.power) - int(self.stack.tuning_of(node.name).gpu_power or 0) * hardware.gpus.count


def _capacity_of_node(stack: Stack, node: Node, capacities: _Capacities, *, parts: bool, links: bool) -> NodeCapacity:
    hardware = stack.hardware_of(node.name)
    capacity = capacities.of(node, hardware)
    return NodeCapacity(
        name=node.name,
        rack=node.rack,
        site=node.site,
        labels=node.labelled,
        taints=node.taints,
        state=node.state,
        model=hardware.gpus.model if hardware.gpus.count else None,
        gpu_memory=int(hardware.gpu_memory) if hardware.gpus.count else 0,
        capacity=capacity,
        whole=capacity,
        power=int(stack.tuning_of(node.name).gpu_power or 0),
        parts=hardware.parts if parts else (),
        links=hardware.nvlink if links else (),
        mig=hardware.mig,
    )


def _rack_of(stack: Stack, name: str) -> tuple[int, ...]:
    """What the rack has left: the caps of all GPUs of nodes that are not lost are taken from its power at once."""
    rack = stack.racks[name]
    uplink = (ENDLESS if rack.uplink is None else int(rack.uplink),) * POWER
    if rack.power is None:
        return (*uplink, ENDLESS)
    inside = [node for node, it in stack.nodes.items() if it.rack == name and it.state != "lost"]
    drawn = sum(int(stack.tuning_of(node).gpu_power or 0) * stack.hardware_of(node).gpus.count for node in inside)
    return (*uplink, int(rack.power) - drawn)


def _over(
    ceilings: dict[str, tuple[int, ...]],
    requests: dict[str, WorkloadRequest],
    running: dict[str, tuple[Allocation, ...]],
    ended: list[Allocation],
) -> Iterator[Over]:
    """Wherever more is held than the ceiling allows. What is to shrink counts as it will be."""
    sums = {scope: [0] * len(COUNTED) for scope in ceilings}
    for one in ended:
        for scope in requests[one.workload].chain:
            for place in FILES:
                sums[scope][place] += COUNTED[place].held(one)
    for name, ones in running.items():
        request = requests[name]
        for one in ones:
            if one.user not in (None, request.user):
                continue  # it restarts under another account
            for i, (has, use) in enumerate(zip(_holds(one), request.usage, strict=True)):
                for scope in request.chain:
                    sums[scope][i] += min(has, use)
    for scope, ceiling in ceilings.items():
        for i, most in enumerate(ceiling):
            if sums[scope][i] > most:
                yield Over(scope, i, sums[scope][i], most)


#: What one allocation holds, in the order of COUNTED.
_holds = reader(COUNTED)
#: What one replica asks for, in the order of COUNTED and of MACHINE, of its `size`.
_counted = itemgetter(*(RESOURCES.index(row) for row in COUNTED))
_of_machine = itemgetter(*(RESOURCES.index(row) for row in MACHINE))
#: What it takes of a machine in another way, with its place.
_TAKEN = tuple((i, row.taken) for i, row in enumerate(MACHINE) if row.taken)
