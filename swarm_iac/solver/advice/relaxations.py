"""Which single edits could lift the rules of a conflict, and to which least value?

Found by counting, with everything else where it stands. An offer is a guess: `mends` keeps what solving confirms.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from swarm_iac.model.edit import Edit, changed
from swarm_iac.model.resource import Noun
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES, Each, Workload
from swarm_iac.solver.explain.conflict import GANG, without
from swarm_iac.solver.explain.counting import EVERY, NUMA_RULE, STATES, USER_RULES, Tally, on_node, reach
from swarm_iac.solver.explain.facts import Conflict
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.from_stack import ask_of
from swarm_iac.solver.snapshot.layout import BUDGETS, GPUS, KEYS, MACHINE, NODE, RACK, Budget
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Ask
from swarm_iac.units import Bytes

Kind = Literal["limit", "node", "move", "request"]
#: How long an exception that has ended would go on.
EXTENSION = datetime.timedelta(days=30)
#: So many of those who hold the room could be asked for less.
HOLDERS = 5
_STATES = {"cordon": 1, "drain": 2, "lost": 3}


@dataclass(frozen=True)
class Offer:
    """One edit. `change` is its size in thousandths of what stands there now; `whole`: counting says that it suffices."""

    kind: Kind
    edit: Edit
    change: int
    whole: bool


class Offers:
    """The offers for one workload beside one placement."""

    def __init__(self, stack: Stack, room: Room, ask: Ask, today: datetime.date | None) -> None:
        self.stack, self.room, self.ask, self.today = stack, room, ask, today
        self.here = f"workloads.{ask.name}"
        self.goal = max(1, ask.wanted - room.counts[ask.name].total())

    def of(self, conflict: Conflict) -> list[Offer]:
        """Offers for each rule and holder, and for asking less often or more urgently; sure ones first, then cheap ones."""
        found = [offer for rule in conflict.rules for offer in self._of_rule(rule)]
        found += [*self._ended(conflict), *self._fewer(), *self._urgent()]
        found += [offer for name in conflict.holders[:HOLDERS] for offer in self._given_up(name)]
        return sorted(found, key=lambda offer: (not offer.whole, offer.change, offer.edit.path))

    def _of_rule(self, rule: str) -> Iterator[Offer]:
        budget = BUDGETS.get(rule)
        if budget is not None:
            of = {"machine": self._less, "node": self._node_limit, "rack": self._racks}
            yield from of.get(budget.level, self._ceiling)(budget)
        elif rule == STATES:
            yield from self._nodes()
        elif rule != GANG:
            yield from self._where(rule)

    def _fits(self, room: Room | None = None, ask: Ask | None = None) -> bool:
        """Does all that is missing find room, by counting?"""
        return reach(room or self.room, ask or self.ask) >= self.goal

    def _nodes(self) -> Iterator[Offer]:
        tally = Tally(self.room, self.ask)
        for name, bin_ in self.room.scene.bins.items():
            if bin_.state != "ready" and on_node(self.room, self.ask, bin_, EVERY - {STATES}, 1) > 0:
                tally.open(name)
                edit = Edit(path=f"nodes.{name}.state", value="ready")
                yield Offer("node", edit, 1000 * _STATES[bin_.state], tally.reach() >= self.goal)
                tally.close(name)

    def _less(self, budget: Budget) -> Iterator[Offer]:
        """The most of one thing that would find room, in round figures."""
        i, row, workload = budget.place, MACHINE[budget.place], self.stack.workloads[self.ask.name]
        if row.part_of:
            yield self._request(*row.edit(workload, 0), 500)
            return
        if i == GPUS and self.ask.shared:
            yield from self._less_of_one()
            return
        need, per = self.ask.need[i], row.capacity.per if row.capacity else 1
        step = max(1, row.step(need * per) // per)
        parts = {free[i] // k // step * step for free in self.room.free.values() for k in range(1, min(self.goal, 16) + 1)}
        values = sorted(value for value in parts if 0 < value < need)
        best = _largest(values, lambda value: self._fits(ask=self._asking(row.edit(workload, value * per))))
        for value in dict.fromkeys((best, values[-1] if values else None)):
            if value is not None:
                key, written = row.edit(workload, value * per)
                yield self._request(key, written, 1000 * (need - value) // need)

    def _less_of_one(self) -> Iterator[Offer]:
        """A smaller part of a GPU: what some card has left, in round figures."""
        row, workload, share = MACHINE[GPUS], self.stack.workloads[self.ask.name], self.ask.share
        step = row.step(share)
        rests = {left // step * step for node in self.room.free for left in self.room.partial(node).values()}
        for value in sorted((value for value in rests if 0 < value < share), reverse=True)[:2]:
            key, written = row.edit(workload, value)
            yield self._request(key, written, 1000 * (share - value) // share)

    def _where(self, rule: str) -> Iterator[Offer]:
        """Wishes about the place that can be given up."""
        workload = self.stack.workloads[self.ask.name]
        if rule == "selector_matches":
            for key, _ in self.ask.select:
                yield self._request(f"place.select.{key}", None, 700)
            if len(self.ask.select) > 1:
                yield self._request("place.select", None, 900)
        elif rule == "spread_keeps_apart":
            yield self._request("place.spread", None, 600)
        elif rule == "within_keeps_together":
            yield self._request("place.within", None, 600)
        elif rule in (NUMA_RULE, "numa_node_suffices"):
            yield self._request("place.numa", None, 600)
            if self.ask.need[GPUS] > 1:
                yield from self._less(NODE[GPUS])
        elif rule == "gpu_model_matches":
            gpus = workload.each.gpus
            edit = MACHINE[GPUS].edit(workload.model_copy(update={"each": self._any_model(workload)}), gpus.milli)
            yield self._request(*edit, 500) if gpus.memory is None else self._request("each.gpus.model", None, 500)
        elif rule == "gpu_memory_suffices":
            most = self.ask.gpu_memory
            for less in sorted({b.gpu_memory for b in self.room.scene.bins.values() if 0 < b.gpu_memory < most}):
                yield self._request("each.gpus.memory", str(Bytes(less)), 1000 * (most - less) // most)

    @staticmethod
    def _any_model(workload: Workload) -> Each:
        return workload.each.model_copy(update={"gpus": workload.each.gpus.model_copy(update={"model": None})})

    def _request(self, key: str, value: object, change: int) -> Offer:
        return Offer(
            "request", Edit(path=f"{self.here}.{key}", value=value), change, self._fits(ask=self._asking((key, value)))
        )

    def _asking(self, wish: tuple[str, object]) -> Ask:
        edit = Edit(path=f"{self.here}.{wish[0]}", value=wish[1])
        asked = ask_of(self.ask.name, changed(self.stack, edit).workloads[self.ask.name])
        return replace(asked, members=self.ask.members, wanted=self.ask.wanted)

    def _fewer(self) -> Iterator[Offer]:
        """As many replicas, or members, as find room."""
        count = self.room.counts[self.ask.name].total()
        more = reach(self.room, self.ask)
        least, most = count + more, self.ask.wanted
        done = len(self.room.scene.done.get(self.ask.name, ()))
        if not 0 < least < most:
            return
        key = "gang" if self.ask.gang else "replicas"
        upper = self.stack.workloads[self.ask.name].replicas.most
        least, most = least + done, most + done
        value: object = f"{least}..{upper}" if not self.ask.gang and upper > most else least
        yield Offer("request", Edit(path=f"{self.here}.{key}", value=value), 1000 * (most - least) // most, True)

    def _urgent(self) -> Iterator[Offer]:
        """A higher priority stops others, so it is tried last."""
        for name, level in sorted(PRIORITIES.items(), key=lambda pair: pair[1]):
            if level > self.ask.priority:
                lower = {key for key, other in self.room.scene.asks.items() if other.priority < level}
                whole = self._fits(without(self.room, lower - {self.ask.name}))
                change = 2000 * (level - self.ask.priority)
                yield Offer("request", Edit(path=f"{self.here}.priority", value=name), change, whole)

    def _given_up(self, holder: str) -> Iterator[Offer]:
        """Another workload asks for fewer replicas; a gang goes as a whole. The dearest wish, since it is someone else's."""
        counts, other = self.room.counts[holder], self.room.scene.asks[holder]
        if other.gang:
            whole = self._fits(without(self.room, {holder}))
            yield Offer("request", Edit(path=f"workloads.{holder}"), 8000 + other.gpus * other.members, whole)
            return
        room = self.room.copy()
        tally = Tally(room, self.ask)
        for gone, node in enumerate(sorted(counts.elements()), 1):
            room.take(other, room.scene.bins[node], -1)
            tally.changed((node,))
            whole = tally.reach() >= self.goal
            if whole or gone == counts.total():
                count = other.wanted + len(self.room.scene.done.get(holder, ()))
                edit = Edit(path=f"workloads.{holder}.replicas", value=count - gone)
                yield Offer("request", edit, 4000 + 1000 * gone, whole)
                return

    def _ended(self, conflict: Conflict) -> Iterator[Offer]:
        """An exception whose end blocks growth, or leaves its user too little, goes on."""
        grows = self.ask.members != self.ask.wanted
        if self.today is None or not (grows or any(rule in USER_RULES for rule in conflict.rules)):
            return
        most = self.room.scene.users[self.ask.user]
        for i, one in enumerate(self.stack.limits.exceptions):
            if one.user == self.ask.user and one.until < self.today:
                room = self.room.copy()
                for j, key in enumerate(KEYS):
                    room.users[self.ask.user][j] += max(0, (one.limit(key) or 0) - most[j])
                edit = Edit(path=f"limits.except[{i}].until", value=(self.today + EXTENSION).isoformat())
                yield Offer("limit", edit, 500, grows or self._fits(room))

    def _ceiling(self, budget: Budget) -> Iterator[Offer]:
        """The user's or the cluster's ceiling, raised to what all replicas need."""
        room, i, user = self.room.copy(), budget.place, self.ask.user if budget.level == "user" else ""
        values = room.users[user] if user else room.cluster
        whole = (room.scene.users[user] if user else room.scene.cluster)[i] + self.room.scene.files(user, i)
        more = self.ask.usage[i] * self.goal - values[i]
        for j in (j for j, key in enumerate(KEYS) if key == budget.key):
            values[j] += more
        path = self.room.scene.given.get((user, i), f"limits.{budget.level}")
        yield self._raised(f"{path}.{budget.key}", budget.noun, whole, more, sure=self._fits(room))

    def _node_limit(self, budget: Budget) -> Iterator[Offer]:
        both = [other.place for other in NODE if other.level == "node" and other.key == budget.key]

        def fits(more: int) -> bool:
            room = self.room.copy()
            for free in room.free.values():
                for j in both:
                    free[j] += more
            return self._fits(room)

        short = self._short(self.ask.need[budget.place], (free[budget.place] for free in self.room.free.values()))
        more = _smallest(short, fits)
        given = self.stack.limits.node.limit(budget.key)
        whole = ENDLESS if given is None else given
        for value in dict.fromkeys((more, short[0] if short else None)):
            if value is not None:
                yield self._raised(f"limits.node.{budget.key}", budget.noun, whole, value, sure=fits(value))

    def _racks(self, budget: Budget) -> Iterator[Offer]:
        i, key = budget.place, budget.key
        both = [other.place for other in RACK if other.key == key]
        room = self.room.copy()
        tally = Tally(room, self.ask)
        for name, left in self.room.racks.items():
            bins = [b for b in self.room.scene.bins.values() if b.rack == name]
            needs = {b.of_rack(self.ask)[i] for b in bins}

            def fits(
                more: int, rack: list[int] = room.racks[name], inside: tuple[str, ...] = tuple(b.name for b in bins[:1])
            ) -> bool:
                before = list(rack)
                for j in both:
                    rack[j] += more
                tally.changed(inside)
                enough = tally.reach() >= self.goal
                rack[:] = before
                tally.changed(inside)
                return enough

            short = sorted({more for need in needs if need for more in self._short(need, [left[i]])})
            more = _smallest(short, fits)
            for value in dict.fromkeys((more, short[0] if short else None)):
                if value is not None and left[i] < ENDLESS // 2:
                    given = int(getattr(self.stack.racks[name], key))
                    edit = Edit(path=f"racks.{name}.{key}", value=budget.noun.text(given + value))
                    yield Offer("limit", edit, 1000 * value // max(1, given), fits(value))

    def _short(self, need: int, left: Iterable[int]) -> list[int]:
        """What is short for one replica, for two, and so on, over places with so much left; ascending."""
        return sorted({more for free in left for k in range(1, min(self.goal, 16) + 1) if (more := k * need - free) > 0})

    def _raised(self, path: str, noun: Noun, whole: int, more: int, *, sure: bool) -> Offer:
        edit = Edit(path=path, value=noun.written(whole + more))
        return Offer("limit", edit, 1000 * more // max(1, whole), sure)


def _largest(values: list[int], fits: Callable[[int], bool]) -> int | None:
    """The largest of ascending values that fits, where all below one that fits do too."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if fits(values[middle]) else (low, middle)
    return values[low - 1] if low else None


def _smallest(values: list[int], fits: Callable[[int], bool]) -> int | None:
    """The smallest of ascending values that fits, where all above one that fits do too."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(values[middle]) else (middle + 1, high)
    return values[low] if low < len(values) else None
