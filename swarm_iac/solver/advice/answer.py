"""Why is a workload where it is, or nowhere, and what would change that? All that is known, in one answer."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

from swarm_iac.model.placement import Placement, Reason
from swarm_iac.model.stack import Stack
from swarm_iac.solver.advice.fixes import MOST, TINY, TRIES, Bench, fixes
from swarm_iac.solver.advice.runner_up import find_runner_up
from swarm_iac.solver.decide.keep_size import of_replicas
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain import conflict, messages, of_links
from swarm_iac.solver.explain.conflict import Causes, capacity_of
from swarm_iac.solver.explain.counting import STATES
from swarm_iac.solver.explain.facts import Conflict, conflict_of
from swarm_iac.solver.explain.move_causes import moved_for
from swarm_iac.solver.explain.team_shares import with_shares
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.solver.solution import Explanation, Fix


def why(
    stack: Stack,
    placement: Placement,
    workload: str,
    *,
    last: Placement | None = None,
    today: datetime.date | None = None,
    tell: Callable[[str], None] = lambda text: None,
    so_far: Callable[[Explanation], None] = lambda answer: None,
    watch: Watch | None = None,
    tiny: int = TINY,
    together: int = 0,
) -> Explanation:
    """The answer about one workload of `placement`, which was decided from `last` (else: it stands already).

    `tell` hears what is being tried, and `so_far` the answer as it grows. A watch that is stopped ends it with what is
    known. `tiny`: see Bench. `together`: so many of its replicas grow or change their variant, or none does, so a place for one
    is not enough; then the answer has all fixes that were found, since the caller drops those that leave the variant as it
    is. Raises KeyError for an unknown workload.
    """
    watch = watch or Watch()
    snapshot = with_shares(snapshot_of(stack, placement, today))
    request, capacity = snapshot.requests[workload], capacity_of(snapshot, placement)
    placed = capacity.counts[workload].total()
    before = placement if last is None else last
    missing = max(0, request.wanted - placed)
    answer = Explanation(
        workload=workload,
        placed=placed,
        missing=missing,
        fits=(
            *messages.fits_here(snapshot, capacity, request),
            *of_links.splits(snapshot, placement, workload),
            *of_links.unlinked(snapshot, placement, workload),
        ),
        moved=moved_for(stack, placement, workload, before, today),
        cut=True,
    )
    if not missing:
        so_far(answer)
        tell("the second best")
        runner_up = find_runner_up(stack, placement, workload, before, today, watch)
        return answer.model_copy(update={"runner_up": runner_up, "cut": watch.stopped})
    causes = Causes(capacity, None if last is None else lambda: snapshot_of(stack, last, today))
    seen = causes.seen(request)
    conflict = conflict_of(seen, request)
    if together > 1 and not conflict.rules and not request.gang:
        request = replace(request, gang=True, members=together, wanted=together)
        seen = causes.seen(request)
        conflict = conflict_of(seen, request)
        reasons = tuple(of_replicas(one, workload) for one in reasons_of(causes, request, conflict))
    else:
        reasons = reasons_of(causes, request, conflict)
    answer = answer.model_copy(update={"reasons": reasons})
    so_far(answer)
    bench = Bench(stack, placement, workload, before, today, tell, watch, tiny, TRIES if together else MOST)
    moves = bench.needed_moves(conflict)
    if moves is not None and moves > stack.solve.moves and conflict.rules and request.members == request.wanted:
        answer = answer.model_copy(update={"reasons": (*reasons, messages.budget(snapshot, moves))})
        so_far(answer)

    def found(some: tuple[Fix, ...]) -> None:
        so_far(answer.model_copy(update={"fixes": some}))

    return answer.model_copy(update={"fixes": fixes(bench, seen, conflict, moves, found), "cut": watch.stopped})


def reasons_of(causes: Causes, request: WorkloadRequest, found: Conflict) -> tuple[Reason, ...]:
    """The conflict in words: its rules, the closed nodes, who holds the capacity, and why those stay."""
    if not found.rules or request.members < request.wanted:
        return causes.of(request)
    capacity = causes.seen(request)
    rules = conflict.reasons_for(capacity, request, found.rules, lower=causes.left_out(request, capacity))
    shown = [one for one in rules if one.rule != STATES or one.besides]
    shown += (*causes.of_teams(request, found.rules), *causes.of_guarantees(request))
    shown += [messages.closed(capacity.snapshot, node) for node in found.closed]
    shown += [messages.holds(capacity, name, found.rules, found.places) for name in reversed(found.holders)]
    if any(capacity.snapshot.requests[name].priority >= request.priority for name in found.holders):
        shown.append(messages.not_stopped(capacity, request, found.holders))
    return tuple(shown)
