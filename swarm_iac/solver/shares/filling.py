"""How much is each of some teams due? Water is filled in to the same height per share until nothing rises any more.

    due_t = min(top_t, max(floor_t, λ_t · share_t)),   with λ_t = λ for all that nothing else holds back

weighted max-min fairness by progressive filling (Bertsekas and Gallager, *Data Networks*, 1992, 6.5.2), over all vectors that
a flow can carry (`network`). λ only ever falls to what the tightest cut allows (Newton's method on the cut, which is exact),
so the result is a fraction and no approximation. Then it is rounded to whole units: down, and what is left over goes one by
one to the largest remainders; among equal ones, to the first in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from swarm_iac.solver.shares.network import FlowNetwork


@dataclass(frozen=True)
class Claim:
    """One team among others. Amounts are thousandths of GPUs."""

    team: str
    share: int  # its weight; 0: it gets its floor
    floor: int
    wants: int


@dataclass(frozen=True)
class Round:
    """Teams that stop rising together. `height`: what each share has; None: all have what they want."""

    height: Fraction | None
    teams: tuple[str, ...]
    most: int  # what they have together
    pools: frozenset[str]  # of the GPUs that hold them back; empty where it is what is there for all


@dataclass(frozen=True)
class Divided:
    """What each team is due, in whole units and exactly, and in which rounds that came about."""

    due: dict[str, int]
    exact: dict[str, Fraction]
    rounds: tuple[Round, ...]
    claims: tuple[Claim, ...]


class Filling:
    """Fills for teams beside others that have what they are due."""

    def __init__(self, network: FlowNetwork, unit: int) -> None:
        self.network, self.unit = network, unit

    def fill(self, claims: Sequence[Claim], beside: dict[str, int], total: int | None) -> Divided:
        """What is `claims`' together is at most `total`; the teams `beside` keep what they are due."""
        tops = {one.team: self._alone(one, beside) for one in claims}
        rising = {one.team: one for one in claims}
        exact: dict[str, Fraction] = {}
        rounds: list[Round] = []
        while rising:
            bound = None if total is None else Fraction(total) - sum(exact.values())
            height, tight, pools = self._height(rising, tops, exact, beside, bound)
            values = {team: _at(height, rising[team], tops[team]) for team in tight}
            rounds.append(Round(height, tight, int(sum(values.values())), pools))
            exact |= values
            for team in tight:
                del rising[team]
        due = self._rounded(claims, exact, beside)
        return Divided(due, exact, tuple(rounds), tuple(claims))

    def _alone(self, one: Claim, beside: dict[str, int]) -> int:
        """The most that it could have if those that fill with it had nothing."""
        asked = beside | {one.team: max(one.wants, one.floor)}
        others = sum(self.network.floors.values()) - sum(map(self.network.floor, asked))
        return max(one.floor, self.network.flow(asked).carried - sum(beside.values()) - others)

    def _height(
        self,
        rising: dict[str, Claim],
        tops: dict[str, int],
        exact: dict[str, Fraction],
        beside: dict[str, int],
        bound: Fraction | None,
    ) -> tuple[Fraction | None, tuple[str, ...], frozenset[str]]:
        """How high all can rise until the first of them stop, who that is, and the GPUs that hold them back."""
        tight, pools = tuple(rising), frozenset[str]()
        height = None if bound is None else level([(rising[team], tops[team]) for team in tight], bound)
        while True:
            values = {team: _at(height, one, tops[team]) for team, one in rising.items()}
            values |= exact | {team: Fraction(due) for team, due in beside.items()}
            scale = _denominator(values)
            asked = {team: int(value * scale) for team, value in values.items()}
            cut = self.network.flow(asked, scale)
            if cut.carried >= sum(asked.values()):
                return height, tight, pools
            tight = tuple(team for team in rising if team in cut.short)
            rest = sum((values[team] for team in cut.short if team not in rising), Fraction(0))
            found = level([(rising[team], tops[team]) for team in tight], Fraction(cut.most, scale) - rest)
            assert found is not None and (height is None or found < height), "a tighter cut lowers the height"
            height, pools = found, cut.pools

    def _rounded(self, claims: Sequence[Claim], exact: dict[str, Fraction], beside: dict[str, int]) -> dict[str, int]:
        due = {team: int(value // self.unit) * self.unit for team, value in exact.items()}
        due |= {one.team: max(due[one.team], one.floor) for one in claims}
        left = int(sum(exact.values()) // self.unit) * self.unit - sum(due.values())
        order = sorted(
            (one for one in claims if due[one.team] < exact[one.team]), key=lambda one: due[one.team] - exact[one.team]
        )
        for one in order:
            more = min(self.unit, one.wants - due[one.team])
            asked = beside | due | {one.team: due[one.team] + more}
            if 0 < more <= left and self.network.flow(asked).carried >= sum(asked.values()):
                due[one.team] += more
                left -= more
        return due


def _at(height: Fraction | None, one: Claim, top: int) -> Fraction:
    return Fraction(top) if height is None else min(Fraction(top), max(Fraction(one.floor), height * one.share))


def _denominator(values: dict[str, Fraction]) -> int:
    scale = 1
    for value in values.values():
        scale = (value * scale).denominator * scale
    return scale


def level(claims: Sequence[tuple[Claim, int]], most: Fraction) -> Fraction | None:
    """The largest λ with Σ min(top, max(floor, λ · share)) ≤ most; None where the tops fit in."""
    if sum(top for _, top in claims) <= most:
        return None
    stops = sorted({Fraction(each, one.share) for one, top in claims if one.share for each in (one.floor, top)} | {Fraction(0)})

    def filled(height: Fraction) -> Fraction:
        return sum((_at(height, one, top) for one, top in claims), Fraction(0))

    below = max((height for height in stops if filled(height) <= most), default=Fraction(0))
    grows = sum(one.share for one, top in claims if one.floor <= below * one.share < top)
    return below + (most - filled(below)) / grows if grows else below
