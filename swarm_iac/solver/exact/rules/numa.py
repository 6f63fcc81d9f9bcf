"""Do those that have to be on one NUMA node, or on linked GPUs, find such?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from swarm_iac.model.placement import Allocation
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import FleetModel, Values
from swarm_iac.solver.packing.gpu_domains import Cells, Domain, unions
from swarm_iac.solver.snapshot.domain_seats import Parts, homes_of, item_of, seated
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY

#: Sets of domains that are counted on one node. Machines have a few; NUMA nodes across groups could have any number.
UNIONS = 100


def replicas_fit_domains(fleet: FleetModel) -> None:
    """For every node n, domain d of it (a NUMA node, or linked GPUs), NUMA node j, and r of cores and memory:

        Σ_{w bound, d on j} r_w · y[w,n,d] + Σ_{a of n that may stay} r_a,j · here[a] ≤ r_n,j,  Σ_d y[w,n,d] = new replicas of w

    and for every union S of domains that overlap (`gpu_domains.Pool`):

        Σ_{w bound, d ⊆ S} gpus_w · y[w,n,d] + Σ_{a of n that may stay} |gpus_a ∩ S| · here[a] ≤ GPUs of S

    here[a] = 1 where enough of a's workload are on n for a to be among them: it keeps its devices. Others that are new lie
    over several domains where they have to. Parts of GPUs count with their cores and memory. Beyond UNIONS sets S are left out,
    as are those parts: who comes out split because of it is placed again (`unsplitting.py`).
    """
    if not fleet.task.snapshot.local:
        return
    for node, names in fleet.by_node.items():
        host, fixed = fleet.node(node), {*(fleet.task.base.local or {}).get(node, ())}
        if (len(host.parts) > 1 or host.links) and (fixed or any(fleet.request(name).local for name in names)):
            _Node(fleet, node, names, fixed).add()


class _Node:
    """The domains of one node."""

    def __init__(self, fleet: FleetModel, node: str, names: list[str], fixed: set[str]) -> None:
        self.fleet, self.node = fleet, node
        snapshot, base = fleet.task.snapshot, fleet.task.base
        self.hardware = snapshot.stack.hardware_of(node)
        seats = base.seats.get(node, ())
        self.held = seated(base, node)
        self.free = Parts(snapshot, self.hardware, self.held)
        self.movable = [a for a in seats if a not in self.held and a.workload in names]
        self.counts = Counter(a.workload for a in self.held)
        self.singles = sorted({name for name in names if fleet.request(name).local} | fixed)
        self.names = names
        matter = {*self.singles, *(a.workload for a in self.movable)}
        self.matter = [name for name in names if name in matter]
        self.at = [fleet.x[name, node].index for name in self.matter]
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
            domains = self._domains(name)
            for j in range(len(domains)):
                homes[name, j] = fleet.new(0, top, f"domain[{name},{self.node},{j}]", self._laid(name, j))
            x = fleet.x[name, self.node] if name in self.names else 0
            if not domains and not stay:  # nobody comes to a node without linked GPUs
                if name in self.names:
                    model.add(fleet.x[name, self.node] <= 0)
                continue
            model.add(sum(homes[name, j] for j in range(len(domains))) >= base + x - sum(stay))
        stands = list(zip(self.movable, here, strict=True))
        bound = [(var, fleet.request(name).need, self._domains(name)[j]) for (name, j), var in homes.items()]
        for j in range(self.hardware.numa):
            for i, size in ((CORES, len(self.free.cpus[j])), (MEMORY, self.free.memory.left(j))):
                terms = [(var, need[i]) for var, need, domain in bound if domain.numa == j]
                fleet.at_most(terms + [(var, self._on(a, j, i)) for a, var in stands], size)
        every = frozenset(range(len(self.free.cells)))
        for union in unions((domain.cells for _, _, domain in bound), UNIONS):
            if union != every or len(every) == 1:
                terms = [(var, need[GPUS]) for var, need, domain in bound if domain.cells <= union]
                size = sum(len(self.free.cells[c]) for c in union)
                fleet.at_most(terms + [(var, self._gpus(a, union)) for a, var in stands], size)

    def _domains(self, name: str) -> tuple[Domain, ...]:
        request = self.fleet.request(name)
        return self.free.domains.of(request.single, request.linked)

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
        """The cores, or the memory, that it holds of one NUMA node."""
        if i == MEMORY:
            return int(a.memory) if a.numa == (j,) else 0
        return sum(one in self.free.all_cpus[j] for one in a.cpus)

    def _gpus(self, a: Allocation, cells: Cells) -> int:
        """The whole GPUs that it holds of some cells."""
        if self.fleet.request(a.workload).in_pieces:
            return 0
        return sum(one in self.free.domains.cells[c] for c in cells for one in a.cards)

    def _laid(self, name: str, j: int) -> Callable[[Values], int]:
        def count(values: Values) -> int:
            return self._homes(values)[name, j]

        return count

    def _homes(self, values: Values) -> Counter[tuple[str, int]]:
        """How many new ones of each workload lie in each of its domains; all in the first where they find none."""
        fleet = self.fleet
        key = tuple([values[index] for index in self.at])
        if key not in self.known:
            on = dict(zip(self.matter, key, strict=True))
            base, seats, held = fleet.task.base.counts, list(self.held), Counter(self.counts)
            for a in self.movable:
                if held[a.workload] < base[a.workload][self.node] + on.get(a.workload, 0):
                    held[a.workload] += 1
                    seats.append(a)
            new = [name for name in self.singles for _ in range(base[name][self.node] + on.get(name, 0) - held[name])]
            new.sort(key=lambda name: item_of(fleet.request(name)), reverse=True)
            free = Parts(fleet.task.snapshot, self.hardware, seats)
            homes = homes_of(free, [item_of(fleet.request(name)) for name in new])
            places = [0] * len(new)
            if homes is not None:
                places = [self._domains(name).index(home) for name, home in zip(new, homes, strict=True)]
            self.known[key] = Counter(zip(new, places, strict=True))
        return self.known[key]
