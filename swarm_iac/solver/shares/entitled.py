"""What is each team due? The tree of teams is filled from the outside, once for each priority, the highest first.

    1  what is due of the priorities above is the floor: a higher priority comes first, whosever it is
    2  guarantees:  max-min over the teams with the guarantee as weight, nobody above it
    3  shares:      max-min over the teams with `share` as weight, nobody below 2; less for past use, where the stack has it

Among the teams that are inside one, the same is done with what that one is due. A team that has users beside teams inside
it has those users as one more team inside, of share 1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.past_use import counted
from swarm_iac.model.gpus.worth import Weights, weights
from swarm_iac.model.stack import Stack
from swarm_iac.solver.shares.filling import Claim, Divided, Filling
from swarm_iac.solver.shares.network import FlowNetwork, GpuDemand, Supply, allowed
from swarm_iac.solver.snapshot.entitlements import Entitlements
from swarm_iac.solver.snapshot.layout import ALL_GPUS, GPUS
from swarm_iac.solver.snapshot.snapshot import CLUSTER, ENDLESS, NodeCapacity, Snapshot, WorkloadRequest, of_team, of_user
from swarm_iac.solver.snapshot.suitability import hindering, may_stay, suits
from swarm_iac.solver.snapshot.value import size


@dataclass(frozen=True)
class Division:
    """One time that water was filled in: for the teams inside `around` (empty: for the outermost ones)."""

    priority: int
    around: str
    total: int | None  # what is due to `around`; None: what the fleet has
    kind: str  # guarantee | share
    filled: Divided


@dataclass(frozen=True)
class Worked:
    """What is due, and how that was worked out."""

    entitlements: Entitlements
    steps: tuple[Division, ...]
    supply: Supply
    models: Mapping[str, Counter[str]]  # of each pool, GPUs by model
    wants: Mapping[int, Mapping[str, int]]  # by priority, what each team asks for of it and above
    allowed: Mapping[int, Mapping[str, int]]  # the same, no more of it than limits let the team have


def own(team: str) -> str:
    """What users of a team hold themselves, where it has teams inside it; no name of a team has a space."""
    return f"{team} itself"


def entitled(snapshot: Snapshot, possible: Mapping[str, int]) -> Worked:
    """Of a stack that shares GPUs by teams. `possible`: the most replicas that each workload could have by itself."""
    stack = snapshot.stack
    lines = {user: _line(stack, user) for user in sorted({request.user for request in snapshot.requests.values()})}
    counted = weights_of(snapshot)
    pools, supply, models = _pools(snapshot, counted, possible)
    unit = (1 if snapshot.milli else WHOLE) * counted.step
    guarantees = {team: most * counted.one for team, most in _guarantees(stack).items()}
    inside = _inside(lines)
    due: dict[int, dict[str, int]] = {}
    wants: dict[int, dict[str, int]] = {}
    within: dict[int, dict[str, int]] = {}
    steps: list[Division] = []
    above: dict[str, int] = {}
    for priority in sorted({request.priority for request in snapshot.requests.values()}, reverse=True):
        requests = _requests(snapshot, lines, pools, supply, possible, priority)
        wants[priority], within[priority] = _wants(requests), allowed(requests, supply)
        filling = Filling(FlowNetwork(requests, supply, above), unit)
        tree = _Tree(filling, stack, inside, guarantees, wants[priority], above, priority)
        above = due[priority] = tree.filled()
        steps += tree.steps
    entitlements = Entitlements(lines, due, guarantees, stack.solve.reclaim, counted)
    return Worked(entitlements, tuple(steps), supply, models, wants, within)


def shared(snapshot: Snapshot, possible: Mapping[str, int]) -> Snapshot:
    """The snapshot, with what is due to teams where the stack shares GPUs by them."""
    return replace(snapshot, shares=entitled(snapshot, possible).entitlements) if snapshot.stack.fair else snapshot


def weights_of(snapshot: Snapshot) -> Weights:
    """What a GPU on each node counts."""
    return weights(snapshot.stack.worth, {host.name: host.model for host in snapshot.nodes.values() if host.capacity[GPUS]})


class _Tree:
    """The teams of one priority."""

    def __init__(
        self,
        filling: Filling,
        stack: Stack,
        inside: Mapping[str, tuple[str, ...]],
        guarantees: Mapping[str, int],
        wants: Mapping[str, int],
        above: Mapping[str, int],
        priority: int,
    ) -> None:
        self.filling, self.stack, self.inside, self.guarantees = filling, stack, inside, guarantees
        self.wants, self.above, self.priority = wants, above, priority
        self.due: dict[str, int] = {}
        self.steps: list[Division] = []
        self.front: dict[str, int] = {}  # those that are filled, and of which no team inside is

    def filled(self) -> dict[str, int]:
        self._fill("", None)
        waiting = [team for team in self.inside.get("", ()) if team in self.inside]
        while waiting:
            around = waiting.pop(0)
            self._fill(around, self.front.pop(around))
            waiting += [team for team in self.inside[around] if team in self.inside]
        return self.due

    def _fill(self, around: str, total: int | None) -> None:
        teams = self.inside.get(around, ())
        floors = {team: self.above.get(team, 0) for team in teams}
        if any(self.guarantees.get(team, 0) for team in teams):
            guaranteed = [
                Claim(team, most, floors[team], max(floors[team], min(most, self.wants.get(team, 0))))
                for team in teams
                for most in (self.guarantees.get(team, 0),)
            ]
            floors = self._step(around, total, "guarantee", guaranteed).due
        shares = counted_shares(self.stack, {team: share_of(self.stack, team) for team in teams})
        claims = [Claim(team, shares[team], floors[team], self.wants.get(team, 0)) for team in teams]
        found = self._step(around, total, "share", claims).due
        self.due |= found
        self.front |= found

    def _step(self, around: str, total: int | None, kind: str, claims: list[Claim]) -> Divided:
        filled = self.filling.fill(claims, self.front, total)
        self.steps.append(Division(self.priority, around, total, kind, filled))
        return filled


def share_of(stack: Stack, team: str) -> int:
    """As the file says it, or 1."""
    known = stack.teams.get(team)
    return known.share or 1 if known else 1


def counted_shares(stack: Stack, shares: dict[str, int]) -> dict[str, int]:
    """What the shares of teams that are beside each other count: in thousandths by what they used, where the stack has that."""
    return counted(shares, {team: used_by(stack, team) for team in shares}) if stack.past_use else shares


def used_by(stack: Stack, team: str) -> int:
    """GPU-hours of a team with those inside it; of what users of a team hold beside teams inside it, the rest of its own."""
    hours = stack.past_use.gpu_hours if stack.past_use else {}
    around = next((name for name in stack.teams if own(name) == team), "")
    if not around:
        return hours.get(team, 0)
    return max(0, hours.get(around, 0) - sum(hours.get(name, 0) for name, one in stack.teams.items() if one.parent == around))


def _line(stack: Stack, user: str) -> tuple[str, ...]:
    line = tuple(reversed(stack.teams_of(user)))
    parents = {team.parent for team in stack.teams.values()}
    return (*line, own(line[-1])) if line and line[-1] in parents else line


def _inside(lines: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The teams directly inside each that anybody asks for GPUs in; of the empty name, the outermost ones."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines.values():
        for around, team in zip(("", *line), line, strict=False):
            found[around][team] = None
    return {around: tuple(sorted(teams)) for around, teams in found.items()}


def _guarantees(stack: Stack) -> dict[str, int]:
    """Of each team; one around others has at least what they have together."""
    found = {name: int(team.guarantee.gpus) for name, team in stack.teams.items()}
    for name in sorted(stack.teams, key=lambda name: -len(stack.line_of(name))):
        inside = sum(found[other] for other, team in stack.teams.items() if team.parent == name)
        found[name] = max(found[name], inside)
    return {name: most for name, most in found.items() if most}


def _wants(requests: tuple[GpuDemand, ...]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in requests:
        for team in one.line:
            found[team] += one.wants
    return dict(found)


def _requests(
    snapshot: Snapshot,
    lines: Mapping[str, tuple[str, ...]],
    pools: Mapping[str, frozenset[str]],
    supply: Supply,
    possible: Mapping[str, int],
    priority: int,
) -> tuple[GpuDemand, ...]:
    """What is asked for of the priority and those above, by user and pools."""
    wants: Counter[tuple[str, frozenset[str]]] = Counter()
    for name, request in snapshot.requests.items():
        if request.priority >= priority and size(request) and possible[name]:
            wants[request.user, pools[name]] += size(request) * possible[name]
    return tuple(
        GpuDemand(user, lines[user], suit, supply.best(suit, most)) for (user, suit), most in wants.items() if lines[user]
    )


def _pools(
    snapshot: Snapshot, counted: Weights, possible: Mapping[str, int]
) -> tuple[dict[str, frozenset[str]], Supply, dict[str, Counter[str]]]:
    """The pools that suit each workload, and the GPUs of each. What may only stay where it runs has a pool of its own.

    All GPUs of a pool count the same.
    """
    kinds: dict[tuple[object, ...], list[WorkloadRequest]] = defaultdict(list)
    for request in snapshot.requests.values():
        if request.gpus:
            kinds[request.asked, request.on_one, request.linked, request.need, request.gpus].append(request)
    firsts = [ones[0] for ones in kinds.values()]
    suited = np.array([hindering(snapshot, one).none for one in firsts], np.bool_).reshape(len(firsts), len(snapshot.nodes))
    known: dict[int, frozenset[int]] = {}
    nodes: dict[tuple[frozenset[int], int], list[NodeCapacity]] = defaultdict(list)
    for name, host in snapshot.nodes.items():
        if host.capacity[GPUS]:
            alike = snapshot.alike[name]
            if alike not in known:
                suit = suited[:, snapshot.rows[name]]
                known[alike] = frozenset(i for i in np.flatnonzero(suit).tolist() if _fits(firsts[i], host))
            nodes[known[alike], counted.of(host.name)].append(host)
    pools = {f"{number}": (suit, hosts) for number, ((suit, _), hosts) in enumerate(nodes.items()) if suit}
    each = {pool: counted.of(hosts[0].name) for pool, (_, hosts) in pools.items()}
    most = {pool: WHOLE * sum(host.capacity[GPUS] for host in hosts) for pool, (_, hosts) in pools.items()}
    home = {host.name: pool for pool, (_, hosts) in pools.items() for host in hosts}
    models = {
        pool: Counter(_model(host) for host in hosts for _ in range(host.capacity[GPUS])) for pool, (_, hosts) in pools.items()
    }
    found = {
        one.name: frozenset(pool for pool, (suit, _) in pools.items() if i in suit)
        for i, ones in enumerate(kinds.values())
        for one in ones
    }
    for request, host, held in _only_stays(snapshot):
        weight = counted.of(host.name)
        pool = f"of {request.name} at {weight}" if counted.nodes else f"of {request.name}"
        each[pool] = weight
        most[pool] = most.get(pool, 0) + held
        models.setdefault(pool, Counter())[_model(host)] += held // WHOLE
        found[request.name] |= {pool}
        if host.name in home:
            most[home[host.name]] -= held
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


def _only_stays(snapshot: Snapshot) -> Iterator[tuple[WorkloadRequest, NodeCapacity, int]]:
    """What runs on a node where nothing new of it may come, and how much it holds."""
    for name, ones in snapshot.running.items():
        request = snapshot.requests[name]
        for one in ones:
            host = snapshot.nodes.get(one.node)
            if host and size(request) and not suits(request, host) and may_stay(request, host):
                yield request, host, size(request)


def _fits(request: WorkloadRequest, host: NodeCapacity) -> bool:
    return all(need <= has for need, has in zip(request.need, host.capacity, strict=True))


def _models(nodes: Iterable[NodeCapacity]) -> Counter[str]:
    """GPUs by model."""
    found: Counter[str] = Counter()
    for host in nodes:
        found[_model(host)] += host.capacity[GPUS]
    return found


def _model(host: NodeCapacity) -> str:
    return host.model or "GPU"
