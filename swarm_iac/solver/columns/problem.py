"""What does column generation see? Kinds of replicas, shapes of nodes and rows that hold for all together.

The names of workloads and nodes are gone: replicas that are alike are a number, and so are nodes that are alike. The
size of the problem is (kinds × shapes); how many nodes there are does not enter it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swarm_iac.model.device import WHOLE

#: (kind, replicas) for every kind that stands on a node, by kind.
Pattern = tuple[tuple[int, int], ...]
#: (kind, amount of one replica)
Amounts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """Replicas that are alike; `need` follows Shape.capacity.

    `value` is gained for each that is placed in a linear program, where all values span three decades; `worth` orders
    whole placements strictly.
    """

    worth: int
    count: int  # wanted
    cards: int  # GPUs of one replica, all of one node
    share: int  # thousandths of each of these GPUs; below WHOLE others may share the card
    need: tuple[int, ...]
    most: int = 0  # on one node; 0: as many as fit
    value: int = 0


@dataclass(frozen=True, slots=True)
class Keep:
    """`bonus` is gained for each of the first `count` replicas of `kind`: they stand on this node already."""

    kind: int
    count: int
    bonus: int


@dataclass(frozen=True, slots=True)
class Shape:
    """`count` nodes that are alike: what each has besides its cards, its cards, and what may be placed there.

    `tops` bounds single kinds below what capacity allows (cordoned nodes); `keeps` says what is placed there.
    """

    count: int
    cards: int
    capacity: tuple[int, ...]
    fits: tuple[int, ...]
    tops: tuple[tuple[int, int], ...] = ()
    keeps: tuple[Keep, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Σ amount · replicas placed ≤ limit: what is wanted of a kind, a ceiling, or what racks that are alike have.

    `amounts` holds on every shape. A row of racks counts on the shapes of `inside` alone, on each by its own amounts.
    """

    limit: int
    amounts: Amounts
    inside: tuple[tuple[int, Amounts], ...] = ()  # (shape, its amounts)
    #: Is `inside` one limit, and not the sum of those of racks that are alike?
    one: bool = False
    resource: int = 0  # of racks: its place in RACK
    over: int = 0  # what each one beyond the limit costs; 0: none may be


@dataclass(frozen=True, slots=True)
class Cap:
    """Σ gain · replicas on nodes of the shape ≤ limit: no node carries more than its best pattern at these gains."""

    shape: int
    gains: tuple[float, ...]  # of each kind
    limit: float


@dataclass(frozen=True, slots=True)
class Member:
    """Replicas of one kind that take places of their class on some shapes: up to `most`, and `uses` of rows each."""

    kind: int
    most: int
    uses: tuple[tuple[int, int], ...]  # (row, amount)


@dataclass(frozen=True)
class Problem:
    """max Σ value · placed + Σ bonus · kept, on nodes of the shapes, under the rows."""

    kinds: tuple[Kind, ...]
    shapes: tuple[Shape, ...]
    rows: tuple[Row, ...]
    members: tuple[Member, ...] = ()  # where kinds are classes of others, see `interchangeable`

    @cached_property
    def unit(self) -> float:
        """The least that a whole GPU is worth, or a replica where nothing has GPUs: differences far below do not count."""
        rates = [kind.value * WHOLE / (kind.cards * kind.share) for kind in self.kinds if kind.cards and kind.value]
        return min(rates or [float(kind.value) for kind in self.kinds if kind.value], default=1.0)

    @cached_property
    def leaner(self) -> tuple[bytes, ...]:
        """For each kind k a byte for each kind j: 1 where j needs no more of anything, and only capacity bounds it."""
        needs = np.array([(0, *kind.need) for kind in self.kinds], dtype=np.int64)
        unbound = np.array([not kind.most for kind in self.kinds], dtype=bool)
        return tuple(((needs <= need).all(axis=1) & unbound).astype(np.uint8).tobytes() for need in needs)

    def value(self, shape: Shape, pattern: Pattern) -> int:
        """What one node with this pattern gains."""
        kept = {keep.kind: keep for keep in shape.keeps}
        total = 0
        for kind, count in pattern:
            total += self.kinds[kind].value * count
            if kind in kept:
                total += kept[kind].bonus * min(count, kept[kind].count)
        return total


def wanted_rows(kinds: tuple[Kind, ...]) -> tuple[Row, ...]:
    """For every kind k:  Σ placed_k ≤ count_k"""
    return tuple(Row(kind.count, ((i, 1),)) for i, kind in enumerate(kinds))
