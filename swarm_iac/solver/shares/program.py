"""Which replicas could be there at once, if they could be divided? A linear program from teams to the resources of pools.

    max Σ_T z_T      z_T = Σ_{k of T, p} counts_k,p · y[k,p] ≤ asked_T

    Σ_p y[k,p] ≤ replicas_k                     z_l ≥ floor_l            of each innermost team l
    Σ_k need_k,r · y[k,p] ≤ capacity_p,r        Σ_k usage_k,r · y[k,p] ≤ limit_s,r      of users, teams and the cluster

The prices of the rows z_T ≤ asked_T make a cut (LP duality): with π_T = 1 − price_T, Σ_T π_T · z_T is at most the optimum less
Σ_T price_T · asked_T, whatever is asked. Amounts are GPUs here, within a millionth of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.linear import Linear, Optimum
from swarm_iac.solver.shares.network import ENDLESS, Cut

#: What a linear program says that is less than this is nothing.
TINY = 1e-7


@dataclass(frozen=True)
class Demand:
    """Of one user, what suits the same pools and takes the same."""

    user: str
    line: tuple[str, ...]  # the teams around him, outermost first
    counts: tuple[tuple[str, int], ...]  # pools that suit it, and what a replica counts there
    needs: tuple[tuple[int, int], ...]  # place in NODE, and how much; thousandths of GPUs
    uses: tuple[tuple[int, int], ...]  # place in COUNTED, and how much
    scopes: tuple[str, ...]  # whose limits count it


@dataclass(frozen=True)
class Capacities:
    """Of each pool by place in NODE, and limits by scope and place in COUNTED. `one`: so many amounts are one GPU."""

    pools: Mapping[str, Mapping[int, int]]
    limits: Mapping[tuple[str, int], int]
    one: int


class SharesProgram:
    """The replicas of some teams. `floors`: of each innermost team what it has in any case."""

    def __init__(self, demands: Mapping[Demand, int], capacities: Capacities, floors: Mapping[str, int]) -> None:
        lines = {one.line for one in demands}
        self.one, self.slack = capacities.one, Fraction(1, 100)
        self.floors = {line[-1]: floors.get(line[-1], 0) for line in lines}
        self.inside: Counter[str] = Counter()
        for line in lines:
            self.inside.update({team: self.floors[line[-1]] for team in line})
        self.lines, self.lp = lines, Linear("shares", maximize=True)
        self.rows = {team: self.lp.row() for team in dict.fromkeys(team for line in sorted(lines) for team in line)}
        least = {team: self.lp.row(least=float(floor - self.slack) / self.one) for team, floor in self.floors.items() if floor}
        self.resources: dict[int, tuple[str, int]] = {}
        of_pool: dict[tuple[str, int], int] = {}
        of_scope = {key: self.lp.row(most=1.0 if limit else 0.0) for key, limit in capacities.limits.items()}
        for demand, replicas in demands.items():
            asks = self.lp.row(most=float(replicas))
            for pool, counts in demand.counts:
                row = {asks: 1.0} | {self.rows[team]: counts / self.one for team in demand.line}
                if demand.line[-1] in least:
                    row[least[demand.line[-1]]] = counts / self.one
                for place, need in demand.needs:
                    if (most := max(0, capacities.pools[pool][place])) < ENDLESS:
                        if (pool, place) not in of_pool:
                            of_pool[pool, place] = self.lp.row(most=1.0 if most else 0.0)
                            self.resources[of_pool[pool, place]] = pool, place
                        row[of_pool[pool, place]] = need / max(1, most)
                for place, use in demand.uses:
                    for scope in demand.scopes:
                        if (scope, place) in of_scope:
                            row[of_scope[scope, place]] = use / max(1, capacities.limits[scope, place])
                self.lp.variable(counts / self.one, row)

    def floor(self, team: str) -> int:
        """The floors of all teams inside the team, together."""
        return self.inside[team]

    def cut(self, asked: Mapping[str, Fraction]) -> Cut:
        """The most that can be had where each team has at most what it `asked`; of teams of whom none asked, their floors."""
        for team, row in self.rows.items():
            self.lp.limit(row, most=float(asked[team]) / self.one if team in asked else float("inf"))
        for line in self.lines:
            if not any(team in asked for team in line):
                self.lp.limit(self.rows[line[-1]], most=self.floors[line[-1]] / self.one)
        found = self.lp.solve()
        if found is None:
            # Each engine that failed is in the proof. Then nobody is held back: a goal that is too high, and no broken rule.
            return Cut(sum(asked.values(), Fraction(0)), {}, Fraction(0), frozenset())
        prices = {team: min(1.0, max(0.0, found.prices[self.rows[team]])) for team in asked if team in self.rows}
        weights = {team: Fraction(1 - price) for team, price in prices.items() if price < 1 - TINY}
        most = found.value - sum(price * float(asked[team]) / self.one for team, price in prices.items())
        return Cut(_exact(found.value, self.one), weights, _exact(most, self.one), self._full(found))

    def _full(self, found: Optimum) -> frozenset[str]:
        """The pools and resources that hold back who asked for more."""
        return frozenset(f"{place} {pool}" for row, (pool, place) in self.resources.items() if found.prices[row] > TINY)


def _exact(gpus: float, one: int) -> Fraction:
    return Fraction(round(gpus * one * WHOLE), WHOLE)
