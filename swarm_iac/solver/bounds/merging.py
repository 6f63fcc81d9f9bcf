"""How does a relaxation stay small where labels tell every rack apart? Shapes that have the same are one.

    y[k,H] = Σ_{h in H} y[k,h]           H: shapes whose nodes have the same cards and capacity, and take the same of racks

    y[k,H] ≤ Σ_{h in H that take k} count_h · top[k,h]
    Σ_r (what y takes of rack r) ≤ Σ_r budget_r          the racks that bound the same resource together

Each row is a sum of rows of the problem, or less, so what the merged problem gains bounds what the problem does. Caps of
shapes (see `relaxation`) are added up likewise, at the least gain that any of them has for a kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from swarm_iac.solver.bounds.relaxation import Stand
from swarm_iac.solver.columns.pricing import Pricer
from swarm_iac.solver.columns.problem import Amounts, Cap, Problem, Row, Shape

Nodes = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Merged:
    """A problem with fewer shapes, the nodes of each, and who is there. `of`: the new shape of each old one."""

    problem: Problem
    nodes: Nodes
    stand: Stand
    of: tuple[int, ...]

    def caps(self, caps: Iterable[Cap]) -> list[Cap]:
        """Those of the old shapes, if all of a new one have any."""
        found: dict[int, list[Cap]] = {}
        for cap in caps:
            found.setdefault(self.of[cap.shape], []).append(cap)
        every = Counter(self.of)
        return [
            Cap(one, tuple(map(min, zip(*(cap.gains for cap in mine), strict=True))), sum(cap.limit for cap in mine))
            for one, mine in found.items()
            if len(mine) == every[one]
        ]


def merged(problem: Problem, nodes: Nodes, stand: Stand, apart: Sequence[Hashable] = ()) -> Merged:
    """`apart`: shapes that differ in it stay two."""
    sums = _sums(problem)
    single = [{h for h, _ in row.inside} for row in problem.rows if row.one]
    known: dict[Hashable, int] = {}
    of = tuple(
        known.setdefault(
            (
                shape.cards, shape.capacity, shape.tops, shape.keeps, apart[h] if apart else None,
                tuple(amounts.get(h, ()) for _, amounts in sums), tuple(h in those for those in single),
            ),
            len(known),
        )
        for h, shape in enumerate(problem.shapes)
    )  # fmt: skip
    if len(known) == len(of):
        return Merged(problem, nodes, stand, of)
    shapes = tuple(_one([shape for h, shape in enumerate(problem.shapes) if of[h] == one]) for one in known.values())
    rows = [row for row in problem.rows if not row.inside]
    for row in (row for row in problem.rows if row.one):
        rows.append(Row(row.limit, row.amounts, tuple({of[h]: amounts for h, amounts in row.inside}.items()), one=True))
    for limit, by_shape in sums:
        rows.append(Row(limit, (), tuple({of[h]: amounts for h, amounts in by_shape.items()}.items())))
    stands = Counter[tuple[int, int]]()
    for (k, h), count in stand.on.items():
        stands[k, of[h]] += count
    names = tuple(tuple(name for h in range(len(of)) if of[h] == one for name in nodes[h]) for one in known.values())
    small = Problem(problem.kinds, shapes, tuple(rows))
    return Merged(replace(small, rows=(*rows, *_tops(problem, small, of))), names, replace(stand, on=stands), of)


def _one(alike: Sequence[Shape]) -> Shape:
    fits = sorted({k for shape in alike for k in shape.fits})
    one = alike[0]
    return Shape(sum(shape.count for shape in alike), one.cards, one.capacity, tuple(fits), one.tops, one.keeps)


def _sums(problem: Problem) -> list[tuple[int, dict[int, Amounts]]]:
    """For each resource of racks: what they have of it together, and what a replica takes of it on each shape."""
    found: dict[int, tuple[int, dict[int, Amounts]]] = {}
    for row in problem.rows:
        if row.inside and not row.one:
            limit, amounts = found.get(row.resource, (0, {}))
            found[row.resource] = limit + row.limit, amounts | dict(row.inside)
    return list(found.values())


def _tops(problem: Problem, small: Problem, of: Sequence[int]) -> list[Row]:
    """For kinds that only some of the nodes take that are one now, what those hold."""
    takes = Counter[tuple[int, int]]()
    for h, shape in enumerate(problem.shapes):
        takes.update({(k, of[h]): shape.count for k in shape.fits})
    return [
        Row(takes[k, one] * top, (), ((one, ((k, 1),)),), one=True)
        for one, shape in enumerate(small.shapes)
        for k, top in Pricer(small, one).tops.items()
        if takes[k, one] < shape.count and takes[k, one] * top < problem.kinds[k].count
    ]
