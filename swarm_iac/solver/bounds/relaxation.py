"""What could a priority hold if nodes that are alike were one large node? A relaxation whose ceilings and gangs are whole.

    max  Σ_k value_k · Σ_h y[k,h]                              y[k,h]: replicas of kind k on nodes of shape h
    y[k,h] ≤ count_h · top[k,h]                                what one node holds of the kind alone
    Σ_k need_k · y[k,h] ≤ count_h · room_h                     every resource; GPUs in thousandths
    Σ_k u(need_k / room_h) · y[k,h] ≤ count_h                  likewise, for each u of a family: replicas do not lie across
                                                               nodes. u(x) = x where (t+1)·x is whole, else ⌊(t+1)·x⌋ / t,
                                                               t = 1 … TURNS; with t = 1 what is over a half counts one
    Σ_h y[k,h] = Σ_w members_w · whole_w + single_k − off_k    gangs run whole or not at all; off: on nodes that are not here
    Σ_{k,h} max(0, stand[k,h] − y[k,h]) − Σ_p stops_p ≤ moves  what runs there and may stay leaves it at the cost of a move,
                                                               or is one of so many of its priority that stop
    Σ_k gain_k · y[k,h] ≤ count_h · best_h(gain)               caps: what one node carries at most at the prices of columns
    every row of the problem                                   ceilings, racks that are alike, what others hold at least

Where teams share, instead  max  Σ_t min(due_t, Σ_{k,h} amount_t[k,h] · y[k,h]):  what they hold within what they are due.

u: the dual feasible functions of Martello and Toth (Fekete and Schepers, 2001): what fits one node has Σ u ≤ 1.
Columns know how replicas share a node, and this knows what is left when gangs must be whole. The caps bring both together:
at the last prices of columns the inequalities of all shapes, added up, are Lagrange's bound, so with them this is never
weaker than columns are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.cpsat import cp_model, ended_by, known_bound, one_worker, run, spent
from swarm_iac.solver.backend.linear_relaxation import linear_bound
from swarm_iac.solver.backend.time_limit import TimeLimit, never
from swarm_iac.solver.columns.pricing import FINE, Pricer
from swarm_iac.solver.columns.problem import Cap, Problem, Row
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest

#: Part of the effort that is left which one such bound may take.
PART = 0.5
#: What its linear program counts for each y: it is there within a tenth of a second, where CP-SAT may end without a bound.
LINEAR = 1e-5
#: So many functions u are tried on each resource.
TURNS = 4
#: Above so many y only one of them is, and above WIDEST nothing: its linear program alone would take tens of seconds.
WIDE, WIDEST = 25_000, 60_000
#: With more y than this it may take a second, and somebody looks whether it is to end.
LONG = 2_000


@dataclass(frozen=True)
class Stand:
    """`on`: replicas of a kind that stand on nodes of a shape. `stops`: of kinds together, how many of them may stop."""

    on: Mapping[tuple[int, int], int] = field(default_factory=dict)
    stops: Sequence[tuple[frozenset[int], int]] = ()


NOBODY_STANDS = Stand()


@dataclass(frozen=True)
class CappedSum:
    """What counts is Σ amount · replicas of a kind on nodes of a shape, up to a limit."""

    limit: int
    amounts: Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Relaxed:
    """The relaxation as a model.

    `y`: replicas of a kind on nodes of a shape. `whole`: which gangs run. `inside`: which workloads are in which rack, of those
    that have to be in one.
    """

    model: cp_model.CpModel
    y: dict[tuple[int, int], cp_model.IntVar]
    whole: dict[str, cp_model.IntVar]
    inside: dict[tuple[str, str], cp_model.IntVar] = field(default_factory=dict)

    def at_most(self, terms: Iterable[tuple[int, int, int]], limit: int) -> None:
        """Σ amount · y[k,h] ≤ limit, of (k, h, amount)."""
        _at_most(self.model, [(self.y[k, h], amount) for k, h, amount in terms if (k, h) in self.y], limit)

    def sum_of(self, parts: Iterable[CappedSum]) -> cp_model.LinearExprT:
        """Σ min(limit, Σ amount · y)"""
        return cp_model.LinearExpr.sum([_counted(self.model, self.y, part) for part in parts])


#: A rule that the relaxation keeps besides its own.
Rule = Callable[[Relaxed], None]


def relaxed_bound(
    problem: Problem,
    groups: list[list[WorkloadRequest]],
    stop: TimeLimit,
    stand: Stand = NOBODY_STANDS,
    moves: int = 0,
    caps: Sequence[Cap] = (),
    elsewhere: Mapping[str, int] = MappingProxyType({}),
    parts: Sequence[CappedSum] = (),
    widest: int = WIDE,
    rules: Sequence[Rule] = (),
    part: float = PART,
) -> int | None:
    """What no placement gains more than, or None where no solver knew, or where it would have more y than `widest`.

    `groups`: the asks of each kind. `stand`: who runs on unless it stops, and may leave its shape in so many `moves`.
    `elsewhere`: how many of a workload may stay on nodes that the problem does not have. `parts`: what is gained, if not
    the values of kinds. `rules`: what it keeps besides. `part`: of the effort that is left, which it may take.
    """
    relaxed = relaxation(problem, groups, stand, moves, caps, elsewhere, widest, rules, stop.stop)
    if relaxed is None:
        return None
    model, y = relaxed.model, relaxed.y
    if parts:
        model.maximize(relaxed.sum_of(parts))
    else:
        values = [problem.kinds[k].value for k, _ in y]
        model.maximize(cp_model.LinearExpr.weighted_sum(list(y.values()), values))
    linear = linear_bound(model, stop.stop)
    stop.spend(LINEAR * len(y))
    if stop():
        return None if linear is None else int(linear + 1e-6)
    solver = one_worker(max(0.0, stop.left) * part if stop.left < float("inf") else 1.0)
    with ended_by(solver.stop_search, stop.stop) if len(y) > LONG else nullcontext():
        status = run(solver, model)
    stop.spend(spent(solver) if status != cp_model.UNKNOWN else stop.left * part)
    found = [bound for bound in (linear, known_bound(solver, status)) if bound is not None]
    return int(min(found) + 1e-6) if found else None


def relaxation(
    problem: Problem,
    groups: list[list[WorkloadRequest]],
    stand: Stand = NOBODY_STANDS,
    moves: int = 0,
    caps: Sequence[Cap] = (),
    elsewhere: Mapping[str, int] = MappingProxyType({}),
    widest: int = WIDE,
    rules: Sequence[Rule] = (),
    stop: Callable[[], bool] = never,
) -> Relaxed | None:
    """The model of `relaxed_bound`, which maximizes nothing yet; None if it would have more y than `widest`, or at `stop`."""
    model = cp_model.CpModel()
    y = _variables(model, problem, stop)
    if len(y) > widest:
        return None
    turns = TURNS if len(y) <= WIDE else 1
    relaxed = Relaxed(model, y, _gangs(model, y, groups, elsewhere))
    kinds = problem.kinds
    for h, shape in enumerate(problem.shapes):
        if stop():
            return None
        here = [(k, y[k, h]) for k in range(len(kinds)) if (k, h) in y]
        needs = [[kinds[k].need[i] for k, _ in here] for i in range(len(shape.capacity))]
        needs.append([kinds[k].cards * kinds[k].share for k, _ in here])
        for need, capacity in zip(needs, (*shape.capacity, shape.cards * WHOLE), strict=True):
            for amounts, limit in fits(need, capacity, turns):
                _at_most(model, [(var, amount) for (_, var), amount in zip(here, amounts, strict=True)], shape.count * limit)
    for cap in caps:
        terms = [(y[k, cap.shape], math.floor(gain * FINE)) for k, gain in enumerate(cap.gains) if (k, cap.shape) in y]
        _at_most(model, terms, math.ceil(cap.limit * FINE + 1e-3))
    _leave(model, y, stand, moves)
    for row in problem.rows:
        _row(model, y, row, len(problem.shapes))
    for rule in rules:
        rule(relaxed)
    return relaxed


def _leave(model: cp_model.CpModel, y: dict[tuple[int, int], cp_model.IntVar], stand: Stand, moves: int) -> None:
    """Who leaves its shape moves, or stops."""
    if sum(stand.on.values()) <= moves + sum(count for _, count in stand.stops):
        return
    away = {pair: model.new_int_var(0, count, "") for pair, count in stand.on.items()}
    for pair, var in away.items():
        model.add(var >= stand.on[pair] - y.get(pair, 0))
    stops = []
    for kinds, count in stand.stops:
        stops.append(model.new_int_var(0, count, ""))
        model.add(stops[-1] <= cp_model.LinearExpr.sum([var for (k, _), var in away.items() if k in kinds]))
    model.add(cp_model.LinearExpr.sum(list(away.values())) <= moves + cp_model.LinearExpr.sum(stops))


def _variables(model: cp_model.CpModel, problem: Problem, stop: Callable[[], bool]) -> dict[tuple[int, int], cp_model.IntVar]:
    """y[k,h], until `stop`."""
    found = {}
    for h, shape in enumerate(problem.shapes):
        for k, top in Pricer(problem, h).tops.items() if not stop() else ():
            found[k, h] = model.new_int_var(0, min(problem.kinds[k].count, shape.count * top), "")
    return found


def fits(need: list[int], capacity: int, turns: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Amounts of which what one node holds has at most the limit: the resource itself, then u of it, times t · (t + 1)."""
    yield tuple(need), capacity
    known = set()
    for t in range(1, turns + 1) if capacity else ():
        parts = [divmod((t + 1) * one, capacity) for one in need]
        amounts = tuple(whole * (t + 1 if rest else t) for whole, rest in parts)
        if any(amounts) and amounts not in known:
            known.add(amounts)
            yield amounts, t * (t + 1)


def _gangs(
    model: cp_model.CpModel,
    y: dict[tuple[int, int], cp_model.IntVar],
    groups: list[list[WorkloadRequest]],
    elsewhere: Mapping[str, int],
) -> dict[str, cp_model.IntVar]:
    by_kind: dict[int, list[cp_model.IntVar]] = {}
    found: dict[str, cp_model.IntVar] = {}
    for (k, _), var in y.items():
        by_kind.setdefault(k, []).append(var)
    for k, group in enumerate(groups):
        mine = by_kind.get(k)
        if mine and any(request.gang and request.members > 1 for request in group):
            single = sum(request.members for request in group if not request.gang)
            gangs = {request.name: request.members for request in group if request.gang}
            found |= {name: model.new_bool_var("") for name in gangs}
            whole = cp_model.LinearExpr.weighted_sum([found[name] for name in gangs], list(gangs.values()))
            off = sum(min(request.members, elsewhere.get(request.name, 0)) for request in group if request.gang)
            here = whole + (model.new_int_var(0, single, "") if single else 0)
            model.add(cp_model.LinearExpr.sum(mine) == here - (model.new_int_var(0, off, "") if off else 0))
    return found


# With a variable for what rows count of a kind programs are solved in a tenth less time. But what `guided` finds is worse: on
# the mixed fleet 65 GPUs of the lowest priority fewer, of 246.
def _row(model: cp_model.CpModel, y: dict[tuple[int, int], cp_model.IntVar], row: Row, shapes: int) -> None:
    terms = [(y[k, h], amount) for k, amount in row.amounts for h in range(shapes) if (k, h) in y]
    terms += [(y[k, h], amount) for h, amounts in row.inside for k, amount in amounts if (k, h) in y]
    _at_most(model, terms, row.limit)


def _counted(model: cp_model.CpModel, y: dict[tuple[int, int], cp_model.IntVar], part: CappedSum) -> cp_model.IntVar:
    """z ≤ limit,  z ≤ Σ amount · y"""
    found = model.new_int_var(0, max(0, part.limit), "")
    terms = [(y[pair], amount) for pair, amount in part.amounts.items() if pair in y]
    model.add(found <= cp_model.LinearExpr.weighted_sum([var for var, _ in terms], [amount for _, amount in terms]))
    return found


def _at_most(model: cp_model.CpModel, terms: list[tuple[cp_model.IntVar, int]], limit: int) -> None:
    """Σ amount · variable ≤ limit, with fewer digits where they are many: rounded so that nothing is cut off."""
    terms = [(var, amount) for var, amount in terms if amount]
    if not terms:
        return
    unit = max(1, max(abs(amount) for _, amount in terms) >> 24)
    load = cp_model.LinearExpr.weighted_sum([var for var, _ in terms], [amount // unit for _, amount in terms])
    model.add(load <= -(-limit // unit))
