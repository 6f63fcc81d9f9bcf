"""Where does everything go? From a stack and the last placement to the next one, with its proof.

1  settle   what runs and may stay
2  narrow   decide only what has no place; if everything finds one, no wider search can do better
   fill     a large fleet on which nothing runs is filled by columns in its place
3  wide     all workloads at once, where the model is small enough to be exact
   mended   else: clear a few nodes for one unplaced workload after the other, by moving and evicting what stands there
4  devices  replicas get indices, GPUs and CPUs
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

from swarm_iac.model.placement import Allocation, Goal, Placement, Proof, Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.solver.assemble import assemble
from swarm_iac.solver.board import Board
from swarm_iac.solver.counting import possible
from swarm_iac.solver.cpsat import SEED
from swarm_iac.solver.explain import Causes
from swarm_iac.solver.fewest import moves_goal, moves_of
from swarm_iac.solver.goals import LEVELS, aims
from swarm_iac.solver.greedy import greedy
from swarm_iac.solver.homeward import homeward, net
from swarm_iac.solver.keep import Keeping
from swarm_iac.solver.large import fill, most_gpus
from swarm_iac.solver.large import goals as goals_of_large
from swarm_iac.solver.moving import fewest_by_columns
from swarm_iac.solver.neighbourhood import neighbourhood, short
from swarm_iac.solver.room import Room
from swarm_iac.solver.rules.change import moves_stay_in_budget
from swarm_iac.solver.rules.table import RULES
from swarm_iac.solver.scene import Scene, scene_of
from swarm_iac.solver.search import EFFORT, TOO_LARGE, Found, Score, never, search
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
#: Neighbourhoods that are tried in all, and for one workload.
ROUNDS = {"quick": 4, "normal": 24, "thorough": 100}
ATTEMPTS = 3
#: On more pairs than EXACT: deterministic time of one goal where many searches are made, and of all searches together.
HASTE = {"quick": 0.15, "normal": 0.6, "thorough": 3.0}
IN_ALL = {"quick": 5.0, "normal": 20.0, "thorough": 60.0}
#: Of these, what it counts to look at one node when a neighbourhood is chosen.
LOOKED = 4e-4
#: Above this many pairs each workload looks at its best WIDEST nodes only.
LARGE = 60_000
WIDEST = 12


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
    found, counts, cut = _search(scene, first, most, None, repair, watch, large=large, enough=enough)
    lacking = _lacking(found.scores)
    if repair and settled.stay and lacking and not watch.stopped:
        if size > EXACT:
            return _mended(stack, scene, settled, most, counts, watch, found.spent)
        found, counts, cut = _search(scene, wide(scene, settled), most, counts, repair, watch)
    placement = _placement(scene, settled, counts)
    return Solution(
        placement=placement,
        proof=_proof(stack, scene, found, placement, cut=cut, stopped=watch.stopped),
        moves=_moves(scene, settled, placement),
    )


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
    stack: Stack, scene: Scene, settled: Settled, most: dict[str, int], counts: Pairs, watch: Watch, spent: float
) -> Solution:
    """A large fleet with a change: room is made for one unplaced workload after the other, a few nodes at a time.

    `spent`: deterministic time that was spent before. When IN_ALL is used up no more rounds are begun.
    """
    rounds = 0
    tried: Counter[str] = Counter()
    while rounds < ROUNDS[stack.solve.effort] and spent < IN_ALL[stack.solve.effort] and not watch.stopped:
        ask = next((ask for ask in short(scene, counts) if tried[ask.name] < ATTEMPTS), None)
        if ask is None:
            break
        task = neighbourhood(scene, settled, counts, ask, tried[ask.name])
        tried[ask.name] += 1
        spent += LOOKED * len(scene.bins)
        if task is None:
            continue
        rounds += 1
        near, found, _ = _search(scene, task, most, counts, True, watch, large=True, spent=spent)
        spent += near.spent
        found = homeward(scene, settled, found)
        # Each neighbourhood keeps the budget by itself; what changed its card before is not known to it.
        kept = moves_of(scene, settled, found) <= max(stack.solve.moves, moves_of(scene, settled, counts))
        if kept and net(scene, settled, found) > net(scene, settled, counts):
            counts = found
    counted = sum(worth(scene.asks[name]) * count for name, count in most.items())
    goals = [*goals_of_large(scene, counts, most, counted), moves_goal(scene, settled, counts)]
    watch.tell(tuple(goals))
    if goals[-1].bound < goals[-1].value and not watch.stopped:
        counts, goals[-1] = _fewer(scene, settled, counts, goals[-1].bound, watch)
    if short(scene, counts) and not watch.stopped:
        gpus = most_gpus(scene, stack.solve.effort, lambda: watch.stopped)
        goals = [*goals_of_large(scene, counts, most, counted, gpus), goals[-1]]
    return _large_solution(scene, settled, counts, tuple(goals), rounds, watch)


def _fewer(scene: Scene, settled: Settled, counts: Pairs, counted: int, watch: Watch) -> tuple[Pairs, Goal]:
    """The least that any placement of the same replicas moves, by columns or as `counted`, and the placement that they give."""
    least = fewest_by_columns(scene, settled, counts, scene.stack.solve.effort, lambda: watch.stopped)
    if least.found is not None and moves_of(scene, settled, least.found) < moves_of(scene, settled, counts):
        counts = least.found
    moves = moves_of(scene, settled, counts)
    return counts, Goal(name="moves", value=moves, bound=min(moves, max(counted, least.moves)))


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


def _search(
    scene: Scene,
    task: Task,
    most: dict[str, int],
    start: Pairs | None,
    repair: bool,
    watch: Watch,
    *,
    large: bool = False,
    spent: float = 0.0,
    enough: Callable[[list[Score]], bool] = never,
) -> tuple[Found, Pairs, bool]:
    """Solve one task; of a large fleet with what is left for all searches together, and a repair with less for each goal.

    Returns what was found, the counts of all replicas, and whether candidates were left out.
    """
    if len(task.free) * len(task.nodes or scene.bins) > LARGE and len(scene.bins) > 3 * WIDEST:
        task.widest = WIDEST
    fixed: Pairs = Counter({(n, node): k for n, counts in task.base.counts.items() for node, k in counts.items()})
    first = greedy(task) if start is None else start - fixed
    board = Board(task, first)
    for rule in RULES:
        rule(board)
    keeping = Keeping(board)
    moves_stay_in_budget(board, keeping)
    level = scene.stack.solve.effort
    effort = (HASTE if large and repair else EFFORT)[level]
    left = IN_ALL[level] - spent if large else math.inf
    found = search(board, aims(board, keeping, most, repair=repair), first, effort, watch, left, enough)
    return found, found.counts + fixed, board.cut or len(board.x) > TOO_LARGE


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
