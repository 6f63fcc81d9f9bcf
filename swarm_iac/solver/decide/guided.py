"""Which gangs run, and in which rack is how much of everything? A placement that the relaxation of the whole fleet leads to.

A greedy pass decides workload after workload, and columns leave gangs, linked replicas and what is even where it put them.
The relaxation (`bounds/relaxation.py`, with its rules on racks) sees all of them at once and is solved within a few seconds,
but it knows no single nodes. So it says who comes first: what it places is placed first, in the racks where it has it, gangs
before others; then everything else takes what is left.

    max  Σ_p STEP^p · (SHARE · Σ_t min(due_t, held_t) + Σ_{w of p} gpus_w · placed_w)           p: 0 for low, 1, 2

(of a replica without GPUs a part of one, as in columns).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from swarm_iac.solver.backend.cpsat import cp_model, ended_by, one_worker, run, solved
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import NOBODY, beside
from swarm_iac.solver.bounds.rack_rules import binds, by_rack, most_in_one, rack_rules
from swarm_iac.solver.bounds.relaxation import WIDE, Relaxed, relaxation
from swarm_iac.solver.bounds.team_sums import team_sums
from swarm_iac.solver.repair.greedy import one_pass
from swarm_iac.solver.repair.kinds import STEP, linear_value
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Pairs, Task
from swarm_iac.solver.snapshot.value import size

#: What a GPU within what its team is due counts beside one that is lent.
SHARE = 3
#: It is good enough as a guide within this part of what is possible.
CLOSE = 1e-5


def guided(task: Task, most: dict[str, int], limit: TimeLimit) -> Pairs | None:
    """A placement of a task in which nothing runs; None where no rule on racks or links binds, or the fleet is too wide."""
    snapshot = task.snapshot
    if not binds(snapshot):
        return None
    lowest = min(request.priority for request in snapshot.requests.values())
    problem, groups, nodes, _, _ = beside(
        snapshot, lowest, Counter(), most, NOBODY, size, teams=snapshot.shares is not None, racks=True
    )
    if len(problem.kinds) * len(problem.shapes) > 2 * WIDE:
        return None
    relaxed = relaxation(problem, groups, rules=rack_rules(snapshot, groups, nodes), stop=limit.stop)
    if relaxed is None:
        return None
    found = _solved(snapshot, relaxed, groups, nodes, limit)
    if found is None:
        return None
    counts = Counter({pair: count for pair, var in relaxed.y.items() if (count := found[var.index])})
    whole = frozenset(name for name, var in relaxed.whole.items() if found[var.index])
    inside = frozenset(pair for pair, var in relaxed.inside.items() if found[var.index])
    return _placed(task, _Plan(snapshot, groups, nodes, counts, whole, inside), limit)


def _solved(
    snapshot: Snapshot,
    relaxed: Relaxed,
    groups: Sequence[Sequence[WorkloadRequest]],
    nodes: Sequence[Sequence[str]],
    limit: TimeLimit,
) -> Sequence[int] | None:
    """Values of all variables."""
    shares = snapshot.shares
    lowest = min((group[0].priority for group in groups), default=0)
    gain = [linear_value(group[0], lowest) for group in groups]
    aims = [gain[k] * var for (k, _), var in relaxed.y.items() if gain[k]]
    for level in shares.due if shares else ():
        for depth in range(shares.depth if shares else 0):
            aims.append(STEP ** (level - lowest) * SHARE * relaxed.sum_of(team_sums(snapshot, level, depth, groups, nodes)))
    relaxed.model.maximize(cp_model.LinearExpr.sum(aims))
    solver = one_worker(limit.left)
    solver.parameters.linearization_level = 2
    solver.parameters.relative_gap_limit = CLOSE
    if limit.stop():
        return None
    with ended_by(solver.stop_search, limit.stop):
        status = run(solver, relaxed.model)
    if limit.stop() or not solved(status):
        return None
    return list(solver.response_proto.solution)


@dataclass(frozen=True)
class _Plan:
    """What the relaxation places: replicas of kinds on nodes of shapes, the gangs that run, the racks of those bound to one."""

    snapshot: Snapshot
    groups: Sequence[Sequence[WorkloadRequest]]
    nodes: Sequence[Sequence[str]]
    counts: Counter[tuple[int, int]]
    whole: frozenset[str]
    inside: frozenset[tuple[str, str]]

    def of(self, rack: str, shapes: Sequence[int], left: Counter[str]) -> tuple[dict[str, int], frozenset[tuple[str, str]]]:
        """What of it is in one rack: replicas of workloads, of which so many are `left`, and the nodes on which each may be."""
        free: dict[str, int] = {}
        pairs: set[tuple[str, str]] = set()
        for k, group in enumerate(self.groups):
            here = [h for h in shapes if self.counts[k, h]]
            rest = sum(self.counts[k, h] for h in here)
            for request in sorted(group, key=lambda one: (not one.gang, -left[one.name])):
                most = min(rest, left[request.name], most_in_one(self.snapshot, request))
                if request.together == "rack" and (request.name, rack) not in self.inside:
                    most = 0
                if request.gang and (request.name not in self.whole or most < request.members):
                    continue
                if most > 0:
                    rest -= most
                    free[request.name] = most
                    pairs.update((request.name, node) for h in here for node in self.nodes[h])
        return free, frozenset(pairs)


def _placed(task: Task, plan: _Plan, limit: TimeLimit) -> Pairs:
    """Rack after rack; then gangs that may be in several, and everything else."""
    snapshot, base = task.snapshot, task.base.copy()
    left: Counter[str] = Counter(task.free)
    found: Pairs = Counter()
    for rack, shapes in by_rack(snapshot, plan.nodes).items():
        free, pairs = plan.of(rack, shapes, left)
        first = sorted((snapshot.requests[name] for name in free), key=_order)
        more = one_pass(replace(task, base=base, free=free, pairs=pairs), first, limit.stop)
        for (name, node), count in more.items():
            base.take(snapshot.requests[name], snapshot.nodes[node], count)
            left[name] -= count
        found += more
    return restored(snapshot, NOBODY, found, limit.stop)


def _order(request: WorkloadRequest) -> tuple[object, ...]:
    """Gangs first, then those on linked GPUs, each the largest first: what is left over is small, and of low priority."""
    gang = request.members if request.gang else 0
    return not gang, request.in_pieces, -request.gpus * max(1, gang), not request.linked, -request.priority, -size(request)
