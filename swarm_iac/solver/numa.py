"""Which GPUs and CPUs belong to which NUMA node? Both are divided evenly and contiguously."""

from __future__ import annotations


def parts(count: int, numa: int) -> tuple[tuple[int, ...], ...]:
    """Indices 0 … count-1 in `numa` contiguous parts, part j being [j·count/numa, (j+1)·count/numa)."""
    return tuple(tuple(range(j * count // numa, (j + 1) * count // numa)) for j in range(numa))


def homes(indices: tuple[int, ...], count: int, numa: int) -> tuple[int, ...]:
    """The NUMA nodes that some indices lie on, sorted."""
    return tuple(j for j, part in enumerate(parts(count, numa)) if set(part) & set(indices))
