"""Which few nodes, emptied and filled again in another order, hold more than they did? For a fleet on which nothing runs.

Ruin and recreate (Schrimpf et al. 2000): choose a workload that is not placed whole, empty some nodes that suit it, with
all members of the gangs on them, and let one greedy pass place what is free again, that workload first or by chance; keep
what is worth no less, priority by priority: GPUs first, then replicas. Where a search over all is ended early this finds
more in the same time: it changes a few nodes and looks at nothing else. The chance is seeded: same fleet, same answer.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from swarm_iac.solver.backend.cpsat import SEED
from swarm_iac.solver.repair.greedy import one_pass
from swarm_iac.solver.snapshot.capacity import FreeCapacity, capacity_with
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering
from swarm_iac.solver.snapshot.tasks import Pairs, Task, by_workload
from swarm_iac.solver.snapshot.value import in_company, size, within

#: Deterministic time of one round, of each node in it, and of each workload that is tried.
ROUND, NODE, TRIED = 3e-4, 1e-5, 1.1e-4
#: Nodes that are emptied at most for a workload whose replicas are placed one by one.
NODES = 8
#: How often the workload that was chosen comes first.
FIRST = 0.6
#: How far chance carries a workload: up to so many priorities.
NOISE = (0.0, 1.0, 3.0)
#: What a GPU of a replica counts in the order, in priorities.
LARGE = (0.05, 0.2)

Value = tuple[int, ...]
#: The next number of a seeded stream, from 0 to 1.
Chance = Callable[[], float]
T = TypeVar("T")


def value(snapshot: Snapshot, counts: Pairs) -> Value:
    """GPUs and replicas of each priority, the highest first; before them, what teams hold of what they are due.

    Who is alone, and may not be (`only_with`), counts nothing.
    """
    counts = in_company(snapshot, counts)
    levels = sorted({request.priority for request in snapshot.requests.values()}, reverse=True)
    gpus, replicas = Counter[int](), Counter[int]()
    for (name, _), count in counts.items():
        request = snapshot.requests[name]
        gpus[request.priority] += size(request) * count
        replicas[request.priority] += count
    due = within(snapshot, counts)
    return tuple(each for level in levels for each in (*due.get(level, ()), gpus[level], replicas[level]))


def improved(snapshot: Snapshot, counts: Pairs, left: float, stop: Callable[[], bool]) -> Pairs:
    """A placement that is worth at least as much as `counts`, within the deterministic time `left`."""
    chance = random.Random(SEED).random  # of `random` only this is the same in every version of Python
    places = {name: hindering(snapshot, request).nodes_under() for name, request in snapshot.requests.items()}
    now = _Placed(snapshot, counts, capacity_with(snapshot, counts), value(snapshot, counts))
    while left > 0 and not stop():
        left -= ROUND + NODE * len(snapshot.nodes)
        short = [name for name, request in snapshot.requests.items() if now.done[name] < request.members]
        if not short:
            break
        request = snapshot.requests[_one(chance, short)]
        if not places[request.name]:
            continue
        task, rest, freed = _ruined(now, _chosen(chance, request, places[request.name], now), places)
        order = _order(chance, task, request)
        left -= TRIED * len(order)
        placed = one_pass(task, order)
        found = rest + placed
        if found != now.counts and (worth := value(snapshot, found)) >= now.value:
            now = _Placed(snapshot, found, _capacity(task, rest, placed, freed), worth)
    return now.counts


@dataclass
class _Placed:
    """A placement, what is free beside it, and what it is worth."""

    snapshot: Snapshot
    counts: Pairs
    capacity: FreeCapacity
    value: Value

    def __post_init__(self) -> None:
        self.done = by_workload(self.counts)


def _one(chance: Chance, some: Sequence[T]) -> T:
    return some[int(chance() * len(some))]


def _chosen(chance: Chance, request: WorkloadRequest, places: list[str], now: _Placed) -> set[str]:
    """Some of the nodes that suit it."""
    most = 2 * (request.members - now.done[request.name]) if request.gang else NODES
    count = 1 + int(chance() * min(len(places), max(2, most)))
    return set(sorted(places, key=lambda node: chance())[:count])


def _ruined(now: _Placed, nodes: set[str], places: Mapping[str, list[str]]) -> tuple[Task, Pairs, set[str]]:
    """The task of filling these nodes again, what stands beside them, and all nodes that somebody left.

    Who has to be together goes or stays as a whole.
    """
    snapshot = now.snapshot
    gone = {pair for pair in now.counts if pair[1] in nodes}
    whole = {name for name, _ in gone if _bound(snapshot.requests[name])}
    capacity = now.capacity.copy()
    rest: Pairs = Counter()
    freed = set(nodes)
    for pair, count in now.counts.items():
        if pair in gone or pair[0] in whole:
            capacity.take(snapshot.requests[pair[0]], snapshot.nodes[pair[1]], -count)
            freed.add(pair[1])
        else:
            rest[pair] = count
    done = by_workload(rest)
    free = {
        name: request.members - done[name]
        for name, request in snapshot.requests.items()
        if done[name] < request.members and not (request.gang and done[name]) and not freed.isdisjoint(places[name])
    }
    return Task(snapshot, capacity, free), rest, freed


def _capacity(task: Task, rest: Pairs, placed: Pairs, freed: set[str]) -> FreeCapacity:
    """As `capacity_with`, in a tenth of the time: what was free beside `rest`, less what was `placed`.

    Parts of GPUs are packed again on nodes that somebody left or came to.
    """
    requests, nodes, capacity = task.snapshot.requests, task.snapshot.nodes, task.base
    changed = freed | {node for _, node in placed}
    pieces: Pairs = Counter({pair: n for pair, n in rest.items() if pair[1] in changed and requests[pair[0]].in_pieces})
    for (name, node), count in pieces.items():
        capacity.take(requests[name], nodes[node], -count)
    for (name, node), count in sorted((pieces + placed).items(), key=lambda one: (-requests[one[0][0]].share, one[0])):
        capacity.take(requests[name], nodes[node], count)
    return capacity


def _bound(request: WorkloadRequest) -> bool:
    """Is each replica where it is because of the others?"""
    return bool(request.gang or request.together or request.even)


def _order(chance: Chance, task: Task, first: WorkloadRequest) -> list[WorkloadRequest]:
    """Who is placed after whom: by priority and size, as far as chance lets it."""
    noise, large = _one(chance, NOISE), _one(chance, LARGE)
    leads = chance() < FIRST
    requests = [task.snapshot.requests[name] for name in task.free]

    def place(request: WorkloadRequest) -> float:
        gpus = request.gpus * (request.members if request.gang else 1)
        return -2 * request.priority - chance() * noise - gpus * large

    ranked = sorted(requests, key=place)
    return [first, *(one for one in ranked if one is not first)] if leads else ranked
