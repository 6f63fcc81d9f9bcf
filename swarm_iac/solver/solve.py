"""Where does everything go? From a stack and the last placement to the next one, with its proof.

1  settle   what runs and may stay
2  narrow   decide only what has no place, greedily first; if everything finds one, no wider search can do better
   fill     where nothing runs columns decide on a large fleet, and are a second start on a small one
3  wide     all workloads at once, where the model is small enough to be exact
   mended   else, and where it proves too little: clear a few nodes for one unplaced workload after the other, by moving
            and evicting what stands there
4  devices  replicas get indices, GPUs and CPUs

Each step begins from an answer and keeps it where it finds no better one, so a search that fails or is ended costs a
proof and never a placement.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

from swarm_iac.model.placement import Allocation, Goal, Placement, Proof, Reason, Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.solver.assemble import assemble
from swarm_iac.solver.attempt import attempt
from swarm_iac.solver.bounds import Bounds, level_bounds
from swarm_iac.solver.clear import cleared, fewer
from swarm_iac.solver.columns.limit import Limit
from swarm_iac.solver.counting import possible
from swarm_iac.solver.cpsat import SEED
from swarm_iac.solver.explain import Causes
from swarm_iac.solver.fewest import moves_goal
from swarm_iac.solver.greedy import ORDERS, greedy
from swarm_iac.solver.homeward import homeward
from swarm_iac.solver.large import fill
from swarm_iac.solver.large import goals as goals_of_large
from swarm_iac.solver.neighbourhood import short
from swarm_iac.solver.restore import restored
from swarm_iac.solver.room import Room, room_with
from swarm_iac.solver.scene import Scene, scene_of
from swarm_iac.solver.search import EFFORT, Found, Score, capped, never, stricter
from swarm_iac.solver.slack import without_slack
from swarm_iac.solver.solution import Move, Solution, digest
from swarm_iac.solver.task import Pairs, Settled, Task, by_workload, narrow, settle, wide
from swarm_iac.solver.watch import Watch, goals_of
from swarm_iac.solver.worth import total

#: Above this many nodes, too, the fleet is filled by columns.
NODES = 100
#: Up to this many pairs (workload, node) all is decided at once.
EXACT = 60_000
#: Deterministic time of all searches of a solve together: for a change, and from nothing. It grows with the fleet, by as
#: much for each PAIRS pairs, up to MOST times.
CHANGE = {"quick": 0.2, "normal": 0.5, "thorough": 60.0}
FROM_NOTHING = {"quick": 0.4, "normal": 1.0, "thorough": 120.0}
PAIRS, MOST = 12_000, 6.0
#: The same of columns: on a small fleet, where it grows likewise, and on a large one.
COLUMNS = {"quick": 0.1, "normal": 0.3, "thorough": 20.0}
COLUMNS_OF_LARGE = {"quick": 4.0, "normal": 20.0, "thorough": 200.0}
#: Part of it that narrow searches have where a wide one follows.
NARROW = 0.3
#: After a search that was ended by hand so many reasons are looked for; the others say so.
SEEN = 20
UNSEEN = Reason(rule="effort", text="the search was ended before the reason was looked for", path="solve.effort")
#: What a search found, the replicas of all workloads, and whether candidates were left out.
Answer = tuple[Found, Pairs, bool]


def solve(
    stack: Stack,
    last: Placement = Placement(),
    *,
    repair: bool = True,
    moves: int | None = None,
    today: datetime.date | None = None,
    watch: Watch | None = None,
) -> Solution:
    """The next placement. `repair`: keep what may stay, within the move budget; else optimise all (`swarm rebalance`).

    `moves` bounds a rebalance; a repair has `stack.solve.moves`. `watch` sees each goal improve and may end the search:
    the answer is then the best so far, and the proof's parameters say so.
    Without `today` every limit exception holds. Pure: the same arguments give the same answer.
    """
    watch = watch or Watch()
    watch.phase("reading the fleet")
    scene = without_slack(scene_of(stack, last, today))
    settled = settle(scene)
    most = possible(scene)
    try:
        return _best(scene, settled, most, moves, watch, repair=repair)
    except Exception as error:
        return rescued(scene, settled, most, error, watch)


def rescued(scene: Scene, settled: Settled, most: dict[str, int], error: Exception, watch: Watch) -> Solution:
    """What stays and a greedy pass for the rest, bounded by counting; the proof says what failed."""
    task = narrow(scene, settled)
    counts = _fixed(task) + greedy(task, watch.ended)
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" at {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at is not None else ""
    goals = (*goals_of_large(scene, counts, most, Bounds()), moves_goal(scene, settled, counts))
    return _large_solution(scene, settled, counts, goals, 0, watch, {"failed": f"{type(error).__name__}{where}: {error}"})


def _fixed(task: Task) -> Pairs:
    """What a task does not decide."""
    return Counter({(name, node): k for name, counts in task.base.counts.items() for node, k in counts.items()})


def _best(scene: Scene, settled: Settled, most: dict[str, int], moves: int | None, watch: Watch, *, repair: bool) -> Solution:
    large = len(scene.asks) * len(scene.bins) > EXACT
    if not repair:
        task = replace(wide(scene, settled), budget=moves)
        left = in_all(scene, FROM_NOTHING)
        found, counts, cut = attempt(scene, task, most, None, False, watch, haste=large, left=left, enough=never)
    elif not scene.running and (large or len(scene.bins) > NODES):
        return _filled(scene, settled, most, watch)
    elif not scene.running:
        found, counts, cut = _from_nothing(scene, narrow(scene, settled), most, watch)
    elif large:
        return _mended(scene, settled, most, watch)
    else:
        found, counts, cut = _changed(scene, settled, most, watch)
    placement = _placement(scene, settled, counts, watch)
    return Solution(
        placement=placement,
        proof=_proof(scene.stack, scene, found, placement, cut=cut, stopped=watch.stopped),
        moves=_moves(scene, settled, placement),
    )


def in_all(scene: Scene, table: dict[str, float]) -> float:
    """Deterministic time of all searches together: more for a larger fleet."""
    return table[scene.stack.solve.effort] * min(MOST, 1 + len(scene.asks) * len(scene.bins) / PAIRS)


def _columns(scene: Scene, watch: Watch, *, large: bool = False) -> Limit:
    """How long columns may be looked for."""
    table = COLUMNS_OF_LARGE if large else COLUMNS
    return Limit(watch.ended, table[scene.stack.solve.effort] if large else in_all(scene, table))


def _complete(counts: Pairs, most: dict[str, int]) -> bool:
    """Is all placed that any placement could place?"""
    placed = by_workload(counts)
    return all(placed[name] >= count for name, count in most.items())


def _from_nothing(scene: Scene, task: Task, most: dict[str, int], watch: Watch) -> Answer:
    """A small fleet on which nothing runs: from a greedy placement, or from what columns fill where that is worth more."""
    watch.phase("placing all by priority")
    counts = greedy(task, watch.ended)
    left = in_all(scene, FROM_NOTHING)
    if watch.stopped or _complete(counts, most):
        return attempt(scene, task, most, counts, True, watch, left=left)
    effort = scene.stack.solve.effort
    counts = max((counts, *(greedy(task, watch.ended, order) for order in ORDERS[1:])), key=lambda one: total(scene, one))
    watch.phase("filling nodes by columns")
    counts = max(counts, fill(task, counts, effort, _columns(scene, watch)).counts, key=lambda one: total(scene, one))
    bounds = level_bounds(scene, counts, most, effort, _columns(scene, watch))
    watch.phase("improving the placement")

    def below(counts: Pairs, priority: int) -> Pairs:
        """What those of lower priorities could take beside `counts`, by columns."""
        fixed = Counter({pair: n for pair, n in counts.items() if scene.asks[pair[0]].priority >= priority})
        base = room_with(scene, fixed)
        free = {name: n for name, n in task.free.items() if scene.asks[name].priority < priority}
        rest = replace(task, base=base, free=free)
        return fixed + fill(rest, greedy(rest, watch.ended), effort, _columns(scene, watch).part(0.5)).counts

    best = attempt(scene, task, most, counts, True, watch, left=left, gpus=bounds, below=below)
    return _bounded_again(scene, most, best, counts, watch)


def _bounded_again(scene: Scene, most: dict[str, int], answer: Answer, before: Pairs, watch: Watch) -> Answer:
    """The same answer; where higher priorities hold other replicas than when it was bounded, with what that leaves."""
    found, counts, cut = answer
    if counts == before or not _lacking(found.scores) or watch.stopped:
        return answer
    bounds = level_bounds(scene, counts, most, scene.stack.solve.effort, _columns(scene, watch))
    scores = [
        (aim, value, bound if aim.places is None else min(bound, capped(aim, value, bounds, found.scores)))
        for aim, value, bound in found.scores
    ]
    return replace(found, scores=scores), counts, cut


def _changed(scene: Scene, settled: Settled, most: dict[str, int], watch: Watch) -> Answer:
    """A small fleet with a change: what has no place takes what is free; where that is not enough, all at once."""
    watch.phase("placing what is new")
    task = narrow(scene, settled)
    counts = _fixed(task) + greedy(task, watch.ended)
    left = in_all(scene, CHANGE)
    if watch.stopped or _complete(counts, most) or not settled.stay:
        return attempt(scene, task, most, counts, True, watch, left=left)
    bounds = level_bounds(scene, counts, most, scene.stack.solve.effort, _columns(scene, watch))
    first = attempt(scene, task, most, counts, True, watch, left=left * NARROW, gpus=bounds)
    if not _lacking(first[0].scores) or watch.stopped:
        return first
    watch.phase("making room for what has no place")
    return _all_at_once(scene, settled, most, first[1], bounds, watch, left - first[0].spent)


def _all_at_once(
    scene: Scene,
    settled: Settled,
    most: dict[str, int],
    counts: Pairs,
    gpus: Bounds,
    watch: Watch,
    left: float,
) -> Answer:
    """Everything in one model. Where that proves too little, what a few nodes at a time give if it is better.

    `counts`: all that runs stays, and what has no place takes what is free.
    """
    first = best = attempt(scene, wide(scene, settled), most, counts, True, watch, gpus=gpus, left=left / 2)
    left -= first[0].spent

    def better(best: Answer, other: Pairs) -> Answer:
        if other == best[1]:
            return best
        task = wide(scene, settled)
        found, _, cut = attempt(scene, task, most, other, True, watch, gpus=gpus, enough=lambda scores: True)
        return max(best, (replace(found, scores=stricter(found.scores, first[0].scores)), other, cut), key=_values)

    if _open(best[0].scores) and not watch.stopped and left > 0:
        found, _ = cleared(scene, settled, most, counts, watch, left, gpus)
        best = better(best, found)
    best = better(best, restored(scene, settled, homeward(scene, settled, best[1]), watch.ended))
    if _open(best[0].scores) and not watch.stopped:
        moved, goal = fewer(scene, settled, best[1], moves_goal(scene, settled, best[1]), watch)
        best = better(best, moved)
        if not short(scene, best[1]):  # then the least that these replicas move is the least of all
            best = replace(best[0], scores=[_at_least(score, goal) for score in best[0].scores]), *best[1:]
    for aim, value, bound in best[0].scores:
        watch.reached(aim, value, bound)
    return best


def _at_least(score: Score, proven: Goal) -> Score:
    aim, value, bound = score
    return (aim, value, max(bound, min(value, proven.bound))) if aim.name == proven.name else score


def _values(answer: Answer) -> list[int]:
    return [aim.sense * value for aim, value, _ in answer[0].scores]


def _open(scores: list[Score]) -> bool:
    """Could a wider search place or keep more, or move fewer?"""
    return _lacking(scores) or any(aim.name == "moves" and value > bound for aim, value, bound in scores)


def _filled(scene: Scene, settled: Settled, most: dict[str, int], watch: Watch) -> Solution:
    """A large fleet on which nothing runs yet."""
    effort = scene.stack.solve.effort
    task = narrow(scene, settled)
    watch.phase("placing all by priority")
    counts = greedy(task, watch.ended)
    rounds = 0
    bounds = Bounds()
    watch.tell(goals_of_large(scene, counts, most, bounds))
    if any(ask.gang for ask in short(scene, counts)) and not watch.stopped:  # columns leave gangs where they are
        counts = max((counts, *(greedy(task, watch.ended, order) for order in ORDERS[1:])), key=lambda one: total(scene, one))
    if not _complete(counts, most) and not watch.stopped:
        watch.phase("filling nodes by columns")

        def better(found: Pairs) -> Pairs:
            return max(counts, found, key=lambda one: total(scene, one))

        def tell(found: Pairs, bounds: Bounds) -> None:
            watch.tell(goals_of_large(scene, better(found), most, bounds))

        answer = fill(task, counts, effort, _columns(scene, watch, large=True), tell)
        counts, bounds, rounds = better(answer.counts), answer.bounds, answer.rounds
        watch.phase("bounding what any placement could hold")
        if not bounds.together:
            bounds = level_bounds(scene, counts, most, effort, _columns(scene, watch, large=True))
    return _large_solution(scene, settled, counts, goals_of_large(scene, counts, most, bounds), rounds, watch)


def _mended(scene: Scene, settled: Settled, most: dict[str, int], watch: Watch) -> Solution:
    """A large fleet with a change."""
    effort = scene.stack.solve.effort
    watch.phase("placing what is new")
    task = narrow(scene, settled)
    counts = _fixed(task) + greedy(task, watch.ended)
    rounds = 0
    bounds = Bounds()
    watch.tell(goals_of_large(scene, counts, most, bounds))
    if not _complete(counts, most) and not watch.stopped:
        watch.phase("bounding what any placement could hold")
        bounds = level_bounds(scene, counts, most, effort, _columns(scene, watch, large=True).part(0.2))
        watch.phase("making room for what has no place")
        before = counts
        counts, rounds = cleared(scene, settled, most, counts, watch, in_all(scene, CHANGE), bounds)
        counts = restored(scene, settled, counts, watch.ended)
        if by_workload(counts) != by_workload(before):  # what was bounded beside others may be another now
            bounds = Bounds(bounds.together)
    watch.phase("counting the fewest moves")
    moves = moves_goal(scene, settled, counts)
    watch.tell((*goals_of_large(scene, counts, most, bounds), moves))
    counts, moves = fewer(scene, settled, counts, moves, watch)
    return _large_solution(scene, settled, counts, (*goals_of_large(scene, counts, most, bounds), moves), rounds, watch)


def _large_solution(
    scene: Scene,
    settled: Settled,
    counts: Pairs,
    goals: tuple[Goal, ...],
    rounds: int,
    watch: Watch,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Solution:
    watch.tell(goals)
    placement = _placement(scene, settled, counts, watch)
    how = {"workers": 1, "seed": SEED, "effort": scene.stack.solve.effort, "rounds": rounds, **more}
    proof = Proof(
        optimal=not more and all(goal.value == goal.bound for goal in goals),
        goals=goals,
        solver=f"OR-Tools CP-SAT and GLOP {version('ortools')}",
        parameters=how | ({"cut": "by hand"} if watch.stopped else {}),
        placement=digest(placement),
    )
    return Solution(placement=placement, proof=proof, moves=_moves(scene, settled, placement))


def _lacking(scores: list[Score]) -> bool:
    """Could a wider search place or keep more?"""
    return any(aim.name.endswith(("_stay", "_running", "_placed")) and value < bound for aim, value, bound in scores)


def _placement(scene: Scene, settled: Settled, counts: Pairs, watch: Watch) -> Placement:
    watch.phase("assigning devices")
    allocations = assemble(scene, settled, counts)
    room = Room(scene)
    indices: dict[str, set[int]] = {}
    for a in allocations:
        room.take(scene.asks[a.workload], scene.bins[a.node], 1, a.gpus)
        indices.setdefault(a.workload, set()).add(a.index)
    unplaced: list[Unplaced] = []
    watch.phase("finding the reasons of what is pending")
    causes = Causes(room)
    for name, ask in scene.asks.items():
        missing = tuple(i for i in range(ask.wanted) if i not in indices.get(name, ()))
        if missing:
            reasons = (UNSEEN,) if watch.stopped and len(unplaced) >= SEEN else causes.of(ask)
            unplaced.append(Unplaced(workload=name, missing=missing, reasons=reasons))
    return Placement(allocations=tuple(sorted(allocations, key=lambda a: a.name)), unplaced=tuple(unplaced))


def _proof(stack: Stack, scene: Scene, found: Found, placement: Placement, *, cut: bool, stopped: bool) -> Proof:
    goals = tuple(goal for aim, value, bound in found.scores for goal in goals_of(aim, value, bound))
    effort = {"effort": stack.solve.effort, "per_goal": str(EFFORT[stack.solve.effort])}
    return Proof(
        optimal=not cut and all(goal.value == goal.bound for goal in goals),
        goals=goals,
        solver=f"OR-Tools CP-SAT {version('ortools')}",
        parameters={"workers": 1, "seed": SEED, **effort, **({"cut": "by hand"} if stopped else {})},
        placement=digest(placement),
    )


def _moves(scene: Scene, settled: Settled, placement: Placement) -> tuple[Move, ...]:
    """Running allocations, still wanted, that leave their node, or the card that they hold a part of."""
    now: dict[str, Allocation] = placement.by_name()
    moves = []
    for found in scene.running.values():
        for was in found:
            target = now[was.name].node if was.name in now else ""
            if target != was.node or _recarded(scene, was, now[was.name]):
                forced = was.name not in settled.stay
                moves.append(
                    Move(name=was.name, source=was.node, target=target, forced=forced, why=_why(scene, was, target, forced))
                )
    return tuple(sorted(moves, key=lambda move: move.name))


def _recarded(scene: Scene, was: Allocation, now: Allocation) -> bool:
    """Does a part of a GPU stay on its node, on another card? It restarts as one that moves does."""
    return scene.asks[was.workload].shared and was.node == now.node and was.gpus != now.gpus


def _why(scene: Scene, was: Allocation, target: str, forced: bool) -> str:
    bin_ = scene.bins.get(was.node)
    if bin_ is None:
        return f"{was.node} is no longer in the stack"
    if bin_.state in ("drain", "lost"):
        return f"{was.node} is in state {bin_.state}"
    if forced:
        return f"it does not fit {was.node} any more"
    if target == was.node:
        return "changes its GPU, since parts of GPUs fit there in no other way"
    return "makes room for others" if target else "stops for a higher priority"
