"""Whose coming took an allocation's place? By putting it back where it ran, and taking newcomers away.

A newcomer is what did not run there before. Its GPUs and cores are whatever is free, since it could have had others.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from swarm_iac.limits.index import Violation, amounts
from swarm_iac.limits.judge import judge
from swarm_iac.model.device import whole_gpus
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import held_of
from swarm_iac.model.stack import Stack

#: So many broken rules are told.
_TOLD = 3


@dataclass(frozen=True)
class Came:
    """The fewest workloads without whose newcomers it would stand where it ran; else what it breaks there in any case.

    Both are empty where its place is free.
    """

    names: tuple[str, ...] = ()
    broken: tuple[Violation, ...] = ()

    def text(self, besides: tuple[str, ...] = ()) -> str:
        """What it breaks, one sentence for each rule but those that are reported already, and for each limit."""
        firsts = {_key(one): one.text for one in reversed(self.broken) if one.rule not in besides}
        return "; besides, ".join(list(reversed(firsts.values()))[:_TOLD])


def came(
    stack: Stack,
    before: Placement,
    after: Placement,
    back: tuple[Allocation, ...],
    today: datetime.date | None,
    *,
    whole: bool = True,
) -> Came:
    """Why `back`, which ran there in `before`, perhaps in another size, is not placed there in `after`.

    Without `whole` only its nodes are judged.

    Where several left a node together, those are named without whom all of them would be placed there.
    """
    found = Came()
    nodes = {each.node for each in back}
    scopes = [_Scope(stack, before, after, scope, today) for scope in ((nodes, None) if whole else (nodes,))]
    for one in scopes:
        found = one.came(back)
        if found.names and one is not scopes[-1] and scopes[-1].breaks(back, frozenset(found.names)):
            continue  # who came to its node is in its way, and not alone
        if found.names:
            left = (*back, *one.left(back))
            if one.breaks(left, frozenset(found.names)):
                found = one.came(left) if one.came(left).names else found
            return found
        if found.broken:
            return found
    return found


def besides(
    stack: Stack, before: Placement, after: Placement, one: Allocation, today: datetime.date | None, *, whole: bool = True
) -> str:
    """Of one whose node is to be left: what it breaks there even if the node were ready, after `; besides, `. Else empty."""
    node = stack.nodes[one.node].model_copy(update={"state": "ready"})
    ready = stack.model_copy(update={"nodes": {**stack.nodes, one.node: node}})
    found = came(ready, before, after, (one,), today, whole=whole)
    more = found.text(("sizes_equal_request",))
    return f"; besides, {more}" if more else ""


def torn(stack: Stack, gang: tuple[Allocation, ...], found: Came) -> str:
    """Of a gang that has a member whose node is gone, or has to be left: that it takes the others with it. Else empty."""
    for one in gang:
        node = stack.nodes.get(one.node)
        if node is None or node.state in ("drain", "lost"):
            more = found.text(("states_allow", "everything_is_known"))
            text = f"{one.name} has to leave {one.node} ({node.state if node else 'gone'}), and a gang runs whole or not at all"
            return f"{text}; besides, {more}" if more else text
    return ""


def gain(stack: Stack, after: Placement, was: Allocation, now: Allocation) -> str:
    """What is better where it stands now than where nobody took its place; empty where it might as well have stayed."""
    if not after.on(was.node) and len(after.on(now.node)) > 1:
        return "fewer nodes in use"
    models = [stack.hardware_of(node).gpus.model for node in (was.node, now.node)]
    return "GPUs that fit better" if now.gpus and models[0] != models[1] else ""


class _Scope:
    """All that stands on some nodes (None: on all), with and without newcomers."""

    def __init__(
        self, stack: Stack, before: Placement, after: Placement, nodes: set[str] | None, today: datetime.date | None
    ) -> None:
        self.stack, self.before, self.today, self.nodes = stack, before, today, nodes
        self.old, self.now = before.by_name(), after.by_name()
        same = {name: one for name, one in self.old.items() if one.user in (None, _user(stack, one))}
        self.held = {name: amounts(one) for name, one in same.items()}
        self.ran = {name: one.node for name, one in same.items()}
        self.stand = tuple(each for each in after.allocations if nodes is None or each.node in nodes)

    def came(self, back: tuple[Allocation, ...]) -> Came:
        """Of these alone."""
        gone = {each.workload for each in back}
        names = sorted({each.workload for each in self.stand if self._newcomer(each)} - gone)
        if not self.breaks(back, frozenset()):
            return Came()
        if broken := self.breaks(back, frozenset(names)):
            returned = self._returned()
            if returned is None or returned.breaks(back, frozenset(names)):
                return Came(broken=broken)
            return Came(names=_fewest(names, lambda away: bool(returned.breaks(back, away))))
        return Came(names=_fewest(names, lambda away: bool(self.breaks(back, away))))

    def _returned(self) -> _Scope | None:
        """The same, with parts and instances that another card or position has now where they were; None where none has."""
        pieces = {each.name for each in self.stand if not all(gpu.whole for gpu in each.gpus) and not self._newcomer(each)}
        changed = [name for name in pieces if self.old[name].gpus != self.now[name].gpus]
        if not changed:
            return None
        was = {name: self.now[name].model_copy(update={"gpus": self.old[name].gpus}) for name in changed}
        after = Placement(allocations=tuple(was.get(each.name, each) for each in self.now.values()))
        return _Scope(self.stack, self.before, after, self.nodes, self.today)

    def left(self, back: tuple[Allocation, ...]) -> tuple[Allocation, ...]:
        """Others that left the same nodes and could have stayed there but for newcomers; each breaks nothing alone."""
        nodes, known = {each.node for each in back}, {each.name for each in back}
        found = []
        for one in self.before.allocations:
            request, node = self.stack.workloads.get(one.workload), self.stack.nodes.get(one.node)
            if one.node not in nodes or one.name in known or request is None or node is None or one.index >= request.members:
                continue
            now = self.now.get(one.name)
            if (now is None or now.node != one.node) and node.state in ("ready", "cordon") and self.came((one,)).names:
                found.append(one)
        return tuple(found)

    def breaks(self, back: tuple[Allocation, ...], away: frozenset[str]) -> tuple[Violation, ...]:
        """What is broken with `back` where it ran, and without the newcomers of the workloads `away`."""
        gone = {each.name for each in back}
        rest = [each for each in self.stand if each.name not in gone]
        rest = [each for each in rest if each.workload not in away or not self._newcomer(each)]
        stays = [each for each in rest if not self._newcomer(each)] + [each for each in back if not self._newcomer(each)]
        resized = [each for each in back if self._newcomer(each)]
        seated = _seated(self.stack, stays, [*resized, *(each for each in rest if self._newcomer(each))])
        kept = frozenset(each.name for each in (*rest, *back) if each.name in self.held)
        placed = Placement(allocations=(*stays, *seated))
        found = judge(self.stack, placed, self.today, kept=kept, held=self.held, ran=self.ran)
        # What compares places looks at all of them.
        partial = {"gangs_are_whole"} if self.nodes is None else {"gangs_are_whole", "replicas_are_balanced"}
        return tuple(one for one in found if one.rule not in partial)

    def _newcomer(self, one: Allocation) -> bool:
        was = self.old.get(one.name)
        return was is None or was.node != one.node or held_of(was) != held_of(one)


def _key(one: Violation) -> str:
    """What is reported once: the rule, and of `limits` each of its lines, since raising one of them leaves the others."""
    return one.path if one.path.startswith(("limits.", "teams.")) else one.rule


def _user(stack: Stack, one: Allocation) -> str | None:
    """Whose its workload is now."""
    request = stack.workloads.get(one.workload)
    return request.user if request else one.user


def _seated(stack: Stack, stays: list[Allocation], come: list[Allocation]) -> list[Allocation]:
    """Newcomers on whole GPUs and cores that nobody has who stays, as far as there are so many."""
    gpus: dict[str, set[int]] = defaultdict(set)
    cpus: dict[str, set[int]] = defaultdict(set)
    for one in stays:
        gpus[one.node].update(one.cards)
        cpus[one.node].update(one.cpus)
    found = []
    for one in come:
        hardware = stack.hardware_of(one.node)
        update: dict[str, object] = {}
        if all(gpu.whole for gpu in one.gpus):
            update["gpus"] = whole_gpus(_free(one.cards, hardware.gpus.count, gpus[one.node]))
        update["cpus"] = _free(one.cpus, int(hardware.vcpus) // 1000, cpus[one.node])
        found.append(one.model_copy(update=update))
    return found


def _free(own: tuple[int, ...], count: int, taken: set[int]) -> tuple[int, ...]:
    """As many as it has, of those that are not taken, its own first; its own where there are not so many."""
    if taken.isdisjoint(own):
        picked = own
    else:
        open_ = sorted((i for i in range(count) if i not in taken), key=lambda i: (i not in own, i))
        picked = tuple(sorted(open_[: len(own)])) if len(open_) >= len(own) else own
    taken.update(picked)
    return picked


def _fewest(names: list[str], breaks: Callable[[frozenset[str]], bool]) -> tuple[str, ...]:
    """A smallest part of `names` that must be away for nothing to break: none of it can be left."""
    away = set(names)
    for name in names:
        if not breaks(frozenset(away - {name})):
            away.discard(name)
    return tuple(sorted(away))
