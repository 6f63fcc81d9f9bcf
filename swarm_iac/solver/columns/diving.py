"""How do fractions of columns become whole nodes? By diving: fix what is whole, solve what is left, again.

Each level fixes the whole part of every weight (or, where no weight reaches one, the largest few, rounded up while
they fit), and what is left of nodes and rows is a smaller problem of the same kind, with new columns of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.columns.generation import generate
from swarm_iac.solver.columns.master import Master, Mix
from swarm_iac.solver.columns.pricing import Pricer
from swarm_iac.solver.columns.interchangeable import Plan
from swarm_iac.solver.columns.problem import Pattern, Problem

#: Part of the largest weights that is rounded up at once.
ROUND_UP = 0.15


def dive(
    problem: Problem,
    columns: list[tuple[int, Pattern]],
    mix: Mix,
    *,
    rounds: int,
    stop: TimeLimit = TimeLimit(),
) -> Plan:
    """A whole number of nodes for each column. `rounds` of pricing on each level."""
    plan: Plan = Counter()
    while mix.weights:
        fixed = _fix(problem, mix)
        if not fixed:
            break
        plan += fixed
        problem = residual(problem, fixed)
        if not any(shape.count for shape in problem.shapes) or stop.stop():
            break
        master = Master(problem)
        for shape, pattern in columns:
            if problem.shapes[shape].count and _capacity(problem, master, shape, pattern):
                master.add(shape, pattern)
        mix = master.solve()
        if rounds and not stop():
            pricers = [Pricer(problem, h) for h in range(len(problem.shapes))]
            mix = generate(problem, master, pricers, rounds=rounds, slack=problem.unit / 100, prices=mix.rows, stop=stop).mix
            columns = list(dict.fromkeys([*columns, *master.columns]))
    return plan


def _fix(problem: Problem, mix: Mix) -> Plan:
    """The whole parts; if there are none, the largest fractions rounded up, as many as fit together."""
    whole: Plan = Counter({key: int(weight + 1e-6) for key, weight in mix.weights.items() if weight >= 1 - 1e-6})
    if whole:
        return whole
    order = sorted(mix.weights, key=lambda key: (-mix.weights[key], key))
    master = Master(problem)
    left = [row.limit for row in problem.rows]
    nodes = [shape.count for shape in problem.shapes]
    fixed: Plan = Counter()
    for key in order[: max(1, int(ROUND_UP * len(order)))]:
        uses = master.uses(*key)
        if nodes[key[0]] and all(left[row] >= amount or problem.rows[row].over for row, amount in uses.items()):
            nodes[key[0]] -= 1
            for row, amount in uses.items():
                left[row] -= amount
            fixed[key] += 1
    return fixed


def _capacity(problem: Problem, master: Master, shape: int, pattern: Pattern) -> bool:
    rows = problem.rows
    return all(rows[row].limit >= amount or rows[row].over for row, amount in master.uses(shape, pattern).items())


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
