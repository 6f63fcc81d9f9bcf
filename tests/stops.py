"""Where GPUs are shared by teams: was anything stopped that its team had a right to? A judge for tests alone.

What may stop is a goal and no rule, and a search that is cut may miss it: the plan names each stop, and is not refused.
Knows nothing of how much the solver says that a team is due; what is judged follows from the stack and two placements:

    guarantee         For every team t:  GPUs of t ≥ min(guarantee_t, what of t could stay), if another team came in its place
    equals            Who stops for no higher priority stops for another team, and only with `solve.reclaim`
    sharing incentive For every outermost team t that lost some so, of its priority and above:
                      GPUs of t ≥ ⌊share_t / Σ shares · (what of t could stay − what comes before shares)⌋

The last one is what max-min fairness never breaks (Ghodsi et al. 2011): no team is worse off than with its part alone. What
comes before shares are higher priorities and guarantees of others. It holds of one resource: with `share_by: dominant_resource` it
is not asked for.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from swarm_iac.limits import Violation, came
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import RESOURCES, demand_of, held_of
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.units import GpuCount

RULES = ("guarantees_are_kept", "equals_are_not_stopped", "shares_are_kept")
#: So many of those that stopped are looked at: each is put back on its node, beside all that came there.
LOOKED_AT = 50


def stops_are_due(
    stack: Stack, before: Placement, after: Placement, today: datetime.date | None = None
) -> tuple[Violation, ...]:
    """What is broken by the change from one placement to the next; nothing where no team has a share or a guarantee."""
    if not stack.fair:
        return ()
    change = _Change(stack, before, after)
    found: dict[tuple[str, str], Violation] = {}
    for back in change.stopped()[:LOOKED_AT]:
        cause = came(stack, before, after, back, today)
        names = () if cause.broken else cause.names
        if names and all(change.more(name) for name in names):
            for one in change.judged(back[0], change.due_to(back, names, today)):
                found.setdefault((one.rule, one.subject), one)
    return tuple(found.values())


@dataclass
class _Change:
    """Two placements, by team."""

    stack: Stack
    before: Placement
    after: Placement
    could: dict[str, list[Allocation]] = field(init=False)  # what may stay where it is, by workload
    placed: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.placed = Counter(one.workload for one in self.after.going())
        self.could = defaultdict(list)
        for one in self.before.going():
            workload, node = self.stack.workloads.get(one.workload), self.stack.nodes.get(one.node)
            if workload is None or node is None or node.state not in ("ready", "cordon"):
                continue
            same = one.user in (None, workload.user) and held_of(one) == demand_of(workload)
            if same and len(self.could[one.workload]) < workload.members:
                self.could[one.workload].append(one)

    def stopped(self) -> list[tuple[Allocation, ...]]:
        """Who could stay, holds GPUs, and has no place; of a gang all together."""
        now, found = self.after.by_name(), list[tuple[Allocation, ...]]()
        for name, ones in sorted(self.could.items()):
            workload = self.stack.workloads[name]
            gone = [one for one in ones if one.name not in now][: max(0, len(ones) - self.placed[name])]
            if not gone or not self.counts(name):
                continue
            if workload.gang is None:
                found += [(one,) for one in gone]
            elif len(gone) == workload.gang:
                found.append(tuple(gone))
        return found

    def more(self, name: str) -> bool:
        """Are there more replicas of the workload than ran?"""
        ran = sum(one.workload == name for one in self.before.going())
        return self.placed[name] > ran

    def due_to(self, back: tuple[Allocation, ...], names: tuple[str, ...], today: datetime.date | None) -> tuple[str, ...]:
        """Of these those of other teams, where it had no place beside them either: the rest took what was left."""
        others = tuple(name for name in names if self._line(name) != self._line(back[0].workload))
        if not others or len(others) == len(names):
            return names
        ran, equals = {one.name for one in self.before.going()}, {*names} - {*others}
        kept = tuple(one for one in self.after.allocations if one.name in ran or one.workload not in equals)
        cause = came(self.stack, self.before, self.after.model_copy(update={"allocations": kept}), back, today)
        return others if cause.names and not cause.broken else names

    def judged(self, was: Allocation, names: tuple[str, ...]) -> Iterator[Violation]:
        """What is wrong where it stopped for these workloads."""
        workload = self.stack.workloads[was.workload]
        lines = {name: self._line(name) for name in names}
        line, who = self._line(was.workload), f"{was.name} was stopped for {' and '.join(names)}"
        for team in line:
            most = int(self.stack.teams[team].guarantee.gpus)
            kept = min(most, self._held(team, lambda name: len(self.could[name])))
            has = self._held(team, lambda name: self.placed[name])
            if has < kept and all(team not in others for others in lines.values()):
                text = f"{who}, and team {team} has {GpuCount(has)} GPUs of the {GpuCount(most)} that it is guaranteed"
                yield Violation(rule=RULES[0], text=text, subject=team, path=f"teams.{team}.guarantee")
        level = PRIORITIES[workload.priority]
        if any(PRIORITIES[self.stack.workloads[name].priority] > level for name in names):
            return
        if not self.stack.solve.reclaim or any(others == line for others in lines.values()):
            same = "of the same team" if self.stack.solve.reclaim else "and `solve.reclaim` is off"
            text = f"{who}, of no higher priority, {same}"
            yield Violation(rule=RULES[1], text=text, subject=was.name, path="solve.reclaim")
        elif line and self.stack.solve.share_by == "gpus" and all(others[-1:] != line[-1:] for others in lines.values()):
            yield from self._incentive(line[-1], level, who)

    def _incentive(self, team: str, level: int, who: str) -> Iterator[Violation]:
        teams = [name for name, one in self.stack.teams.items() if one.parent is None and self._wants(name, 0)]
        first = sum(self._guaranteed(other) + self._wants(other, level + 1) for other in teams if other != team)
        could = self._held(team, lambda name: len(self.could[name]), level)
        shares = {name: self.stack.teams[name].share or 1 for name in {*teams, team}}
        least = max(0, could - first) * shares[team] // sum(shares.values()) // 1000 * 1000
        has = self._held(team, lambda name: self.placed[name], level)
        if has < least:
            text = f"{who}, and team {team} has {GpuCount(has)} GPUs left, less than its part of them, {GpuCount(least)}"
            yield Violation(rule=RULES[2], text=text, subject=team, path=f"teams.{team}.share")

    def _line(self, workload: str) -> tuple[str, ...]:
        """The teams around its user, innermost first."""
        return self.stack.teams_of(self.stack.workloads[workload].user)

    def _held(self, team: str, count: Callable[[str], int], level: int = 0) -> int:
        """Thousandths of GPUs of the team with all inside it, of the priority and above."""
        workloads = self.stack.workloads.items()
        mine = [(name, one) for name, one in workloads if PRIORITIES[one.priority] >= level and team in self._line(name)]
        return sum(self.counts(name) * count(name) for name, _ in mine)

    def counts(self, name: str) -> int:
        """Thousandths of GPUs that one replica counts: its own, or the largest part of the fleet that it takes, in GPUs."""
        workload, fleet = self.stack.workloads[name], [self.stack.hardware_of(node) for node in self.stack.nodes]
        own = workload.each.gpus.milli
        if self.stack.solve.share_by == "gpus":
            return own
        gpus = 1000 * sum(shape.gpus.count for shape in fleet)
        rows = [(row, row.capacity) for row in RESOURCES if row.capacity and row.name != "gpus" and not row.part_of]
        parts = [(row.demand(workload), sum(has.amount(shape) for shape in fleet)) for row, has in rows]
        return max([own, *(-(-takes * gpus // there) for takes, there in parts if there)])

    def _wants(self, team: str, level: int) -> int:
        return self._held(team, lambda name: self.stack.workloads[name].members, level)

    def _guaranteed(self, team: str) -> int:
        inside = sum(self._guaranteed(name) for name, one in self.stack.teams.items() if one.parent == team)
        return max(inside, int(self.stack.teams[team].guarantee.gpus))
