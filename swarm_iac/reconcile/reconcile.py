"""How do the machines differ from the target, and which steps lead there?

For a node that does not answer, its last known state is used. The plan needs it, because what may still run there must not
start elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from swarm_iac.model.state import Desired, Observed, RolloutFailure
from swarm_iac.model.step import Plan, StepResult
from swarm_iac.plan import guards, steps
from swarm_iac.plan.state import ownership
from swarm_iac.plan.state.diff import ended
from swarm_iac.plan.state.ownership import Claims
from swarm_iac.plan.step_graph.partial import Only
from swarm_iac.plan.step_graph.partial import only as read_only
from swarm_iac.reconcile.transition import Transition

#: Killed runs in a row that are considered possible; and the largest serial if none is on record.
_AHEAD, _FIRST = 1000, 1 << 40
#: Reads nodes: node → address to the nodes as they are. Never raises for one node: see Observed.error.
Read = Callable[[Mapping[str, str]], Mapping[str, Observed]]


@dataclass(frozen=True)
class Reconciliation:
    """The machines as they are, and the target. `agent`: digest of the node program to install; "": any."""

    transition: Transition
    observed: dict[str, Observed]
    agent: str = ""
    retry: bool = False
    only: Only | None = None
    claims: Claims = field(default_factory=dict)

    @classmethod
    def of(cls, read: Read, transition: Transition, agent: str, *, retry: bool = False, only: str = "") -> Reconciliation:
        """Read every node. `retry`: continue halted roll-outs. `only`: nodes and teams. Raises Refused for unknown ones."""
        return cls(transition, {}, agent, retry, selected(transition, only))._with(read, set(transition.all))

    def again(self, read: Read, results: Mapping[str, StepResult]) -> Reconciliation:
        """Read the nodes that had steps again: success is what a second reading shows.

        A node that became unreachable during a step of a roll-out cannot record that itself.
        """
        now = replace(self, retry=False)._with(read, {step.node for step in self.plan.steps})
        seen = dict(now.observed)
        for step in (step for step in self.plan.steps if step.rollout and step.node in now.unreachable):
            result = results.get(step.id)
            if result is not None and not result.ok and not result.skipped:
                lost = {
                    each.path: RolloutFailure(value=each.new, why=result.message, serial=self.serial + 1)
                    for each in step.changes
                }
                seen[step.node] = seen[step.node].model_copy(
                    update={"rollout_failures": {**seen[step.node].rollout_failures, **lost}}
                )
        return replace(now, observed=seen)

    def _with(self, read: Read, names: set[str]) -> Reconciliation:
        targets = {name: value.address for name, value in self.transition.all.items() if name in names}
        found = dict(read(targets))
        for name, why in self._disowned(found).items():
            found[name] = found[name].model_copy(update={"error": why})
        last = self.transition.last
        for name, node in found.items():
            if node.error:
                was = last.get(name, Observed(node=name))
                agent = self.agent if was.ledger else ""
                found[name] = was.model_copy(update={"error": node.error, "asleep": node.asleep, "agent": agent})
            elif name in self.transition.records.seen:
                # What a node could not record, since it became unreachable, unless a later run was there.
                serial = node.ledger.serial if node.ledger else 0
                lost = {path: one for path, one in last[name].rollout_failures.items() if one.serial >= serial}
                found[name] = node.model_copy(update={"rollout_failures": {**lost, **node.rollout_failures}})
        ours, named = believed(self.transition, found)
        return replace(self, observed=self.observed | ours, claims={**self.claims, **named})

    def _disowned(self, found: Mapping[str, Observed]) -> dict[str, str]:
        """Nodes that this fleet has changed and that name another owner now → message. Empty if most of them do.

        A single one is not believed, and counts as unreadable. If most do, our own record is wrong, and the guards refuse the
        change.
        """
        words = {}
        for name, node in found.items():
            last = self.transition.last.get(name)
            was, now = (last.ledger if last else None), node.ledger
            if node.error or not was or not was.fleet or not now:
                continue
            if was.fleet != now.fleet or was.lineage not in ("", now.lineage):
                words[name] = f"it was ours, and its ledger names fleet {now.fleet} (lineage {now.lineage}) now"
        return {} if 2 * len(words) > sum(not node.error for node in found.values()) else words

    def as_if_running(self, first: Reconciliation) -> Reconciliation:
        """As if what finished since `first` were still running: finishing during a run is no failure of that run."""
        seen = dict(self.observed)
        for node, each in self.observed.items():
            was = first.observed.get(node, Observed(node=node))
            over = {name for name in each.state.allocations if ended(each, name) and not ended(was, name)}
            if over:
                held = {
                    name: state.model_copy(update={"unit": state.unit.model_copy(update={"active": True})})
                    for name, state in each.state.allocations.items() if name in over
                }  # fmt: skip
                state = each.state.model_copy(update={"allocations": {**each.state.allocations, **held}})
                health = {**each.health, **dict.fromkeys(over, "healthy")}
                seen[node] = each.model_copy(update={"state": state, "health": health})
        return self if all(seen[node] is each for node, each in self.observed.items()) else replace(self, observed=seen)

    @property
    def serial(self) -> int:
        """Highest serial on record or on any node: a killed run may have been ahead of the state.

        An implausibly high serial of a node is ignored: otherwise it would push all others there.
        """
        recorded = self.transition.records.serial
        most = recorded + _AHEAD if recorded else _FIRST
        found = (node.ledger.serial for node in self.observed.values() if node.ledger)
        return max([recorded, *(serial for serial in found if serial <= most)])

    @property
    def unreachable(self) -> dict[str, str]:
        """Nodes that did not answer → why."""
        return {name: node.error for name, node in self.observed.items() if node.error}

    @property
    def ours(self) -> dict[str, Desired]:
        """Nodes that answered and belong to this lineage or nobody: they decide whether a run may change the fleet."""
        lineage, target = self.transition.target.lineage, self.transition.target.nodes
        seen = {name: node for name, node in self.observed.items() if not node.error}
        return {
            name: self.transition.all[name]
            for name, node in seen.items()
            if (node.ledger.lineage == lineage if node.ledger else name in target)
        }

    @cached_property
    def plan(self) -> Plan:
        """What can be done now. Raises Refused if no order is safe. Nodes that are restored already are left out."""
        target, leaving = self.transition.target, self.transition.leaving
        gone = {name for name in leaving if name in self.observed and not self.observed[name].ledger}
        desired = {name: value for name, value in self.transition.all.items() if name not in gone}
        known = {name: node for name, node in self.observed.items() if name not in gone}
        plan = steps(known, desired, self.agent, target.solve, target.fits, self.retry, self.only)
        named = {
            name: each for name, each in self.claims.items()
            if name in desired and not self.observed[name].error and (self.only is None or name in self.only.nodes)
        }  # fmt: skip
        return ownership.released(plan, named)

    def guard(self, allowed: int) -> None:
        """Raises Refused if more would stop than can be intended. `allowed`: number of stops that a person allowed."""
        target, records = self.transition.target, self.transition.records
        guards.refuse_foreign(self.observed, target.nodes, target.lineage)
        guards.refuse_rename(self.observed, self.transition.all)
        guards.refuse_unseen(target.stood, self.observed, target.nodes, target.lost)
        part = None if self.only is None else self.only.nodes
        guards.refuse_left({node: on for node, on in records.gone.items() if part is None or node in part})
        leaving = [node for node in self.transition.leaving if part is None or node in part]
        guards.refuse_removal(self.observed, leaving, self.transition.all)
        stopped = guards.stopped(self.plan, target.nodes)
        guards.refuse_mass_stop(stopped, target.solve.stops, allowed)
        guards.refuse_emptied(stopped, target.nodes, allowed, target.stack)


def selected(transition: Transition, only: str) -> Only | None:
    """The part that a person selected; None: everything. Raises Refused for a name that is neither node nor team."""
    return read_only(only, transition.all, transition.target.stack() if only else None)


def believed(transition: Transition, found: Mapping[str, Observed]) -> tuple[dict[str, Observed], Claims]:
    """The nodes with what this fleet placed there, and what else they report. Everything if nothing is on record."""
    placed = transition.placed({node.ledger.lineage for node in found.values() if node.ledger})
    if placed is None:
        return dict(found), {}
    both: dict[str, Any] = {name: ownership.believed(node, frozenset(placed.get(name, ()))) for name, node in found.items()}
    return {name: node for name, (node, _) in both.items()}, {name: rest for name, (_, rest) in both.items()}
