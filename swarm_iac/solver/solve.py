"""Where does everything go? From a stack and the last placement to the next one, with its proof.

1  settle   what runs and may stay
2  narrow   decide only what has no place; if everything finds one, no wider search can do better
   fill     where nothing runs columns decide on a large fleet, and are a second start on a small one
3  wide     all workloads at once, where the model is small enough to be exact
   mended   else, and where it proves too little: clear a few nodes for one unplaced workload after the other, by moving
            and evicting what stands there
4  devices  replicas get indices, GPUs and CPUs
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import replace
from importlib.metadata import version

from swarm_iac.model.placement import Allocation, Goal, Placement, Proof, Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.solver.assemble import assemble
from swarm_iac.solver.attempt import attempt
from swarm_iac.solver.clear import cleared, fewer
from swarm_iac.solver.counting import possible
from swarm_iac.solver.cpsat import SEED
from swarm_iac.solver.explain import Causes
from swarm_iac.solver.fewest import moves_goal
from swarm_iac.solver.goals import LEVELS
from swarm_iac.solver.greedy import greedy
from swarm_iac.solver.large import fill, most_gpus
from swarm_iac.solver.large import goals as goals_of_large
from swarm_iac.solver.neighbourhood import short
from swarm_iac.solver.room import Room
from swarm_iac.solver.scene import Scene, scene_of
from swarm_iac.solver.search import EFFORT, Found, Score, never, stricter
from swarm_iac.solver.solution import Move, Solution, digest
from swarm_iac.solver.task import Pairs, Settled, Task, by_workload, narrow, settle, wide
from swarm_iac.solver.watch import Watch, goals_of
from swarm_iac.solver.worth import total, worth

#: Above this many nodes, too, the fleet is filled by columns.
NODES = 100
#: Up to this many pairs (workload, node) all is decided at once.
EXACT = 60_000
#: Above this many pairs the careful greedy pass is left out: columns have quicker ones of their own.
CAREFUL = 400_000
#: Deterministic time of all searches together on more pairs than EXACT; and on fewer, of those that follow the first.
IN_ALL = {"quick": 5.0, "normal": 20.0, "thorough": 60.0}
FURTHER = {"quick": 1.0, "normal": 4.0, "thorough": 20.0}
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
    scene = scene_of(stack, last, today)
    settled = settle(scene)
    most = possible(scene)
    size = sum(1 for _ in scene.asks) * len(scene.bins)
    watch = watch or Watch()
    if not scene.running and _large(scene):
        return _filled(stack, scene, settled, most, watch)
    first = narrow(scene, settled) if repair else replace(wide(scene, settled), budget=moves)
    large = size > EXACT
    # Where room has to be made for some, who comes is placed again: how tidily he stands now is no matter.
    enough = _all_placed if large and repair and settled.stay else never
    left = IN_ALL[stack.solve.effort] if large else math.inf
    if repair and not scene.running:
        found, counts, cut = _from_nothing(scene, first, most, watch)
    else:
        found, counts, cut = attempt(scene, first, most, None, repair, watch, haste=large, left=left, enough=enough)
    if repair and settled.stay and _lacking(found.scores) and not watch.stopped:
        if large:
            return _mended(stack, scene, settled, most, counts, watch, left - found.spent)
        found, counts, cut = _all_at_once(scene, settled, most, counts, watch)
    placement = _placement(scene, settled, counts)
    return Solution(
        placement=placement,
        proof=_proof(stack, scene, found, placement, cut=cut, stopped=watch.stopped),
        moves=_moves(scene, settled, placement),
    )


def _from_nothing(scene: Scene, task: Task, most: dict[str, int], watch: Watch) -> Answer:
    """A small fleet on which nothing runs: from a greedy placement, and from what columns fill where that is worth more."""
    counts = greedy(task)
    placed = by_workload(counts)
    if watch.stopped or all(placed[name] >= count for name, count in most.items()):
        return attempt(scene, task, most, counts, True, watch)
    effort = scene.stack.solve.effort
    gpus = most_gpus(scene, effort, lambda: watch.stopped)
    filled = fill(task, most, effort, lambda: watch.stopped).counts
    best = attempt(scene, task, most, counts, True, watch, gpus=gpus)
    if total(scene, filled) > total(scene, best[1]):
        found, counts, cut = attempt(scene, task, most, filled, True, watch, gpus=gpus)
        best = max(best, (replace(found, scores=stricter(found.scores, best[0].scores)), counts, cut), key=_values)
    return best


def _all_at_once(scene: Scene, settled: Settled, most: dict[str, int], counts: Pairs, watch: Watch) -> Answer:
    """Everything in one model. Where that proves too little, what a few nodes at a time give if it is better.

    `counts`: all that runs stays, and what has no place takes what is free.
    """
    gpus = most_gpus(scene, scene.stack.solve.effort, lambda: watch.stopped)
    first = best = attempt(scene, wide(scene, settled), most, counts, True, watch, gpus=gpus)

    def better(best: Answer, other: Pairs) -> Answer:
        if other == best[1]:
            return best
        task = wide(scene, settled)
        found, _, cut = attempt(scene, task, most, other, True, watch, gpus=gpus, enough=lambda scores: True)
        return max(best, (replace(found, scores=stricter(found.scores, first[0].scores)), other, cut), key=_values)

    if _open(best[0].scores) and not watch.stopped:
        best = better(best, cleared(scene, settled, most, counts, watch, FURTHER[scene.stack.solve.effort])[0])
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


def _large(scene: Scene) -> bool:
    return len(scene.bins) > NODES or len(scene.asks) * len(scene.bins) > EXACT


def _filled(stack: Stack, scene: Scene, settled: Settled, most: dict[str, int], watch: Watch) -> Solution:
    """A large fleet on which nothing runs yet."""
    task = narrow(scene, settled)
    counts: Pairs = greedy(task) if len(scene.asks) * len(scene.bins) <= CAREFUL else Counter()
    rounds = 0
    bound = counted = sum(worth(scene.asks[name]) * count for name, count in most.items())

    def better(found: Pairs) -> Pairs:
        return max(counts, found, key=lambda one: total(scene, one))

    def tell(found: Pairs, bound: int | None) -> None:
        watch.tell(goals_of_large(scene, better(found), most, min(counted, bound or counted)))

    placed = by_workload(counts)
    if any(placed[name] < count for name, count in most.items()):
        tell(counts, None)
        answer = fill(task, most, stack.solve.effort, lambda: watch.stopped, tell)
        counts, bound, rounds = better(answer.counts), answer.bound, answer.rounds
    return _large_solution(scene, settled, counts, goals_of_large(scene, counts, most, bound), rounds, watch)


def _mended(
    stack: Stack, scene: Scene, settled: Settled, most: dict[str, int], counts: Pairs, watch: Watch, left: float
) -> Solution:
    """A large fleet with a change."""
    counts, rounds = cleared(scene, settled, most, counts, watch, left)
    counted = sum(worth(scene.asks[name]) * count for name, count in most.items())
    moves = moves_goal(scene, settled, counts)
    watch.tell((*goals_of_large(scene, counts, most, counted), moves))
    counts, moves = fewer(scene, settled, counts, moves, watch)
    goals = goals_of_large(scene, counts, most, counted)
    if short(scene, counts) and not watch.stopped:
        gpus = most_gpus(scene, stack.solve.effort, lambda: watch.stopped)
        goals = goals_of_large(scene, counts, most, counted, gpus)
    return _large_solution(scene, settled, counts, (*goals, moves), rounds, watch)


def _large_solution(
    scene: Scene, settled: Settled, counts: Pairs, goals: tuple[Goal, ...], rounds: int, watch: Watch
) -> Solution:
    watch.tell(goals)
    placement = _placement(scene, settled, counts)
    how = {"workers": 1, "seed": SEED, "effort": scene.stack.solve.effort, "rounds": rounds}
    proof = Proof(
        optimal=all(goal.value == goal.bound for goal in goals),
        goals=goals,
        solver=f"OR-Tools CP-SAT and GLOP {version('ortools')}",
        parameters=how | ({"cut": "by hand"} if watch.stopped else {}),
        placement=digest(placement),
    )
    return Solution(placement=placement, proof=proof, moves=_moves(scene, settled, placement))


def _lacking(scores: list[Score]) -> bool:
    """Could a wider search place or keep more?"""
    return any(aim.name.endswith(("_stay", "_running", "_placed")) and value < bound for aim, value, bound in scores)


def _all_placed(scores: list[Score]) -> bool:
    """Is all placed that this search can place, and a wider one could place more?"""
    return any(aim.name == f"{LEVELS[-1]}_placed" for aim, _, _ in scores) and _lacking(scores)


def _placement(scene: Scene, settled: Settled, counts: Pairs) -> Placement:
    allocations = assemble(scene, settled, counts)
    room = Room(scene)
    indices: dict[str, set[int]] = {}
    for a in allocations:
        room.take(scene.asks[a.workload], scene.bins[a.node], 1, a.gpus)
        indices.setdefault(a.workload, set()).add(a.index)
    unplaced = []
    causes = Causes(room)
    for name, ask in scene.asks.items():
        missing = tuple(i for i in range(ask.wanted) if i not in indices.get(name, ()))
        if missing:
            unplaced.append(Unplaced(workload=name, missing=missing, reasons=causes.of(ask)))
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
