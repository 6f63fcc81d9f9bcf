"""What would a node of one shape best carry at given prices? A knapsack in CP-SAT, solved again and again.

    max  Σ_k gain_k · x_k + Σ_k bonus_k · kept_k             gain_k = value_k − price_k,  kept_k ≤ min(x_k, stood_k)
         Σ_k need_k · x_k ≤ capacity                         every resource
         Σ_{k whole} cards_k · x_k + cards that shares fill ≤ cards     (arc flow, see `cards`)

Kinds that are dominated at these prices are left out: another of the same share gains as much and needs no more of
anything, and a node cannot hold more of it than there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.cpsat import cp_model, known_bound, one_worker, remember, remembered, run, solved, spent
from swarm_iac.solver.columns.beam_search import Beam
from swarm_iac.solver.columns.problem import Kind, Pattern, Problem
from swarm_iac.solver.packing.shared_gpus import flow

#: Objective units for one unit of worth: gains are rounded up to these, so the bound holds.
FINE = 64
#: With fewer kinds nothing is left out beforehand.
MANY = 20
#: Patterns that one search reports besides its best.
POOL = 10
#: Deterministic time of one pricing problem.
EFFORT = 0.3


@dataclass(frozen=True, slots=True)
class Priced:
    """The best pattern found at some prices, and a bound on what any pattern is worth at them. `others` gain much, too."""

    pattern: Pattern
    bound: float
    spent: float = 0.0  # deterministic time
    others: tuple[Pattern, ...] = ()


class Pricer:
    """The knapsack of one shape."""

    def __init__(self, problem: Problem, shape: int) -> None:
        self.problem = problem
        self.shape = problem.shapes[shape]
        self.tops = {kind: top for kind in self.shape.fits if (top := self._top(kind)) > 0}
        self.keeps = {keep.kind: keep for keep in self.shape.keeps if keep.kind in self.tops}

    @cached_property
    def beam(self) -> Beam:
        """Beam searches on its nodes."""
        return Beam(self.problem, self.shape, self.tops)

    def _top(self, index: int) -> int:
        kind, shape = self.problem.kinds[index], self.shape
        top = min(self._most(index), dict(shape.tops).get(index, kind.count), kind.count)
        for need, capacity in zip(kind.need, shape.capacity, strict=True):
            if need:
                top = min(top, capacity // need)
        return top

    def _most(self, index: int) -> int:
        """How many one node could hold, by its cards."""
        kind = self.problem.kinds[index]
        fit = self._by_cards(kind) if kind.cards else kind.count
        return min(fit, kind.most) if kind.most else fit

    def _by_cards(self, kind: Kind) -> int:
        if kind.share == WHOLE:
            return self.shape.cards // kind.cards
        return self.shape.cards * (WHOLE // kind.share) // kind.cards  # several: MIG instances, as parts of GPUs

    def best(self, prices: Sequence[float], near: float = 0.0) -> Priced:
        """The best pattern at these prices of kinds; one that gains less than the bound by `near` is as good."""
        kinds = self.problem.kinds
        gains = {k: math.ceil((kinds[k].value - prices[k]) * FINE) for k in self.tops}
        used = self._undominated(gains)
        if not used:
            return Priced((), 0.0)
        least, first = 0, Priced((), 0.0)
        if len(used) >= MANY and not self.keeps and len(self.beam.kinds) == len(self.tops):
            found = self.beam.best(prices)
            gain, pattern = found.patterns[0]
            first = Priced(pattern, found.bound, others=tuple(pattern for _, pattern in found.patterns))
            if found.bound - gain < max(near, 1 / FINE):
                return first
            # No pattern with any of the others gains more. Dominance comes after: it is by kinds that are not left out.
            able = {k: one for k, one in gains.items() if found.bound - found.losses[k] >= gain - 1e-9 * found.bound}
            used = self._undominated(able)
            least = math.floor(gain * FINE)
        model = cp_model.CpModel()
        x = {k: model.new_int_var(0, self.tops[k], "") for k in used}
        terms = [(x[k], gains[k]) for k in used]
        for k, keep in self.keeps.items():
            kept = model.new_int_var(0, min(keep.count, self.tops[k]), "")
            model.add(kept <= x[k])
            terms.append((kept, keep.bonus * FINE))
        self._limit(model, x)
        total = cp_model.LinearExpr.weighted_sum([v for v, _ in terms], [c for _, c in terms])
        if least:
            model.add(total >= least)
        model.maximize(total)
        solver = one_worker(EFFORT)
        solver.parameters.linearization_level = 2
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.symmetry_level = 0
        remember(solver, POOL)
        status = run(solver, model)
        most = known_bound(solver, status)
        bound = self.loose(prices).bound * FINE if most is None else most
        if not solved(status):
            return replace(first, bound=bound / FINE, spent=EFFORT)
        best, *others = [
            tuple((k, count) for k in sorted(used) if (count := values[x[k].index])) for values in remembered(solver)
        ]
        return Priced(best, bound / FINE, spent(solver), (*others, *first.others))

    def loose(self, prices: Sequence[float]) -> Priced:
        """No pattern, and a bound that takes each resource for as divisible as it is: for when there is no time."""
        kinds = self.problem.kinds
        gains: list[tuple[float, int, int]] = []
        for k, top in self.tops.items():
            gain, kept = kinds[k].value - prices[k], 0
            if k in self.keeps:
                kept = min(self.keeps[k].count, top)
                gains.append((max(0.0, gain + self.keeps[k].bonus), k, kept))
            gains.append((max(0.0, gain), k, top - kept))
        best = math.inf
        for i, capacity in enumerate((self.shape.cards * WHOLE, *self.shape.capacity)):
            needs = [kinds[k].cards * kinds[k].share if not i else kinds[k].need[i - 1] for _, k, _ in gains]
            total, left = 0.0, float(capacity)
            for need, (gain, _, top) in sorted(zip(needs, gains, strict=True), key=lambda one: one[0] / max(one[1][0], 1e-9)):
                take = min(top, left / need) if need else top  # who needs nothing of it comes first, however little is left
                total += take * gain
                left -= take * need
            best = min(best, total)
        return Priced((), best)

    def _undominated(self, gains: dict[int, int]) -> list[int]:
        """Kinds that some best pattern may need; kinds that are placed there always count as needed."""
        kinds = self.problem.kinds
        groups: dict[tuple[int, int], list[int]] = {}
        for k, gain in gains.items():
            if gain > 0 or k in self.keeps:
                groups.setdefault((kinds[k].cards, kinds[k].share), []).append(k)
        used: list[int] = []
        for alike in groups.values():
            alike.sort(key=lambda k: (-gains[k], kinds[k].need, k))
            chosen: list[int] = []
            for k in alike:
                leaner = self.problem.leaner[k]
                better = sum(self.tops[j] for j in chosen if leaner[j])
                if k in self.keeps or not kinds[k].cards or better < self._by_cards(kinds[k]):
                    chosen.append(k)
            used += chosen
        return sorted(used)

    def _limit(self, model: cp_model.CpModel, x: dict[int, cp_model.IntVar]) -> None:
        kinds, shape = self.problem.kinds, self.shape
        for i, capacity in enumerate(shape.capacity):
            needs = [kinds[k].need[i] for k in x]
            if sum(need * self.tops[k] for k, need in zip(x, needs, strict=True)) > capacity:
                model.add(cp_model.LinearExpr.weighted_sum(list(x.values()), needs) <= capacity)
        whole = [(var, kinds[k].cards) for k, var in x.items() if kinds[k].cards and kinds[k].share == WHOLE]
        used = cp_model.LinearExpr.weighted_sum([v for v, _ in whole], [c for _, c in whole])
        shared = [k for k in x if kinds[k].cards and kinds[k].share < WHOLE]
        arcs = flow(model, [kinds[k].share for k in shared], {0: shape.cards})
        for share in {kinds[k].share for k in shared}:
            placed = sum(arc for (size, _), arc in arcs.items() if size == share)
            model.add(sum(x[k] * kinds[k].cards for k in shared if kinds[k].share == share) <= placed)
        model.add(used + sum(arc for (_, height), arc in arcs.items() if not height) <= shape.cards)
