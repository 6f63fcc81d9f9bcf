"""What does one pass of a greedy method place? Kind after kind, on all nodes at once in numpy.

A pass is an order of kinds and a preference among nodes. Several passes warm-start the columns; the same code fills
what is left at the end. Nodes are rows here: first all of shape 0, then of shape 1, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.columns.problem import Kind, Pattern, Problem

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: Less is better, one figure for each node.
Preference = Callable[["Floor", Kind], Floats]


class Floor:
    """What is free on every node, and what is placed there."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        sizes = [shape.count for shape in problem.shapes]
        self.shape: Ints = np.repeat(np.arange(len(sizes)), sizes)
        most = max((shape.cards for shape in problem.shapes), default=0)
        cards = [[WHOLE] * shape.cards + [0] * (most - shape.cards) for shape in problem.shapes]
        capacities = [shape.capacity for shape in problem.shapes]
        self.cards: Ints = np.repeat(np.array(cards, dtype=np.int64).reshape(len(sizes), most), sizes, axis=0)
        dims = max((len(kind.need) for kind in problem.kinds), default=0)  # there may be no shape
        self.free: Ints = np.repeat(np.array(capacities, dtype=np.int64).reshape(len(sizes), dims), sizes, axis=0)
        self.counts: npt.NDArray[np.int32] = np.zeros((len(self.shape), len(problem.kinds)), dtype=np.int32)
        self.left = [row.limit for row in problem.rows]
        self.by_kind: list[list[tuple[int, int]]] = [[] for _ in problem.kinds]
        for r, row in enumerate(problem.rows):
            for kind, amount in row.amounts:
                if amount > 0:  # a row that asks for at least so much holds nothing back
                    self.by_kind[kind].append((r, amount))
        #: Rows that hold on some shapes alone, by kind, then by shape.
        self.there: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for r, row in enumerate(problem.rows):
            for h, amounts in row.inside if row.one else ():
                for kind, amount in amounts:
                    self.there.setdefault(kind, {}).setdefault(h, []).append((r, amount))
        suits = np.zeros((len(sizes), len(problem.kinds)), dtype=bool)
        for h, shape in enumerate(problem.shapes):
            suits[h, list(shape.fits)] = True
        self.suits = suits[self.shape]

    def allowed(self, kind: int) -> int:
        """How many more replicas of the kind the rows allow."""
        return min((self.left[row] // amount for row, amount in self.by_kind[kind]), default=0)

    def allowed_on(self, kind: int, node: int) -> int:
        """How many more of it rows allow on nodes like this one alone; any number where none is about them."""
        rows = self.there[kind].get(int(self.shape[node]), ()) if kind in self.there else ()
        return min((self.left[row] // amount for row, amount in rows), default=self.problem.kinds[kind].count)

    def caps(self, index: int) -> Ints:
        """How many more replicas of the kind each node could take."""
        kind = self.problem.kinds[index]
        caps = np.where(self.suits[:, index], self.allowed(index), 0)
        for i, need in enumerate(kind.need):
            if need:
                caps = np.minimum(caps, self.free[:, i] // need)
        if kind.cards and kind.share == WHOLE:
            caps = np.minimum(caps, (self.cards == WHOLE).sum(axis=1) // kind.cards)
        elif kind.cards:
            caps = np.minimum(caps, (self.cards // kind.share).sum(axis=1))
        if kind.most:
            caps = np.minimum(caps, kind.most - self.counts[:, index])
        if index in self.there:
            most = np.full(len(self.problem.shapes), kind.count, dtype=np.int64)
            for h, rows in self.there[index].items():
                most[h] = min(self.left[row] // amount for row, amount in rows)
            caps = np.minimum(caps, most[self.shape])
        return np.maximum(caps, 0)

    def take(self, index: int, node: int, count: int) -> None:
        """Put `count` replicas on a node; shares go to the fullest card that has capacity."""
        kind = self.problem.kinds[index]
        cards = self.cards[node]
        if kind.cards and kind.share == WHOLE:
            cards[np.flatnonzero(cards == WHOLE)[: kind.cards * count]] = 0
        elif kind.cards:
            for _ in range(count):
                fitting = np.where(cards >= kind.share, cards, WHOLE + 1)
                cards[int(fitting.argmin())] -= kind.share
        for i, need in enumerate(kind.need):
            self.free[node, i] -= need * count
        self.counts[node, index] += count
        self.charge(index, node, count)

    def charge(self, index: int, node: int, count: int) -> None:
        """What so many replicas on a node take of the rows."""
        there = self.there[index].get(int(self.shape[node]), ()) if index in self.there else ()
        for row, amount in (*self.by_kind[index], *there):
            self.left[row] -= amount * count

    def put(self, node: int, pattern: Pattern, cards: list[int]) -> None:
        """Put a whole pattern on an empty node, which leaves so much of its cards."""
        self.cards[node, : len(cards)] = cards
        for index, count in pattern:
            for i, need in enumerate(self.problem.kinds[index].need):
                self.free[node, i] -= need * count
            self.counts[node, index] += count
            self.charge(index, node, count)

    def fill(self, order: Iterable[int], preference: Preference) -> None:
        """Place as many replicas as fit, kind after kind, on the nodes that are preferred."""
        for index in order:
            allowed = self.allowed(index)
            if allowed <= 0:
                continue
            caps = self.caps(index)
            open_ = np.flatnonzero(caps)
            if not len(open_):
                continue
            rank = preference(self, self.problem.kinds[index])[open_]
            for node in open_[np.argsort(rank, kind="stable")]:
                count = min(int(caps[node]), allowed)
                if index in self.there and (count := min(count, self.allowed_on(index, int(node)))) <= 0:
                    continue
                self.take(index, int(node), count)
                allowed -= count
                if not allowed:
                    break

    def pattern(self, node: int) -> Pattern:
        """What stands on one node."""
        found = np.flatnonzero(self.counts[node])
        return tuple((int(k), int(self.counts[node, k])) for k in found)

    def worth(self) -> int:
        """Σ worth of all that is placed."""
        return self._sum(kind.worth for kind in self.problem.kinds)

    def value(self) -> int:
        """Σ value of all that is placed."""
        return self._sum(kind.value for kind in self.problem.kinds)

    def _sum(self, each: Iterable[int]) -> int:
        counts = self.counts.sum(axis=0)
        return sum(int(count) * one for count, one in zip(counts, each, strict=True))


def tightest(floor: Floor, kind: Kind) -> Floats:
    """Best fit: the node with the least left of everything, each as a part of the largest node's."""
    whole = np.maximum(floor.free.max(axis=0), 1)
    left: Floats = (floor.free / whole).sum(axis=1) + floor.cards.sum(axis=1) / max(1, int(floor.cards.sum(axis=1).max()))
    return left


def aligned(floor: Floor, kind: Kind) -> Floats:
    """The node whose first resource for each free GPU is nearest above what the kind needs for each of its GPUs."""
    per_card = floor.free[:, 0] / np.maximum(floor.cards.sum(axis=1), 1)
    request = kind.need[0] / max(1, kind.cards * kind.share)
    result: Floats = np.abs(per_card - request)
    return result


@dataclass(frozen=True)
class Pass:
    """One greedy method: kinds by `key`, nodes by `preference`."""

    name: str
    key: Callable[[Kind], tuple[float, ...]]
    preference: Preference


def _size(kind: Kind) -> int:
    return kind.cards * kind.share


PASSES = (
    Pass("largest GPU first, best fit", lambda k: (-_size(k), -k.need[0]), tightest),
    Pass("largest GPU first, aligned", lambda k: (-k.cards, -k.share, k.need[0]), aligned),
    Pass("least of the first resource for each GPU, aligned", lambda k: (k.need[0] / max(1, _size(k)), -_size(k)), aligned),
    Pass("many cards first, then lean, best fit", lambda k: (-k.cards, k.need[0] / max(1, _size(k))), tightest),
    Pass("many cards first, then lean, aligned", lambda k: (-k.cards, k.need[0] / max(1, _size(k))), aligned),
)


def passes(problem: Problem) -> list[Floor]:
    """The outcome of every pass."""
    found = []
    for one in PASSES:
        floor = Floor(problem)
        keys = [one.key(kind) for kind in problem.kinds]
        floor.fill(sorted(range(len(keys)), key=keys.__getitem__), one.preference)
        found.append(floor)
    return found
