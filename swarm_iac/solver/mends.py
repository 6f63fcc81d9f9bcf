"""Which small changes would place a workload, and what would each cost the others? Every answer was solved.

Offers lift the rules of the conflict one at a time, cheapest first. Where no single one is enough, the conflict that is
left after it is lifted as well, and so on to DEPTH edits: a hitting set of the conflicts, grown breadth first.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from swarm_iac.model.edit import Edit, changed, current
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver.explain import Causes, room_of
from swarm_iac.solver.facts import conflict_of
from swarm_iac.solver.offers import Kind, Offer, Offers
from swarm_iac.solver.scene import scene_of
from swarm_iac.solver.solution import Mend, Solution
from swarm_iac.solver.solve import solve

KINDS: tuple[Kind, ...] = ("limit", "node", "move", "request")
#: So many mends of each kind are told.
MOST = 3
#: So many offers of each kind are solved.
TRIES = 6
#: At most so many edits together, and so many solves to find them.
DEPTH, TOGETHER = 3, 24
#: Above so many pairs (workload, node) a solve takes seconds: only what counting is sure of is solved, and less of it.
LARGE, TRIES_LARGE, TOGETHER_LARGE = 2_500, 2, 3
#: More moves than any fleet has allocations.
ENDLESS_MOVES = 1_000_000


@dataclass
class Bench:
    """One workload without a place, and what is needed to try a change. `last` is what a solve starts from."""

    stack: Stack
    placement: Placement
    workload: str
    last: Placement
    today: datetime.date | None
    tell: Callable[[str], None] = lambda text: None

    def solved(self, stack: Stack) -> Solution:
        """What a solve of the changed stack gives."""
        return solve(stack, self.last, today=self.today)

    def mend(self, kind: Kind | Literal["together"], edits: tuple[Edit, ...]) -> Mend | None:
        """The edits as a mend, when solving with them places the workload whole."""
        stack = self.stack
        for edit in edits:
            stack = changed(stack, edit)
        self.tell(" ".join(map(str, edits)))
        found = self.solved(stack)
        if any(gone.workload == self.workload for gone in found.placement.unplaced):
            return None
        now = found.placement.by_name()
        stops = tuple(a.name for a in self.placement.allocations if a.name not in now and a.workload != self.workload)
        was = tuple(current(self.stack, edit.path) for edit in edits)
        before = self.placement.by_name()
        moves = tuple(one for one in found.moves if one.target and one.name in before and before[one.name].node != one.target)
        return Mend(kind=kind, edits=edits, was=was, moves=moves, stops=stops)

    def needed_moves(self) -> int | None:
        """How many moves would make room, if there were no budget; None where moving does not help."""
        budget = Edit(path="solve.moves", value=ENDLESS_MOVES)
        found = self.solved(changed(self.stack, budget))
        if any(gone.workload == self.workload for gone in found.placement.unplaced):
            return None
        return sum(1 for move in found.moves if move.target and not move.forced)


def mends(bench: Bench, moves: int | None) -> tuple[Mend, ...]:
    """The cheapest mends of each kind. `moves`: what `needed_moves` found."""
    large = len(bench.stack.nodes) * len(bench.stack.workloads) > LARGE
    tries = TRIES_LARGE if large else TRIES
    offers = _offers(bench, ())
    if moves is not None and moves > bench.stack.solve.moves:
        offers.append(Offer("move", Edit(path="solve.moves", value=moves), 100 * moves, True))
    found: list[Mend] = []
    for kind in KINDS:
        mine = [offer for offer in offers if offer.kind == kind and (offer.whole or not large)][:tries]
        made = [mend for offer in mine if (mend := bench.mend(kind, (offer.edit,)))]
        change = {str(offer.edit): offer.change for offer in mine}
        made.sort(key=lambda mend: (len(mend.stops), len(mend.moves), change[str(mend.edits[0])]))
        found += made[:MOST]
    return tuple(found) or _together(bench, offers, large=large)


def _offers(bench: Bench, edits: tuple[Edit, ...]) -> list[Offer]:
    """What could lift the conflict that is left after the edits."""
    stack = bench.stack
    for edit in edits:
        stack = changed(stack, edit)
    scene = scene_of(stack, bench.placement, bench.today)
    ask = scene.asks[bench.workload]
    room = Causes(room_of(scene, bench.placement)).seen(ask)
    taken = {edit.path for edit in edits}
    return [offer for offer in Offers(stack, room, ask, bench.today).of(conflict_of(room, ask)) if offer.edit.path not in taken]


def _together(bench: Bench, offers: list[Offer], *, large: bool) -> tuple[Mend, ...]:
    """Two edits at once, or three; the fewest that were found."""
    front: list[tuple[tuple[Edit, ...], int]] = [((offer.edit,), offer.change) for offer in offers]
    left = TOGETHER_LARGE if large else TOGETHER
    found: list[Mend] = []
    for _ in range(DEPTH - 1):
        wider: list[tuple[tuple[Edit, ...], bool, int]] = []
        for edits, change in front[:TRIES]:
            for offer in _offers(bench, edits)[:TRIES]:
                wider.append(((*edits, offer.edit), offer.whole, change + offer.change))
        wider.sort(key=lambda one: (not one[1], one[2], str(one[0])))
        for edits, whole, _ in wider[:left]:
            if large and not whole:
                continue
            left -= 1
            if mend := bench.mend("together", edits):
                found.append(mend)
            if len(found) == MOST:
                break
        if found or left <= 0:
            break
        front = [(edits, change) for edits, _, change in wider]
    return tuple(found)
