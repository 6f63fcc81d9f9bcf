"""How is one task solved? Its start, its candidates, its rules, and so much effort."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from swarm_iac.solver.bounds.gpu_bounds import PriorityBounds
from swarm_iac.solver.exact.changes import Keeping
from swarm_iac.solver.exact.fleet_model import FleetModel
from swarm_iac.solver.exact.goals import aims
from swarm_iac.solver.exact.rules.change import moves_stay_in_budget
from swarm_iac.solver.exact.rules.table import RULES
from swarm_iac.solver.exact.search import EFFORT, TOO_LARGE, Found, search
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Pairs, Task

#: Deterministic time of one goal where many searches are made.
HASTE = {"quick": 0.15, "normal": 0.6, "thorough": 3.0}
#: Above this many pairs each workload looks at its best WIDEST nodes only.
LARGE = 60_000
WIDEST = 12


def attempt(
    snapshot: Snapshot,
    task: Task,
    most: dict[str, int],
    start: Pairs | None,
    repair: bool,
    watch: Watch,
    *,
    haste: bool = False,
    left: float = math.inf,
    gpus: PriorityBounds | None = None,
    again: Callable[[Pairs, int], Pairs] | None = None,
    keeping: float = 0.0,
    measured: bool = False,
    gaining: bool = False,
) -> tuple[Found, Pairs, bool]:
    """Solve one task within the deterministic time `left`; a repair that is one of many (`haste`) has less for each goal.

    `gpus` bounds each priority; `again` fills one whose search was not proven in another way; `keeping` is what goals on who
    runs have beyond `left`; `measured`, `gaining`: of `search`. Returns what was found, the counts of all replicas, and
    whether candidates were left out.
    """
    if len(task.free) * len(task.nodes or snapshot.nodes) > LARGE and len(snapshot.nodes) > 3 * WIDEST:
        task.widest = WIDEST
    fixed: Pairs = Counter({(n, node): k for n, counts in task.base.counts.items() for node, k in counts.items()})
    first = greedy(task) if start is None else start - fixed
    fleet = FleetModel(task, first)
    for rule in RULES:
        rule(fleet)
    change = Keeping(fleet)
    moves_stay_in_budget(fleet, change)
    level = snapshot.stack.solve.effort
    effort = (HASTE if haste and repair else EFFORT)[level]
    table = aims(fleet, change, most, repair=repair)
    found = search(fleet, table, first, effort, watch, left, gpus, again, keeping, measured=measured, gaining=gaining)
    return found, found.counts + fixed, fleet.cut or len(fleet.x) > TOO_LARGE
