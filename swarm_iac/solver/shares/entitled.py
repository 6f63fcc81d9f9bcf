"""What is each team due? The tree of teams is filled from the outside, once for each priority, the highest first.

    1  what is due of the priorities above is the floor: a higher priority comes first, whosever it is
    2  guarantees:  max-min over the teams with the guarantee as weight, nobody above it
    3  shares:      max-min over the teams with `share` as weight, nobody below 2; less for past use, where the stack has it

Among the teams that are inside one, the same is done with what that one is due. A team that has users beside teams inside
it has those users as one more team inside, of share 1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from swarm_iac.model.gpus.past_use import counted
from swarm_iac.model.gpus.worth import Weights, weights
from swarm_iac.model.stack import Stack
from swarm_iac.solver.shares.dominant import Dominant, dominants
from swarm_iac.solver.shares.filling import Claim, Divided, Filling
from swarm_iac.solver.shares.of_gpus import OfGpus
from swarm_iac.solver.shares.of_resources import OfResources
from swarm_iac.solver.snapshot.entitlements import Entitlements
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import Snapshot


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
    models: Mapping[str, Counter[str]]  # of each pool, GPUs by model
    wants: Mapping[int, Mapping[str, int]]  # by priority, what each team asks for of it and above
    allowed: Mapping[int, Mapping[str, int]]  # the same, no more of it than limits let the team have
    dominant: Mapping[str, Dominant]  # with `solve.share_by: dominant_resource`, by workload


def own(team: str) -> str:
    """What users of a team hold themselves, where it has teams inside it; no name of a team has a space."""
    return f"{team} itself"


def entitled(snapshot: Snapshot, possible: Mapping[str, int]) -> Worked:
    """Of a stack that shares GPUs by teams. `possible`: the most replicas that each workload could have by itself."""
    stack = snapshot.stack
    lines = {user: _line(stack, user) for user in sorted({request.user for request in snapshot.requests.values()})}
    counted = weights_of(snapshot)
    largest = dominants(snapshot, counted) if stack.solve.share_by == "dominant_resource" else {}
    sums = OfResources(snapshot, lines, counted, possible, largest) if largest else OfGpus(snapshot, lines, counted, possible)
    guarantees = {team: most * counted.one for team, most in _guarantees(stack).items()}
    inside = _inside(lines)
    due: dict[int, dict[str, int]] = {}
    wants: dict[int, dict[str, int]] = {}
    within: dict[int, dict[str, int]] = {}
    steps: list[Division] = []
    above: dict[str, int] = {}
    for priority in sorted({request.priority for request in snapshot.requests.values()}, reverse=True):
        asked = sums.asked(priority, above)
        wants[priority], within[priority] = dict(asked.wants), dict(asked.allowed)
        tree = _Tree(Filling(asked.network, sums.unit), stack, inside, guarantees, asked.wants, above, priority)
        above = due[priority] = tree.filled()
        steps += tree.steps
    counts = {name: one.counts for name, one in largest.items()}
    entitlements = Entitlements(lines, due, guarantees, stack.solve.reclaim, counted, counts)
    entitlements = replace(entitlements, tops=_tops(snapshot, entitlements, possible)) if stack.solve.reclaim else entitlements
    return Worked(entitlements, tuple(steps), sums.models, wants, within, largest)


def _tops(snapshot: Snapshot, shares: Entitlements, possible: Mapping[str, int]) -> dict[int, dict[str, int]]:
    """Of the innermost teams inside others, what they are due, or what of them ran and still could if that is more."""
    inside = {line[-1] for line in shares.lines.values() if len(line) > 1}
    ran = {
        name: shares.least(snapshot.requests[name], (one.node for one in ones)) * min(possible[name], len(ones))
        for name, ones in snapshot.running.items()
    }
    had = {priority: shares.held(snapshot.requests, ran, priority) for priority in shares.due if inside}
    return {priority: {team: max(shares.due[priority][team], held[team]) for team in inside} for priority, held in had.items()}


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
        return self.due | self._together() if self.filling.network.slack else self.due

    def _together(self) -> dict[str, int]:
        """Of teams around others what those are due together: of several resources that can be less than what it was due."""
        found: dict[str, int] = {}
        waiting = [team for team in self.inside if team]
        while waiting:
            team = waiting.pop(0)
            if any(one in self.inside and one not in found for one in self.inside[team]):
                waiting.append(team)
            else:
                found[team] = sum(found.get(one, self.due[one]) for one in self.inside[team])
        return found

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
