"""What belongs to which NUMA node, and what is still free of its memory? All is divided evenly and contiguously."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable

from swarm_iac.model.hardware import Hardware, numa_part

#: So many ways to add NUMA nodes of one number are tried, before more of them are added.
WAYS = 500


def parts(count: int, numa: int) -> tuple[tuple[int, ...], ...]:
    """Indices 0 … count-1 in `numa` contiguous parts, part j being [j·count/numa, (j+1)·count/numa)."""
    return tuple(tuple(numa_part(count, numa, j)) for j in range(numa))


def homes(indices: Iterable[int], count: int, numa: int) -> tuple[int, ...]:
    """The NUMA nodes that some indices lie on, sorted."""
    wanted = set(indices)
    return tuple(j for j in range(numa) if not wanted.isdisjoint(numa_part(count, numa, j)))


class Memory:
    """Bytes that are bound to sets of NUMA nodes of one machine. What is bound to all of them is as good as unbound.

    All of it fits exactly when  ∀ S:  Σ_{a: numa_a ⊆ S} memory_a ≤ Σ_{j∈S} memory_j  (Hall).
    """

    def __init__(self, hardware: Hardware) -> None:
        self.sizes = [len(numa_part(int(hardware.memory), hardware.numa, j)) for j in range(hardware.numa)]
        self.all = frozenset(range(hardware.numa))
        self.held: Counter[frozenset[int]] = Counter()

    def bind(self, numa: Iterable[int], size: int) -> None:
        """Bind `size` bytes to these NUMA nodes; none: to all. A negative size releases them."""
        where = frozenset(numa) or self.all
        self.held[where] += size
        if not self.held[where]:
            del self.held[where]

    def fits(self, numa: Iterable[int], size: int) -> bool:
        """Would all still fit with `size` bytes more on these NUMA nodes?

        The whole machine is not looked at: who places counts that. Of all S only unions of bound sets that hang
        together with `numa` can be too small by this.
        """
        first = frozenset(numa) or self.all
        known, todo = {first}, [first]
        while todo:
            union = todo.pop()
            if union == self.all:
                continue
            inside = sum(held for where, held in self.held.items() if where <= union)
            if inside + size > sum(self.sizes[j] for j in union):
                return False
            for where in self.held:
                wider = union | where
                if where & union and wider not in known:
                    known.add(wider)
                    todo.append(wider)
        return True

    def left(self, part: int) -> int:
        """Bytes of one NUMA node that nothing is bound to alone."""
        return self.sizes[part] - self.held[frozenset({part})]

    def widened(self, numa: Iterable[int], size: int) -> tuple[int, ...]:
        """As few NUMA nodes more as needed, the emptiest first, so that `size` bytes fit; sorted."""
        base = frozenset(numa)
        rest = sorted(self.all - base, key=lambda j: (-self.left(j), j))
        for more in range(len(rest)):
            for added in itertools.islice(itertools.combinations(rest, more), WAYS):
                if self.fits(base | {*added}, size) and (base or added):
                    return tuple(sorted(base | {*added}))
        return tuple(sorted(self.all))
