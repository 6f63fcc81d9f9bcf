"""Which kinds may take each other's places? Those that need the same are one, for columns.

Kinds that differ only in the shapes that suit them (a GPU model, a label) or in the limits that count them have patterns that
differ in names alone, and there are as many of these as ways to name them. So columns hold places for a class c of kinds, and
the linear program says who takes them: y[k,g] of kind k on shapes g, which suit the same kinds of c:

    Σ_{h in g, p of h} places_{c,p} · λ_{h,p} ≤ Σ_{k in c} y[k,g] + unused[c,g]       every class and its shapes g
    Σ_g y[k,g] ≤ count_k, and whatever else limits kind k

A place that nobody takes costs what it gained. Any fraction of columns of kinds is one of columns of classes, with the same
value, and the other way round, so the bound is one for kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from swarm_iac.solver.columns.problem import Cap, Member, Pattern, Problem, Row

#: Nodes with a pattern, by (shape, pattern).
Plan = Counter[tuple[int, Pattern]]


@dataclass(frozen=True)
class Interchangeable:
    """`problem` with a kind for each class. `classes`: the kinds of each; `of`: the class of each kind."""

    kinds: Problem
    problem: Problem
    classes: tuple[tuple[int, ...], ...]
    of: tuple[int, ...]

    def pattern(self, pattern: Pattern) -> Pattern:
        """The places that a pattern of kinds takes."""
        if self.problem is self.kinds:
            return pattern
        found: Counter[int] = Counter()
        for kind, count in pattern:
            found[self.of[kind]] += count
        return tuple(sorted(found.items()))

    def caps(self, caps: Iterable[Cap]) -> tuple[Cap, ...]:
        """The same caps of kinds: a node carries no more of a class than of all its kinds."""
        if self.problem is self.kinds:
            return tuple(caps)
        return tuple(replace(cap, gains=tuple(cap.gains[one] for one in self.of)) for cap in caps)


def interchangeable(problem: Problem) -> Interchangeable:
    """Classes of kinds; those that stand somewhere, or that a node has only so many of, stay by themselves."""
    single = {kind for row in problem.rows for _, amounts in row.inside for kind, _ in amounts}
    single |= {kind for shape in problem.shapes for kind, _ in shape.tops}
    single |= {keep.kind for shape in problem.shapes for keep in shape.keeps}
    known: dict[object, list[int]] = {}
    for k, kind in enumerate(problem.kinds):
        alone = k if k in single or kind.most else None
        known.setdefault((kind.worth, kind.value, kind.cards, kind.share, kind.need, alone), []).append(k)
    classes = tuple(tuple(members) for members in known.values())
    of = {kind: number for number, members in enumerate(classes) for kind in members}
    order = tuple(of[kind] for kind in range(len(problem.kinds)))
    small = problem if len(classes) == len(order) else _of_classes(problem, classes, order)
    return Interchangeable(problem, small, classes, order)


def _of_classes(problem: Problem, classes: tuple[tuple[int, ...], ...], of: tuple[int, ...]) -> Problem:
    """The problem with a kind for each class, the rows that say who takes places, and who may."""
    alone = [len(classes[of[k]]) == 1 for k in range(len(problem.kinds))]
    counts = [sum(problem.kinds[k].count for k in members) for members in classes]
    kinds = tuple(replace(problem.kinds[those[0]], count=count) for those, count in zip(classes, counts, strict=True))
    rows, uses = list[Row](), dict[int, list[tuple[int, int]]]()
    for r, row in enumerate(problem.rows):
        inside = tuple((h, tuple((of[k], amount) for k, amount in amounts)) for h, amounts in row.inside)
        rows.append(replace(row, amounts=tuple((of[k], amount) for k, amount in row.amounts if alone[k]), inside=inside))
        for k, amount in row.amounts:
            if not alone[k]:
                uses.setdefault(k, []).append((r, amount))
    fits = [frozenset(shape.fits) for shape in problem.shapes]
    tops = [[(of[k], top) for k, top in shape.tops] for shape in problem.shapes]
    members: list[Member] = []
    for number, those in enumerate(classes):
        groups: dict[tuple[int, ...], list[int]] = {}
        for h, suited in enumerate(fits if len(those) > 1 else ()):
            if suits := tuple(k for k in those if k in suited):
                groups.setdefault(suits, []).append(h)
        for suits, shapes in groups.items():
            link = len(rows)
            rows.append(Row(0, (), tuple((h, ((number, 1),)) for h in shapes), over=kinds[number].value))
            members += [Member(k, problem.kinds[k].count, ((link, -1), *uses.get(k, ()))) for k in suits]
            if (top := sum(problem.kinds[k].count for k in suits)) < counts[number]:
                for h in shapes:
                    tops[h].append((number, top))
    return Problem(
        kinds,
        tuple(
            replace(
                shape,
                fits=tuple(sorted({of[k] for k in shape.fits})),
                tops=tuple(sorted(tops[h])),
                keeps=tuple(replace(keep, kind=of[keep.kind]) for keep in shape.keeps),
            )
            for h, shape in enumerate(problem.shapes)
        ),
        tuple(rows),
        tuple(members),
    )
