"""What does a change of one stack do? From what runs by the base's lock to what would be decided after the merge."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from swarm_iac.decision import Decision, request, still
from swarm_iac.errors import Refused
from swarm_iac.limits import judge, usage
from swarm_iac.model import cost
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.service.variants import in_effect
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Observed
from swarm_iac.model.step import Plan
from swarm_iac.plan.show.render import Context
from swarm_iac.plan.show.summary import Summary
from swarm_iac.reconcile import Reconciliation, Records, Target, Transition, as_locked
from swarm_iac.review.effect import (
    MONTH,
    AllocationEffect,
    Amount,
    Becomes,
    Cost,
    NearLimit,
    NodeEffect,
    PendingWorkload,
    RaisedPriority,
    StackEffect,
)
from swarm_iac.review.priorities import raised
from swarm_iac.review.snapshots import CommittedStack
from swarm_iac.stackfile.locks import finished, lock

#: A limit that is used for so much of it comes near. [percent]
NEAR = 90
#: Fixes are looked for, which solves again, for so many newly pending workloads, in fleets of at most so many nodes.
FIXED, SMALL = 2, 100


@dataclass(frozen=True)
class Consequences:
    """A stack before and after: `before` None where it is new. `decided`: what would be decided after the merge.

    `claimed`: its proof is what a file of the head says, and not one of our own.
    """

    before: CommittedStack | None
    decided: Decision
    today: datetime.date
    claimed: bool = True

    @cached_property
    def ran(self) -> Placement:
        """What runs before, under the names of after."""
        if self.before is None:
            return Placement()
        stack = self.decided.written
        return finished.of_now(lock.renamed(self._owned, stack), stack)

    @cached_property
    def _owned(self) -> lock.Lock:
        """The lock of the base; what an old one does not say of users is taken from the stack file of the base."""
        assert self.before is not None
        return lock.renamed(self.before.lock, self.before.loaded.stack)

    @cached_property
    def now(self) -> Decision:
        """The decision, as one that starts from what ran before: a lock of the head says nothing of that."""
        return replace(self.decided, last=self.ran)

    @cached_property
    def context(self) -> Context:
        """What the renderers of a plan take beside it."""
        now = self.now
        base = "the lock file of the base, taken as applied"
        return Context(now.stack, now.last, now.placement, now.proof, self.today, base)

    @cached_property
    def change(self) -> Reconciliation:
        """How the machines would differ from what is asked. Raises Refused where no order of steps is safe."""
        asked = request(self.now, self.today)
        wanted = asked.nodes()
        was = {}
        if self.before is not None:
            stack = in_effect(self.before.loaded.stack, self._owned.placement)
            known = tuple(one for one in self._owned.placement.allocations if one.node in stack.nodes)
            was = dict(as_locked.applied(stack, self._owned.placement, known)) if known else {}
        transition = Transition.of(Target.of(asked, wanted), Records(applied=was), None)
        seen = as_locked.healthy(was, self.now.stack)
        return Reconciliation(transition, {name: seen.get(name, Observed(node=name)) for name in transition.all})

    @property
    def plan(self) -> Plan:
        """The steps. Raises Refused."""
        return self.change.plan

    @cached_property
    def summary(self) -> Summary:
        """What the steps come to. Raises Refused."""
        return self.context.summary(self.plan)

    def refusals(self) -> Iterator[str]:
        """What forbids it, even if all approve: a rule that the placement breaks, or what `swarm up` would refuse."""
        now = self.now
        yield from self._renamed()
        yield from self._taken()
        for one in judge(now.stack, now.placement, self.today, **still(now.last, now.placement)):
            yield f"{one.path or one.rule}: {one.text}"
        try:
            self.change.guard(0)
        except Refused as refused:
            yield refused.message

    def _renamed(self) -> Iterator[str]:
        """The nodes' ledgers have the name of their fleet, and `swarm up` refuses another: nothing could be applied."""
        before, after = self.before.loaded.stack.fleet if self.before else "", self.now.stack.fleet
        if before and before != after:
            yield (
                f"fleet: {before} → {after}: the nodes belong to the fleet {before}, and `swarm up` would refuse\n"
                f"  hint: keep `fleet: {before}`; another fleet can take the nodes once this one has released them"
            )

    def _taken(self) -> Iterator[str]:
        """Workloads that take the name of another beside their own: it would not be known whose runs on."""
        known = self.before.loaded.stack.workloads if self.before else {}
        for name, one in self.decided.stack.workloads.items():
            if one.renamed_from in known and name in known:
                yield f"workloads.{name}.renamed_from: the base has {name} as well as {one.renamed_from}; choose another name"

    def effect(self) -> StackEffect:
        """All of it, as a value; changed values are for the caller to add."""
        return StackEffect(
            stack=self.now.name,
            allocations=tuple(sorted(self._allocations(), key=lambda one: (one.name, one.user))),
            nodes=tuple(self._nodes()),
            costs=(costs := self._costs())[1],
            currency=costs[0],
            near=tuple(self._near()),
            pending=tuple(self._pending()),
            priorities=tuple(self._priorities()),
        )

    @property
    def _teams(self) -> Stack:
        """The stack in which people are looked up: that of the base, which the pull request cannot change."""
        return self.before.loaded.stack if self.before else self.now.stack

    def _team(self, user: str) -> str:
        return next(iter(self._teams.teams_of(user) or self.now.stack.teams_of(user)), "")

    def _allocations(self) -> Iterator[AllocationEffect]:
        now, found = self.now, self.summary
        names = set[str]()
        of: dict[str, Becomes] = {
            **dict.fromkeys(found.change, "changed"), **dict.fromkeys(found.restart, "restarted"),
            **dict.fromkeys(found.move, "moved"),
        }  # fmt: skip
        after = {now.stack.runs_as(one): one for one in now.placement.going()}
        was = {self._runs_as(one): one for one in self.ran.going()}
        why = {**found.stop, **found.lost}
        for name, old in sorted(was.items()):
            names.add(name)
            new = after.get(name)
            owner = old.user or ""
            if new is None:
                text = why.get(name) or why.get(old.name) or "no longer wanted"
                yield self._one(name, owner, "stopped", old, None, text)
            elif new.user is not None and old.user is not None and new.user != old.user:
                yield self._one(name, owner, "stopped", old, None, f"it is of {new.user} now")
                yield self._one(name, new.user, "started", None, new, f"taken over from {owner}")
            else:
                elsewhere = self._readdressed.get(new.node, "")
                becomes = "moved" if old.node != new.node or elsewhere else of.get(name)
                amounts = _amounts(old, new)
                if becomes or amounts:
                    text = elsewhere or (self.context.moved.get(new.name, "") if becomes == "moved" else "")
                    yield self._one(name, owner, becomes or "changed", old, new, text)
        for name in sorted(after.keys() - names):
            new = after[name]
            user = new.user or now.stack.workloads[new.workload].user
            yield self._one(name, user, "started", None, new, "")
        yield from self._others(why, names)

    def _others(self, why: Mapping[str, str], names: set[str]) -> Iterator[AllocationEffect]:
        """What stops under a name that it has no more: `renamed_from` was taken out of the stack file."""
        if self.before is None:
            return
        stack = self.before.loaded.stack
        for one in self._owned.placement.going():
            name = stack.runs_as(one) if one.workload in stack.workloads else one.name
            if name in why and name not in names:
                yield self._one(name, one.user or "", "stopped", one, None, why[name])

    def _runs_as(self, one: Allocation) -> str:
        return self.now.stack.runs_as(one) if one.workload in self.now.stack.workloads else one.name

    def _one(
        self, name: str, user: str, becomes: Becomes, old: Allocation | None, new: Allocation | None, why: str
    ) -> AllocationEffect:
        return AllocationEffect(
            name=name, user=user, team=self._team(user), becomes=becomes, before=old.node if old else "",
            after=new.node if new else "", why=why, amounts=_amounts(old, new) if becomes != "stopped" else (),
        )  # fmt: skip

    def _nodes(self) -> Iterator[NodeEffect]:
        before = self.before.loaded.stack.nodes if self.before else {}
        after = self.now.stack.nodes
        configured = {*self.summary.configure}
        for name in self._readdressed:
            yield NodeEffect(name=name, becomes="readdressed", old=before[name].ssh, new=after[name].ssh)
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if new is None:
                yield NodeEffect(name=name, becomes="removed")
            elif old is None:
                yield NodeEffect(name=name, becomes="added")
            elif old.state != new.state:
                yield NodeEffect(name=name, becomes=new.state)
            elif name in configured and self._known(name):
                yield NodeEffect(name=name, becomes="configured")

    @cached_property
    def _readdressed(self) -> Mapping[str, str]:
        """Nodes whose name leads elsewhere: what runs there would be asked for on another machine, whatever that is."""
        before = self.before.loaded.stack.nodes if self.before else {}
        both = ((name, before[name], new) for name, new in sorted(self.now.stack.nodes.items()) if name in before)
        return {name: f"ssh: {old.ssh} → {new.ssh}" for name, old, new in both if old.ssh != new.ssh}

    def _priorities(self) -> Iterator[RaisedPriority]:
        """Priorities that rise."""
        after = self.now.stack
        for name, old, new in raised(self.before.loaded.stack if self.before else None, after):
            yield RaisedPriority(workload=name, user=after.workloads[name].user, old=old, new=new)

    def _known(self, node: str) -> bool:
        """Is it compared with a state that is known? Where nothing runs by the lock, settings count as not yet made."""
        return node in self.change.transition.records.applied

    def _costs(self) -> tuple[str, tuple[Cost, ...]]:
        before = self.before.loaded.stack if self.before else self.now.stack
        priced = [one.currency for stack in (before, self.now.stack) for one in stack.prices.values()]
        if not priced or len(set(priced)) > 1:
            return "", ()
        was = _by_team(self.ran, self._team), _by_team(self.now.placement, self._team)
        found = []
        for team in sorted(was[0].keys() | was[1].keys()):
            old = cost.cost(before, Placement(allocations=tuple(was[0].get(team, ()))))
            new = cost.cost(self.now.stack, Placement(allocations=tuple(was[1].get(team, ()))))
            amounts = (old.amount if old else 0) * MONTH, (new.amount if new else 0) * MONTH
            if any(amounts):
                found.append(Cost(team=team, before=amounts[0], after=amounts[1]))
        return priced[0], tuple(found)

    def _near(self) -> Iterator[NearLimit]:
        for one in usage(self.now.stack, self.now.placement, self.today, teams=True):
            if one.level == "node" or not one.ceiling or one.used * 100 < NEAR * one.ceiling:
                continue
            yield NearLimit(
                subject=f"{one.level} {one.subject}", resource=one.resource, used=one.used_text, ceiling=one.ceiling_text,
                percent=one.used * 100 // one.ceiling,
            )  # fmt: skip

    def _pending(self) -> Iterator[PendingWorkload]:
        before = {one.workload: len(one.missing) for one in self.ran.unplaced}
        known = self.before.loaded.stack.workloads if self.before else {}
        fixed = 0
        for one in self.now.placement.unplaced:
            new = len(one.missing) > before.get(one.workload, 0) or one.workload not in known
            fix = ""
            if new and fixed < FIXED and len(self.now.stack.nodes) <= SMALL:
                fixed += 1
                fix = self._fix(one.workload)
            why = "; ".join(reason.text for reason in one.reasons) or one.nodes
            user = self.now.stack.workloads[one.workload].user
            yield PendingWorkload(workload=one.workload, user=user, missing=len(one.missing), why=why, fix=fix, new=new)
        for grows in self.now.placement.growing:
            why = "; ".join(reason.text for reason in grows.reasons) or grows.nodes
            user = self.now.stack.workloads[grows.workload].user
            text = f"keeps {grows.keeps} and wants {grows.wants}: {why}"
            new = grows.workload not in {one.workload for one in self.ran.growing}
            yield PendingWorkload(workload=grows.workload, user=user, missing=0, why=text, new=new)

        for light in self.now.placement.lighter:
            why = "; ".join(reason.text for reason in light.reasons) or light.nodes
            user = self.now.stack.workloads[light.workload].user
            text = f"runs in variant {light.variant} in place of {light.instead_of[0]}: {why}"
            new = light.variant not in {one.variant for one in self.ran.lighter if one.workload == light.workload}
            yield PendingWorkload(workload=light.workload, user=user, missing=0, why=text, new=new)

    def _fix(self, workload: str) -> str:
        """The cheapest change that would place it, tested by solving; empty where none was found."""
        from swarm_iac.solver import why

        found = why(self.now.stack, self.now.placement, workload, last=self.now.last, today=self.today).fixes
        return " ".join(str(edit) for edit in found[0].edits) if found else ""


def _by_team(placement: Placement, team: Callable[[str], str]) -> dict[str, list[Allocation]]:
    found: dict[str, list[Allocation]] = {}
    for one in placement.allocations:
        found.setdefault(team(one.user or ""), []).append(one)
    return found


def _amounts(old: Allocation | None, new: Allocation | None) -> tuple[Amount, ...]:
    """Each resource of which an allocation holds more or less than before."""
    found = []
    for row in RESOURCES:
        if row.itself or row.part_of:
            continue
        was, now = row.held(old) if old else 0, row.held(new) if new else 0
        if was != now:
            text = f"{row.text(was)} → {row.amount(now)}" if old else row.amount(now)
            found.append(Amount(resource=row.name, old=was, new=now, text=text))
    return tuple(found)
