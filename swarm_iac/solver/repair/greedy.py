"""What would a careful person do in one pass? Best-fit decreasing: the warm start of every solve.

Workloads by priority, then those that run, then the largest; each first where it stands, then on the fullest node
that fits. The answer keeps every rule, the move budget included, so it is feasible for the model as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from swarm_iac.solver.balance.besides import crowded
from swarm_iac.solver.balance.company import accompanied, alone, named_first, wishes_about
from swarm_iac.solver.balance.nearest import by_nearness
from swarm_iac.solver.balance.overqualification import Overqualification
from swarm_iac.solver.balance.preferred import lacks
from swarm_iac.solver.balance.turns import fill_evenly
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import GPUS, MEMORY, VCPUS
from swarm_iac.solver.snapshot.node_slots import Ints, Slots
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import heaviest, may_stay, open_to
from swarm_iac.solver.snapshot.tasks import Pairs, Task, by_workload, fixed_by
from swarm_iac.solver.snapshot.value import held_by_teams

#: Who comes first of one priority: less is sooner.
Order = Callable[[WorkloadRequest], float]
#: Orders that are tried where nothing runs: large replicas, large gangs, whatever needs little else for its GPUs, small gangs.
ORDERS: tuple[Order, ...] = (
    lambda request: -request.gpus,
    lambda request: -request.gpus * (request.members if request.gang else 1),
    lambda request: request.need[VCPUS] / (request.gpus * request.share) if request.gpus else 1e9,
    lambda request: request.need[MEMORY] / (request.gpus * request.share) if request.gpus else 1e18,
    lambda request: (request.members if request.gang else 0) - request.gpus / 1000,
)
#: So many workloads are placed whatever `stop` says: an answer that was cut short is not empty.
FIRST = 200


def greedy(task: Task, stop: Callable[[], bool] = lambda: False, order: Order = lambda request: -request.gpus) -> Pairs:
    """Replicas of the free workloads by (workload, node). `stop` ends it with what is placed so far.

    `order` decides who comes first of one priority; what runs comes before, and who is named just before who is only near it.
    """
    requests = sorted(
        (task.snapshot.requests[name] for name in task.free),
        key=lambda a: (-a.priority, not task.running[a.name], order(a), -a.need[MEMORY], -a.need[VCPUS], a.name),
    )
    requests = named_first(requests) if task.snapshot.sought else requests
    return by_share(task, requests, stop) if task.snapshot.shares else one_pass(task, requests, stop)


def by_share(task: Task, requests: Sequence[WorkloadRequest], stop: Callable[[], bool]) -> Pairs:
    """The same where GPUs are shared by teams: in each priority first what ran, then what is due to teams, then the rest.

    What is due at each depth of teams comes before what only the teams further outside are due.
    """
    shares, under = task.snapshot.shares, _Pass(task)
    assert shares is not None, "asked only where GPUs are shared by teams"
    for priority in dict.fromkeys(request.priority for request in requests):
        mine = [request for request in requests if request.priority == priority]
        for request in mine:
            homes = sum(task.home(request.name, node) for node in under.homes.get(request.name, ()))
            if ran := max(task.running[request.name], homes):
                under.place(request, task.free[request.name] if request.gang else min(ran, task.free[request.name]))
        held = held_by_teams(task.snapshot, fixed_by(task) + under.chosen)[priority]
        for depth in range(shares.depth, -1, -1):
            for done, request in enumerate(mine):
                if done >= FIRST and stop():
                    break
                line, left = shares.lines[request.user], task.free[request.name] - under.done[request.name]
                each = heaviest(task.snapshot, shares, request)
                while True:  # what a replica counts is known when it is placed: where that is less than `each`, more may follow
                    some = min([left, *((shares.due[priority][team] - held[team]) // each for team in line[:depth] if each)])
                    if some <= 0 or (request.gang and some < task.free[request.name]):
                        break
                    before = under.counted[request.name]
                    placed = under.place(request, some)
                    held.update({team: under.counted[request.name] - before for team in line})
                    left -= placed
                    if placed < some or not shares.weights.nodes:
                        break
    return under.chosen


def one_pass(task: Task, requests: Sequence[WorkloadRequest], stop: Callable[[], bool] = lambda: False) -> Pairs:
    """The same of `requests`, in the order in which they are given."""
    under = _Pass(task)
    for done, request in enumerate(requests):
        if done >= FIRST and stop():
            break
        under.place(request)
    return under.chosen


class _Pass:
    """What is placed so far, workload after workload."""

    def __init__(self, task: Task) -> None:
        self.task, self.budget, self.homes = task, task.budget, _homes(task)
        self.slots, self.overqualification = Slots(task.base.copy()), Overqualification(task.snapshot)
        self.chosen: Pairs = Counter()
        self.done: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()  # where teams share GPUs: what these count
        self.full: set[tuple[object, ...]] = set()  # what found no place: capacity only shrinks, so its like finds none either

    def place(self, request: WorkloadRequest, most: int | None = None) -> int:
        """Place the workload, or at most so many replicas of it; returns how many."""
        task, slots, snapshot = self.task, self.slots, self.task.snapshot
        takes = (request.need, request.usage, request.share, request.power)
        like = (*takes, request.asked, request.chain, request.models, request.single, request.linked)
        homes = self.homes.get(request.name, []) if not self.done[request.name] else []
        if like in self.full and not homes:
            return 0
        moves = self.budget if request.movable else 0
        part = task if most is None else replace(task, free={request.name: most})
        picked, moved = _best(part, slots, request, homes, self.overqualification, moves)
        if not picked and task.pairs is None and not (request.gang or request.groups or request.place.only_with):
            self.full.add(like)
        for (_, node), count in picked.items():
            back = slots.put_back(request, snapshot.nodes[node], count, task.own_cards(request.name, node))
            slots.take(request, snapshot.nodes[node], count - back)
            self.counted[request.name] += count * snapshot.shares.counts(request, node) if snapshot.shares else 0
        self.chosen.update(picked)
        self.done[request.name] += picked.total()
        self.budget = None if self.budget is None else self.budget - moved
        return picked.total()


def _homes(task: Task) -> dict[str, list[str]]:
    """The nodes on which free replicas stood and may stay, by workload."""
    found: dict[str, set[str]] = {}
    for name, node in (*task.stay, *task.soft):
        if task.home(name, node):
            found.setdefault(name, set()).add(node)
    return {name: sorted(nodes) for name, nodes in found.items()}


def _best(
    task: Task,
    slots: Slots,
    request: WorkloadRequest,
    homes: list[str],
    overqualification: Overqualification,
    budget: int | None,
) -> tuple[Pairs, int]:
    """The most replicas that one group of nodes takes, with the fewest moves, which are given as well; `slots` is as before."""
    best: Pairs = Counter()
    fewest = 0
    for nodes in _groups(task, slots, request, homes):
        picked = _fill(task, slots, request, nodes, overqualification, budget)
        moved = _moved(task, request, picked)
        for (_, node), count in picked.items():
            slots.take(request, task.snapshot.nodes[node], -count)
        if (request.gang and picked.total() < task.free[request.name]) or (budget is not None and moved > budget):
            continue
        if (picked.total(), -moved) > (best.total(), -fewest):
            best, fewest = picked, moved
        if best.total() == task.free[request.name] and not fewest:
            break
    return best, fewest


def refill(task: Task, counts: Pairs, pairs: frozenset[tuple[str, str]]) -> Pairs:
    """Add what still fits beside `counts`, on `pairs` only, for workloads of which nothing could stay anywhere."""
    held = {name for (name, _), count in (task.stay + task.soft).items() if count}
    done = by_workload(counts)
    free = {n: left for n, k in task.free.items() if n not in held and (left := k - done[n]) > 0}
    capacity = _capacity_beside(task, counts)
    return counts + greedy(Task(task.snapshot, capacity, free, running=task.running, budget=task.budget, pairs=pairs))


def completed(task: Task, counts: Pairs, names: frozenset[str], pairs: frozenset[tuple[str, str]], moves: int) -> Pairs:
    """Add all that fits of the workloads `names`, of which nothing is in `counts`, on `pairs` only: each first where it stands.

    `counts` has made so many of the budget's `moves`.
    """
    beside = Task(
        snapshot=task.snapshot,
        base=_capacity_beside(task, counts),
        free={name: count for name, count in task.free.items() if name in names},
        stay=Counter({pair: count for pair, count in task.stay.items() if pair[0] in names}),
        soft=Counter({pair: count for pair, count in task.soft.items() if pair[0] in names}),
        running=task.running,
        budget=None if task.budget is None else max(0, task.budget - moves),
        nodes=task.nodes,
        pairs=pairs,
        cards={node: {n: on for n, on in cards.items() if n in names} for node, cards in task.cards.items()},
        instances={node: {n: on for n, on in ones.items() if n in names} for node, ones in task.instances.items()},
    )
    return counts + greedy(beside)


def _capacity_beside(task: Task, counts: Pairs) -> FreeCapacity:
    """What is left beside `counts`; parts of GPUs keep their cards as far as they may."""
    capacity = task.base.copy()
    rest: Pairs = Counter()
    for (name, node), count in counts.items():
        back = capacity.put_back(task.snapshot.requests[name], task.snapshot.nodes[node], count, task.own_cards(name, node))
        rest[name, node] = count - back
    for (name, node), count in sorted(rest.items(), key=lambda one: -task.snapshot.requests[one[0][0]].share):
        capacity.take(task.snapshot.requests[name], task.snapshot.nodes[node], count)
    return capacity


def _moved(task: Task, request: WorkloadRequest, picked: Pairs) -> int:
    stayed = sum(min(count, task.stay[pair]) for pair, count in picked.items())
    stayable = sum(count for (name, _), count in task.stay.items() if name == request.name) if task.stay else 0
    return min(stayable, picked.total()) - stayed


@dataclass(frozen=True)
class _Nodes:
    """Where a workload may stand: the nodes that are its home, and rows of others with how much each could take."""

    homes: list[NodeCapacity]
    rows: Ints
    caps: Ints
    rank: Ints | None = None  # of all nodes: those with less come first


def _groups(task: Task, slots: Slots, request: WorkloadRequest, homes: list[str]) -> list[_Nodes]:
    """All candidates, or each group where all have to be in one: where it stands first, then where the least is left."""
    snapshot = task.snapshot
    at_home = [host for node in homes if may_stay(request, host := snapshot.nodes[node]) and _asked(task, request, node)]
    caps = slots.caps(request)
    if task.nodes is not None:
        among = np.zeros(len(slots.nodes), dtype=np.bool_)
        among[[slots.index[node] for node in {*task.nodes, *homes} if node in slots.index]] = True
        caps = np.where(among, caps, 0)
    if request.place.only_with:
        near = accompanied(slots.capacity, request)
        caps = np.where([near(host) for host in slots.nodes], caps, 0)
    rows = np.flatnonzero(caps)
    if task.pairs is not None or snapshot.barred:
        names = {int(row): slots.nodes[row].name for row in rows}
        open_ = [
            row for row, node in names.items() if _asked(task, request, node) and (request.name, node) not in snapshot.barred
        ]
        rows = np.array(open_, dtype=np.int64)
    if request.together is None and not request.gathers:
        return [_Nodes(at_home, rows, caps)]
    if request.together is None:
        nearest = by_nearness(slots, request, rows, caps, task.free[request.name])
        alone = [_Nodes([], ones, caps) for ones in nearest.alone if not at_home]
        return [*alone, _Nodes(at_home, rows, caps, nearest.rank)]
    groups = slots.groups(request.together)
    fits = np.bincount(groups[rows], weights=caps[rows].astype(np.float64), minlength=int(groups.max(initial=-1)) + 1)
    stood: Counter[int] = Counter()
    for host in at_home:
        stood[int(groups[slots.index[host.name]])] += task.home(request.name, host.name)
    least = task.free[request.name] if request.gang else 1
    order = sorted(
        (group for group in {*map(int, groups[rows]), *stood} if stood[group] or fits[group] >= least),
        key=lambda group: (-stood[group], fits[group] < task.free[request.name], fits[group], group),
    )
    return [
        _Nodes([b for b in at_home if int(groups[slots.index[b.name]]) == group], rows[groups[rows] == group], caps)
        for group in order
    ]


def _asked(task: Task, request: WorkloadRequest, node: str) -> bool:
    return task.pairs is None or (request.name, node) in task.pairs


def _fill(
    task: Task, slots: Slots, request: WorkloadRequest, nodes: _Nodes, overqualification: Overqualification, budget: int | None
) -> Pairs:
    """Take as much as fits of the nodes, best first, and not more moves than the budget has; `slots` is changed."""
    picked: Pairs = Counter()
    left = task.free[request.name]
    at_home, near = True, accompanied(slots.capacity, request)

    def put(host: NodeCapacity, most: int, *, keep: bool = False) -> int:
        fit = min(slots.capacity.most(request, host), most) if slots.capacity.by_ceiling(request) > 0 else 0
        if keep or not open_to(request, host) or not near(host):
            fit = min(fit, task.home(request.name, host.name) - picked[request.name, host.name])
        own = task.own_cards(request.name, host.name)
        if own and fit > 0:
            # It keeps its card or goes elsewhere: to change the card is a move as well.
            back = slots.put_back(request, host, fit, own) if keep else 0
            loose = min(fit - back, task.soft[request.name, host.name]) if keep else 0
            slots.take(request, host, loose)
            fit = back + loose
        elif fit > 0:
            slots.take(request, host, fit)
        if fit > 0:
            picked[request.name, host.name] += fit
        return max(0, fit)

    def take_back(host: NodeCapacity) -> bool:
        if mine := picked[request.name, host.name]:
            slots.take(request, host, -1)
            picked[request.name, host.name] -= 1
        return mine > 0

    ordered = _ordered(task, slots, request, nodes, overqualification)
    for keep, host in ordered:
        if at_home and not keep:
            at_home = False
            stayable = sum(count for (name, _), count in task.stay.items() if name == request.name) if task.stay else 0
            stayed = sum(min(count, task.stay[pair]) for pair, count in picked.items())
            if budget is not None and not request.gang and stayable - stayed > budget:
                left = min(left, budget - (picked.total() - stayed))  # each of them would be a move
            if request.even:
                hosts, fit = [host, *(host for _, host in ordered)], np.minimum(nodes.caps, slots.caps(request))
                caps = {slots.nodes[row].name: int(fit[row]) for row in nodes.rows}
                fill_evenly(slots, request, hosts, caps, left, put, take_back)
                break
        if left <= 0 or slots.capacity.by_ceiling(request) <= 0:
            break
        left -= put(host, left, keep=keep)
    return +picked


def _ordered(
    task: Task, slots: Slots, request: WorkloadRequest, nodes: _Nodes, overqualification: Overqualification
) -> Iterator[tuple[bool, NodeCapacity]]:
    """First the homes (True), then every node: homes, best fit, no label of others, in use, the fullest, by name."""
    by = GPUS if request.gpus else VCPUS
    capacity = slots.capacity

    def preference(host: NodeCapacity) -> tuple[int, bool, int, str]:
        return (overqualification.of(request, host), not capacity.load[host.name], capacity.free[host.name][by], host.name)

    for keep in (True, False):
        yield from ((keep, host) for host in sorted(nodes.homes, key=preference))
    home = {slots.index[host.name] for host in nodes.homes}
    rows = nodes.rows if not home else np.array([row for row in nodes.rows if row not in home], dtype=np.int64)
    if len(rows):
        cost = overqualification.all(request, slots.nodes, slots.kind)[rows]
        others = overqualification.reserved(request)[rows]
        preferred = [lacks(slots, request)[rows]] if request.place.prefer else []  # the last key of a sort is the first
        preferred += [crowded(slots, request)[rows]] if request.place.prefer_apart else []
        preferred += [alone(slots, request)[rows]] if wishes_about(slots.snapshot, request.name) else []
        preferred += [] if nodes.rank is None else [nodes.rank[rows]]
        order = np.lexsort((rows, slots.free[rows, by], ~slots.used[rows], others, cost, *preferred))
        yield from ((False, slots.nodes[row]) for row in rows[order])
