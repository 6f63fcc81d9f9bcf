"""How do fractions of columns become whole nodes? By diving: fix what is whole, solve what is left, again.

Each level fixes the whole part of every weight (or, where no weight reaches one, the largest few, rounded up while
they fit), and what is left of nodes and rows is a smaller problem of the same kind, with new columns of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.columns.generation import generate
from swarm_iac.solver.columns.interchangeable import Interchangeable, Plan
from swarm_iac.solver.columns.master import Master, Mix
from swarm_iac.solver.columns.pricing import Pricer
from swarm_iac.solver.columns.problem import Pattern, Problem
from swarm_iac.solver.columns.takers import Takers

#: Columns are priced again where those that are there lose more than this part of a GPU.
LOST = 0.05
#: Part of the largest weights that is rounded up at once.
ROUND_UP = 0.15


def dive(
    seen: Interchangeable,
    columns: list[tuple[int, Pattern]],
    mix: Mix,
    *,
    rounds: int,
    stop: TimeLimit = TimeLimit(),
) -> Plan:
    """A whole number of nodes for each column, of kinds. `rounds` of pricing on each level."""
    takers, problem = Takers(seen), seen.problem
    master = Master(problem)
    while mix.weights:
        fixed = _fix(problem, master, mix, takers)
        if not fixed:
            break
        before = mix.value - sum(problem.value(problem.shapes[h], pattern) * times for (h, pattern), times in fixed.items())
        problem = residual(problem, fixed)
        if not any(shape.count for shape in problem.shapes) or stop.stop():
            break
        master, left = Master(problem), [row.limit for row in problem.rows]
        for shape, pattern in columns:
            if problem.shapes[shape].count and _holds(problem, left, master.uses(shape, pattern)):
                master.add(shape, pattern)
        mix = master.solve()
        if rounds and before - mix.value > LOST * problem.unit and not stop():
            pricers = [Pricer(problem, h) for h in range(len(problem.shapes))]
            mix = generate(problem, master, pricers, rounds=rounds, slack=problem.unit / 100, prices=mix.rows, stop=stop).mix
            columns = list(dict.fromkeys([*columns, *master.columns]))
    return takers.named()


def _fix(problem: Problem, master: Master, mix: Mix, takers: Takers) -> Plan:
    """The whole parts; if there are none, the largest fractions rounded up, as many as fit together and whose places are taken.

    If there is none of these either, the largest that fits.
    """
    whole: Plan = Counter({key: int(weight + 1e-6) for key, weight in mix.weights.items() if weight >= 1 - 1e-6})
    for column, times in whole.items():
        for _ in range(times):
            takers.take(*column)
    if whole:
        return whole
    order = sorted(mix.weights, key=lambda key: (-mix.weights[key], key))
    left = [row.limit for row in problem.rows]
    nodes = [shape.count for shape in problem.shapes]
    fixed: Plan = Counter()
    for column in order:
        if fixed.total() >= max(1, int(ROUND_UP * len(order))):
            break
        uses = master.uses(*column)
        if nodes[column[0]] and _holds(problem, left, uses) and takers.take(*column, whole=True):
            nodes[column[0]] -= 1
            for row, amount in uses.items():
                left[row] -= amount
            fixed[column] += 1
    if not fixed:
        largest = next((one for one in order if nodes[one[0]] and _holds(problem, left, master.uses(*one))), None)
        if largest is not None:
            takers.take(*largest)
            fixed[largest] += 1
    return fixed


def _holds(problem: Problem, left: list[int], uses: dict[int, int]) -> bool:
    """Is so much left of each row that must hold?"""
    return all(left[row] >= amount or problem.rows[row].over for row, amount in uses.items())


def residual(problem: Problem, fixed: Plan) -> Problem:
    """The problem without the nodes that are fixed and what stands on them."""
    nodes: Counter[int] = Counter()
    placed: Counter[int] = Counter()
    on: Counter[tuple[int, int]] = Counter()
    for (shape, pattern), times in fixed.items():
        nodes[shape] += times
        for kind, count in pattern:
            placed[kind] += count * times
            on[shape, kind] += count * times
    return replace(
        problem,
        kinds=tuple(replace(kind, count=kind.count - placed[k]) for k, kind in enumerate(problem.kinds)),
        shapes=tuple(replace(shape, count=shape.count - nodes[h]) for h, shape in enumerate(problem.shapes)),
        rows=tuple(
            replace(
                row,
                limit=row.limit
                - sum(amount * placed[k] for k, amount in row.amounts)
                - sum(amount * on[h, k] for h, amounts in row.inside for k, amount in amounts),
            )
            for row in problem.rows
        ),
    )
