"""Do those that have to be on one NUMA node find one?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from swarm_iac.model.placement import Allocation
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import FleetModel, Values
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.single_numa import Parts, homes_of, item_of, seated


def single_fits_numa_node(fleet: FleetModel) -> None:
    """For every node n, NUMA node j of it and r of GPUs, cores and memory:

        Σ_{w single} r_w · y[w,n,j] + Σ_{a of n that may stay} r_a,j · here[a] ≤ r_n,j,  Σ_j y[w,n,j] = new replicas of w on n

    here[a] = 1 where enough of a's workload are on n for a to be among them: it keeps its devices. Others that are new lie
    over several NUMA nodes where they have to. Parts of GPUs count with their cores and memory.
    """
    if not fleet.task.snapshot.singles:
        return
    for node, names in fleet.by_node.items():
        fixed = {*(fleet.task.base.single or {}).get(node, ())}
        if len(fleet.node(node).parts) > 1 and (fixed or any(fleet.request(name).single for name in names)):
            _Node(fleet, node, names, fixed).add()


class _Node:
    """The NUMA nodes of one node."""

    def __init__(self, fleet: FleetModel, node: str, names: list[str], fixed: set[str]) -> None:
        self.fleet, self.node = fleet, node
        snapshot, base = fleet.task.snapshot, fleet.task.base
        self.hardware = snapshot.stack.hardware_of(node)
        seats = base.seats.get(node, ())
        self.held = seated(base, node)
        self.free = Parts(snapshot, self.hardware, self.held)
        self.movable = [a for a in seats if a not in self.held and a.workload in names]
        self.counts = Counter(a.workload for a in self.held)
        self.singles = sorted({name for name in names if fleet.request(name).single} | fixed)
        self.names = names
        matter = {*self.singles, *(a.workload for a in self.movable)}
        self.matter = [name for name in names if name in matter]
        self.known: dict[tuple[int, ...], Counter[tuple[str, int]]] = {}

    def add(self) -> None:
        """The variables and constraints of the docstring above."""
        fleet, model = self.fleet, self.fleet.model
        here = [self._here(a) for a in self.movable]
        homes: dict[tuple[str, int], cp_model.IntVar] = {}
        for name in self.singles:
            base = fleet.task.base.counts[name][self.node] - self.counts[name]
            stay = [var for a, var in zip(self.movable, here, strict=True) if a.workload == name]
            top = base + (fleet.tops[name, self.node] if name in self.names else 0)
            for j in range(self.hardware.numa):
                homes[name, j] = fleet.new(0, top, f"numa[{name},{self.node},{j}]", self._laid(name, j))
            x = fleet.x[name, self.node] if name in self.names else 0
            model.add(sum(homes[name, j] for j in range(self.hardware.numa)) >= base + x - sum(stay))
        for j in range(self.hardware.numa):
            sizes = len(self.free.gpus[j]), len(self.free.cpus[j]), self.free.memory.left(j)
            for i, size in zip((GPUS, CORES, MEMORY), sizes, strict=True):
                terms = [(homes[name, j], fleet.request(name).need[i]) for name in self.singles]
                terms += [(var, self._on(a, j, i)) for a, var in zip(self.movable, here, strict=True)]
                fleet.at_most(terms, size)

    def _here(self, a: Allocation) -> cp_model.IntVar:
        """1 where so many of its workload are on the node that it is among them."""
        x = self.fleet.x[a.workload, self.node]
        place = sum(b.workload == a.workload for b in self.movable[: self.movable.index(a)])

        def there(values: Values) -> int:
            return int(values[x.index] > place)

        var = self.fleet.new(0, 1, f"here[{a.name}]", there)
        self.fleet.model.add(x <= place + max(0, self.fleet.tops[a.workload, self.node] - place) * var)
        return var

    def _on(self, a: Allocation, j: int, i: int) -> int:
        """What it holds of one NUMA node."""
        if i == MEMORY:
            return int(a.memory) if a.numa == (j,) else 0
        own, of = (a.cards, self.free.all_gpus[j]) if i == GPUS else (a.cpus, self.free.all_cpus[j])
        return 0 if i == GPUS and self.fleet.request(a.workload).in_pieces else sum(one in of for one in own)

    def _laid(self, name: str, j: int) -> Callable[[Values], int]:
        def count(values: Values) -> int:
            return self._homes(values)[name, j]

        return count

    def _homes(self, values: Values) -> Counter[tuple[str, int]]:
        """How many new ones of each workload lie on each NUMA node; all on the first where they find none."""
        fleet = self.fleet
        on = {name: values[fleet.x[name, self.node].index] for name in self.matter}
        key = tuple(on.values())
        if key not in self.known:
            base, seats, held = fleet.task.base.counts, list(self.held), Counter(self.counts)
            for a in self.movable:
                if held[a.workload] < base[a.workload][self.node] + on.get(a.workload, 0):
                    held[a.workload] += 1
                    seats.append(a)
            new = [name for name in self.singles for _ in range(base[name][self.node] + on.get(name, 0) - held[name])]
            new.sort(key=lambda name: item_of(fleet.request(name)), reverse=True)
            free = Parts(fleet.task.snapshot, self.hardware, seats)
            homes = homes_of(free, [item_of(fleet.request(name)) for name in new]) or (0,) * len(new)
            self.known[key] = Counter(zip(new, homes, strict=True))
        return self.known[key]
