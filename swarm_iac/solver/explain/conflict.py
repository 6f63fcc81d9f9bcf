"""Which rules keep a workload out?

Of all rules that speak about it, the smallest set that together forbids its next replica (or its whole
gang) with everything else left where it stands. Rules are taken away one by one; what cannot go is the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from functools import cache, cached_property
from typing import Literal

from swarm_iac.model.placement import Allocation, Placement, Reason
from swarm_iac.solver.balance.company import beside
from swarm_iac.solver.explain.counting import EVERY, GROUPED, NODE_RULES, RACK_RULES, reach
from swarm_iac.solver.explain.domains import DOMAINS
from swarm_iac.solver.explain.messages import budget_spent, devices_taken, forbids, not_moved, over_limit, slot_lost
from swarm_iac.solver.explain.model_limits import of_any_model
from swarm_iac.solver.explain.places.not_moved import NotMoved
from swarm_iac.solver.explain.places.ruled import Ruled, Table
from swarm_iac.solver.explain.team_shares import TeamsBeside
from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import BUDGETS, CLUSTER, MACHINE, MODELS, TEAM, USER, beyond_chain, of_chain
from swarm_iac.solver.snapshot.snapshot import Over, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import FIT, suits
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, classify

_MODEL = "gpu_model_matches"
GANG = "gang_is_whole_or_absent"
#: What is taken away first is named least: the order of suspicion, most telling last.
ORDER = (
    GANG,
    *(one.rule for one in CLUSTER), *reversed(RACK_RULES), *reversed(NODE_RULES[len(MACHINE):]),
    *(one.rule for one in reversed(TEAM)), *(one.rule for one in USER), *(one.rule for one in reversed(MODELS)),
    *DOMAINS, *reversed(GROUPED),
    *reversed(NODE_RULES[:len(MACHINE)]), *(one.name for one in FIT),
)  # fmt: skip
assert set(ORDER) == EVERY | {GANG}
#: What a capacity may leave out, in words.
LOWER = "what a lower priority holds"
UNGUARANTEED = f"{LOWER} without a guarantee"
#: Rules that count pieces which another rule counts in another way, with that one.
_RULES = {row.name: NODE_RULES[i] for i, row in enumerate(MACHINE)}
_PARTS = {_RULES[row.name]: _RULES[row.part_of] for row in MACHINE if row.part_of}
_TWINS = _PARTS | {whole: part for part, whole in _PARTS.items()}


def capacity_of(snapshot: Snapshot, placement: Placement) -> FreeCapacity:
    """What is free beside a placement."""
    if snapshot.sought:
        counts: Pairs = Counter((a.workload, a.node) for a in placement.going() if a.node in snapshot.nodes)
        snapshot = beside(snapshot, counts)
    capacity = FreeCapacity(snapshot)
    if capacity.local is not None:
        on: dict[str, list[Allocation]] = {}
        for a in placement.going():
            if a.workload in snapshot.requests and a.node in snapshot.nodes:
                on.setdefault(a.node, []).append(a)
        capacity.seats = {node: tuple(ones) for node, ones in on.items()}
    for a in placement.going():
        if a.workload in snapshot.requests and a.node in snapshot.nodes:
            capacity.take(snapshot.requests[a.workload], snapshot.nodes[a.node], 1, a.gpus)
    return capacity


def conflict(capacity: FreeCapacity, request: WorkloadRequest, ruled: Ruled | None = None) -> tuple[str, ...]:
    """The smallest set of rules that forbids one more replica (all of a gang); empty when nothing does.

    `ruled`: what is known of the workload on this capacity, where it is counted already.
    """
    ruled = ruled or Ruled(capacity, request)
    return _conflict(_forbid(ruled), _rules(ruled.wide))


def _conflict(forbid: Callable[[Set[str]], bool], rules: Set[str]) -> tuple[str, ...]:
    on = set(rules)
    if not forbid(on):
        return ()
    for rule in ORDER:
        if rule in on and forbid(on - {rule}):
            on.discard(rule)
    return tuple(rule for rule in reversed(ORDER) if rule in on)


def besides(ruled: Ruled, core: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """For each rule of a conflict: which others, outside of it, have to go with it for a place to be there."""
    request = ruled.request
    if not request.gang:
        nodes = ruled.keeping_out
        fewest = {rule: min((out for out in nodes if out.isdisjoint(set(core) - {rule})), key=_telling) for rule in core}
        return {rule: tuple(one for one in reversed(ORDER) if one in out and one != rule) for rule, out in fewest.items()}
    forbid, every = _forbid(ruled), _rules(ruled.wide)
    found = {}
    for rule in core:
        on = set(core if forbid(every - {rule}) else every) - {rule}
        for other in ORDER:
            if other in every and other not in on and other != rule and not forbid(on | {other}):
                on.add(other)
        found[rule] = tuple(other for other in reversed(ORDER) if other in every - on and other != rule)
    return found


def _rest(capacity: FreeCapacity, request: WorkloadRequest, gone: Set[str]) -> tuple[tuple[str, ...], Set[str]]:
    """With the rules `gone` given up: the fewest others that have to go with them for a place to be there: each named once,
    and all of them.
    """
    if request.gang:
        forbid, on = _forbid(Ruled(capacity, request)), set[str]()
        for other in ORDER:
            if other in _rules(request) - gone and not forbid(on | {other}):
                on.add(other)
        out = _rules(request) - on
    else:
        out = min((each - gone for each in Ruled(capacity, request).keeping_out), key=_telling)
    found = tuple(one for one in reversed(ORDER) if one in out and one not in gone)
    return tuple(one for one in found if not _same(one, found)), {*found}


def _same(rule: str, others: tuple[str, ...]) -> bool:
    """Is it covered by another one already? A machine with more vCPUs has more cores, and an uplink goes both ways."""
    twin = _TWINS.get(rule)
    if any(_one_key(rule, other) for other in others[: others.index(rule)]):
        return True
    return twin in others and (rule in _PARTS or others[0] == twin)


def _one_key(rule: str, other: str) -> bool:
    """Do both come from one key of the stack file, as out and in do from an uplink?"""
    one, two = BUDGETS.get(rule), BUDGETS.get(other)
    return (
        one is not None
        and two is not None
        and one.key != ""
        and (one.level, one.depth, one.key) == (two.level, two.depth, two.key)
    )


def _telling(rules: Set[str]) -> tuple[int, list[int]]:
    """Few rules first, and then the most telling."""
    return len(rules), sorted(-ORDER.index(rule) for rule in rules)


def _rules(request: WorkloadRequest) -> frozenset[str]:
    """Those that speak about it: it is in so many teams, and perhaps a gang."""
    return _of_chain(len(request.chain), request.gang, bool(request.models))


@cache
def _of_chain(length: int, gang: bool, models: bool) -> frozenset[str]:
    every = EVERY - beyond_chain(length, models=models)
    return every | {GANG} if gang else every


def _forbid(ruled: Ruled) -> Callable[[Set[str]], bool]:
    """Which sets of rules leave no place? For one replica, nodes are looked at once; a gang is counted for each set."""
    if ruled.request.gang:
        return lambda on: ruled.reach(on) < missing(ruled.capacity, ruled.request, on)
    nodes = ruled.keeping_out
    return lambda on: all(not on.isdisjoint(rules) for rules in nodes)


def forbidden(capacity: FreeCapacity, request: WorkloadRequest, on: Set[str], among: Iterable[str] | None = None) -> bool:
    """Do the rules `on` leave no place for one more replica (for all of a gang)? `among`: of `reach`."""
    return reach(capacity, request, on, among=among) < missing(capacity, request, on)


def missing(capacity: FreeCapacity, request: WorkloadRequest, on: Set[str]) -> int:
    """How many replicas need a place under the rules `on`: one more, or all of a gang."""
    return request.members - capacity.counts[request.name].total() if GANG in on else 1


class Causes:
    """The reasons of many workloads beside one placement; conflicts of equal workloads are found once."""

    def __init__(self, capacity: FreeCapacity, before: Callable[[], Snapshot] | None = None) -> None:
        """`before`: what the placement was decided from; without it, what the capacity was read from."""
        self.capacity = capacity
        self._before = before
        self.known: dict[WorkloadRequest, tuple[str, ...]] = {}
        self.explained: dict[WorkloadRequest, tuple[str, tuple[Reason, ...]]] = {}
        self.capacities: dict[tuple[int, frozenset[str]], FreeCapacity] = {}
        self._seen: dict[WorkloadRequest, FreeCapacity] = {}
        self._stay: dict[int, NotMoved] = {}
        self._teams = TeamsBeside(capacity)
        self._tables: dict[int, Table] = {}

    def of(self, request: WorkloadRequest) -> tuple[Reason, ...]:
        """One reason for each rule of the smallest conflict, with figures and its path in the stack file."""
        alike = request if self.capacity.counts[request.name] else replace(request, name="")
        if alike in self.explained and self.explained[alike][1]:
            return _renamed(*self.explained[alike], request.name)
        ruled = self._ruled(request)
        capacity = ruled.capacity
        if alike not in self.known:
            self.known[alike] = conflict(capacity, request, ruled)
        found = _reasons(ruled, self.known[alike], lower=self.left_out(request, capacity))
        found = found and (*found, *self._immovable(capacity, request), *self.of_teams(request, self.known[alike]))
        found = found and (*found, *self.of_guarantees(request))
        self.explained[alike] = request.name, found
        return self.explained[alike][1] or self._unspent(request)

    def of_teams(self, request: WorkloadRequest, rules: tuple[str, ...]) -> tuple[Reason, ...]:
        """What the shares of teams have to do with a conflict: if it is about what they share, and others hold that."""
        if not self._teams.concerned(rules):
            return ()
        reasons = self._teams.reasons(request)
        if not reasons:
            return ()
        alone = self._teams.without_others(self.seen(request), request)
        return () if forbidden(alone, request, {*rules, *(one.name for one in FIT)}) else reasons

    def _immovable(self, capacity: FreeCapacity, request: WorkloadRequest) -> tuple[Reason, ...]:
        """The fewest of those that are not moved without whom there would be a place, if there are any."""
        if not capacity.snapshot.immovable:
            return ()
        full = capacity.by_ceiling(request) < (request.members if request.gang else 1)  # no move frees a ceiling
        on = _rules(request)
        fewest = (
            () if full else self._firm(capacity).fewest(request, lambda beside, among: forbidden(beside, request, on, among))
        )
        return (not_moved(capacity.snapshot, fewest),) if fewest else ()

    def _firm(self, capacity: FreeCapacity) -> NotMoved:
        if id(capacity) not in self._stay:
            ran = (name for name in sorted(capacity.snapshot.immovable) if name in self.before.running)
            self._stay[id(capacity)] = NotMoved(capacity, ran)
        return self._stay[id(capacity)]

    def _unspent(self, request: WorkloadRequest) -> tuple[Reason, ...]:
        """Capacity was left. One that ran may use it only by a move, and those are counted."""
        snapshot = self.before
        ran = sum(allocation.workload == request.name for allocation in self.classified.stay.values())
        counts = Counter({(n, node): k for n, each in self.capacity.counts.items() for node, k in each.items()})
        if self.capacity.counts[request.name].total() < ran and not snapshot.stack.workloads[request.name].movable:
            return (slot_lost(request),)
        spent = moves_of(snapshot, self.classified, counts)
        if self.capacity.counts[request.name].total() < ran and spent + 1 > snapshot.stack.solve.moves:
            return (budget_spent(snapshot, spent),)
        if nodes := self._only_restarting(request):
            return (devices_taken(request, nodes),)
        text = "capacity is free, but the solver reached its effort limit before using it"
        return (Reason(rule="effort", text=text, path="solve.effort"),)

    def _only_restarting(self, request: WorkloadRequest) -> set[str]:
        """The nodes with capacity for it, if it ran on each, and its devices are in the way of others within a NUMA node."""
        ran = {allocation.node for allocation in self.classified.stay.values() if allocation.workload == request.name}
        if not ran or request.gang or self.capacity.local is None:
            return set()
        open_ = {
            b.name for b in self.capacity.snapshot.nodes.values() if suits(request, b) and self.capacity.most(request, b) > 0
        }
        return open_ if open_ <= ran else set()

    @cached_property
    def classified(self) -> Classified:
        """Where everything stood that may stay."""
        return classify(self.before)

    @cached_property
    def before(self) -> Snapshot:
        """What it was decided from."""
        return self._before() if self._before else self.capacity.snapshot

    def seen(self, request: WorkloadRequest) -> FreeCapacity:
        """The capacity without what a lower priority holds, since that would be stopped for it and is no obstacle.

        Where that alone would be enough, the effort ended too early to see it, and the capacity is reported as it is.
        """
        if request not in self._seen:
            self._seen[request] = self._ruled(request).capacity
        return self._seen[request]

    def _ruled(self, request: WorkloadRequest) -> Ruled:
        """What each rule leaves of the nodes of that capacity."""
        capacity = self._without_lower(request, {*self._teams.guaranteed(request)})
        ruled, on = self._counted(capacity, request), EVERY | {GANG} if request.gang else EVERY
        if capacity is not self.capacity and ruled.reach(on) >= missing(capacity, request, on):
            ruled = self._counted(self.capacity, request)
        self._seen[request] = ruled.capacity
        return ruled

    def _without_lower(self, request: WorkloadRequest, but: Set[str] = frozenset()) -> FreeCapacity:
        """Without what a lower priority holds, but with these."""
        key = request.priority, frozenset(but)
        if key not in self.capacities:
            lower = {name for name, other in self.capacity.snapshot.requests.items() if other.priority < request.priority}
            held = {name for name in lower - but if self.capacity.counts[name]}
            self.capacities[key] = self.capacity.without(held) if held else self.capacity
        return self.capacities[key]

    def left_out(self, request: WorkloadRequest, capacity: FreeCapacity) -> str:
        """What that capacity leaves out of a lower priority, in words."""
        if capacity is self.capacity:
            return ""
        return UNGUARANTEED if self._teams.guaranteed(request) else LOWER

    def of_guarantees(self, request: WorkloadRequest) -> tuple[Reason, ...]:
        """What is guaranteed to teams and not stopped for it, although it is of a higher priority; if it had a place then."""
        kept = self._teams.guaranteed(request)
        if not kept:
            return ()
        ruled, on = self._counted(self._without_lower(request), request), EVERY | {GANG} if request.gang else EVERY
        if ruled.reach(on) < missing(ruled.capacity, request, on):
            return ()
        return self._teams.not_stopped(kept)

    def _counted(self, capacity: FreeCapacity, request: WorkloadRequest) -> Ruled:
        if id(capacity) not in self._tables:
            self._tables[id(capacity)] = Table(capacity)
        return Ruled(capacity, request, self._tables[id(capacity)])


def _renamed(name: str, reasons: tuple[Reason, ...], other: str) -> tuple[Reason, ...]:
    """The reasons of one workload, as those of another that is like it."""
    own, its = f"workloads.{name}", f"workloads.{other}"
    mine = {one for one in reasons if one.path == own or one.path.startswith(f"{own}.")}
    return tuple(one.model_copy(update={"path": its + one.path[len(own) :]}) if one in mine else one for one in reasons)


def _reasons(ruled: Ruled, rules: tuple[str, ...], *, lower: str) -> tuple[Reason, ...]:
    """Nothing when no rule keeps it out."""
    capacity, request = ruled.capacity, ruled.request
    if request.members < request.wanted and capacity.counts[request.name].total() >= request.members:
        over = [one for one in capacity.snapshot.over if one.of(request)]
        whole = replace(request, members=request.wanted)
        rest, out = _rest(capacity, whole, {_broken(request, one) for one in over})
        core = _rules(whole) - out
        told_over = [over_limit(capacity.snapshot, one) for one in over]
        return (
            *told_over[:1],
            *(one.model_copy(update={"besides": "one"}) for one in told_over[1:]),
            *(_besides(_beside(capacity, whole, rule, core, lower=lower), "one") for rule in rest),
        )
    return reasons_for(capacity, request, rules, lower=lower, ruled=ruled)


def _broken(request: WorkloadRequest, over: Over) -> str:
    """The rule that one more of the workload would break, where too much is held already."""
    return of_chain(len(request.chain))[request.chain.index(over.scope)][over.resource].rule


def reasons_for(
    capacity: FreeCapacity, request: WorkloadRequest, rules: tuple[str, ...], *, lower: str, ruled: Ruled | None = None
) -> tuple[Reason, ...]:
    """A conflict in words, each rule with what has to go with it. `lower`: see `Causes.left_out`."""
    out = besides(ruled or Ruled(capacity, request), rules)
    also = {rule: tuple(o for o in others if not _same(o, (rule, *others))) for rule, others in out.items()}
    every = (
        {one for one in _rules(request) - {GANG} if all(one in others for others in also.values())} if len(rules) > 1 else set()
    )
    parts: list[tuple[Reason, list[Reason]]] = []
    for rule in rules:
        first = forbids(capacity, request, rule, frozenset(rules), lower=lower)
        core = _rules(request) - set(out[rule]) - {rule}  # what is told with another rule has to go as well
        told = [_beside(capacity, request, o, core, lower=lower) for o in also[rule] if o not in every]
        parts.append((first, _once(told, first)))
    found = _with_some(parts)
    gone = {one for one in _rules(request) - {GANG} if all(one in others for others in out.values())} if every else every
    core = _rules(request) - gone - frozenset(rules)
    shared = [one for one in reversed(ORDER) if one in every]
    return (
        *found,
        *(_besides(one, "each") for one in _once([_beside(capacity, request, o, core, lower=lower) for o in shared])),
    )


def _with_some(parts: list[tuple[Reason, list[Reason]]]) -> list[Reason]:
    """Each reason with what has to go with it. What has to go with several of them, those come first with that, said once."""
    told = Counter(one for _, others in parts for one in others)
    most = max(told, key=lambda one: told[one], default=None)
    some = [part for part in parts if most in part[1]] if most and told[most] > 1 else []
    shared = [one for one in some[0][1] if all((one in part[1]) == (part in some) for part in parts)] if some else []
    found: list[Reason] = []
    for n, (first, others) in enumerate((*some, *(part for part in parts if part not in some)), 1):
        found += (first, *(_besides(one, "one") for one in others if one not in shared))
        found += [_besides(one, "each") for one in shared if n == len(some)]
    return found


def _once(reasons: Iterable[Reason], *before: Reason) -> list[Reason]:
    """One reason for each line of `limits`: of teams inside each other that have the same limit the innermost one."""
    seen, found = {(one.rule, one.path) for one in before}, []
    for one in reasons:
        if one.path.startswith("limits.") and (one.rule, one.path) in seen:
            continue
        seen.add((one.rule, one.path))
        found.append(one)
    return found


def _beside(capacity: FreeCapacity, request: WorkloadRequest, rule: str, core: frozenset[str], *, lower: str) -> Reason:
    """What is in the way once the rules outside of `core` are given up; without its model it asks for any GPUs."""
    any_model = rule != _MODEL and _MODEL not in core
    asked = replace(of_any_model(capacity, request), model=None) if any_model else request
    return forbids(capacity, asked, rule, core | {rule}, lower=lower)


def _besides(reason: Reason, of: Literal["one", "each"]) -> Reason:
    head = "besides" if of == "one" else "besides each of these"
    return reason.model_copy(update={"text": f"{head}, {reason.text}", "besides": of})
