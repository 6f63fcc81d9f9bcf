"""What is worth more and found no place: which replicas of lower levels go for it?

Columns and a dive weigh levels against each other, and rounding leaves out a few replicas of a high level while low ones
stand. Each of them gets the node where the least of lower levels has to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.time_limit import never
from swarm_iac.solver.columns.greedy_fill import Floor
from swarm_iac.solver.packing.shared_gpus import pack

#: Nodes that are looked at for one replica.
LOOK = 60


def promote(floor: Floor, stop: Callable[[], bool] = never) -> None:
    """Replace lower levels by what is missing of higher ones, the highest level and the largest replicas first."""
    kinds = floor.problem.kinds
    sizes = [kind.cards * kind.share for kind in kinds]
    rates = [kind.worth / max(1, size) for kind, size in zip(kinds, sizes, strict=True)]
    for k in sorted(range(len(kinds)), key=lambda k: (-rates[k], -sizes[k], k)):
        lower = [j for j in range(len(kinds)) if rates[j] < rates[k]]
        while lower and floor.allowed(k) > 0 and not stop():
            found = min(
                (option for node in _candidates(floor, k, lower) if (option := _option(floor, k, lower, node))), default=None
            )
            if found is None:
                break
            _set(floor, found[1], Counter(dict(found[2])))


def _candidates(floor: Floor, k: int, lower: list[int]) -> list[int]:
    """Nodes with capacity for the replica if all of lower levels left; those with the most free cards first."""
    kinds, kind = floor.problem.kinds, floor.problem.kinds[k]
    held = floor.counts[:, lower].astype(np.int64)
    capacity = floor.free + held @ np.array([kinds[j].need for j in lower], dtype=np.int64).reshape(len(lower), -1)
    cards = floor.cards.sum(axis=1)
    freed = cards + held @ np.array([kinds[j].cards * kinds[j].share for j in lower], dtype=np.int64)
    fits = (
        floor.suits[:, k] & (capacity >= np.array(kind.need, dtype=np.int64)).all(axis=1) & (freed >= kind.cards * kind.share)
    )
    if kind.most:
        fits &= floor.counts[:, k] < kind.most
    nodes = np.flatnonzero(fits)
    if k in floor.there:
        nodes = np.array([node for node in nodes if floor.allowed_on(k, int(node)) > 0], dtype=np.int64)
    return [int(node) for node in nodes[np.argsort(-cards[nodes], kind="stable")][:LOOK]]


def _option(floor: Floor, k: int, lower: list[int], node: int) -> tuple[int, int, tuple[tuple[int, int], ...]] | None:
    """(Worth that goes, node, what it carries then); the least valued go first, and those that need not go come back."""
    kinds = floor.problem.kinds
    carried = Counter(dict(floor.pattern(node)))
    carried[k] += 1
    order = sorted((j for j in lower for _ in range(carried[j])), key=lambda j: (kinds[j].worth, j))
    gone: list[int] = []
    for j in order:
        if _fits(floor, node, carried):
            break
        carried[j] -= 1
        gone.append(j)
    if not _fits(floor, node, carried):
        return None
    for j in reversed(list(gone)):
        carried[j] += 1
        if _fits(floor, node, carried):
            gone.remove(j)
        else:
            carried[j] -= 1
    return sum(kinds[j].worth for j in gone), node, tuple(sorted((+carried).items()))


def _fits(floor: Floor, node: int, carried: Counter[int]) -> bool:
    capacity = floor.problem.shapes[int(floor.shape[node])].capacity
    kinds = floor.problem.kinds
    used = [sum(kinds[j].need[i] * n for j, n in carried.items()) for i in range(len(capacity))]
    return all(a <= b for a, b in zip(used, capacity, strict=True)) and _cards(floor, node, carried) is not None


def _cards(floor: Floor, node: int, carried: Counter[int]) -> list[int] | None:
    """What is left of each card, or None where they do not suffice."""
    kinds = floor.problem.kinds
    whole = sum(kinds[j].cards * n for j, n in carried.items() if kinds[j].share == WHOLE)
    shares = [kinds[j].share for j, n in carried.items() for _ in range(n) if kinds[j].cards and kinds[j].share < WHOLE]
    left = [WHOLE] * (floor.problem.shapes[int(floor.shape[node])].cards - whole)
    if (chosen := pack(shares, left)) is None or whole > floor.problem.shapes[int(floor.shape[node])].cards:
        return None
    for share, card in zip(shares, chosen, strict=True):
        left[card] -= share
    return [0] * whole + left


def _set(floor: Floor, node: int, carried: Counter[int]) -> None:
    cards = _cards(floor, node, carried)
    assert cards is not None
    before = Counter(dict(floor.pattern(node)))
    for j in {*before, *carried}:
        more = carried[j] - before[j]
        floor.counts[node, j] += more
        floor.free[node] -= more * np.array(floor.problem.kinds[j].need, dtype=np.int64)
        floor.charge(j, node, more)
    floor.cards[node] = 0
    floor.cards[node, : len(cards)] = cards
