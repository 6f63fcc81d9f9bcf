"""What is a better placement? One table of goals, each strictly before the next.

    goal                    sense   term
    LEVEL_stay              max     Σ worth_w · min(stay_w, placed_w)       what may stay is not stopped by its equals
    LEVEL_running           max     Σ worth_w · min(running_w, placed_w)    what ran comes before what is new
    LEVEL_placed            max     Σ worth_w · placed_w                    LEVEL: high, then normal, then low
    kept                    max     Σ load_w · ran_w                        of those that stop the smallest, in every resource
    moves                   min     Σ min(stay_w, placed_w) − Σ kept        replicas that leave a node they could keep,
                                    + Σ recard                              or the card that they hold a part of
    shifts                  min     Σ soft − Σ eased                        replicas that had to change and leave their node
    (order)                 max     Σ place_w · ran_w                       those further down in the file stop; not reported
    misfit                  min     Σ misfit[w,n] · x[w,n]                  GPU nodes for GPU work, small models first
    nodes                   min     Σ open[n]                               fewest nodes in use
    (tie)                   min     Σ rank[n] · x[w,n]                      fullest, then lowest name; not reported

worth_w = gpus_w · (1 + R) + 1, with R the replicas wanted at the level, and GPUs counted in thousandths on a fleet
where parts of them are asked for: GPUs first, then replicas, strictly, since all
replicas together are worth less than one GPU. Because of the order, a running allocation is stopped only where that
places a higher priority. load_w is what one replica takes of the fleet (worth.loads), ran_w = min(running_w, placed_w),
and place_w counts from the end of the file. A rebalance puts moves, shifts and (order) after nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.changes import Keeping
from swarm_iac.solver.exact.fleet_model import Board, Terms, Values
from swarm_iac.solver.snapshot.layout import GPUS, VCPUS
from swarm_iac.solver.snapshot.value import loads

#: Part of the effort of a goal that one of tidiness has.
TIDY = 0.2
#: Goals that nobody is told of.
UNTOLD = ("(order)", "(tie)")
#: Highest first.
LEVELS = tuple(sorted(PRIORITIES, key=lambda name: -PRIORITIES[name]))


@dataclass
class Aim:
    """One goal on a board: value = constant + Σ coefficient · variable. `best` is a bound by counting."""

    name: str
    terms: Terms
    constant: int
    sense: int  # 1: max, -1: min
    best: int
    base: int = 0  # 1 + R where the value is worth; 0 elsewhere
    share: float = 1.0  # of the effort
    unit: str = "gpus"  # what worth counts before replicas
    places: int | None = None  # the priority whose replicas it counts, where it counts what is placed
    settles: bool = False  # does it say who of those that ran stops? Moving what is fixed here could then better it
    counts: frozenset[str] | None = None  # the workloads whose replicas it counts; None: it looks at all
    on_gpus: frozenset[str] | None = None  # those of them with GPUs

    def measure(self, values: Values) -> int:
        """Its value in a placement."""
        return self.constant + sum(coefficient * values[var.index] for var, coefficient in self.terms)

    def expression(self) -> cp_model.LinearExprT:
        """The part that can change."""
        return cp_model.LinearExpr.weighted_sum([v for v, _ in self.terms], [c for _, c in self.terms])

    def split(self) -> tuple[Aim, ...]:
        """Where it counts worth: its GPUs, then its replicas, each as a goal of its own. Else itself."""
        if not self.base:
            return (self,)

        def part(name: str, of: Callable[[int], int], counts: frozenset[str] | None) -> Aim:
            terms = [(var, count) for var, c in self.terms if (count := of(c))]
            constant, best = of(self.constant), of(self.best)
            return replace(self, name=name, terms=terms, constant=constant, best=best, base=0, places=None, counts=counts)

        return (
            part(f"{self.name}_{self.unit}", lambda worth: worth // self.base, self.on_gpus),
            part(f"{self.name}_replicas", lambda worth: worth % self.base, self.counts),
        )


def aims(board: Board, keeping: Keeping, possible: dict[str, int], *, repair: bool) -> list[Aim]:
    """The table for one board. `possible[w]` is the most replicas of w that an empty fleet could take."""
    found = [aim for level in LEVELS for aim in _placing(board, keeping, possible, level)]
    change = [_moves(keeping), _shifts(board, keeping)]
    tidy = [_misfit(board), _nodes(board)]
    kept, order = _kept(board, keeping, possible)
    # Nobody moves for a tie.
    return [*found, kept, *([*change, order, *tidy] if repair else [*tidy, *change, order]), _tie(board)]


def _placing(board: Board, keeping: Keeping, possible: dict[str, int], level: str) -> list[Aim]:
    scene, base = board.task.scene, board.task.base
    asks = [ask for ask in scene.asks.values() if ask.priority == PRIORITIES[level]]
    step = 1 + sum(ask.members for ask in asks)
    milli = any(ask.shared for ask in scene.asks.values())
    unit = "gpu_milli" if milli else "gpus"
    worth = {ask.name: ask.gpus * (ask.share if milli else 1) * step + 1 for ask in asks}
    fixed = {ask.name: base.counts[ask.name].total() for ask in asks}
    free = {ask.name: min(board.task.free.get(ask.name, 0), max(0, possible[ask.name] - fixed[ask.name])) for ask in asks}
    constant = sum(worth[name] * count for name, count in fixed.items())

    def aim(name: str, terms: Terms, counts: frozenset[str], top: int, places: int | None = None) -> Aim:
        on_gpus = frozenset(w for w in counts if scene.asks[w].gpus)
        best = constant + top
        return Aim(name, terms, constant, 1, best, step, unit=unit, places=places, counts=counts, on_gpus=on_gpus)

    result = []
    for name, least in ((f"{level}_stay", keeping.stayed), (f"{level}_running", keeping.ran)):
        mine = {w: var for w, var in least.items() if w in worth}
        top = sum(worth[w] * min(board.top_of(var), free[w]) for w, var in mine.items())
        result.append(aim(name, [(var, worth[w]) for w, var in mine.items()], frozenset(mine), top))
    every = [(var, worth[ask.name]) for ask in asks for var in board.of(ask.name)]
    top = sum(worth[name] * count for name, count in free.items())
    result.append(aim(f"{level}_placed", every, frozenset(free), top, PRIORITIES[level]))
    return result


def _kept(board: Board, keeping: Keeping, possible: dict[str, int]) -> list[Aim]:
    """Who stops, where someone has to: first by what is lost, then by the place in the file."""
    scene, base = board.task.scene, board.task.base
    tops = {
        name: min(board.top_of(var), board.task.running[name], max(0, possible[name] - base.counts[name].total()))
        for name, var in keeping.ran.items()
    }
    place = {name: len(scene.stack.workloads) - i for i, name in enumerate(scene.stack.workloads)}
    found = []
    for title, weights in (("kept", loads(scene)), ("(order)", place)):
        terms = [(var, weights[name]) for name, var in keeping.ran.items()]
        found.append(Aim(title, terms, 0, 1, sum(weights[name] * top for name, top in tops.items()), share=TIDY, settles=True))
    return found


def _moves(keeping: Keeping) -> Aim:
    return Aim("moves", keeping.moves(), 0, -1, 0)


def _shifts(board: Board, keeping: Keeping) -> Aim:
    return Aim("shifts", [(var, -1) for var in keeping.eased.values()], board.task.soft.total(), -1, 0)


def _misfit(board: Board) -> Aim:
    cost = {pair: board.misfits.of(board.ask(pair[0]), board.bin(pair[1])) for pair in board.x}
    terms = [(var, cost[pair]) for pair, var in board.x.items() if cost[pair]]
    scene = board.task.scene
    constant = sum(
        count * board.misfits.of(scene.asks[name], scene.bins[node])
        for name, counts in board.task.base.counts.items()
        for node, count in counts.items()
    )
    return Aim("misfit", terms, constant, -1, constant, share=TIDY)


def _nodes(board: Board) -> Aim:
    load = board.task.base.load
    terms: Terms = [(var, 1) for node, var in board.open.items() if not load[node]]
    constant = sum(1 for count in load.values() if count)
    return Aim("nodes", terms, constant, -1, constant, share=TIDY)


def _tie(board: Board) -> Aim:
    base = board.task.base
    order = sorted(board.by_bin, key=lambda n: (not base.load[n], base.free[n][GPUS], base.free[n][VCPUS], n))
    rank = {node: i for i, node in enumerate(order)}
    terms = [(var, rank[node]) for (_, node), var in board.x.items() if rank[node]]
    return Aim("(tie)", terms, 0, -1, 0, share=0.1)
