"""Which GPUs and CPUs of its node does each replica get?

What stays keeps its devices. New replicas, the largest first, go to one NUMA node where one can hold them: the one
that is left with the fewest free GPUs, then cores. A short exact search mends the order where that misses some;
what fits no single NUMA node takes from as few as possible.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm_iac.model.hardware import Hardware
from swarm_iac.solver.columns.cards import pack
from swarm_iac.solver.columns.problem import WHOLE
from swarm_iac.solver.numa import homes, parts

#: Most steps of the search on one node; beyond, the best so far stands.
STEPS = 4000
#: More new replicas than this on one node are not searched for: each goes where it fits, the largest first.
SEARCHED = 100


@dataclass(frozen=True)
class Want:
    """One new replica on a node: numbers of GPUs and pinned cores, and the GPUs it would like to keep."""

    name: str
    gpus: int
    cores: int
    liked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Devices:
    """What one replica gets. `numa`: the NUMA nodes it is bound to; empty when it is not."""

    gpus: tuple[int, ...]
    cpus: tuple[int, ...]
    numa: tuple[int, ...]


def assign(hardware: Hardware, gpus_taken: set[int], cpus_taken: set[int], wants: tuple[Want, ...]) -> dict[str, Devices]:
    """Devices for every want; the caller has counted that they suffice. Raises ValueError when they do not."""
    cores = int(hardware.vcpus) // 1000
    gpus = [[i for i in part if i not in gpus_taken] for part in parts(hardware.gpus.count, hardware.numa)]
    cpus = [[i for i in part if i not in cpus_taken] for part in parts(cores, hardware.numa)]
    order = sorted(wants, key=lambda w: (-w.gpus, -w.cores, w.name))
    if sum(w.gpus for w in order) > sum(map(len, gpus)) or sum(w.cores for w in order) > sum(map(len, cpus)):
        raise ValueError("more devices are wanted than the node has free")
    chosen = _align(order, [len(free) for free in gpus], [len(free) for free in cpus], gpus)
    result = {}
    for want in sorted(order, key=lambda w: chosen[w.name] is None):
        home = chosen[want.name]
        first = _nearest(want, gpus, home)
        picked = _take(gpus, want.gpus, first, want.liked)
        near = tuple(homes(picked, hardware.gpus.count, hardware.numa)) if picked else ()
        pinned = _take(cpus, want.cores, near or ((home,) if home is not None else ()))
        numa = homes(pinned, cores, hardware.numa) if pinned else (near if len(near) == 1 else ())
        result[want.name] = Devices(picked, pinned, numa)
    return result


def share_cards(shares: dict[str, int], parts: dict[int, int], empty: list[int]) -> dict[str, int]:
    """The card of each part of a GPU: on cards held in part (thousandths left) or empty ones, as few of these as do.

    Raises ValueError when they do not fit.
    """
    labels = list(shares)
    for count in range(len(empty) + 1):
        cards = [*parts, *empty[:count]]
        free = [*parts.values(), *([WHOLE] * count)]
        if sum(shares.values()) <= sum(free) and (chosen := pack([shares[label] for label in labels], free)) is not None:
            return {label: cards[card] for label, card in zip(labels, chosen, strict=True)}
    raise ValueError("more of a GPU is wanted than the node has free")


def _nearest(want: Want, gpus: list[list[int]], home: int | None) -> tuple[int, ...]:
    if home is not None:
        return (home,)
    return tuple(sorted(range(len(gpus)), key=lambda j: (-len(set(gpus[j]) & set(want.liked)), -len(gpus[j]), j)))


def _take(free: list[list[int]], count: int, first: tuple[int, ...], liked: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Remove and return `count` indices: from the parts named first, liked ones before the lowest."""
    rest = sorted((j for j in range(len(free)) if j not in first), key=lambda j: (-len(free[j]), j))
    picked: list[int] = []
    for j in (*first, *rest):
        part = sorted(free[j], key=lambda i: (i not in liked, i))[: count - len(picked)]
        picked += part
        free[j] = [i for i in free[j] if i not in part]
    return tuple(sorted(picked))


def _aligned(order: list[Want], gpus: list[int], cpus: list[int]) -> dict[str, int | None]:
    """The same without a search: the fullest NUMA node that has room for each."""
    left, cores = list(gpus), list(cpus)
    found: dict[str, int | None] = {}
    for want in order:
        fits = [j for j in range(len(left)) if left[j] >= want.gpus and cores[j] >= want.cores]
        home = min(fits, key=lambda j: (left[j], cores[j], j), default=None) if want.gpus or want.cores else None
        found[want.name] = home
        if home is not None:
            left[home] -= want.gpus
            cores[home] -= want.cores
    return found


def _align(order: list[Want], gpus: list[int], cpus: list[int], free: list[list[int]]) -> dict[str, int | None]:
    """A NUMA node for as many wants as can have one, each weighing 1 + gpus + cores; None for the others."""
    if len(order) > SEARCHED:
        return _aligned(order, gpus, cpus)
    best: dict[str, int | None] = {}
    best_weight = -1
    steps = 0
    rest = [0] * (len(order) + 1)
    for i in reversed(range(len(order))):
        rest[i] = rest[i + 1] + 1 + order[i].gpus + order[i].cores

    def visit(i: int, weight: int, now: dict[str, int | None]) -> None:
        nonlocal best, best_weight, steps
        steps += 1
        if i == len(order):
            if weight > best_weight:
                best, best_weight = dict(now), weight
            return
        if weight + rest[i] <= best_weight or steps > STEPS:
            return
        want = order[i]
        fits = [j for j in range(len(gpus)) if gpus[j] >= want.gpus and cpus[j] >= want.cores]
        for j in sorted(fits, key=lambda j: (-len(set(free[j]) & set(want.liked)), gpus[j], cpus[j], j)):
            gpus[j] -= want.gpus
            cpus[j] -= want.cores
            visit(i + 1, weight + 1 + want.gpus + want.cores, now | {want.name: j})
            gpus[j] += want.gpus
            cpus[j] += want.cores
        visit(i + 1, weight, now | {want.name: None})

    visit(0, 0, {})
    return {want.name: best.get(want.name) if want.gpus or want.cores else None for want in order}
