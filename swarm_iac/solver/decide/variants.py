"""In which variant does each workload run?

Around the ordinary solve: the same stack with other variants chosen, each solved as any other, and compared. A stack in which
everything fits in its preferred variants is solved once.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from swarm_iac.model.placement import Placement
from swarm_iac.model.service import variants
from swarm_iac.model.service.needs import reached
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES, Replicas, Workload
from swarm_iac.solver.decide.keep_size import Kept, beside, keeping
from swarm_iac.solver.decide.solve import SCALE
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.conflict import capacity_of, conflict
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.snapshot.binding_limits import without_slack
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import classify
from swarm_iac.solver.solution import Solution

#: So many choices of variants are solved, by `solve.effort`.
TRIES = {"quick": 6, "normal": 16, "thorough": 64}
#: So many on a large fleet (`Scale.pairs`), where one solve takes seconds; one fewer in a change, for which somebody
#: waits, and where the lightest of all is hardly ever it.
FEW = {"quick": 2, "normal": 4, "thorough": 16}
#: Of so many choices the best is looked for in order; of more by raising one workload after the other.
ORDERED = 4096
#: Priorities, the highest first.
LEVELS = tuple(sorted(PRIORITIES, key=lambda one: -PRIORITIES[one]))

#: Of one priority: what is interrupted, GPUs and workloads without a place, what becomes lighter, worth lost, rank.
Level = tuple[int, Fraction, Fraction, int, int, int]
Score = tuple[Level, ...]
#: By workload, the number of its variant: 0 is preferred.
Choice = tuple[int, ...]


@dataclass(frozen=True)
class Tried:
    """A choice that was solved. `stack`: in effect. `solution`, `told`, `improved`: as of `Kept`."""

    choice: Choice
    score: tuple[Score, int]
    stack: Stack
    solution: Solution
    told: Callable[[int], Solution]
    improved: Callable[[int], Kept] | None = None


@dataclass
class VariantSearch:
    """The choices of one stack, and which were solved."""

    stack: Stack
    last: Placement
    today: datetime.date | None
    watch: Watch
    tried: dict[Choice, Tried] = field(default_factory=dict)

    def __post_init__(self) -> None:
        works = self.stack.workloads
        self.names = tuple(name for name, one in works.items() if one.variants)
        self.worth = {name: tuple(int(one.worth) for one in works[name].variants.values()) for name in self.names}
        self.forms = {name: tuple(works[name].variants) for name in self.names}
        recorded = variants.choice(self.stack, self.last)
        self.ran = {name: self.forms[name].index(recorded[name]) for name in self.names}
        now = variants.chosen(self.stack, recorded)
        self.running = snapshot_of(now, self.last, self.today)
        stays = classify(without_slack(self.running)).stay.values()
        self.stays = Counter(one.workload for one in stays)
        self.ended = {one.workload for one in self.last.allocations if one.ended}
        self.options = {name: self._options(name) for name in self.names}
        self.total = math.prod(len(each) for each in self.options.values())
        self.floor = self._sums({}, None)
        self.large = SCALE.large(self.running)
        self.tries = (FEW if self.large else TRIES)[self.stack.solve.effort] - (self.large and bool(self.stays))
        self.most = self.tries

    def _options(self, name: str) -> tuple[int, ...]:
        """The variants that may be chosen now: of what runs and may stay its own and lighter ones, of what ended its own.

        A more preferred one is taken by `raised`, which asks whether others are left alone.
        """
        if name in self.ended:
            return (self.ran[name],)
        return tuple(range(self.ran[name] if self.stays[name] else 0, len(self.forms[name])))

    def level(self, name: str) -> str:
        """The priority below which nobody makes it lighter."""
        one = self.stack.workloads[name]
        return min(one.lighter_for or one.priority, one.priority, key=lambda each: PRIORITIES[each])

    def at(self, choice: Choice) -> Stack:
        """The stack in these variants."""
        return variants.chosen(self.stack, {name: self.forms[name][i] for name, i in zip(self.names, choice, strict=True)})

    def solved(self, choice: Choice) -> Tried:
        """The choice, solved as any stack is."""
        if choice not in self.tried:
            kept = keeping(self.at(choice), self.last, today=self.today, watch=self.watch)
            now, found = kept.stack, kept.solution
            placed = Counter(one.workload for one in found.placement.allocations)
            waits = {one.workload for one in found.placement.growing}
            # What keeps its size in another variant than before would be a mixture of both.
            mixed = {name for name, i in zip(self.names, choice, strict=True) if name in waits and i != self.ran[name]}
            missing = {}
            for name, one in self.at(choice).workloads.items():
                part = Fraction(1) if name in mixed else self._lacking(name, one, placed[name], found.placement)
                missing[name] = (part * self._gpus(name), part)
                if name in waits - mixed:
                    missing[name] = (Fraction(_gpus(one) - _gpus(now.workloads[name])), Fraction(1, 2))
            moves = sum(not one.forced for one in found.moves)
            score = self.score(choice, self._sums(missing, placed), placed), moves
            self.tried[choice] = Tried(choice, score, now, found, kept.told, kept.improved)
        return self.tried[choice]

    def _lacking(self, name: str, now: Workload, placed: int, placement: Placement) -> Fraction:
        """The part of what it asks for that has no place: of its replicas, or of what it needs.

        missing_w = max(0, needs − Σ speed) / needs. Where all have a place and are too slow, it counts as nothing placed: a
        choice with more of them says that some are missing.
        """
        asked = self.stack.workloads[name]
        if asked.needs is None:
            return _part(now, placed)
        part = _slow(asked, reached(self.stack, name, placement, asked.speed))
        return Fraction(1) if part and placed >= now.members else part

    def _sums(
        self, missing: Mapping[str, tuple[Fraction, Fraction]], placed: Mapping[str, int] | None
    ) -> dict[str, tuple[int, Fraction, Fraction]]:
        """By priority the first three of a score, without what those with variants interrupt."""
        found: dict[str, tuple[int, Fraction, Fraction]] = dict.fromkeys(LEVELS, (0, Fraction(0), Fraction(0)))
        for name, one in self.stack.workloads.items():
            (gpus, part), stays = missing.get(name, _NOTHING), 0 if one.variants else self.stays[name]
            lost = stays - min(stays, placed[name]) if placed is not None else 0
            if part or lost:
                before = found[one.priority]
                found[one.priority] = (before[0] + lost, before[1] + gpus, before[2] + part)
        return found

    def score(
        self, choice: Choice, sums: Mapping[str, tuple[int, Fraction, Fraction]], placed: Mapping[str, int] | None
    ) -> Score:
        """What is worse about a choice, the least is best; one priority after the other, the highest first.

        interrupted_p = Σ_{w∈p} stay_w − min(stay_w, placed_w);  stay_w where w restarts for another variant and must not
        missing_p     = Σ_{w∈p} gpus_w · missing_w,  then Σ_{w∈p} missing_w   [missing_w: part of it; gpus_w: of its first];
                        of what waits to grow the GPUs that it lacks, and a half
        lighter_p     = Σ_{w∈p} stay_w of those that restart in a lighter variant than they run in
        lost_p        = Σ_{w∈p} worth of its first variant − worth of the chosen one, then Σ_{w∈p} number of the variant

        `lighter` and `lost` of a workload count at `lighter_for`, where that is lower than its priority. What may not stay
        anyway is interrupted by nobody. `sums`: of all workloads, as `_sums` has them. With `placed` None and the least that
        can be missing it is a bound.
        """
        interrupted = {level: sums[level][0] for level in LEVELS}
        lighter, less, ranks = Counter[str](), Counter[str](), Counter[str]()
        for name, i in zip(self.names, choice, strict=True):
            one, stays = self.stack.workloads[name], self.stays[name]
            if stays and i != self.ran[name] and one.changes_variant != "now":
                interrupted[one.priority] += stays
            elif stays and placed is not None:
                interrupted[one.priority] += stays - min(stays, placed[name])
            at, worth = self.level(name), self.worth[name]
            lighter[at] += stays if i > self.ran[name] else 0
            less[at] += worth[0] - worth[i]
            ranks[at] += i
        return tuple((interrupted[at], *sums[at][1:], lighter[at], less[at], ranks[at]) for at in LEVELS)

    def _gpus(self, name: str) -> int:
        """GPUs that the workload asks for in its first variant, in thousandths."""
        one = self.stack.workloads[name]
        return _gpus(variants.at(one, self.forms[name][0]) if one.variants else one)

    def best(self) -> Tried:
        """The choice with the least score.

        No choice has a lower score than its bound, which has the least missing that any could have; so once the next bound
        is no lower than the best score, nothing is better. With too many choices for that, the lightest and then each
        workload in the most preferred variant with which the score is lower.
        """
        best = self.solved(tuple(self.options[name][0] for name in self.names))
        if self.total == 1 or best.score[0] <= self._bound(best.choice):
            return best
        self._count_floor()
        better = sorted(self._better(best), key=lambda one: (self._bound(one), one)) if self.total <= ORDERED else None
        if better is None or len(better) > self.most:
            return self._by_turns(best)
        for choice in better:
            if self._bound(choice) >= best.score[0] or self.watch.stopped:
                break
            best = min(best, self.solved(choice), key=lambda one: (one.score, one.choice))
        return best

    def improved(self, best: Tried) -> Tried:
        """The same choice on a large fleet on which nothing runs, with the effort that the choices left which were tried."""
        if not best.improved or not best.solution.placement.unplaced or self.watch.stopped:
            return best
        kept = best.improved(self.tries)
        if self.watch.stopped:  # ended by hand: nobody looked for who could be within one NUMA node
            return best
        return replace(best, stack=kept.stack, solution=kept.solution, told=kept.told)

    def _bound(self, choice: Choice) -> Score:
        return self.score(choice, self.floor, None)

    def _better(self, best: Tried) -> Iterator[Choice]:
        """Choices that could be better, by their bounds."""
        for choice in itertools.product(*(self.options[name] for name in self.names)):
            if choice not in self.tried and self._bound(choice) < best.score[0]:
                yield choice

    def _count_floor(self) -> None:
        """The part of each workload that no variant of it places, if it had the fleet to itself."""
        counts: dict[str, list[Fraction]] = {}  # of each variant
        for i in range(max(map(len, self.forms.values()))):
            now = self.at(tuple(min(i, len(self.forms[name]) - 1) for name in self.names))
            for name, most in possible(snapshot_of(now, self.last, self.today)).items():
                asked = self.stack.workloads[name]
                fastest = max((speed.amount for speed in asked.speed.values()), default=0)
                part = _slow(asked, most * fastest) if asked.needs else _part(now.workloads[name], most)
                counts.setdefault(name, []).append(part)
        self.floor = self._sums({name: (min(each) * self._gpus(name), min(each)) for name, each in counts.items()}, None)

    def _by_turns(self, best: Tried) -> Tried:
        """The lightest of all, and each raised as far as that is better: high priorities first, then the most worth.

        Where the lightest are worse, others are made lighter instead. Both in turn, until neither is better.
        """
        lightest = tuple(self.options[name][-1] for name in self.names)
        if self._bound(lightest) < best.score[0]:
            best = min(best, self.solved(lightest), key=lambda one: one.score)
        else:
            self.most -= 1  # known without being solved, as where it would interrupt what runs
        while True:
            found = self._lowered(self._lifted(best))
            if found is best:
                return best
            best = found

    def _lifted(self, best: Tried) -> Tried:
        """As far as that is better, one after the other in a more preferred variant."""
        for name in sorted(self.names, key=lambda one: (-PRIORITIES[self.level(one)], -self._lost(one), one)):
            place = self.names.index(name)
            for i in self.options[name]:
                if i >= best.choice[place] or len(self.tried) >= self.most or self.watch.stopped:
                    break
                found = self.solved((*best.choice[:place], i, *best.choice[place + 1 :]))
                if found.score < best.score:
                    best = found
                    break
        return best

    def _lowered(self, best: Tried) -> Tried:
        """As far as that is better, one after the other lighter: first what lacks a place, then by priority and worth lost."""
        waits = {one.workload for one in best.solution.placement.waiting()}
        for name in sorted(self.names, key=lambda one: (one not in waits, PRIORITIES[self.level(one)], self._lost(one), one)):
            place = self.names.index(name)
            for i in self.options[name]:
                choice = (*best.choice[:place], i, *best.choice[place + 1 :])
                if i <= best.choice[place] or choice in self.tried or self._bound(choice) >= best.score[0]:
                    continue
                if len(self.tried) >= self.most or self.watch.stopped:
                    return best
                found = self.solved(choice)
                if found.score < best.score:
                    best = found
                    break
        return best

    def _way(self, name: str) -> str:
        return self.stack.workloads[name].changes_variant

    def proven(self) -> bool:
        """Is every choice that was not solved excluded by its bound?"""
        top = min(one.score[0] for one in self.tried.values())
        if self.total > ORDERED:
            return False
        every = itertools.product(*(self.options[name] for name in self.names))
        return all(one in self.tried or self._bound(one) >= top for one in every)

    def _lost(self, name: str) -> int:
        return self.worth[name][0] - self.worth[name][-1]

    def raised(self, best: Tried) -> Tried:
        """With what runs in a more preferred variant again, where that leaves all others as they are.

        One workload w after the other, high priorities first, by the worth that is lost:  the first variant i < chosen_w with
        which w has all its replicas, every allocation of others is the same, and nobody else has less. It restarts for that,
        so not where `on_variant` is `restart`; with `spare`, one replica more has to fit beside all that runs.
        """
        for name in sorted(self.names, key=lambda one: (-PRIORITIES[self.level(one)], -self._lost(one), one)):
            place = self.names.index(name)
            now, one = best.choice[place], self.stack.workloads[name]
            settled = now and now == self.ran[name] and self.stays[name] and name not in self.ended
            if not settled or one.changes_variant == "restart" or self.watch.stopped:
                continue
            for i in range(now):
                if found := self._alone(best, name, (*best.choice[:place], i, *best.choice[place + 1 :])):
                    best = found
                    break
        return best

    def _alone(self, best: Tried, name: str, choice: Choice) -> Tried | None:
        """The choice, if nothing but the workload itself changes by it."""
        asked = self.at(choice)
        if self.stack.workloads[name].changes_variant == "spare" and not self._spare(best, name, asked):
            return None
        if beside(asked, best.stack, best.solution.placement, name, self.today, whole=True) is not None:
            return None
        bare = best.solution.placement.model_copy(update={"unplaced": (), "growing": (), "lighter": ()})
        kept = keeping(asked, bare, today=self.today, watch=self.watch)
        found = kept.solution
        before, after = best.solution.placement, found.placement
        whole = sum(one.workload == name for one in after.allocations) == asked.workloads[name].members
        needs = self.stack.workloads[name].needs
        if needs and reached(self.stack, name, after, self.stack.workloads[name].speed) < needs.amount:
            return None
        if not whole or any(one.workload == name for one in after.waiting()) or _others(before, name) != _others(after, name):
            return None
        moves = (
            *(one for one in best.solution.moves if workload_of(one.name) != name),
            *(m for m in found.moves if workload_of(m.name) == name),
        )

        def told(times: int) -> Solution:
            return kept.told(times).model_copy(update={"moves": moves})

        return Tried(choice, best.score, kept.stack, found.model_copy(update={"moves": moves}), told)

    def _spare(self, best: Tried, name: str, asked: Stack) -> bool:
        """Has one replica of a workload a place, as `asked` has it, beside all that is placed, its own included?"""
        more = next(new for i in itertools.count() if (new := f"spare-{i}") not in asked.workloads)
        one = asked.workloads[name].model_copy(
            update={"replicas": Replicas(least=1, most=1), "gang": None, "scale": None, "renamed_from": None}
        )
        stack = best.stack.model_copy(update={"workloads": {**best.stack.workloads, more: one}})
        snapshot = snapshot_of(stack, best.solution.placement, self.today)
        return not conflict(capacity_of(snapshot, best.solution.placement), snapshot.requests[more])


_NOTHING = (Fraction(0), Fraction(0))


def _gpus(workload: Workload) -> int:
    """All GPUs that it asks for, in thousandths."""
    return workload.each.gpus.count * int(workload.each.gpus.share) * max(1, workload.members)


def _slow(workload: Workload, done: int) -> Fraction:
    """The part of what it needs that is not done. `done`: in the millionths of a Rate."""
    needs = workload.needs.amount if workload.needs else 1
    return Fraction(max(0, needs - done), needs)


def _part(workload: Workload, placed: int) -> Fraction:
    """The part of its replicas that has no place."""
    members = workload.members
    return Fraction(max(0, members - placed), members) if members else Fraction(0)


def workload_of(allocation: str) -> str:
    """Of which workload an allocation is, by its name."""
    return allocation.rpartition("-")[0]


def _others(placement: Placement, name: str) -> tuple[object, ...]:
    """All that a placement says of other workloads."""
    ones = tuple(one for one in placement.allocations if one.workload != name)
    return (
        ones,
        {(one.workload, one.missing) for one in placement.unplaced if one.workload != name},
        {one.workload for one in placement.growing if one.workload != name},
    )
