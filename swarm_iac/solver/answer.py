"""Why is a workload where it is, or nowhere, and what would change that? All that is known, in one answer."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from swarm_iac.model.placement import Placement, Reason
from swarm_iac.model.stack import Stack
from swarm_iac.solver import wording
from swarm_iac.solver.explain import Causes, room_of
from swarm_iac.solver.facts import STATES, conflict_of
from swarm_iac.solver.mends import Bench, mends
from swarm_iac.solver.room import Room
from swarm_iac.solver.sake import moved_for
from swarm_iac.solver.scene import Ask, scene_of
from swarm_iac.solver.second import second_best
from swarm_iac.solver.solution import Explanation


def why(
    stack: Stack,
    placement: Placement,
    workload: str,
    *,
    last: Placement | None = None,
    today: datetime.date | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Explanation:
    """The answer about one workload of `placement`, which was decided from `last` (else: it stands already).

    `tell` hears what is being tried. Raises KeyError for an unknown workload.
    """
    scene = scene_of(stack, placement, today)
    ask, room = scene.asks[workload], room_of(scene, placement)
    placed = room.counts[workload].total()
    before = placement if last is None else last
    missing = max(0, ask.wanted - placed)
    answer = Explanation(
        workload=workload,
        placed=placed,
        missing=missing,
        fits=wording.fits_here(scene, room, ask),
        moved=moved_for(stack, placement, workload, before, today),
    )
    if not missing:
        tell("the second best")
        return answer.model_copy(update={"second": second_best(stack, placement, workload, before, today)})
    bench = Bench(stack, placement, workload, before, today, tell)
    moves = bench.needed_moves()
    reasons = reasons_of(room, ask, moves)
    return answer.model_copy(update={"reasons": reasons, "mends": mends(bench, moves)})


def reasons_of(room: Room, ask: Ask, moves: int | None = None) -> tuple[Reason, ...]:
    """The conflict in words: its rules, the closed nodes, who holds the room, and why those stay.

    `moves`: so many moves would make room, more than the budget; None where moving does not help.
    """
    causes, all_that_stands = Causes(room), room
    room = causes.seen(ask)
    found = conflict_of(room, ask)
    if not found.rules or ask.members < ask.wanted:
        return causes.of(ask)
    core = frozenset(found.rules)
    told = [
        wording.forbids(room, ask, rule, core, besides=room is not all_that_stands) for rule in found.rules if rule != STATES
    ]
    told += [wording.closed(room.scene, node) for node in found.closed]
    told += [wording.holds(room, name, found.rules) for name in reversed(found.holders)]
    if found.holders:
        told.append(wording.not_stopped(room, ask, found.holders))
    if moves is not None and moves > room.scene.stack.solve.moves:
        told.append(wording.budget(room.scene, moves))
    return tuple(told)
