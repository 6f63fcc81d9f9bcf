"""What could other teams give up for a workload: what is lent to them, or a part of what they are guaranteed?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.model.device import WHOLE
from swarm_iac.model.edit import Edit
from swarm_iac.solver.advice.offer import Relaxation
from swarm_iac.solver.explain.team_shares import TeamsBeside
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.solver.snapshot.value import size


def of_teams(capacity: FreeCapacity, request: WorkloadRequest, goal: int) -> Iterator[Relaxation]:
    """`solve.reclaim`, where something is lent; lower guarantees, for all `goal` replicas that are missing, or for one."""
    teams, stack = TeamsBeside(capacity), capacity.snapshot.stack
    lent = any(reason.path == "solve.reclaim" for reason in teams.reasons(request))
    if lent and not stack.solve.reclaim:
        yield Relaxation("limit", Edit(path="solve.reclaim", value="true"), 1500, whole=False)
    for team in sorted({*teams.guaranteed(request).values()}):
        most = int(stack.teams[team].guarantee.gpus)
        for count in dict.fromkeys((goal, 1)):
            less = max(0, most - max(WHOLE, size(request) * count)) // WHOLE
            if less * WHOLE < most:
                yield Relaxation("limit", Edit(path=f"teams.{team}.guarantee.gpus", value=less), 1500, whole=False)
