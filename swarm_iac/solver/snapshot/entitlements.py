"""What is each team due of the GPUs, by priority, and how much of a placement is within that?

    within_d(p) = Σ_{t at depth d} min(held_t(p), due_t(p))       held_t(p): GPUs of t of the priority p and above

What may be called back is called back for what somebody is due: so with `solve.reclaim` a team around others holds there
Σ min(held_l(p), top_l(p)) of the innermost teams l inside it, with top_l(p) = max(due_l(p), what of l ran).

All amounts are thousandths of GPUs; where the stack says what models are worth, times `weights.one`, and a GPU on a node
counts `weights.of(node)` of them: held_t(p) = Σ weight_n · GPUs on n. With `solve.share_by: dominant_resource` a replica counts
no less than `dominant` of its workload, on any node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swarm_iac.model.gpus.worth import Weights

if TYPE_CHECKING:
    from swarm_iac.solver.snapshot.snapshot import WorkloadRequest


def count_of(request: WorkloadRequest, weight: int, dominant: int) -> int:
    """What one replica counts where a GPU weighs so much, and by what it takes the largest part of."""
    return max(request.gpus * request.share * weight, dominant)


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
    #: By workload, what a replica counts by what it takes the largest part of, GPUs aside; empty: GPUs alone count.
    dominant: Mapping[str, int] = field(default_factory=dict)
    #: By priority, of each innermost team inside another one, what counts for those around it at most; empty: all of it.
    tops: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

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

    def counts(self, request: WorkloadRequest, node: str) -> int:
        """What one replica counts on a node; on one that is not known, the most."""
        return count_of(request, self.weights.of(node), self.dominant.get(request.name, 0))

    def least(self, request: WorkloadRequest, nodes: Iterable[str]) -> int:
        """The least that one counts on any of the nodes; on none of them, on any."""
        return count_of(request, self.weights.lowest(nodes), self.dominant.get(request.name, 0))

    def shared(self, request: WorkloadRequest) -> bool:
        """Does it count at all?"""
        return bool(request.gpus) or request.name in self.dominant

    def held(self, requests: Mapping[str, WorkloadRequest], amounts: Mapping[str, int], priority: int) -> Counter[str]:
        """What each team holds of the priority and above. `amounts`: what all replicas of each workload count."""
        found: Counter[str] = Counter()
        for name, amount in amounts.items():
            if amount and requests[name].priority >= priority:
                for team in self.lines.get(requests[name].user, ()):
                    found[team] += amount
        return found

    def within(self, held: Mapping[str, int], priority: int) -> tuple[int, ...]:
        """How much of that is due, at each depth."""
        due, counts = self.due[priority], self.for_others(held, priority)
        return tuple(sum(min(counts.get(team, 0), due[team]) for team in self.at(depth)) for depth in range(self.depth))

    def for_others(self, held: Mapping[str, int], priority: int) -> Mapping[str, int]:
        """The same amounts by team, and of teams around others no more than counts for them."""
        tops = self.tops.get(priority)
        if not tops:
            return held
        found = {team: amount for team, amount in held.items() if team not in self.around}
        for line in {line for line in self.lines.values() if len(line) > 1}:
            for team in line[:-1]:
                found[team] = found.get(team, 0) + min(held.get(line[-1], 0), tops[line[-1]])
        return found

    def lends(self, held: Mapping[str, int], priority: int, lender: str, borrower: str, size: int) -> bool:
        """Is the user `lender` of a team with less than its due, and `borrower`, of the same priority, of one with more?

        `size`: what the borrower would lose; his team keeps what it is due. The teams compared are inside the same one.
        """
        for one, other in zip(self.lines.get(lender, ()), self.lines.get(borrower, ()), strict=False):
            if one != other:
                due = self.due[priority]
                return held.get(one, 0) < due[one] and held.get(other, 0) - size >= due[other]
        return False
