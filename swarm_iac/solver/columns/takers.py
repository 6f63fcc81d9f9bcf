"""Who takes the places of columns, where kinds may take each other's? Others step aside as long as they find another place.

Each place of a class is taken by one of its kinds that suits the shape and of which more may be placed. If there is none, a
kind that is placed elsewhere comes, and another is looked for in its place (augmenting paths, Ford and Fulkerson, 1956).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from swarm_iac.solver.columns.interchangeable import Interchangeable, Plan
from swarm_iac.solver.columns.problem import Pattern

#: (shape, kind that comes to it) from the first place to the one that was free for a kind.
Way = list[tuple[int, int]]


class Takers:
    """Who has taken which places so far, within the rows of kinds."""

    def __init__(self, seen: Interchangeable) -> None:
        self.seen = seen
        self.fits = [frozenset(shape.fits) for shape in seen.kinds.shapes]
        self.left = [row.limit for row in seen.kinds.rows]
        self.uses: list[list[tuple[int, int]]] = [[] for _ in seen.kinds.kinds]
        for r, row in enumerate(seen.kinds.rows):
            for kind, amount in row.amounts:
                if amount > 0:  # a row that asks for at least so much holds nothing back
                    self.uses[kind].append((r, amount))
        self.on: list[Counter[int]] = [Counter() for _ in self.fits]  # kinds on each shape
        self.plan: Plan = Counter()  # places that are taken

    def take(self, shape: int, pattern: Pattern, *, whole: bool = False) -> bool:
        """Fill one node's places as far as possible; `whole`: all of them or none. False where some stay free."""
        done: list[tuple[Way, int]] = []
        missing = 0
        for one, count in pattern:
            rest = count
            while rest and (way := self._way(one, shape)):
                amount = min(
                    [rest, self._allowed(way[-1][1]), *(self.on[after][kind] for (_, kind), (after, _) in pairwise(way))]
                )
                self._go(way, amount)
                done.append((way, amount))
                rest -= amount
            missing += rest
            if missing and whole:
                for way, amount in reversed(done):
                    self._go(way, -amount)
                return False
        self.plan[shape, pattern] += 1
        return not missing

    def _way(self, one: int, shape: int) -> Way:
        """The shortest that ends with a kind of which more may be placed; empty if there is none."""
        members = self.seen.classes[one]
        came: dict[int, Way] = {shape: []}
        reached = [shape]
        for place in reached:
            for kind in members:
                if kind in self.fits[place]:
                    way = [*came[place], (place, kind)]
                    if self._allowed(kind) > 0:
                        return way
                    for other in range(len(self.on)) if len(members) > 1 else ():
                        if other not in came and self.on[other][kind]:
                            came[other] = way
                            reached.append(other)
        return []

    def _go(self, way: Way, amount: int) -> None:
        """So many come to each place of the way, from the next one; negative: back again."""
        for (place, kind), (after, _) in pairwise(way):
            self.on[place][kind] += amount
            self.on[after][kind] -= amount
        place, kind = way[-1]
        self.on[place][kind] += amount
        for row, use in self.uses[kind]:
            self.left[row] -= use * amount

    def _allowed(self, kind: int) -> int:
        return min((self.left[row] // amount for row, amount in self.uses[kind]), default=0)

    def named(self) -> Plan:
        """What has been taken, with kinds in place of classes."""
        left = [Counter(kinds) for kinds in self.on]
        found: Plan = Counter()
        for (shape, pattern), times in sorted(self.plan.items()):
            for _ in range(times):
                node: Counter[int] = Counter()
                for one, count in pattern:
                    rest = count
                    for kind in self.seen.classes[one]:
                        take = min(rest, left[shape][kind])
                        left[shape][kind] -= take
                        node[kind] += take
                        rest -= take
                found[shape, tuple(sorted((+node).items()))] += 1
        return found
