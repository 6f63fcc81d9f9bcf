"""Which GPUs are there for whom, where teams share GPUs alone? Pools of GPUs, and what is asked of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.worth import Weights
from swarm_iac.solver.shares.filling import Feasible
from swarm_iac.solver.shares.network import FlowNetwork, GpuDemand, Supply, allowed
from swarm_iac.solver.shares.pools import Pools, model_of, only_stays, pools_of
from swarm_iac.solver.snapshot.layout import ALL_GPUS, GPUS
from swarm_iac.solver.snapshot.snapshot import CLUSTER, ENDLESS, Snapshot, of_team, of_user
from swarm_iac.solver.snapshot.value import size


@dataclass(frozen=True)
class Asked:
    """What is asked for of a priority and those above, and what teams can have of it together."""

    network: Feasible
    wants: Mapping[str, int]  # by team
    allowed: Mapping[str, int]  # the same, no more of it than limits let the team have


class OfGpus:
    """GPUs alone. `lines`: by user the teams around him; `possible`: the most replicas of each workload by itself."""

    def __init__(
        self, snapshot: Snapshot, lines: Mapping[str, tuple[str, ...]], weights: Weights, possible: Mapping[str, int]
    ) -> None:
        self.snapshot, self.lines, self.possible = snapshot, lines, possible
        self.unit = (1 if snapshot.milli else WHOLE) * weights.step
        self.pools, self.supply, self.models = _pools(snapshot, weights, possible)

    def asked(self, priority: int, floors: Mapping[str, int]) -> Asked:
        """Of the priority and those above. `floors`: what is due of those above to each team."""
        requests = self._requests(priority)
        return Asked(FlowNetwork(requests, self.supply, floors), _wants(requests), allowed(requests, self.supply))

    def _requests(self, priority: int) -> tuple[GpuDemand, ...]:
        """By user and pools."""
        wants: Counter[tuple[str, frozenset[str]]] = Counter()
        for name, request in self.snapshot.requests.items():
            if request.priority >= priority and size(request) and self.possible[name]:
                wants[request.user, self.pools[name]] += size(request) * self.possible[name]
        lines, best = self.lines, self.supply.best
        return tuple(
            GpuDemand(user, lines[user], suit, best(suit, most)) for (user, suit), most in wants.items() if lines[user]
        )


def _wants(requests: tuple[GpuDemand, ...]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in requests:
        for team in one.line:
            found[team] += one.wants
    return dict(found)


def _pools(
    snapshot: Snapshot, weights: Weights, possible: Mapping[str, int]
) -> tuple[dict[str, frozenset[str]], Supply, dict[str, Counter[str]]]:
    """The pools that suit each workload, and the GPUs of each. What may only stay where it runs has a pool of its own.

    All GPUs of a pool count the same.
    """
    pools = pools_of(snapshot, weights, gpus=True)
    each = {pool: weights.of(hosts[0].name) for pool, hosts in pools.nodes.items()}
    most = {pool: WHOLE * sum(host.capacity[GPUS] for host in hosts) for pool, hosts in pools.nodes.items()}
    home = {host.name: pool for pool, hosts in pools.nodes.items() for host in hosts}
    models = models_of(pools)
    found = dict(pools.suit)
    for request, host in only_stays(snapshot):
        if not size(request):
            continue
        weight = weights.of(host.name)
        pool = f"of {request.name} at {weight}" if weights.nodes else f"of {request.name}"
        each[pool] = weight
        most[pool] = most.get(pool, 0) + size(request)
        models.setdefault(pool, Counter())[model_of(host)] += size(request) // WHOLE
        found[request.name] |= {pool}
        if host.name in home:
            most[home[host.name]] -= size(request)
    limits = {scope: values[ALL_GPUS] for scope, values in snapshot.scopes.items()}
    tops = _tops(snapshot, found, each, possible)
    teams = {team: limits.get(of_team(team), ENDLESS) * tops[of_team(team)] for team in snapshot.stack.teams}
    users = {user: limits.get(of_user(user), ENDLESS) * tops[of_user(user)] for user in snapshot.stack.users()}
    there = {pool: milli * each[pool] for pool, milli in most.items()}
    return found, Supply(there, teams, users, limits[CLUSTER] * tops[CLUSTER], each), models


def _tops(
    snapshot: Snapshot, pools: Mapping[str, frozenset[str]], each: Mapping[str, int], possible: Mapping[str, int]
) -> Mapping[str, int]:
    """The most that a GPU counts of those that any of a user, of a team, or of the cluster could get: limits are in GPUs."""
    found: dict[str, int] = defaultdict(lambda: 1)
    for name, request in snapshot.requests.items():
        if size(request) and possible[name]:
            top = max((each[pool] for pool in pools[name]), default=1)
            for scope in (of_user(request.user), CLUSTER, *map(of_team, snapshot.stack.teams_of(request.user))):
                found[scope] = max(found[scope], top)
    return found


def models_of(pools: Pools) -> dict[str, Counter[str]]:
    """Of each pool, GPUs by model."""
    found = {pool: Counter[str]() for pool in pools.nodes}
    for pool, hosts in pools.nodes.items():
        for host in hosts:
            found[pool][model_of(host)] += host.capacity[GPUS]
    return found
