"""What are the variables of the fleet level?

    x[w,n]     replicas of workload w on node n            replicas of one workload are interchangeable
    placed[w]  Σ_n x[w,n]
    whole[w]   1 when the gang w runs
    kept[w,n]  replicas that stay where they are           ≤ min(x[w,n], stay[w,n])
    reassigned[n]                                          parts of GPUs that stay, and change their card
    open[n]    1 when something stands on n

Each variable besides x knows how to compute itself from x, so any placement is a complete hint and every goal of it
can be measured without solving.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.balance.overqualification import Overqualification
from swarm_iac.solver.packing.kept_parts import Cards
from swarm_iac.solver.packing.mig_instances import CutCards, Held, Size
from swarm_iac.solver.snapshot.layout import GPUS, VCPUS
from swarm_iac.solver.snapshot.node_slots import Slots
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import may_stay, open_to, suits
from swarm_iac.solver.snapshot.tasks import Pairs, Task

#: With more pairs of a workload and a node than this, nodes are looked at all at once.
WIDE = 5_000

Terms = list[tuple[cp_model.IntVar, int]]
Values = dict[int, int]


@dataclass(frozen=True)
class Instances:
    """MIG instances on one node: what is `beside` them; how many cards may be cut in all; profile and number of each workload;
    what each replica that may stay holds.
    """

    beside: CutCards
    cards: int
    sizes: dict[str, Size]
    stand: dict[str, list[Held]]


class FleetModel:
    """The CP-SAT model of one task, wide enough for the placement `start`. Rules add constraints, goals read the variables."""

    def __init__(self, task: Task, start: Pairs) -> None:
        self.task = task
        self.start: dict[str, set[str]] = {}
        for name, node in start:
            self.start.setdefault(name, set()).add(node)
        self.model = cp_model.CpModel()
        self.overqualification = Overqualification(task.snapshot)
        self.derived: list[tuple[cp_model.IntVar, Callable[[Values], int]]] = []
        self.x: dict[tuple[str, str], cp_model.IntVar] = {}
        self.tops: dict[tuple[str, str], int] = {}
        self.highs: dict[int, int] = {}
        self.by_request: dict[str, list[str]] = {}
        self.by_node: dict[str, list[str]] = {}
        #: Of a workload, terms that add up to its replicas. Set by the rules on them where a model is large.
        self.totals: dict[str, Terms] = {}
        #: How many cards of a node are cut beside those that are: terms to add up. Set by the rule on MIG instances.
        self.cut_cards: dict[str, list[cp_model.LinearExprT]] = {}
        #: For parts of GPUs that may stay: how many do on each of their cards. Set by the rule on parts.
        self.on_card: dict[tuple[str, str], list[cp_model.IntVar]] = {}
        #: Nodes that are alike, in an order in which the first holds most; and what a replica of each workload counts there.
        #: Set by the rule on such nodes.
        self.alike: list[tuple[list[str], dict[str, int]]] = []
        self.cut = False  # were candidates left out?
        self.homes: dict[str, set[str]] = {}
        for name, node in (*task.stay, *task.soft):
            if task.home(name, node):
                self.homes.setdefault(name, set()).add(node)
        wide = len(task.free) * len(task.snapshot.nodes if task.nodes is None else task.nodes) > WIDE
        self._slots = Slots(task.base) if wide else None
        self._near = [name for name in task.snapshot.nodes if self._is_near(name)]
        for name in task.free:
            self._count(task.snapshot.requests[name])
        self.open = {node: self._open(node) for node in self.by_node}

    def request(self, name: str) -> WorkloadRequest:
        """The workload of that name."""
        return self.task.snapshot.requests[name]

    def node(self, name: str) -> NodeCapacity:
        """The node of that name."""
        return self.task.snapshot.nodes[name]

    def _count(self, request: WorkloadRequest) -> None:
        tops = {}
        for host in self._candidates(request):
            top = min(self.task.base.most(request, host), self.task.free[request.name])
            if not open_to(request, host):
                top = min(top, self.task.home(request.name, host.name))
            if top > 0:
                tops[host.name] = top
        for node in self._best(request, tops):
            pair = (request.name, node)
            self.x[pair] = self.model.new_int_var(0, tops[node], f"x[{request.name},{node}]")
            self.tops[pair] = self.highs[self.x[pair].index] = tops[node]
            self.by_request.setdefault(request.name, []).append(node)
            self.by_node.setdefault(node, []).append(request.name)

    def _is_near(self, node: str) -> bool:
        return self.task.nodes is None or node in self.task.nodes

    def _candidates(self, request: WorkloadRequest) -> Iterator[NodeCapacity]:
        """Nodes where a free replica could stand, in the order of their names."""
        task, snapshot, home = self.task, self.task.snapshot, self.homes.get(request.name, set())
        able = self._near if self._slots is None else [n for n in self._slots.able(request) if self._is_near(n)]
        home = home & snapshot.nodes.keys()
        for name in sorted({*able, *home}, key=snapshot.rows.__getitem__) if home else able:
            host = snapshot.nodes[name]
            if task.pairs is not None and (request.name, name) not in task.pairs:
                continue
            if (request.name, name) in snapshot.barred and name not in home:
                continue
            if suits(request, host) or (name in home and may_stay(request, host)):
                yield host

    def _best(self, request: WorkloadRequest, tops: dict[str, int]) -> list[str]:
        """All nodes; in a large fleet those of the start, those where it stands, and the best `widest` others."""
        widest = self.task.widest
        if widest is None or len(tops) <= widest:
            return list(tops)
        self.cut = True
        load, free, by = self.task.base.load, self.task.base.free, GPUS if request.gpus else VCPUS
        order = sorted(
            tops,
            key=lambda n: (
                not self.task.home(request.name, n),
                self.overqualification.of(request, self.node(n)),
                not load[n],
                free[n][by],
                n,
            ),
        )
        must = {n for n in order if n in self.start.get(request.name, ()) or self.task.home(request.name, n)}
        return sorted(must | set(order[:widest]))

    def _open(self, node: str) -> cp_model.IntVar:
        """open[n] ≥ x[w,n] / top[w,n]; constant 1 if something fixed is placed there."""
        if self.task.base.load[node]:
            return self.new(1, 1, f"open[{node}]", lambda values: 1)
        inside = [self.x[name, node] for name in self.by_node[node]]
        var = self.new(0, 1, f"open[{node}]", lambda values: int(any(values[i.index] for i in inside)))
        for name in self.by_node[node]:
            self.model.add(self.x[name, node] <= self.tops[name, node] * var)
        return var

    def new(self, low: int, high: int, name: str, derive: Callable[[Values], int]) -> cp_model.IntVar:
        """A variable that follows from x by `derive`."""
        var = self.model.new_int_var(low, high, name)
        self.derived.append((var, derive))
        self.highs[var.index] = high
        return var

    def parts(self, node: str) -> tuple[dict[str, int], Cards]:
        """The shares of the workloads that may hold a part of a GPU there; its cards, and which of them hold which."""
        shares = {name: self.request(name).share for name in self.by_node[node] if self.request(name).shared}
        cards = self.task.on_cards(node)
        return shares, replace(cards, stand={name: on for name, on in cards.stand.items() if name in shares})

    def instances(self, node: str) -> Instances | None:
        """The MIG instances that free workloads hold there, or may; None where none does."""
        sizes = {name: (one.profile, one.gpus) for name in self.by_node[node] if (one := self.request(name)).profile}
        if not sizes:
            return None
        base = self.task.base
        beside = base.cuts.get(node) or CutCards(self.node(node).cards, {}, Counter())
        stand = {name: held for name, held in self.task.instances.get(node, {}).items() if name in sizes}
        return Instances(beside, max(0, base.free[node][GPUS]) + beside.count, sizes, stand)

    def of(self, workload: str) -> list[cp_model.IntVar]:
        """x[w,n] over all n."""
        return [self.x[workload, node] for node in self.by_request.get(workload, ())]

    def total(self, workload: str) -> Terms:
        """Terms that add up to Σ_n x[w,n]."""
        return self.totals.get(workload) or [(var, 1) for var in self.of(workload)]

    def at_most(self, terms: Terms, capacity: int, factor: cp_model.IntVar | None = None) -> None:
        """Σ coefficient · variable ≤ capacity (· factor), unless it holds anyway. Divided by the common divisor first."""
        terms = [(var, coefficient) for var, coefficient in terms if coefficient]
        capacity = max(capacity, 0)
        if not terms or sum(c * self.top_of(var) for var, c in terms) <= capacity:
            return
        divisor = math.gcd(*(c for _, c in terms))
        left = cp_model.LinearExpr.weighted_sum([v for v, _ in terms], [c // divisor for _, c in terms])
        self.model.add(left <= (capacity // divisor if factor is None else (capacity // divisor) * factor))

    def top_of(self, var: cp_model.IntVar) -> int:
        """Upper bound of a variable."""
        return self.highs[var.index]

    def values(self, counts: Pairs) -> Values:
        """Every variable's value in the placement `counts`."""
        values = {var.index: counts[pair] for pair, var in self.x.items()}
        for var, derive in self.derived:
            values[var.index] = derive(values)
        return values

    def counts(self, values: Values) -> Pairs:
        """The placement that `values` means."""
        return Counter({pair: count for pair, var in self.x.items() if (count := values[var.index])})

    def in_order(self, counts: Pairs) -> Pairs:
        """The same placement, with nodes that are alike exchanged so that the first holds most."""
        new: dict[str, str] = {}
        for nodes, size in self.alike:
            load = {node: sum(amount * counts[name, node] for name, amount in size.items()) for node in nodes}
            new |= dict(zip(sorted(nodes, key=lambda node: -load[node]), nodes, strict=True))
        return Counter({(name, new.get(node, node)): count for (name, node), count in counts.items()})

    def hint(self, values: Values) -> None:
        """Start the next solve from `values`, or the same with nodes that are alike exchanged."""
        if self.alike:
            values = self.values(self.in_order(self.counts(values)))
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        known = [var.index for var in self.every()]
        self.model.proto.solution_hint.vars.extend(known)
        self.model.proto.solution_hint.values.extend([values[index] for index in known])

    @contextmanager
    def without(self, gone: Collection[tuple[str, str]]) -> Iterator[None]:
        """The model while nothing of these pairs is placed."""
        variables = self.model.proto.variables
        for pair in gone:
            _domain(variables[self.x[pair].index].domain, 0)
        try:
            yield
        finally:
            for pair in gone:
                _domain(variables[self.x[pair].index].domain, self.tops[pair])

    def every(self) -> Iterable[cp_model.IntVar]:
        """All variables."""
        yield from self.x.values()
        yield from (var for var, _ in self.derived)


def _domain(domain: Any, top: int) -> None:
    """From 0 to `top`."""
    domain.clear()
    domain.extend([0, top])
