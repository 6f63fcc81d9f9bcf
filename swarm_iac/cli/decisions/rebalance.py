"""How is the curve of a rebalance shown, and how does one of its points become the decision?"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from swarm_iac.cli.engine import repository
from swarm_iac.cli.terminal.interrupt import Interrupted
from swarm_iac.cli.terminal.progress import Following
from swarm_iac.cli.terminal.screen import table
from swarm_iac.decision import Decision, adopt, keep, running
from swarm_iac.limits import Usage, usage
from swarm_iac.model import cost
from swarm_iac.model.goals.words import figure
from swarm_iac.model.resources.table import LIMITED
from swarm_iac.model.stack import Stack
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.advice.move_curve import Point, better, curve, gained, point, share
from swarm_iac.solver.exact.figures import figures, rank

BAR = 18
_POOLS = frozenset(key for key, rows in LIMITED.items() if not rows[0].capacity and not rows[0].itself)


def chosen(name: str, moves: int, today: datetime.date, progress: Following) -> Decision:
    """The best placement within `moves` moves, written as `swarm solve` does. Raises LimitExceeded.

    Ctrl-C stops the search. Raises Interrupted if the result so far is not as good as what runs.
    """
    now = running(repository(), name, today=today, progress=progress)
    progress.phase(f"trying {pluralize(moves, 'move')}")
    watch = progress.watch(now.stack)
    found = point(now.stack, now.last, moves, today, watch)
    if watch.stopped and rank(found.values) < rank(figures(now.stack, now.last)):
        raise Interrupted("stopped before anything better than the current placement was found; nothing was written")
    decision = adopt(now, found.solution, today=today)
    keep(decision, progress)
    return decision


def tried(now: Decision, today: datetime.date, progress: Following) -> tuple[Decision, tuple[Point, ...], bool]:
    """The whole curve; True if Ctrl-C cut it short."""
    watch = progress.asks("trying moves")

    def so_far(points: tuple[Point, ...]) -> None:
        progress.found((now, points, True))

    points = curve(now.stack, now.last, today, lambda text: progress.phase(f"trying {text}"), so_far, watch)
    return now, points, watch.stopped


def sections(now: Decision, points: tuple[Point, ...]) -> Iterator[RenderableType]:
    """The curve as text."""
    names = gained(points)
    if firm := sorted(name for name, one in now.stack.workloads.items() if not one.movable):
        more = f" and {len(firm) - 5} more" if len(firm) > 5 else ""
        yield Text(f"Not moved, since they say `movable: false`: {', '.join(firm[:5])}{more}.")
    if not names:
        yield Text("Moving running work gains nothing: the placement is as good without moves as with any number.")
        return
    first, costs = points[0], cost.cost(now.stack, points[0].solution.placement)
    pools = [_pools(now.stack, one) for one in points]
    shown = [key for key in pools[0] if any(pool[key].used for pool in pools)]
    heads = ["moves", *(_head(name) for name in names), *shown]
    heads += [*(["cost"] if costs else []), f"gain in {_head(names[0])}"]
    rows = []
    for index, one in enumerate(points):
        cells = [str(one.budget), *(_cell(name, first.values[name], one.values[name]) for name in names)]
        cells += [_used(pools[index][key]) for key in shown]
        if costs:
            cells.append(str(cost.cost(now.stack, one.solution.placement)))
        rows.append([*cells, bar(share(points, index, names[0]))])
    yield table("what moves would gain", heads, rows)
    enough = next(one for one in points if one.values == points[-1].values)
    yield Text(
        f"The full gain takes {pluralize(enough.moves, 'move')}. To write a solution: swarm rebalance --moves {enough.moves}"
    )


def as_json(now: Decision, points: tuple[Point, ...]) -> list[dict[str, Any]]:
    """The curve as JSON."""
    return [
        {
            "budget": one.budget,
            "moves": [move.model_dump(mode="json") for move in one.solution.moves if move.target],
            "figures": one.values,
            "optimal": one.solution.proof.optimal,
            **_used_json(now.stack, one),
            "cost": str(cost.cost(now.stack, one.solution.placement) or "") or None,
        }
        for one in points
    ]


def _pools(stack: Stack, one: Point) -> dict[str, Usage]:
    """What is used of each resource that no machine has, by its key under `limits`."""
    used = usage(stack, one.solution.placement)
    return {each.resource: each for each in used if each.level == "cluster" and each.resource in _POOLS}


def _used(pool: Usage) -> str:
    return f"{pool.used_text} of {pool.ceiling_text}" if pool.ceiling_text else pool.used_text


def _used_json(stack: Stack, one: Point) -> dict[str, dict[str, int]]:
    used = {key: each.used for key, each in _pools(stack, one).items() if each.used}
    return {"used": used} if used else {}


def bar(part: float) -> str:
    """A share as a text bar with its percentage."""
    filled = round(max(0.0, min(1.0, part)) * BAR)
    return f"{'█' * filled}{'·' * (BAR - filled)} {round(100 * part):>3}%"


def _head(name: str) -> str:
    found = figure(name, 0)
    return f"{found.priority} {found.several}".strip()


def _cell(name: str, first: int, value: int) -> str:
    found = figure(name, value).best
    if value == first:
        return found
    more = figure(name, abs(value - first)).best
    return f"{found} ({'+' if value > first else '-'}{more}{'' if better(name, value - first) else ', worse'})"
