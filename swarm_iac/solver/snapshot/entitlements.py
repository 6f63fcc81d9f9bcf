"""What is each team due of the GPUs, by priority, and how much of a placement is within that?

    within_d(p) = Σ_{t at depth d} min(held_t(p), due_t(p))       held_t(p): GPUs of t of the priority p and above

All amounts are thousandths of GPUs; where the stack says what models are worth, times `weights.one`, and a GPU on a node
counts `weights.of(node)` of them: held_t(p) = Σ weight_n · GPUs on n.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm_iac.model.gpus.worth import Weights


@dataclass(frozen=True)
class Entitlements:
    """What is due to each team, with the teams inside it, of the priority and those above it together."""

    #: By user: the teams around him, outermost first; last what users of a team that has teams inside it hold themselves.
    lines: Mapping[str, tuple[str, ...]]
    due: Mapping[int, Mapping[str, int]]
    guarantees: Mapping[str, int]
    #: May what is lent be stopped for those that it belongs to?
    reclaim: bool
    weights: Weights = field(default_factory=lambda: Weights({}))

    @property
    def depth(self) -> int:
        """How many teams are one inside the other at most."""
        return max(map(len, self.lines.values()), default=0)

    @property
    def around(self) -> frozenset[str]:
        """The teams that have teams inside them."""
        return frozenset(team for line in self.lines.values() for team in line[:-1])

    def at(self, depth: int) -> tuple[str, ...]:
        """The teams that are inside so many others."""
        return tuple(dict.fromkeys(line[depth] for line in self.lines.values() if len(line) > depth))

    def divided(self, depth: int, priority: int) -> bool:
        """Are the teams inside so many others due no more together than the one around them?"""
        due, together = self.due[priority], Counter[str]()
        around = {line[depth]: line[depth - 1] for line in self.lines.values() if len(line) > depth}
        for team, outer in around.items():
            together[outer] += due[team]
        return all(amount <= due[outer] for outer, amount in together.items())

    def held(self, sizes: Mapping[str, tuple[str, int, int]], placed: Mapping[str, int], priority: int) -> Counter[str]:
        """What each team holds of the priority and above.

        `sizes`: user, priority, thousandths of GPUs of each workload; `placed`: its replicas, each as often as its node weighs.
        """
        found: Counter[str] = Counter()
        for name, (user, level, size) in sizes.items():
            if level >= priority and size:
                for team in self.lines.get(user, ()):
                    found[team] += size * placed.get(name, 0)
        return found

    def within(self, held: Mapping[str, int], priority: int) -> tuple[int, ...]:
        """How much of that is due, at each depth."""
        due = self.due[priority]
        return tuple(sum(min(held.get(team, 0), due[team]) for team in self.at(depth)) for depth in range(self.depth))

    def lends(self, held: Mapping[str, int], priority: int, lender: str, borrower: str, size: int) -> bool:
        """Is the user `lender` of a team with less than its due, and `borrower`, of the same priority, of one with more?

        `size`: what the borrower would lose; his team keeps what it is due. The teams compared are inside the same one.
        """
        for one, other in zip(self.lines.get(lender, ()), self.lines.get(borrower, ()), strict=False):
            if one != other:
                due = self.due[priority]
                return held.get(one, 0) < due[one] and held.get(other, 0) - size >= due[other]
        return False
