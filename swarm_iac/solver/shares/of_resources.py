"""What is there for whom, where teams share by dominant resource? Pools of nodes, and what is asked of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.worth import Weights
from swarm_iac.solver.shares.dominant import Dominant
from swarm_iac.solver.shares.of_gpus import Asked, models_of
from swarm_iac.solver.shares.pools import model_of, only_stays, pools_of
from swarm_iac.solver.shares.program import Capacities, Demand, SharesProgram
from swarm_iac.solver.snapshot.entitlements import count_of
from swarm_iac.solver.snapshot.layout import GPUS, MACHINE
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.value import size


class OfResources:
    """All that machines have. `dominant`: of each workload; the rest is that of `OfGpus`."""

    def __init__(
        self,
        snapshot: Snapshot,
        lines: Mapping[str, tuple[str, ...]],
        weights: Weights,
        possible: Mapping[str, int],
        dominant: Mapping[str, Dominant],
    ) -> None:
        self.snapshot, self.lines, self.weights, self.possible, self.dominant = snapshot, lines, weights, possible, dominant
        self.unit = 1
        pools = pools_of(snapshot, weights, gpus=False)
        self.models, self.suit = models_of(pools), dict(pools.suit)
        self.weight = {pool: weights.of(hosts[0].name) for pool, hosts in pools.nodes.items()}
        most = {pool: Counter[int]() for pool in pools.nodes}
        for pool, hosts in pools.nodes.items():
            for i in range(len(MACHINE)):
                each = WHOLE if i == GPUS else 1
                most[pool][i] = sum(host.capacity[i] * each for host in hosts)
        self._only_stay(most, {host.name: pool for pool, hosts in pools.nodes.items() for host in hosts})
        limits = {
            (scope, i): value for scope, values in snapshot.scopes.items() for i, value in enumerate(values) if value < ENDLESS
        }
        self.capacities = Capacities(most, limits, WHOLE * weights.one)

    def _only_stay(self, most: dict[str, Counter[int]], home: Mapping[str, str]) -> None:
        """What may only stay where it runs has a pool of its own, and the node so much less."""
        for request, host in only_stays(self.snapshot):
            weight = self.weights.of(host.name)
            pool, takes = f"of {request.name} at {weight}", Counter(dict(_needs(request)))
            self.weight[pool] = weight
            most.setdefault(pool, Counter()).update(takes)
            self.suit[request.name] |= {pool}
            self.models.setdefault(pool, Counter())[model_of(host)] += size(request) // WHOLE
            if host.name in home:
                most[home[host.name]].subtract(takes)

    def asked(self, priority: int, floors: Mapping[str, int]) -> Asked:
        """Of the priority and those above. `floors`: what is due of those above to each team."""
        demands, wants = Counter[Demand](), Counter[str]()
        for name, request in self.snapshot.requests.items():
            line, most = self.lines[request.user], self.possible[name]
            counts = tuple((pool, self._counts(request, pool)) for pool in sorted(self.suit[name]))
            if request.priority >= priority and line and most and any(count for _, count in counts):
                demands[Demand(request.user, line, counts, _needs(request), request.uses, request.chain)] += most
                wants.update(dict.fromkeys(line, most * max(count for _, count in counts)))
        return Asked(SharesProgram(demands, self.capacities, floors), wants, wants)

    def _counts(self, request: WorkloadRequest, pool: str) -> int:
        dominant = self.dominant.get(request.name)
        return count_of(request, self.weight[pool], dominant.counts if dominant else 0)


def _needs(request: WorkloadRequest) -> tuple[tuple[int, int], ...]:
    """Of what machines have, with its place; GPUs in thousandths, as parts of them are."""
    rest = tuple((i, need) for i, need in request.needs if i < len(MACHINE) and i != GPUS)
    return (*rest, (GPUS, size(request))) if size(request) else rest
