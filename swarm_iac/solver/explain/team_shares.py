"""What do shares of teams have to do with a workload that is pending, or that was stopped?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Allocation, Placement, Reason
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.shares.entitled import share_of, shared, used_by
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.entitlements import Entitlements
from swarm_iac.solver.snapshot.layout import ALL_GPUS, CLUSTER, GPUS, NODE, TEAM, TEAMS
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import heaviest, may_stay, suits
from swarm_iac.solver.snapshot.tasks import Pairs
from swarm_iac.solver.snapshot.value import held_by_teams
from swarm_iac.units import GpuCount

RULE = "share"
#: Of a reason that names what a team is guaranteed.
GUARANTEE = "guarantee"
#: The rules that count what other teams may hold: of GPUs, and of everything.
GPU_RULES = frozenset(one.rule for one in (NODE[GPUS], CLUSTER[ALL_GPUS], *(depth[ALL_GPUS] for depth in TEAMS)))
RULES = frozenset(one.rule for one in (*NODE, *CLUSTER, *TEAM))
#: So many copies of a capacity are held: one of 2,000 nodes takes a few megabytes.
COPIES = 24
#: So many other teams are named.
NAMED = 3


def with_shares(snapshot: Snapshot) -> Snapshot:
    """The snapshot, with what teams are due where GPUs are shared by them."""
    return snapshot if snapshot.shares or not snapshot.stack.fair else shared(snapshot, possible(snapshot))


class TeamsBeside:
    """What teams hold beside one placement, and what that has to do with what is pending.

    Each is worked out once: the capacity must not change meanwhile.
    """

    def __init__(self, capacity: FreeCapacity) -> None:
        self._capacity = capacity
        self._without: dict[tuple[FreeCapacity, tuple[str, ...]], FreeCapacity] = {}
        self._guaranteed: dict[tuple[int, tuple[str, ...], int], dict[str, str]] = {}

    def concerned(self, rules: Iterable[str]) -> bool:
        """Is any of the rules about what teams share?"""
        shares = self._capacity.snapshot.shares
        return shares is not None and not (RULES if shares.dominant else GPU_RULES).isdisjoint(rules)

    @cached_property
    def _held(self) -> dict[int, Counter[str]]:
        counts = self._capacity.counts.items()
        return held_by_teams(
            self._capacity.snapshot, Pairs({(name, node): count for name, nodes in counts for node, count in nodes.items()})
        )

    def reasons(self, request: WorkloadRequest) -> tuple[Reason, ...]:
        """What its team holds, what it is due, and who holds the rest, for one that finds no GPUs.

        Of teams inside each other each has to have all that it is due, the innermost first: one with less is kept out by those
        alone to whom the rest is lent, for what it gets of them is no more for the team around it. None where no team has a
        part in it: another priority holds the GPUs, or nobody of another team.
        """
        snapshot = self._capacity.snapshot
        if snapshot.shares is None or not snapshot.shares.shared(request):
            return ()
        held, due = self._held[request.priority], snapshot.shares.due[request.priority]
        line = snapshot.shares.lines[request.user]
        weighted = bool(snapshot.shares.weights.nodes)
        least = snapshot.shares.least(
            request, (one.name for one in snapshot.nodes.values() if weighted and suits(request, one))
        )
        there = self._where_it_would_be(request)
        found: list[tuple[bool, Reason]] = []
        for depth, team in reversed([*enumerate(line)]):
            others = [other for other in _beside(snapshot, line, depth) if held[other]]
            if not others:
                continue
            lent = [other for other in others if held[other] > due[other] and other in there]
            text = f"{_team(team)} holds {_gpus(snapshot, held[team])} and is due {_count(snapshot, due[team])}"
            if held[team] + least <= due[team] and lent:
                rest, over = due[team] - held[team], sum(held[other] - due[other] for other in lent)
                much = "the rest" if over >= rest else f"{_count(snapshot, over)} of the rest"
                much = "what it lacks" if snapshot.shares.dominant else much  # of different resources there is no sum
                text = f"{text}; {much} is lent to {_others(snapshot, lent, held, due)}"
                if not any(there[other] for other in lent):  # nothing of it runs yet
                    return (Reason(rule=RULE, text=text, path=_path(snapshot, team)),)
                if not snapshot.shares.reclaim:
                    text += "; what is lent is not called back while it runs (`solve.reclaim: false`)"
                return (Reason(rule=RULE, text=text, path="solve.reclaim"),)
            if held[team] + least > due[team]:
                owed = [other for other in others if held[other] <= due[other]] or lent
                more = f"; beside it {_others(snapshot, owed, held, due)}" if owed else ""
                one = Reason(rule=RULE, text=text + more + _past(snapshot, line, depth), path=_path(snapshot, team))
                found.append((any(other in there for other in others), one))
        # Who holds GPUs on other nodes alone is in its way only by a limit that both are under.
        return tuple(one for here, one in found if here or not any(here for here, _ in found))

    def _where_it_would_be(self, request: WorkloadRequest) -> dict[str, bool]:
        """The teams that hold GPUs on nodes on which it could be, and whether any of what holds them runs."""
        snapshot, found = self._capacity.snapshot, dict[str, bool]()
        suited = {name for name, host in snapshot.nodes.items() if suits(request, host)}
        shares = snapshot.shares
        assert shares is not None, "asked only where GPUs are shared by teams"
        for name, nodes in self._capacity.counts.items():
            other = snapshot.requests[name]
            if shares.shared(other) and not suited.isdisjoint(node for node, count in nodes.items() if count):
                for team in shares.lines[other.user]:
                    found[team] = found.get(team, False) or bool(snapshot.running.get(name))
        return found

    def guaranteed(self, request: WorkloadRequest) -> dict[str, str]:
        """Who is not stopped for the request, of a higher priority: by workload the team that is guaranteed its GPUs.

        No replica of it (no gang) can go without its team having less of its priority and above than it is guaranteed and
        holds. What the team itself gets for it counts.
        """
        snapshot, shares = self._capacity.snapshot, self._capacity.snapshot.shares
        if shares is None or not shares.guarantees:
            return {}
        gets = heaviest(snapshot, shares, request) * (request.members if request.gang else 1)
        key = request.priority, shares.lines[request.user], gets
        if key not in self._guaranteed:
            self._guaranteed[key] = self._kept_for(request, shares, gets)
        return self._guaranteed[key]

    def _kept_for(self, request: WorkloadRequest, shares: Entitlements, gets: int) -> dict[str, str]:
        snapshot, found = self._capacity.snapshot, dict[str, str]()
        for name, other in snapshot.requests.items():
            nodes = self._capacity.counts[name]
            if other.priority >= request.priority or not nodes or not shares.shared(other):
                continue
            goes = shares.least(other, nodes) * (nodes.total() if other.gang else 1)
            for team in reversed(shares.lines[other.user]):
                held = self._held[other.priority][team]
                left = held - goes + gets * (team in shares.lines[request.user])
                if left < min(held, shares.guarantees.get(team, 0)):
                    found[name] = team
                    break
        return found

    def not_stopped(self, kept: Mapping[str, str]) -> tuple[Reason, ...]:
        """Of each team why these workloads of it stay, by workload: of `guaranteed`."""
        snapshot, shares, found = self._capacity.snapshot, self._capacity.snapshot.shares, []
        assert shares is not None, "nothing is guaranteed where teams share no GPUs"
        for team in sorted({*kept.values()}):
            names = sorted(name for name in kept if kept[name] == team)
            held = max(self._held[snapshot.requests[name].priority][team] for name in names)
            who = f"{', '.join(names[:NAMED])}{f' and {len(names) - NAMED} more' if len(names) > NAMED else ''}"
            stay = pluralize(len(names), "is", "are").partition(" ")[2]
            text = f"team {team} holds {_gpus(snapshot, held)} and is guaranteed {_count(snapshot, shares.guarantees[team])}"
            path = f"teams.{team}.guarantee" if snapshot.stack.teams[team].guarantee.gpus else f"teams.{team}"
            found.append(Reason(rule=GUARANTEE, text=f"{text}: {who} {stay} not stopped for a higher priority", path=path))
        return tuple(found)

    def without_others(self, capacity: FreeCapacity, request: WorkloadRequest) -> FreeCapacity:
        """The capacity as if other teams held no GPUs: where it lacks some there, too, shares keep it from none."""
        snapshot = capacity.snapshot
        shares = snapshot.shares
        assert shares is not None, "asked only where GPUs are shared by teams"
        lines, line = shares.lines, shares.lines[request.user]
        key = capacity, line
        if key not in self._without:
            others = {name for name, other in snapshot.requests.items() if shares.shared(other) and lines[other.user] != line}
            if len(self._without) == COPIES:
                del self._without[next(iter(self._without))]
            self._without[key] = capacity.without(name for name in others if capacity.counts[name])
        return self._without[key]


def _past(snapshot: Snapshot, line: tuple[str, ...], depth: int) -> str:
    """Why it is due less than its share alone says, where it used more than its part of what these teams used."""
    team, stack = line[depth], snapshot.stack
    every = (team, *_beside(snapshot, line, depth))
    use, shares = {one: used_by(stack, one) for one in every}, {one: share_of(stack, one) for one in every}
    if use[team] * sum(shares.values()) <= shares[team] * sum(use.values()):
        return ""
    return f"; its share counts less, since it used {use[team]} of {sum(use.values())} GPU-hours (`past_use`)"


def called_back(snapshot: Snapshot, before: Placement, after: Placement, was: Allocation) -> str:
    """For whom a replica was called back that was stopped for its equals: both teams, with their figures. Else empty."""
    request = snapshot.requests[was.workload]
    if snapshot.shares is None or not snapshot.shares.reclaim or not snapshot.shares.shared(request):
        return ""
    stood = before.model_copy(update={"allocations": tuple(one for one in before.going() if _stands(snapshot, one))})
    then, now = (held_by_teams(snapshot, _pairs(snapshot, one))[request.priority] for one in (stood, after))
    due, line = snapshot.shares.due[request.priority], snapshot.shares.lines[request.user]
    ran = {one.name for one in before.going()}
    if any(one.name not in ran and snapshot.requests[one.workload].priority > request.priority for one in after.on(was.node)):
        return ""
    for depth, team in enumerate(line):
        gains = [other for other in _beside(snapshot, line, depth) if now[other] > then[other] and then[other] < due[other]]
        if then[team] > due[team] and gains:
            text = f"lent to {_team(team)}, which held {_gpus(snapshot, then[team])} and is due {_count(snapshot, due[team])}"
            return f"{text}: called back for {_others(snapshot, gains, now, due)}"
    return ""


def _stands(snapshot: Snapshot, one: Allocation) -> bool:
    """Is the node still there for it? Who lost it holds nothing until there is another."""
    request, host = snapshot.requests.get(one.workload), snapshot.nodes.get(one.node)
    return request is not None and host is not None and may_stay(request, host)


def _pairs(snapshot: Snapshot, placement: Placement) -> Pairs:
    return Pairs((one.workload, one.node) for one in placement.going() if one.workload in snapshot.requests)


def _beside(snapshot: Snapshot, line: tuple[str, ...], depth: int) -> list[str]:
    """The other teams inside the same one."""
    lines = snapshot.shares.lines.values() if snapshot.shares else ()
    found = {one[depth] for one in lines if len(one) > depth and one[:depth] == line[:depth]}
    return sorted(found - {line[depth]})


def _others(snapshot: Snapshot, teams: list[str], held: Mapping[str, int], due: Mapping[str, int]) -> str:
    parts = [f"{_team(team)} ({_count(snapshot, held[team])}, due {_count(snapshot, due[team])})" for team in teams[:NAMED]]
    return ", ".join(parts) + (f" and {pluralize(len(teams) - NAMED, 'more team')}" if len(teams) > NAMED else "")


def _team(name: str) -> str:
    return f"team {name}"


def _count(snapshot: Snapshot, amount: int) -> GpuCount:
    """GPUs, as they count; rounded down to thousandths."""
    return GpuCount(amount // (snapshot.shares.weights.one if snapshot.shares else 1))


def _gpus(snapshot: Snapshot, amount: int) -> str:
    count = _count(snapshot, amount)
    shares = snapshot.shares
    by = " by dominant resource" if shares and shares.dominant else " by `worth`" if shares and shares.weights.nodes else ""
    return f"{count} GPU{'' if count == WHOLE else 's'}{by}"


def _path(snapshot: Snapshot, team: str) -> str:
    known = team in snapshot.stack.teams
    return f"teams.{team}.share" if known else f"teams.{team.partition(' ')[0]}.users"
