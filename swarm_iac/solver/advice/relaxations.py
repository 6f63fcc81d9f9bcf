"""Which single edits could lift the rules of a conflict, and to which least value?

Found by counting, with everything else where it stands. A relaxation is a guess: `fixes` keeps what solving confirms.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from swarm_iac.model.edit import Edit, changed
from swarm_iac.model.gpus.mig import part_of, profiles_of
from swarm_iac.model.place.groups import AWAY_FROM, SITE_LINKS
from swarm_iac.model.place.taints import ANY
from swarm_iac.model.resources.row import Noun
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES, Each, Workload
from swarm_iac.solver.advice.first_that_fits import largest, short, smallest
from swarm_iac.solver.advice.more_skew import more_skew
from swarm_iac.solver.advice.of_teams import of_teams
from swarm_iac.solver.advice.offer import Relaxation
from swarm_iac.solver.advice.power_limits import lower_limits, node_budgets
from swarm_iac.solver.advice.smaller_instances import smaller_instances
from swarm_iac.solver.advice.wider_links import wider_links
from swarm_iac.solver.explain.conflict import GANG
from swarm_iac.solver.explain.counting import CEILING_RULES, EVERY, STATES, TAINTS, Tally, on_node, reach
from swarm_iac.solver.explain.domains import LINK_RULE, NUMA_RULE
from swarm_iac.solver.explain.facts import Conflict
from swarm_iac.solver.explain.model_limits import MODEL_RULES
from swarm_iac.solver.snapshot.by_model import chains_of
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.from_stack import foes_of, request_of
from swarm_iac.solver.snapshot.layout import (
    ALL_GPUS,
    BUDGETS,
    COUNTED,
    GPUS,
    KEYS,
    MACHINE,
    NODE,
    POWER,
    RACK,
    Budget,
    models_of_chain,
    of_chain,
)
from swarm_iac.solver.snapshot.scopes import excepted
from swarm_iac.solver.snapshot.site_links import between
from swarm_iac.solver.snapshot.snapshot import ENDLESS, WorkloadRequest, of_model
from swarm_iac.solver.snapshot.suitability import PLACE
from swarm_iac.units import Bytes

#: How long an exception that has ended would go on.
EXTENSION = datetime.timedelta(days=30)
#: So many of those who hold the capacity could be asked for less.
HOLDERS = 5
_STATES = {"cordon": 1, "drain": 2, "lost": 3}


class Relaxations:
    """The offers for one workload beside one placement."""

    def __init__(self, stack: Stack, capacity: FreeCapacity, request: WorkloadRequest, today: datetime.date | None) -> None:
        self.stack, self.capacity, self.request, self.today = stack, capacity, request, today
        self.here = f"workloads.{request.name}"
        self.goal = max(1, request.wanted - capacity.counts[request.name].total())

    def of(self, conflict: Conflict) -> list[Relaxation]:
        """One for each rule and holder, and for asking less often or more urgently; sure ones first, then cheap ones."""
        found = [relaxation for rule in conflict.rules for relaxation in self._of_rule(rule)]
        found += [*self._ended(conflict), *self._fewer(), *self._urgent(), *of_teams(self.capacity, self.request, self.goal)]
        found += [relaxation for name in conflict.holders[:HOLDERS] for relaxation in self._given_up(name)]
        firm = [name for name in conflict.holders if not self.stack.workloads[name].movable]
        found += [Relaxation("move", Edit(path=f"workloads.{name}.movable", value=None), 200, True) for name in firm[:HOLDERS]]
        return sorted(found, key=lambda relaxation: (not relaxation.whole, relaxation.change, relaxation.edit.path))

    def _of_rule(self, rule: str) -> Iterator[Relaxation]:
        budget = BUDGETS.get(rule)
        if budget is not None and budget.by_model:
            yield from self._models(budget)
        elif budget is not None and budget.level == "supply":
            yield from node_budgets(self.capacity, self.request, self.goal)
        elif budget is not None:
            of = {"machine": self._less, "node": self._node_limit, "rack": self._racks}
            yield from of.get(budget.level, self._ceiling)(budget)
        elif rule == STATES:
            yield from self._nodes()
        elif rule == SITE_LINKS.rule:
            yield from wider_links(self.capacity, self.request, self.goal, self._request)
        elif rule != GANG:
            yield from self._where(rule)

    def _fits(self, capacity: FreeCapacity | None = None, request: WorkloadRequest | None = None) -> bool:
        """Does all that is missing fit, by counting?"""
        return reach(capacity or self.capacity, request or self.request) >= self.goal

    def _nodes(self) -> Iterator[Relaxation]:
        tally = Tally(self.capacity, self.request)
        for name, host in self.capacity.snapshot.nodes.items():
            if host.state != "ready" and on_node(self.capacity, self.request, host, EVERY - {STATES}, 1) > 0:
                tally.open(name)
                edit = Edit(path=f"nodes.{name}.state", value="ready")
                yield Relaxation("node", edit, 1000 * _STATES[host.state], tally.reach() >= self.goal)
                tally.close(name)

    def _less(self, budget: Budget) -> Iterator[Relaxation]:
        """The most of one thing that would fit, in round figures."""
        i, row, workload = budget.place, MACHINE[budget.place], self.stack.workloads[self.request.name]
        if row.part_of:
            yield self._request(*row.edit(workload, 0), 500)
            return
        if i == GPUS and self.request.profile:
            yield from smaller_instances(self.capacity, workload, self._request)
            return
        if i == GPUS and self.request.shared:
            yield from self._less_of_one()
            return
        need, per = self.request.need[i], row.capacity.per if row.capacity else 1
        step = max(1, row.step(need * per) // per)
        lefts = [free[i] for free in self.capacity.free.values()]
        for j, used in self.request.uses:  # what fits a node may be more than a limit leaves
            lefts += [self.capacity.scopes[one][j] * need // used for one in self.request.chain if COUNTED[j] is row]
        parts = {left // k // step * step for left in lefts for k in range(1, min(self.goal, 16) + 1)}
        values = sorted(value for value in parts if 0 < value < need)
        best = largest(values, lambda value: self._fits(request=self._asking(row.edit(workload, value * per))))
        for value in dict.fromkeys((best, values[-1] if values else None)):
            if value is not None:
                key, written = row.edit(workload, value * per)
                yield self._request(key, written, 1000 * (need - value) // need)

    def _less_of_one(self) -> Iterator[Relaxation]:
        """A smaller part of a GPU: what some card has left, in round figures."""
        row, workload, share = MACHINE[GPUS], self.stack.workloads[self.request.name], self.request.share
        step = row.step(share)
        rests = {left // step * step for node in self.capacity.free for left in self.capacity.partial(node).values()}
        for value in sorted((value for value in rests if 0 < value < share), reverse=True)[:2]:
            key, written = row.edit(workload, value)
            yield self._request(key, written, 1000 * (share - value) // share)

    def _where(self, rule: str) -> Iterator[Relaxation]:
        """Placement requirements that can be dropped."""
        workload = self.stack.workloads[self.request.name]
        if rule == AWAY_FROM.rule:
            for name, other in self.stack.workloads.items():
                for level, names in other.place.away_from.items():
                    if name == self.request.name or self.request.name in names:
                        apart = Edit(path=f"workloads.{name}.place.away_from.{level}", value=None)
                        yield Relaxation("request", apart, 700 if name == self.request.name else 3000, whole=False)
        elif rule == TAINTS:
            yield from self._tolerated()
        elif key := {NUMA_RULE: "numa", LINK_RULE: "links"}.get(rule) or PLACE.get(rule):
            yield from self._dropped(key)
            if key == "only_with":
                yield from self._one_more()
            if key in ("numa", "links") and self.request.need[GPUS] > 1:
                yield from self._less(NODE[GPUS])
        elif self.request.profile and rule in ("mig_profile_exists", "gpu_model_matches"):
            yield from self._cut_elsewhere()
        elif rule == "gpu_model_matches":
            gpus = workload.each.gpus
            edit = MACHINE[GPUS].edit(workload.model_copy(update={"each": self._any_model(workload)}), gpus.milli)
            yield self._request(*edit, 500) if gpus.memory is None else self._request("each.gpus.model", None, 500)
        elif rule == "gpu_memory_suffices":
            most = self.request.gpu_memory
            for less in sorted({b.gpu_memory for b in self.capacity.snapshot.nodes.values() if 0 < b.gpu_memory < most}):
                yield self._request("each.gpus.memory", str(Bytes(less)), 1000 * (most - less) // most)

    def _one_more(self) -> Iterator[Relaxation]:
        """One more of those whom it is only with."""
        for name in sorted({name for names in self.request.place.only_with.values() for name in names}):
            other = self.capacity.snapshot.requests[name]
            if not other.gang:
                count = other.wanted + len(self.capacity.snapshot.done.get(name, ())) + 1
                upper = self.stack.workloads[name].replicas.most
                value: object = f"{count}..{upper}" if upper > count else count
                yield Relaxation("request", Edit(path=f"workloads.{name}.replicas", value=value), 3000, whole=False)

    def _cut_elsewhere(self) -> Iterator[Relaxation]:
        """Cards that may be cut as well, and other models that have the profile."""
        profile = self.request.profile
        for name in sorted({node.hardware for node in self.stack.nodes.values() if node.hardware}):
            shape = self.stack.hardware[name]
            if not shape.mig and shape.gpus.count and profile in profiles_of(shape.gpus.model or "", int(shape.gpu_memory)):
                yield Relaxation("node", Edit(path=f"hardware.{name}.mig", value=True), 500, whole=False)
        for model in sorted({one.model for one in self.capacity.snapshot.nodes.values() if one.profiles and one.model}):
            if part_of(model, profile) and model not in str(self.request.model).split("|"):
                yield self._request("each.gpus", f"{self.request.gpus} x {model}/{profile}", 500)

    def _tolerated(self) -> Iterator[Relaxation]:
        """One taint more is tolerated, of those that its user may tolerate; the fewest nodes are opened first."""
        counts = Counter(
            (key, taint.value)
            for host in self.capacity.snapshot.nodes.values()
            for key, taint in host.taints.items()
            if taint.admits(self.request.teams) and not self.request.place.tolerates({key: taint}, self.request.teams)
        )
        for (key, value), count in counts.items():
            other = key in self.request.place.tolerate  # it tolerates another value already, and a key has one
            yield self._request(f"place.tolerate.{key}", ANY if other else value, 800 + 10 * count)

    def _dropped(self, key: str) -> Iterator[Relaxation]:
        """A key of `place` is left out, or one entry of it."""
        value = getattr(self.request.place, key)
        for entry in value if isinstance(value, dict) else ():
            yield self._request(f"place.{key}.{entry}", None, 700)
        if not isinstance(value, dict) or len(value) > 1:
            yield self._request(f"place.{key}", None, 900 if isinstance(value, dict) else 600)
        yield from more_skew(key, self.request, lambda value, change: self._request(f"place.{key}", value, change))

    @staticmethod
    def _any_model(workload: Workload) -> Each:
        return workload.each.model_copy(update={"gpus": workload.each.gpus.model_copy(update={"model": None})})

    def _request(self, key: str, value: object, change: int) -> Relaxation:
        fits = self._fits(request=self._asking((key, value)))
        return Relaxation("request", Edit(path=f"{self.here}.{key}", value=value), change, fits)

    def _asking(self, request: tuple[str, object]) -> WorkloadRequest:
        edit = Edit(path=f"{self.here}.{request[0]}", value=request[1])
        stack, mine = changed(self.stack, edit), self.request
        asked, foes = request_of(mine.name, stack.workloads[mine.name]), foes_of(stack).get(mine.name, ())
        asked = replace(asked, members=mine.members, wanted=mine.wanted, chain=mine.chain, teams=mine.teams, foes=foes)
        asked = replace(asked, between=between(stack, mine.name)) if self.capacity.links else asked
        models = self.capacity.snapshot.models
        return replace(asked, models=chains_of(asked, models)) if models else asked

    def _fewer(self) -> Iterator[Relaxation]:
        """As many replicas, or members, as fit."""
        count = self.capacity.counts[self.request.name].total()
        more = reach(self.capacity, self.request)
        least, most = count + more, self.request.wanted
        done = len(self.capacity.snapshot.done.get(self.request.name, ()))
        if not 0 < least < most:
            return
        key = "gang" if self.request.gang else "replicas"
        upper = self.stack.workloads[self.request.name].replicas.most
        least, most = least + done, most + done
        value: object = f"{least}..{upper}" if not self.request.gang and upper > most else least
        yield Relaxation("request", Edit(path=f"{self.here}.{key}", value=value), 1000 * (most - least) // most, True)

    def _urgent(self) -> Iterator[Relaxation]:
        """A higher priority stops others, so it is tried last."""
        for name, level in sorted(PRIORITIES.items(), key=lambda pair: pair[1]):
            if level > self.request.priority:
                lower = {key for key, other in self.capacity.snapshot.requests.items() if other.priority < level}
                whole = self._fits(self.capacity.without(lower - {self.request.name}))
                change = 2000 * (level - self.request.priority)
                yield Relaxation("request", Edit(path=f"{self.here}.priority", value=name), change, whole)

    def _given_up(self, holder: str) -> Iterator[Relaxation]:
        """Another workload asks for fewer replicas; a gang goes as a whole. The costliest edit: it is someone else's."""
        counts, other = self.capacity.counts[holder], self.capacity.snapshot.requests[holder]
        if other.gang:
            if any(holder in one.place.named for one in self.stack.workloads.values()):
                return  # the file names it, so it cannot be left out alone
            whole = self._fits(self.capacity.without({holder}))
            yield Relaxation("request", Edit(path=f"workloads.{holder}"), 8000 + other.gpus * other.members, whole)
            return
        capacity = self.capacity.copy()
        tally = Tally(capacity, self.request)
        for gone, node in enumerate(sorted(counts.elements()), 1):
            capacity.take(other, capacity.snapshot.nodes[node], -1)
            tally.changed((node,))
            whole = tally.reach() >= self.goal
            if whole or gone == counts.total():
                count = other.wanted + len(self.capacity.snapshot.done.get(holder, ()))
                edit = Edit(path=f"workloads.{holder}.replicas", value=count - gone)
                yield Relaxation("request", edit, 4000 + 1000 * gone, whole)
                return

    def _ended(self, conflict: Conflict) -> Iterator[Relaxation]:
        """An exception whose end blocks growth, or leaves its user or team too little, goes on."""
        grows = self.request.members != self.request.wanted
        if self.today is None or not (grows or any(rule in (*CEILING_RULES, *MODEL_RULES) for rule in conflict.rules)):
            return
        for i, one in enumerate(self.stack.limits.exceptions):
            scope = excepted(one)
            if scope in self.request.chain and one.until < self.today:
                capacity, most = self.capacity.copy(), self.capacity.snapshot.scopes[scope]
                for j, key in enumerate(KEYS):
                    capacity.scopes[scope][j] += max(0, (one.limit(key) or 0) - most[j])
                for model, least in one.gpus_by_model.items():
                    for _, name in self.request.on_model(model):
                        capacity.scopes[name][ALL_GPUS] += int(least)
                edit = Edit(path=f"limits.except[{i}].until", value=(self.today + EXTENSION).isoformat())
                yield Relaxation("limit", edit, 500, grows or self._fits(capacity))

    def _ceiling(self, budget: Budget) -> Iterator[Relaxation]:
        """The ceiling of the user, a team or the cluster, raised to what all replicas need."""
        capacity, scope = self.capacity.copy(), self.request.scope_of(budget)
        path, whole, more = self._lacking(budget)
        for j in (j for j, key in enumerate(KEYS) if key == budget.key):
            capacity.scopes[scope][j] += more
        yield self._raised(path, budget.noun, whole, more, sure=self._fits(capacity))

    def _models(self, budget: Budget) -> Iterator[Relaxation]:
        """The limit on one GPU model, raised to what all replicas need; or one model more, of those that the fleet has."""
        for path, noun, whole, more, lifted in self._short_models(budget):
            yield self._raised(path, noun, whole, more, sure=self._fits(lifted))
        workload = self.stack.workloads[self.request.name]
        gpus, asked = workload.each.gpus, self.request.model
        models = {host.model for host in self.capacity.snapshot.nodes.values() if host.model and not gpus.allows(host.model)}
        for model in sorted(models) if asked is not None else ():
            if gpus.profile and part_of(model, gpus.profile) != gpus.part:
                continue
            both = workload.model_copy(
                update={
                    "each": workload.each.model_copy(update={"gpus": gpus.model_copy(update={"model": f"{asked}|{model}"})})
                }
            )
            key, value = MACHINE[GPUS].edit(both, gpus.milli)
            yield self._request(*(("each.gpus.model", f"{asked}|{model}") if gpus.memory else (key, value)), 400)

    def _short_models(self, budget: Budget) -> Iterator[tuple[str, Noun, int, int, FreeCapacity]]:
        """Each model under whose limit too little is left: its path, what it is, what is missing, and what is free with it."""
        snapshot, scope, i = self.capacity.snapshot, self.request.scope_of(budget), budget.place
        for model in (model for model, _ in self.request.models if model in snapshot.models.get(scope, ())):
            one, whole = of_model(scope, model), snapshot.models[scope][model]
            held = snapshot.scopes[one][i] - self.capacity.scopes[one][i]
            more = held + self.request.usage[i] * self.goal - whole
            if more > 0:
                capacity = self.capacity.copy()
                for place, name in self.request.on_model(model):
                    if self.request.chain[place] == scope:
                        capacity.scopes[name][i] += self.request.usage[i] * self.goal
                yield snapshot.given[one, i], budget.noun, whole, more, capacity

    def _lacking(self, budget: Budget) -> tuple[str, int, int]:
        """Of a ceiling its path, what it is, and how much is missing for all replicas."""
        snapshot, i, scope = self.capacity.snapshot, budget.place, self.request.scope_of(budget)
        whole = snapshot.scopes[scope][i] + snapshot.files(scope, i)
        more = self.request.usage[i] * self.goal - self.capacity.scopes[scope][i]
        return f"{snapshot.given[scope, i]}.{budget.key}", whole, more

    def ceilings(self) -> tuple[Edit, ...]:
        """Every ceiling under which too little is left for all replicas, raised as far as they need."""
        found: dict[str, tuple[int, Noun]] = {}
        for budget in (budget for budgets in of_chain(len(self.request.chain)) for budget in budgets):
            path, whole, more = self._lacking(budget)
            if self.request.usage[budget.place] and more > 0:
                found[path] = max(found.get(path, (0, budget.noun)), (whole + more, budget.noun), key=lambda one: one[0])
        for budget in models_of_chain(len(self.request.chain)):
            for path, noun, whole, more, _ in sorted(self._short_models(budget), key=lambda one: one[3])[:1]:
                found[path] = whole + more, noun
        return tuple(Edit(path=path, value=noun.written(most)) for path, (most, noun) in found.items())

    def _node_limit(self, budget: Budget) -> Iterator[Relaxation]:
        both = [other.place for other in NODE if other.level == "node" and other.key == budget.key]

        def fits(more: int) -> bool:
            capacity = self.capacity.copy()
            for free in capacity.free.values():
                for j in both:
                    free[j] += more
            return self._fits(capacity)

        lefts = (free[budget.place] for free in self.capacity.free.values())
        missing = short(self.request.need[budget.place], lefts, self.goal)
        more = smallest(missing, fits)
        whole = ENDLESS if (given := self.stack.limits.node.limit(budget.key)) is None else given
        for value in dict.fromkeys((more, missing[0] if missing else None)):
            if value is not None:
                yield self._raised(f"limits.node.{budget.key}", budget.noun, whole, value, sure=fits(value))

    def _racks(self, budget: Budget) -> Iterator[Relaxation]:
        i, key = budget.place, budget.key
        both = [other.place for other in RACK if other.key == key]
        tally = Tally(capacity := self.capacity.copy(), self.request)
        for name, left in self.capacity.racks.items():
            nodes = [b for b in self.capacity.snapshot.nodes.values() if b.rack == name]
            needs = {b.of_rack(self.request)[i] for b in nodes}

            def fits(
                more: int, rack: list[int] = capacity.racks[name], inside: tuple[str, ...] = tuple(b.name for b in nodes[:1])
            ) -> bool:
                before = list(rack)
                for j in both:
                    rack[j] += more
                tally.changed(inside)
                enough = tally.reach() >= self.goal
                rack[:] = before
                tally.changed(inside)
                return enough

            missing = sorted({more for need in needs if need for more in short(need, [left[i]], self.goal)})
            more = smallest(missing, fits)
            for value in dict.fromkeys((more, missing[0] if missing else None)):
                if value is not None and left[i] < ENDLESS // 2:
                    given = int(getattr(self.stack.racks[name], key))
                    edit = Edit(path=f"racks.{name}.{key}", value=budget.noun.text(given + value))
                    yield Relaxation("limit", edit, 1000 * value // max(1, given), fits(value))
                    if i == POWER:
                        yield from lower_limits(self.capacity, self.request, nodes, value, self.goal)

    def _raised(self, path: str, noun: Noun, whole: int, more: int, *, sure: bool) -> Relaxation:
        edit = Edit(path=path, value=noun.written(whole + more))
        return Relaxation("limit", edit, 1000 * more // max(1, whole), sure)
