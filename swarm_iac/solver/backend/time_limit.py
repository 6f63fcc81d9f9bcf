"""How long may columns be looked for? Until somebody ends it, or so much deterministic time is used up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: Deterministic time that one pricing problem counts besides its solving, and one column of a linear program.
PRICED, COLUMN = 2e-3, 4e-6


def never() -> bool:
    """Nobody ends it."""
    return False


@dataclass
class TimeLimit:
    """True, when called, once the search is to end."""

    stop: Callable[[], bool] = never
    left: float = float("inf")
    #: Deterministic time of each kind in a pricing problem: where there are hundreds, writing it down is most of the work.
    kind: float = 0.0

    def __call__(self) -> bool:
        return self.left <= 0 or self.stop()

    def spend(self, effort: float) -> None:
        """So much of it is used up."""
        if self.left < float("inf"):
            self.left -= effort

    def affords(self, costs: Iterable[float]) -> int:
        """How many of them, one after the other, it has time for; the first in any case, and none once it is over."""
        if self():
            return 0
        total, count = 0.0, 0
        for cost in costs:
            total += cost
            if count and total > self.left:
                break
            count += 1
        return count

    def in_rounds(self, kinds: Iterable[int]) -> float:
        """What is left, in rounds of pricing problems with so many kinds each; any number where kinds count nothing."""
        cost = sum(PRICED + self.kind * count for count in kinds)
        return self.left / cost if self.kind and cost else float("inf")

    def part(self, share: float) -> TimeLimit:
        """A limit of its own, with a share of what is left."""
        return TimeLimit(self.stop, self.left * share, self.kind)
