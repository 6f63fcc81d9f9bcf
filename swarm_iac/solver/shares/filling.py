"""How much is each of some teams due? Water is filled in to the same height per share until nothing rises any more.

    due_t = min(top_t, max(floor_t, λ_t · share_t)),   with λ_t = λ for all that nothing else holds back

weighted max-min fairness by progressive filling (Bertsekas and Gallager, *Data Networks*, 1992, 6.5.2), over all vectors that
a flow can carry (`network`), or that a linear program allows (`program`). λ only ever falls to what the tightest cut allows
(Newton's method on the cut, which is exact), so of a flow the result is a fraction and no approximation; a linear program
knows it within a thousandth of a thousandth of a GPU. Then it is rounded to whole units: down, and what is left over goes
one by one to the largest remainders; among equal ones, to the first in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from swarm_iac.solver.shares.network import Cut


class Feasible(Protocol):
    """What teams can have together."""

    #: So much less than what is asked for is as good as all of it: 0 where the cuts are exact.
    slack: Fraction
    #: Of each innermost team what it has in any case.
    floors: dict[str, int]

    def floor(self, team: str) -> int:
        """The floors of all teams inside the team, together."""

    def cut(self, asked: Mapping[str, Fraction]) -> Cut:
        """The most that can be had where each team has at most what it `asked`."""


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

    def __init__(self, network: Feasible, unit: int) -> None:
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
            values = {team: self._known(_at(height, rising[team], tops[team])) for team in tight}
            rounds.append(Round(height, tight, int(sum(values.values())), pools))
            exact |= values
            for team in tight:
                del rising[team]
        due = self._rounded(claims, exact, beside)
        return Divided(due, exact, tuple(rounds), tuple(claims))

    def _alone(self, one: Claim, beside: dict[str, int]) -> int:
        """The most that it could have if those that fill with it had nothing."""
        asked = _fractions(beside | {one.team: max(one.wants, one.floor)})
        others = sum(self.network.floors.values()) - sum(map(self.network.floor, asked))
        return max(one.floor, int(self.network.cut(asked).carried) - sum(beside.values()) - others)

    def _known(self, value: Fraction) -> Fraction:
        """As exactly as it is known."""
        return Fraction(int(value / self.network.slack * 10)) * self.network.slack / 10 if self.network.slack else value

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
        height = None if bound is None else level([(rising[team], tops[team], Fraction(1)) for team in tight], bound)
        while True:
            values = {team: _at(height, one, tops[team]) for team, one in rising.items()}
            values |= exact | _fractions(beside)
            cut = self.network.cut(values)
            if cut.carried >= sum(values.values()) - self.network.slack:
                return height, tight, pools
            held = tuple(team for team in rising if team in cut.weights)
            rest = sum((weight * values[team] for team, weight in cut.weights.items() if team not in rising), Fraction(0))
            found = level([(rising[team], tops[team], cut.weights[team]) for team in held], cut.most - rest)
            if found is None or (height is not None and found >= height):
                assert self.network.slack, "a tighter cut lowers the height"
                return height, tight, pools  # what is missing is a matter of rounding
            height, tight, pools = found, held, cut.pools

    def _rounded(self, claims: Sequence[Claim], exact: dict[str, Fraction], beside: dict[str, int]) -> dict[str, int]:
        due = {team: int(value // self.unit) * self.unit for team, value in exact.items()}
        due |= {one.team: max(due[one.team], one.floor) for one in claims}
        left = 0 if self.network.slack else int(sum(exact.values()) // self.unit) * self.unit - sum(due.values())
        order = sorted(
            (one for one in claims if due[one.team] < exact[one.team]), key=lambda one: due[one.team] - exact[one.team]
        )
        for one in order:
            more = min(self.unit, one.wants - due[one.team])
            asked = _fractions(beside | due | {one.team: due[one.team] + more})
            if 0 < more <= left and self.network.cut(asked).carried >= sum(asked.values()):
                due[one.team] += more
                left -= more
        return due


def _at(height: Fraction | None, one: Claim, top: int) -> Fraction:
    return Fraction(top) if height is None else min(Fraction(top), max(Fraction(one.floor), height * one.share))


def _fractions(amounts: Mapping[str, int]) -> dict[str, Fraction]:
    return {team: Fraction(amount) for team, amount in amounts.items()}


def level(claims: Sequence[tuple[Claim, int, Fraction]], most: Fraction) -> Fraction | None:
    """The largest λ with Σ weight · min(top, max(floor, λ · share)) ≤ most; None where the tops fit in."""
    if sum(weight * top for _, top, weight in claims) <= most:
        return None
    stops = {Fraction(each, one.share) for one, top, _ in claims if one.share for each in (one.floor, top)} | {Fraction(0)}

    def filled(height: Fraction) -> Fraction:
        return sum((weight * _at(height, one, top) for one, top, weight in claims), Fraction(0))

    below = max((height for height in stops if filled(height) <= most), default=Fraction(0))
    grows = sum(weight * one.share for one, top, weight in claims if one.floor <= below * one.share < top)
    return below + (most - filled(below)) / grows if grows else below
