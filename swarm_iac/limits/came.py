"""Whose coming took an allocation's place? By putting it back where it ran, and taking newcomers away.

A newcomer is what did not run there before. Its GPUs and cores are whatever is free, since it could have had others.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from swarm_iac.limits.ceilings import BY_MODEL
from swarm_iac.limits.index import Violation, amounts
from swarm_iac.limits.judge import judge
from swarm_iac.model.device import whole_gpus
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import demand_of, held_of
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES

#: So many broken rules are told.
_TOLD = 3
#: On more nodes than that nobody looks whether a newcomer could be on another one: it is taken that it could.
_LOOKED_AT = 50
#: Where paths of limits begin.
LIMITS = ("limits.", "teams.")
#: Between two causes.
BESIDES = "; besides, "


@dataclass(frozen=True)
class Came:
    """Why it is not placed where it ran. All empty where its place is free.

    `broken`: what it breaks there in any case. `names`: the fewest workloads without whose newcomers it would break no more
    than that, with `forced`: of some of them, which nodes those had to leave, and their states. `limits`: paths of limits of
    which they leave too little, where nothing else of what they take is in its way. `together`: what those that left with it
    for the same newcomers would break there in any case, all together.
    """

    names: tuple[str, ...] = ()
    broken: tuple[Violation, ...] = ()
    limits: tuple[str, ...] = ()
    together: tuple[Violation, ...] = ()
    forced: Mapping[str, str] = field(default_factory=dict)

    def rules(self, besides: tuple[str, ...] = ()) -> tuple[str, ...]:
        """What it breaks in any case, one sentence for each rule but those that are reported already, and for each limit."""
        return _sentences(one for one in self.broken if one.rule not in besides)

    def taken(self, stack: Stack, workload: str) -> str:
        """Whom it lost its place to, and of which limit they leave too little. Empty where nobody took it."""
        if not self.names:
            return ""
        return f"{'preempted by' if self.higher(stack, workload) else 'its place went to'} {self.who()}"

    def higher(self, stack: Stack, workload: str) -> bool:
        """Is each of those who came of a higher priority?"""
        mine = PRIORITIES[stack.workloads[workload].priority]
        return all(PRIORITIES[stack.workloads[name].priority] > mine for name in self.names)

    def who(self, called: Mapping[str, str] = MappingProxyType({})) -> str:
        """Who came, and which node they had to leave, or of which limit they leave too little. `called`: in other words."""
        names = (
            called.get(name, name) + (f", which had to leave ({self.forced[name]})" if name in self.forced else "")
            for name in self.names
        )
        return " and ".join(names) + (f", which leaves too little of {' and '.join(self.limits)}" if self.limits else "")

    def text(self, stack: Stack, workload: str, besides: tuple[str, ...] = ()) -> str:
        """All of that, the most decisive first: what it breaks in any case, who came, what several break together."""
        return BESIDES.join(filter(None, (*self.rules(besides), self.taken(stack, workload), *_sentences(self.together))))


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

    Where several left a node together, those are named without whom all of them would be placed there. One that breaks a rule
    there only since others of its workload are elsewhere now is put back together with these.
    """
    found = _came(stack, before, after, back, today, whole=whole)
    if found.broken and (mates := _mates(stack, before, after, back)):
        every = _came(stack, before, after, (*back, *mates), today, whole=whole)
        return found if every.broken else every
    return found


def _mates(stack: Stack, before: Placement, after: Placement, back: tuple[Allocation, ...]) -> tuple[Allocation, ...]:
    """Others of the same workloads that moved as well, on their nodes of before in their size of now, where those are left."""
    names, of, now = {one.name for one in back}, {one.workload for one in back}, after.by_name()
    others = [was for was in before.going() if was.workload in of and was.name not in names and was.name in now]
    moved = [was for was in others if now[was.name].node != was.node and was.node in stack.nodes]
    return tuple(
        was if held_of(was) == held_of(now[was.name]) else now[was.name].model_copy(update={"node": was.node}) for was in moved
    )


def _came(
    stack: Stack,
    before: Placement,
    after: Placement,
    back: tuple[Allocation, ...],
    today: datetime.date | None,
    *,
    whole: bool,
) -> Came:
    found = Came()
    nodes = {each.node for each in back}
    scopes = [_Scope(stack, before, after, scope, today) for scope in ((nodes, None) if whole else (nodes,))]
    for one in scopes:
        found = one.came(back)
        if one is not scopes[-1] and _more(scopes[-1].breaks(back, frozenset(found.names)), found.broken):
            continue  # what is on its node is in its way, and not alone
        if found.names and not found.broken:
            left = (*back, *one.left(back))
            every = one.came(left) if one.breaks(left, frozenset(found.names)) else found
            found = replace(found, together=every.broken) if every.broken else every if every.names else found
            if not all(each.path in found.limits for each in one.breaks(left, frozenset())):
                found = replace(found, limits=())
        return found
    return found


def besides(
    stack: Stack, before: Placement, after: Placement, one: Allocation, today: datetime.date | None, *, whole: bool = True
) -> str:
    """Of one whose node is to be left: what else is in its way there, were the node ready, after `; besides, `. Else empty."""
    node = stack.nodes[one.node].model_copy(update={"state": "ready"})
    ready = stack.model_copy(update={"nodes": {**stack.nodes, one.node: node}})
    now = after.by_name()
    gang = stack.workloads[one.workload].gang is not None
    gone = (each for each in before.allocations if gang and each.workload == one.workload and each.name not in now)
    mine = tuple(gone) or (one,)
    found = came(ready, before, after, mine, today, whole=whole)
    # Were it ready, those would still be there that left it as well.
    known = {each.name for each in mine}
    left = [each for each in before.on(one.node) if each.name not in known and _left(ready, each, now.get(each.name))]
    if not found.broken:
        fit = [each for each in left if not came(ready, before, after, (each,), today, whole=False).broken]
        found = came(ready, before, after, (*mine, *fit), today, whole=whole)
    if not found.names or not found.broken:
        scope = _Scope(ready, before, after, None if whole else {one.node}, today)
        alike = tuple(each for each in left if each.workload == one.workload)
        sure = scope.surely((*mine, *alike), found.broken)
        found = sure if sure.names or not alike else scope.surely(mine, found.broken)
    more = found.text(stack, one.workload, ("sizes_equal_request",))
    return f"{BESIDES}{more}" if more else ""


def torn(stack: Stack, gang: tuple[Allocation, ...], found: Came) -> str:
    """Of a gang that has a member whose node is gone, or has to be left: that it takes the others with it. Else empty."""
    for one in gang:
        node = stack.nodes.get(one.node)
        if node is None or node.state in ("drain", "lost"):
            more = found.text(stack, one.workload, ("states_allow", "everything_is_known"))
            text = f"{one.name} has to leave {one.node} ({node.state if node else 'gone'}), and a gang runs whole or not at all"
            return f"{text}{BESIDES}{more}" if more else text
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
        every = self.breaks(back, frozenset())
        if not every:
            return Came()
        broken, scope = self.breaks(back, frozenset(names)), self
        if broken and (returned := self._returned()) is not None and not returned.breaks(back, frozenset(names)):
            broken, scope, every = (), returned, returned.breaks(back, frozenset())
        if broken:
            return self.surely(back, broken)
        limits = {one.path: one for one in every if one.path.startswith(LIMITS)}
        # Who is of a lower priority took what was left: it counts only where the others alone are no reason.
        lower = frozenset(name for name in names if self._rank(name) < self._rank(back[0].workload))
        first = [name for name in names if name not in lower]

        def breaks(away: frozenset[str]) -> bool:
            return bool(scope.breaks(back, away))

        fewest = _fewest(first, lambda away: breaks(away | lower)) if breaks(lower) else _fewest(names, breaks)
        paths = tuple(limits) if all(one.path in limits for one in every) else ()
        return Came(fewest, limits=paths, forced=self._forced(back, fewest))

    def surely(self, back: tuple[Allocation, ...], broken: tuple[Violation, ...]) -> Came:
        """Besides what is broken in any case: who of a higher priority came and would be in its way all the same.

        That is so under a limit that counts whatever the node, unless what ran was above it (then nobody would have come), and
        where no other node takes who came. What is of a lower priority gives way.
        """
        mine, nodes = self._rank(back[0].workload), {each.node for each in back}
        above = tuple(each for each in self.now.values() if self._rank(each.workload) >= mine)
        scope = _Scope(self.stack, self.before, Placement(allocations=above), self.nodes, self.today)
        more = [one for one in scope.breaks(back, frozenset()) if _more((one,), broken)]
        if not more:
            return Came(broken=broken)
        come = [each for each in above if self._newcomer(each) and self._rank(each.workload) > mine]
        ran = tuple(each for each in above if not self._newcomer(each))
        elsewhere = {each.workload for each in come if each.node not in nodes or self._elsewhere(each, ran)}
        over = self._over(back)
        limits = {one.path for one in more if _anywhere(one.path) and (one.path, one.subject) not in over}
        others = {_key(one) for one in more if not one.path.startswith(LIMITS)}
        others = others if over.isdisjoint((one.path, one.subject) for one in more) else set()
        every = sorted({each.workload for each in come})
        for names, sure in ((sorted({*every} - elsewhere), limits | others), (every, limits)):

            def breaks(away: frozenset[str], sure: set[str] = sure) -> bool:
                return any(_key(one) in sure for one in scope.breaks(back, away))

            if names and sure and not breaks(frozenset(names)):
                fewest = _fewest(names, breaks)
                paths = tuple(sorted(sure)) if sure <= limits else ()
                return Came(fewest, broken, paths, forced=self._forced(back, fewest))
        return Came(broken=broken)

    def _elsewhere(self, one: Allocation, ran: tuple[Allocation, ...]) -> bool:
        """Could a newcomer be on another node, beside those of these that are placed there?"""
        open_ = [name for name, node in self.stack.nodes.items() if node.state == "ready" and name != one.node]
        if len(open_) > _LOOKED_AT:
            return True
        for node in open_:
            scope = _Scope(self.stack, self.before, Placement(allocations=ran), {node}, self.today)
            if not scope.breaks((one.model_copy(update={"node": node}),), frozenset()):
                return True
        return False

    def _over(self, back: tuple[Allocation, ...]) -> set[tuple[str, str]]:
        """Limits above which these were, with what ran and is placed, and whose: nobody would have come beside that."""
        known = {*self.now, *(each.name for each in back)}
        ran = tuple(each for each in self.before.going() if each.workload in self.stack.workloads and each.name in known)
        found = judge(self.stack, Placement(allocations=ran), self.today)
        return {(one.path, one.subject) for one in found if one.path.startswith(LIMITS)}

    def _rank(self, workload: str) -> int:
        request = self.stack.workloads.get(workload)
        return PRIORITIES[request.priority] if request else 0

    def _forced(self, back: tuple[Allocation, ...], names: tuple[str, ...]) -> dict[str, str]:
        """Of newcomers that ran on nodes which have to be left: those, with their states."""
        nodes, found = {each.node for each in back}, {}
        for name in names:
            come = [each for each in self.now.values() if each.workload == name and self._newcomer(each)]
            here = [each for each in come if each.node in nodes] or come
            left = sorted({self.old[each.name].node for each in here if each.name in self.old})
            states = [(node, self.stack.nodes[node].state) for node in left if node in self.stack.nodes]
            if text := "; ".join(f"{node}: {state}" for node, state in states if state in ("drain", "lost")):
                found[name] = text
        return found

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
            if (now is not None and now.node == one.node) or node.state not in ("ready", "cordon"):
                continue
            alone = self.came((one,))
            if alone.names and not alone.broken:
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
        # How many there are is no matter of the place; what compares places looks at all of them.
        counts = {"gangs_are_whole", "indices_are_unique"}
        partial = counts if self.nodes is None else counts | {"replicas_are_balanced"}
        return tuple(one for one in found if one.rule not in partial)

    def _newcomer(self, one: Allocation) -> bool:
        was = self.old.get(one.name)
        return was is None or was.node != one.node or held_of(was) != held_of(one)


def _key(one: Violation) -> str:
    """What is reported once: the rule, and of `limits` each of its lines, since raising one of them leaves the others."""
    return one.path if one.path.startswith(LIMITS) else one.rule


def _left(stack: Stack, was: Allocation, now: Allocation | None) -> bool:
    """Is it on another node in its size, or still requested in it and placed nowhere?"""
    if now is not None:
        return now.node != was.node and held_of(now) == held_of(was)
    request = stack.workloads.get(was.workload)
    return request is not None and was.index < request.members and demand_of(request) == held_of(was)


def _sentences(broken: Iterable[Violation]) -> tuple[str, ...]:
    """One for each rule, and for each limit."""
    firsts = {_key(one): one.text for one in reversed(tuple(broken))}
    return tuple(list(reversed(firsts.values()))[:_TOLD])


def _anywhere(path: str) -> bool:
    """Is it a limit that counts whatever the node?"""
    return path.startswith(LIMITS) and not path.startswith("limits.node.") and f".{BY_MODEL}." not in path


def _more(found: Iterable[Violation], broken: Iterable[Violation]) -> bool:
    """Is any other rule or limit broken?"""
    return not {*map(_key, found)} <= {*map(_key, broken)}


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
