"""Which patterns of a node gain much at some prices, within milliseconds? A beam search, led by Lagrangian multipliers.

With multipliers μ ≥ 0 for all but the cards, a replica of kind k is worth  r_k = gain_k − Σ_i μ_i · need_ki,  and what
cards hold at most at these worths is a dynamic program:

    f(l) = max(f(l − 1), max_{s ≤ l} r_s + f(l − s))                  one card with l left, shares s
    G(c) = max(G(c − 1) + f(whole), max_{m ≤ c} r_m + G(c − m))       c whole cards, replicas with m of them

where r_s and r_m are the best of all kinds of that share or number. A node gains at most G(cards) + Σ_i μ_i · capacity_i,
and the multipliers are those that bring this down (coordinate by coordinate; those of the last call are the next one's
first). The search fills a node replica by replica and goes on with the BEAM fillings that could still gain most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.columns.problem import Pattern, Problem, Shape

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Fillings that are gone on with.
BEAM = 32
#: Fillings that are reported.
MANY = 10
#: Replicas of one filling.
DEEP = 40
#: Halvings of the step by which multipliers change, and the first step, as a part of the bound.
HALVINGS, STEP = 3, 1 / 40


@dataclass(frozen=True, slots=True)
class Promising:
    """Patterns with what they gain, the best first; a bound on what any gains, and how much lower it is with each kind."""

    patterns: list[tuple[float, Pattern]]
    bound: float
    losses: dict[int, float]


@dataclass(frozen=True, slots=True)
class _Lead:
    """Worths at some multipliers, and what cards hold at most at them."""

    bound: float
    worths: Floats
    open_card: Floats  # by what is left of it
    whole_cards: Floats  # by their number


class Beam:
    """Beam searches on nodes of one shape."""

    def __init__(self, problem: Problem, shape: Shape, tops: Mapping[int, int]) -> None:
        """`tops`: how many of each kind a node carries at most. What a kind gains by staying is left out."""
        kinds = problem.kinds
        self.kinds = [k for k in tops if kinds[k].cards < 2 or kinds[k].share == WHOLE]
        self.tops = np.array([tops[k] for k in self.kinds], dtype=np.int64)
        self.values = np.array([kinds[k].value for k in self.kinds], dtype=np.float64)
        self.cards = np.array([kinds[k].cards for k in self.kinds], dtype=np.int64)
        shares = np.array([kinds[k].share if kinds[k].cards else 0 for k in self.kinds], dtype=np.int64)
        self.needs = np.array([kinds[k].need for k in self.kinds], dtype=np.int64).reshape(len(self.kinds), len(shape.capacity))
        self.capacity = np.array(shape.capacity, dtype=np.int64)
        self.parts = (self.cards == 1) & (shares < WHOLE)
        self.whole = (self.cards > 0) & (shares == WHOLE)
        self.sizes = np.unique(shares[self.parts])
        unit = int(np.gcd.reduce(np.append(self.sizes, WHOLE)))
        self.card, self.count = WHOLE // unit, shape.cards
        self.shares, self.sizes = shares // unit, self.sizes // unit
        self.numbers = np.unique(self.cards[self.whole])
        groups = [np.flatnonzero(self.parts & (self.shares == size)) for size in self.sizes]
        groups += [np.flatnonzero(self.whole & (self.cards == number)) for number in self.numbers]
        self.grouped = np.concatenate(groups) if groups else np.zeros(0, dtype=np.int64)
        self.starts = np.cumsum([0, *(len(group) for group in groups[:-1])]) if groups else np.zeros(0, dtype=np.int64)
        self.needed = self.needs / np.maximum(self.capacity, 1)  # as parts of the capacity
        self.multipliers = np.zeros(self.needed.shape[1])
        #: What was left of a card before each share that fits into so much of it.
        self.before = [left - self.sizes[self.sizes <= left] for left in range(self.card + 1)]
        self.hashes = np.random.default_rng(7).integers(1, 2**63, len(self.kinds), dtype=np.uint64)

    def best(self, prices: Sequence[float]) -> Promising:
        """Patterns that gain much at these prices of kinds, and a bound on what any of these kinds gain together."""
        if not self.kinds:
            return Promising([(0.0, ())], 0.0, {})
        gains = self.values - np.array([prices[k] for k in self.kinds])
        lead = self._led(gains)
        return Promising(self._search(gains, lead), lead.bound, self._losses(lead))

    def _losses(self, lead: _Lead) -> dict[int, float]:
        """How much lower the bound is with a replica of each kind: the rest of its card, or other cards, hold the others."""
        rest = np.full(len(self.kinds), lead.whole_cards[-1])
        if self.parts.any():
            rest[self.parts] = lead.open_card[self.card - self.shares[self.parts]] + lead.whole_cards[-2]
        rest[self.whole] = lead.whole_cards[self.count - self.cards[self.whole]]
        worths = np.where(self.cards > 0, lead.worths, np.minimum(lead.worths, 0.0))
        return dict(zip(self.kinds, (lead.whole_cards[-1] - worths - rest).tolist(), strict=True))

    def _led(self, gains: Floats) -> _Lead:
        """At multipliers that a pattern search has found, starting from those of the last call."""
        number = len(self.multipliers)
        ways = np.concatenate([np.eye(number), -np.eye(number)])
        (best,), step = self._leads(gains, self.multipliers[None, :]), 0.0
        for _ in range(HALVINGS):
            step = step / 2 or best.bound * STEP
            tried = np.maximum(0.0, self.multipliers + step * ways)
            found = self._leads(gains, tried)
            place = min(range(len(found)), key=lambda i: found[i].bound, default=0)
            if found and found[place].bound < best.bound - 1e-9:
                best, self.multipliers = found[place], tried[place]
        return best

    def _leads(self, gains: Floats, multipliers: Floats) -> list[_Lead]:
        """One for each row of multipliers."""
        many = len(multipliers)
        worths = gains - multipliers @ self.needed.T
        best = np.zeros((many, 0))
        if len(self.grouped):
            best = np.maximum(np.maximum.reduceat(worths[:, self.grouped], self.starts, axis=1), 0.0)
        open_card, parts = np.zeros((self.card + 1, many)), np.ascontiguousarray(best[:, : len(self.sizes)].T)
        for left, before in enumerate(self.before):
            if left:
                held = open_card[left - 1]
                if len(before):
                    held = np.maximum(held, np.maximum.reduce(open_card[before] + parts[: len(before)]))
                open_card[left] = held
        cards = np.zeros((many, self.count + 1))
        for number in range(1, self.count + 1):
            cards[:, number] = cards[:, number - 1] + open_card[-1]
            for i, size in enumerate(self.numbers, len(self.sizes)):
                if size <= number:
                    np.maximum(cards[:, number], cards[:, number - size] + best[:, i], out=cards[:, number])
        without = (self.tops * np.maximum(worths, 0.0))[:, self.cards == 0].sum(axis=1)
        bounds = cards[:, -1] + multipliers.sum(axis=1) + without
        return [_Lead(float(bounds[i]), worths[i], open_card[:, i], cards[i]) for i in range(many)]

    def _search(self, gains: Floats, lead: _Lead) -> list[tuple[float, Pattern]]:
        of = np.flatnonzero(gains > 0)
        needs, cards, shares, tops = self.needs[of], self.cards[of], self.shares[of], self.tops[of]
        known, whole, parts, worths, hashes = gains[of], self.whole[of], self.parts[of], lead.worths[of], self.hashes[of]
        size = np.searchsorted(self.sizes, np.where(parts, shares, 0))
        size = np.minimum(size, max(0, len(self.sizes) - 1))
        sizes = self.sizes if len(self.sizes) else np.ones(1, dtype=np.int64)
        free = self.capacity[None, :]
        left = np.full((1, max(1, self.count)), self.card if self.count else 0, dtype=np.int64)
        counts = np.zeros((1, len(of)), dtype=np.int64)
        worth, hashed = np.zeros(1), np.zeros(1, dtype=np.uint64)
        ends: list[tuple[float, Ints]] = []
        for _ in range(DEEP):
            empty = (left == self.card).sum(axis=1)
            # The card that is fullest and still has capacity for a share takes it.
            chosen = np.where(left[:, :, None] >= sizes, left[:, :, None], self.card + 1).min(axis=1)[:, size]
            fits = (counts < tops) & (free[:, None, :] >= needs).all(axis=2)
            fits &= np.where(whole, empty[:, None] >= cards, np.where(parts, chosen <= self.card, True))
            ends += [(float(counts[end] @ known), counts[end]) for end in np.flatnonzero(~fits.any(axis=1))]
            state, item = np.nonzero(fits)
            if not len(state):
                break
            opened = np.where(left < self.card, lead.open_card[left], 0.0).sum(axis=1)
            card = np.minimum(chosen[state, item], self.card)
            begun = parts[item] & (card == self.card)
            now = lead.open_card[np.maximum(card - shares[item], 0)] - np.where(begun, 0.0, lead.open_card[card])
            rest = empty[state] - np.where(whole[item], cards[item], 0) - begun
            score = worth[state] + worths[item] + lead.whole_cards[rest] + opened[state] + np.where(parts[item], now, 0.0)
            kept = _first(score, hashed[state] + hashes[item])
            state, item = state[kept], item[kept]
            worth, hashed = worth[state] + worths[item], hashed[state] + hashes[item]
            free = free[state] - needs[item]
            counts = counts[state]
            counts[np.arange(len(state)), item] += 1
            chosen_card = chosen[state, item]
            left = left[state]
            taken = (left == self.card) & whole[item][:, None]
            left[taken & (taken.cumsum(axis=1) <= cards[item][:, None])] = 0
            shared = np.flatnonzero(parts[item])
            left[shared, (left[shared] == chosen_card[shared][:, None]).argmax(axis=1)] -= shares[item][shared]
        else:  # what is as deep as that may hold more
            ends += [(float(one @ known), one) for one in counts]
        ends.sort(key=lambda one: -one[0])
        found: dict[Pattern, float] = {}
        for gain, placed in ends[: 2 * MANY]:
            held = np.flatnonzero(placed)
            found.setdefault(tuple(sorted(zip(of[held].tolist(), placed[held].tolist(), strict=True))), gain)
        named = [(gain, tuple((self.kinds[i], n) for i, n in pattern)) for pattern, gain in found.items()]
        return named[:MANY]


def _first(scores: Floats, hashes: npt.NDArray[np.uint64]) -> Ints:
    """The places of the BEAM best scores, of those with the same replicas one."""
    few = np.arange(len(scores))
    if len(scores) > 4 * BEAM:
        few = np.sort(np.argpartition(-scores, 4 * BEAM)[: 4 * BEAM])
    order = few[np.argsort(-scores[few], kind="stable")]
    _, once = np.unique(hashes[order], return_index=True)
    best: Ints = order[np.sort(once)][:BEAM]
    return best
