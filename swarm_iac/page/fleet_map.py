"""What is on each card of each node before and after a plan, and what becomes of it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Stack
from swarm_iac.model.step import Plan
from swarm_iac.plan.show.render import Context
from swarm_iac.plan.show.summary import Summary
from swarm_iac.printable import printable
from swarm_iac.ranges import natural, runs

#: What may become of an allocation, as the summary of a plan calls it; what stays has none.
KINDS = ("start", "move", "restart", "stop", "change", "later")
#: Users that are in no team.
NO_TEAM = "(no team)"


@dataclass(frozen=True)
class Block:
    """An allocation on neighbouring cards of a node. `first`: the first of them; `other`: the node that it moves from or to."""

    name: str
    kind: str
    team: int
    first: int = 0
    span: int = 1
    other: str = ""


@dataclass(frozen=True)
class Side:
    """What a node holds at one time: on whole cards, on cards that several share (by their number), and without a card."""

    whole: tuple[Block, ...] = ()
    shared: tuple[tuple[int, tuple[Block, ...]], ...] = ()
    loose: tuple[Block, ...] = ()

    @property
    def blocks(self) -> Iterator[Block]:
        """All of them."""
        yield from self.whole
        for _, blocks in self.shared:
            yield from blocks
        yield from self.loose


@dataclass(frozen=True)
class NodeMap:
    """One node. `cards`: how many; `state`: where that is not `ready`, with its reason; `settings`: whether those change."""

    name: str
    cards: int
    before: Side
    after: Side
    model: str = ""
    state: str = ""
    settings: bool = False

    @property
    def same(self) -> bool:
        """Does nothing change on it?"""
        return not self.settings and self.before == self.after and not any(block.kind for block in self.after.blocks)


@dataclass(frozen=True)
class RackMap:
    """The nodes of a rack in the order of their numbers; those in no rack have none."""

    name: str
    nodes: tuple[NodeMap, ...]


@dataclass(frozen=True)
class TeamEffect:
    """What a plan does to one team (and those inside it: `members`, positions in `FleetMap.teams`)."""

    name: str
    members: tuple[int, ...]
    counts: dict[str, int]
    before: str
    after: str


@dataclass
class FleetMap:
    """The fleet as a plan changes it."""

    plan: Plan
    context: Context
    _where: dict[str, int] = field(default_factory=dict)

    @cached_property
    def summary(self) -> Summary:
        """What the plan comes to."""
        return self.context.summary(self.plan)

    @cached_property
    def teams(self) -> tuple[str, ...]:
        """Names of all teams, and at the end a place for users without one."""
        return (*self.context.stack.teams, NO_TEAM)

    def team_of(self, workload: str, user: str | None = None) -> int:
        """The position of the team of a workload, or of the user who had it; a user is in one at most."""
        stack = self.context.stack
        if workload not in self._where:
            who = user or (stack.workloads[workload].user if workload in stack.workloads else "")
            line = stack.teams_of(who)
            self._where[workload] = self.teams.index(line[0] if line else NO_TEAM)
        return self._where[workload]

    @cached_property
    def _kinds(self) -> dict[str, str]:
        """What becomes of each allocation, by its name on its node."""
        found = self.summary
        lists = {
            "later": {one.step.allocation for one in self.plan.deferred if one.step.allocation},
            "change": found.change, "start": found.start, "restart": found.restart, "move": found.move,
            "stop": (*found.stop, *found.lost),
        }  # fmt: skip
        return {name: kind for kind, names in lists.items() for name in names}

    def racks(self) -> tuple[RackMap, ...]:
        """All racks by name, then the nodes that are in none; nodes that left the stack and held something, too."""
        stack = self.context.stack
        before, after = _by_node(self.context.before.going()), _by_node(self.context.after.going())
        gone = [name for name in before if name not in stack.nodes]
        racks: dict[str, list[NodeMap]] = {}
        for name in (*stack.nodes, *gone):
            rack = (stack.nodes[name].rack or "") if name in stack.nodes else ""
            racks.setdefault(rack, []).append(self._node(name, before.get(name, []), after.get(name, [])))
        ordered = sorted(racks, key=lambda rack: (not rack, natural(rack)))
        return tuple(RackMap(rack, tuple(sorted(racks[rack], key=lambda node: natural(node.name)))) for rack in ordered)

    def effects(self) -> tuple[TeamEffect, ...]:
        """What happens to each team that has anything, those inside it counted too."""
        stack, found = self.context.stack, []
        every = {one.name: one for one in (*self.context.before.going(), *self.context.after.going())}
        counts: dict[int, dict[str, int]] = {}
        for one in every.values():
            kind = self._kind(one)
            mine = counts.setdefault(self.team_of(one.workload, one.user), {})
            mine[kind] = mine.get(kind, 0) + 1
        for waits in self.context.after.unplaced:
            mine = counts.setdefault(self.team_of(waits.workload), {})
            mine["pending"] = mine.get("pending", 0) + len(waits.missing)
        gpus = [self._gpus(placed) for placed in (self.context.before.going(), self.context.after.going())]
        for name in self.teams:
            inside = tuple(i for i, other in enumerate(self.teams) if other == name or name in _line(stack, other))
            sums = {kind: sum(counts.get(i, {}).get(kind, 0) for i in inside) for kind in (*KINDS, "pending", "")}
            if any(sums.values()):
                old, new = (sum(side.get(i, 0) for i in inside) for side in gpus)
                found.append(TeamEffect(name, inside, sums, f"{old / 1000:g}", f"{new / 1000:g}"))
        return tuple(found)

    def _gpus(self, placed: Iterable[Allocation]) -> dict[int, int]:
        """GPUs by team, in thousandths."""
        found: dict[int, int] = {}
        for one in placed:
            team = self.team_of(one.workload, one.user)
            found[team] = found.get(team, 0) + one.gpu_milli
        return found

    def _kind(self, one: Allocation) -> str:
        """As the plan has it; of what no step is about (a machine may differ from the lock), as the placement has it."""
        stack = self.context.stack
        found = self._kinds.get(stack.runs_as(one) if one.workload in stack.workloads else one.name)
        was, now = self._was.get(one.name), self._now.get(one.name)
        if found or was is None or now is None:
            return found or ("start" if was is None else "stop")
        return "move" if was.node != now.node else "change" if was.gpus != now.gpus else ""

    def _node(self, name: str, before: list[Allocation], after: list[Allocation]) -> NodeMap:
        stack = self.context.stack
        node = stack.nodes.get(name)
        used = max((card + 1 for one in (*before, *after) for card in one.cards), default=0)
        kind = stack.hardware[node.hardware].gpus if node else None
        state = "not in the stack file any more"
        if node is not None:
            state = "" if node.state == "ready" else node.state + (f": {printable(node.reason)}" if node.reason else "")
        settings = name in self.summary.configure or name in self.summary.restore
        old, new = self._side(before, self._now), self._side(after, self._was)
        return NodeMap(name, max(used, kind.count if kind else 0), old, new, kind.model or "" if kind else "", state, settings)

    @cached_property
    def _now(self) -> dict[str, Allocation]:
        return {one.name: one for one in self.context.after.going()}

    @cached_property
    def _was(self) -> dict[str, Allocation]:
        return {one.name: one for one in self.context.before.going()}

    def _side(self, ones: list[Allocation], others: dict[str, Allocation]) -> Side:
        """`others`: what is at the other time."""
        whole: list[Block] = []
        loose: list[Block] = []
        shared: dict[int, list[Block]] = {}
        for one in ones:
            other, team = others.get(one.name, one).node, self.team_of(one.workload, one.user)
            base = Block(one.name, self._kind(one), team, other="" if other == one.node else other)
            if not one.gpus:
                loose.append(base)
            for first, span in runs([each.index for each in one.gpus if each.whole]):
                whole.append(Block(base.name, base.kind, base.team, first, span, base.other))
            for each in one.gpus:
                if not each.whole:
                    shared.setdefault(each.index, []).append(base)
        whole.sort(key=lambda block: block.first)
        return Side(tuple(whole), tuple((card, tuple(shared[card])) for card in sorted(shared)), tuple(loose))


def _by_node(ones: Iterable[Allocation]) -> dict[str, list[Allocation]]:
    found: dict[str, list[Allocation]] = {}
    for one in ones:
        found.setdefault(one.node, []).append(one)
    return found


def _line(stack: Stack, team: str) -> tuple[str, ...]:
    return stack.line_of(team) if team in stack.teams else ()
