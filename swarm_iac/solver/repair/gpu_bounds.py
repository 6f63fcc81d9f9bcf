"""How many GPUs could each priority hold at most, given that those above it are not worse off?

By counting, and where a placement leaves some of it out by a relaxation with whole gangs (`relaxed`) and by columns. Two
programs of the same kind:

together   max Σ_{w of p and above} gpus_w · placed_w                              whatever those above give up
own        max Σ_{w of p} gpus_w · placed_w   with, for each priority q above p,
           Σ_{w of q} gpus_w · placed_w ≥ reached_q,  Σ_{w of q} placed_w ≥ replicas_q
           placed_w ≥ running_w  for w of p and above, where nobody of that priority is stopped

The second is tried where the first leaves a gap. Each program holds one goal, so its values are within three decades.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from swarm_iac.solver.backend.time_limit import Limit
from swarm_iac.solver.columns.problem import Pattern, Problem, Row
from swarm_iac.solver.columns.whole_fleet import bound_of
from swarm_iac.solver.repair.kinds import kind_of, kinds_of, problem_of
from swarm_iac.solver.repair.relaxation import Stand, relaxed_bound
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.snapshot import Ask, Scene
from swarm_iac.solver.snapshot.tasks import Pairs, Settled, by_workload
from swarm_iac.solver.snapshot.value import size

#: Rounds of pricing.
ROUNDS = {"quick": 10, "normal": 40, "thorough": 250}
#: Where nothing runs.
NOBODY = Settled({}, {})
#: A gap of less than this part of a level's GPUs is not looked at twice.
CLOSE = 5e-4


@dataclass(frozen=True)
class Bounds:
    """By priority, in thousandths of GPUs: what it and all above could hold `together`, and what it could hold of its `own`.

    `own` holds for placements in which no priority above is worse off than in the one that it was found for.
    """

    together: dict[int, int] = field(default_factory=dict)
    own: dict[int, int] = field(default_factory=dict)

    def of(self, priority: int, above: int, otherwise: int) -> int:
        """The bound on one priority, where those above it hold `above`; `otherwise` where columns know none."""
        found = [otherwise]
        if priority in self.together:
            found.append(self.together[priority] - above)
        if priority in self.own:
            found.append(self.own[priority])
        return min(found)


def level_bounds(
    scene: Scene,
    counts: Pairs,
    possible: dict[str, int],
    effort: str,
    stop: Limit,
    *,
    columns: bool = True,
    settled: Settled = NOBODY,
) -> Bounds:
    """The bounds beside the placement `counts`; without `columns` those that take no time. `settled`: who may stay."""
    placed = by_workload(counts)
    found = Bounds()
    held = above = 0
    levels = sorted({ask.priority for ask in scene.asks.values()}, reverse=True)
    for i, level in enumerate(levels):
        asks = [ask for ask in scene.asks.values() if ask.gpus and ask.priority >= level]
        mine = [ask for ask in asks if ask.priority == level]
        counted = sum(size(ask) * possible[ask.name] for ask in mine)
        now = sum(size(ask) * placed[ask.name] for ask in mine)
        above, held = held, held + now
        if now >= counted or stop():
            continue
        share = stop.part(1 / (len(levels) - i))
        before = share.left
        problem, groups, first, stand = _beside(scene, level, counts, possible, settled)
        closed = sum(size(ask) * count for ask, count in _closed(scene, mine))

        def open_still(level: int = level, above: int = above, counted: int = counted, now: int = now) -> bool:
            return found.of(level, above, counted) - now > CLOSE * counted

        if (whole := relaxed_bound(problem, groups, share, stand, int(scene.stack.solve.moves))) is not None:
            found.own[level] = max(now, whole + closed)
        if columns and open_still() and not share():
            found.together[level] = max(held, _together(scene, asks, possible, effort, share))
        if columns and open_still() and not share() and any(ask.priority > level for ask in scene.asks.values()):
            bound = int(bound_of(problem, rounds=ROUNDS[effort], stop=share, first=first) + 1e-6)
            found.own[level] = max(now, min(found.own.get(level, counted), bound + closed))
        stop.spend(before - share.left)
    return found


def _together(scene: Scene, asks: list[Ask], possible: dict[str, int], effort: str, stop: Limit) -> int:
    problem = _problem(scene, asks, possible, size, priorities=False)[0]
    bound = int(bound_of(problem, rounds=ROUNDS[effort], stop=stop) + 1e-6)
    return bound + sum(size(ask) * count for ask, count in _closed(scene, asks))


def _beside(
    scene: Scene, level: int, counts: Pairs, possible: dict[str, int], settled: Settled
) -> tuple[Problem, list[list[Ask]], list[tuple[int, Pattern]], Stand]:
    """The problem of a level beside those above it, the workloads of its kinds, columns in which it has an answer, and
    who stands where and would have to move: replicas of a kind on nodes of a shape.
    """
    asks = [ask for ask in scene.asks.values() if ask.priority > level or (ask.priority == level and ask.gpus)]
    value = {ask.name: size(ask) if ask.priority == level else 0 for ask in asks}
    problem, groups, bins = _problem(scene, asks, possible, lambda ask: value[ask.name], priorities=True)
    number = {ask.name: k for k, group in enumerate(groups) for ask in group}
    shape = {name: h for h, names in enumerate(bins) for name in names}
    on: dict[str, Counter[int]] = {}
    reached: Counter[int] = Counter()
    for (name, node), count in counts.items():
        if name in number and node in shape:
            on.setdefault(node, Counter())[number[name]] += count
            reached[number[name]] += count
    rows = []
    for higher in sorted({ask.priority for ask in asks if ask.priority > level}):
        kinds = [k for k, group in enumerate(groups) if group[0].priority == higher]
        for each in ({k: size(groups[k][0]) for k in kinds}, dict.fromkeys(kinds, 1)):
            least = sum(amount * reached[k] for k, amount in each.items())
            rows.append(Row(-least, tuple((k, -amount) for k, amount in each.items() if amount)))
    kept, stand = _kept(scene, asks, by_workload(counts)), Counter[tuple[int, int]]()
    at_least = Counter[int]()
    elsewhere = {ask.name: count for ask, count in _closed(scene, asks)}  # they may stay where columns see nobody
    for name in kept:
        if name in number:
            at_least[number[name]] += max(0, _ran(scene, scene.asks[name]) - elsewhere[name])
    rows += [Row(-least, ((k, -1),)) for k, least in sorted(at_least.items())]
    for a in settled.stay.values():
        if a.workload in kept and a.workload in number and a.node in shape:
            stand[number[a.workload], shape[a.node]] += 1
    with_rows = Problem(problem.kinds, problem.shapes, problem.rows + tuple(row for row in rows if row.limit))
    columns = {(shape[node], tuple(sorted(kinds.items()))) for node, kinds in on.items()}
    return with_rows, groups, sorted(columns), stand


def _ran(scene: Scene, ask: Ask) -> int:
    return min(len(scene.running.get(ask.name, ())), ask.members)


def _kept(scene: Scene, asks: list[Ask], placed: Counter[str]) -> frozenset[str]:
    """Workloads of which as many run on as ran, with all others of their priority: that comes before what is new."""
    stopped = {ask.priority for ask in scene.asks.values() if placed[ask.name] < _ran(scene, ask)}
    return frozenset(ask.name for ask in asks if ask.priority not in stopped and _ran(scene, ask))


def _problem(
    scene: Scene, asks: list[Ask], possible: dict[str, int], value: Callable[[Ask], int], *, priorities: bool
) -> tuple[Problem, list[list[Ask]], tuple[tuple[str, ...], ...]]:
    """Of what could have a place if it had the fleet to itself."""
    empty = Room(scene)
    groups, dims, steps = kinds_of(empty, [ask.name for ask in asks if possible[ask.name]], priorities=priorities)
    kinds = tuple(
        kind_of(g, sum(possible[ask.name] for ask in g), dims, steps, worth=value(g[0]), value=value(g[0])) for g in groups
    )
    problem, bins = problem_of(empty, groups, kinds, dims, steps)
    return problem, groups, bins


def _closed(scene: Scene, asks: list[Ask]) -> list[tuple[Ask, int]]:
    """What may stay on cordoned nodes, which columns do not see."""
    cordoned = {name for name, bin_ in scene.bins.items() if bin_.state == "cordon"}
    return [(ask, sum(count for node, count in scene.home(ask.name).items() if node in cordoned)) for ask in asks]
