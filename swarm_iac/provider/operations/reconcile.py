"""What is asked of the machines, what are they, and which steps lie between?

Of a node that does not answer we know what it was last: what the state was applied with, or in `known` what was last
seen of a node that was not as asked. The plan needs it, because what may still run there must not start elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from swarm_iac.model.state import Desired, Facts, LedgerHead, NodeState, Observed, Setback
from swarm_iac.model.step import Plan, StepResult
from swarm_iac.plan import guards, steps
from swarm_iac.plan import rows as show
from swarm_iac.plan.state import ownership
from swarm_iac.plan.state.completion import keep_ends
from swarm_iac.plan.state.diff import ended
from swarm_iac.plan.state.ownership import Claims
from swarm_iac.plan.step_graph.partial import Only, part
from swarm_iac.plan.step_graph.partial import only as read_only
from swarm_iac.provider import spec
from swarm_iac.provider.operations import pending_placement
from swarm_iac.provider.operations.failures import row_of
from swarm_iac.provider.operations.machines import Machines
from swarm_iac.provider.plugin.wire import Row, Rows, plain, understood

#: How many killed runs in a row are thought possible; and the largest serial where the state knows of none.
_AHEAD, _FIRST = 1000, 1 << 40


@dataclass(frozen=True)
class Asked:
    """What is wanted of each node, those on their way out included, and what was last known of it."""

    inputs: spec.Inputs
    kept: dict[str, Desired]
    leaving: dict[str, Desired]
    last: dict[str, Observed]
    known: frozenset[str]
    serial: int
    placed: Mapping[str, frozenset[str]] | None = None

    @classmethod
    def of(cls, news: Mapping[str, Any], old_inputs: Mapping[str, Any], olds: Mapping[str, Any], home: Path | None) -> Asked:
        """From new inputs, old inputs and old outputs. `leaving` there keeps a node until it was really restored.

        `home`: RunOptions.state_home, with what was under way in a run that was killed.
        """
        inputs = spec.Inputs.read(news)
        before = spec.Inputs.read(old_inputs)
        with understood("`serial` of the Fleet"):
            serial = LedgerHead(lineage="", fleet="", serial=int(olds.get("serial") or 0)).serial
        past = spec.unpack_nodes(olds.get("leaving") or {}) | before.nodes
        gone = {
            name: value.model_copy(update={"managed": False, "state": NodeState(), "handover": {}, "ended": ()})
            for name, value in past.items()
            if name not in inputs.nodes and name not in inputs.lost
        }
        last = {
            name: Observed(
                node=name, state=value.state, ledger=LedgerHead(lineage=before.lineage, serial=serial, fleet=value.fleet)
            )
            for name, value in before.nodes.items()
        }
        known = spec.unpack_known(olds.get("known"))
        placed: dict[str, set[str]] = {}
        for name, value in (*inputs.nodes.items(), *past.items()):
            placed.setdefault(name, set()).update(value.state.allocations)
        for name, seen in known.items():
            placed.setdefault(name, set()).update(seen.state.allocations)
        for name, allocation in pending_placement.of(home, inputs.lineage or before.lineage, serial):
            placed.setdefault(name, set()).add(allocation)
        # A state that is new, or was lost, knows nothing: then the ledgers of the nodes are all there is.
        fresh = not serial and not before.nodes
        found = None if fresh else {name: frozenset(names) for name, names in placed.items()}
        return cls(inputs, inputs.nodes, gone, last | known, frozenset(known), serial, found)

    @property
    def all(self) -> dict[str, Desired]:
        """Every node that has to be looked at."""
        return self.kept | self.leaving


@dataclass(frozen=True)
class Sight:
    """What the machines are, against what is asked."""

    asked: Asked
    observed: dict[str, Observed]
    agent: str
    retry: bool = False
    only: Only | None = None
    claims: Claims = field(default_factory=dict)

    @classmethod
    def look(cls, machines: Machines, asked: Asked, *, retry: bool = False, only: str = "") -> Sight:
        """Read every node. `retry`: roll-outs that halted go on. `only`: nodes and teams. Raises Refused for others."""
        part = read_only(only, asked.all, asked.inputs.stack() if only else None)
        return cls(asked, {}, machines.agent(), retry, part)._with(machines, set(asked.all))

    def again(self, machines: Machines, results: Mapping[str, StepResult]) -> Sight:
        """Read those nodes again that had steps: success is what a second reading shows.

        A node that fell dark over a step of a roll-out cannot remember that itself.
        """
        now = replace(self, retry=False)._with(machines, {step.node for step in self.plan.steps})
        seen = dict(now.observed)
        for step in (step for step in self.plan.steps if step.rollout and step.node in now.dark):
            result = results.get(step.id)
            if result is not None and not result.ok and not result.skipped:
                lost = {each.path: Setback(value=each.new, why=result.message, serial=self.serial + 1) for each in step.changes}
                seen[step.node] = seen[step.node].model_copy(update={"setbacks": {**seen[step.node].setbacks, **lost}})
        return replace(now, observed=seen)

    def _with(self, machines: Machines, names: set[str]) -> Sight:
        targets = {name: value.address for name, value in self.asked.all.items() if name in names}
        found = machines.observe(targets)
        for name, why in self._disowned(found).items():
            found[name] = found[name].model_copy(update={"error": why})
        for name, node in found.items():
            if node.error:
                last = self.asked.last.get(name, Observed(node=name))
                agent = self.agent if last.ledger else ""
                found[name] = last.model_copy(update={"error": node.error, "agent": agent})
            elif name in self.asked.known:
                # What a node cannot remember, since it fell dark over it, unless a later run was there.
                serial = node.ledger.serial if node.ledger else 0
                lost = {path: one for path, one in self.asked.last[name].setbacks.items() if one.serial >= serial}
                found[name] = node.model_copy(update={"setbacks": {**lost, **node.setbacks}})
        named: dict[str, Any] = {}
        if self.asked.placed is not None:
            for name, node in found.items():
                found[name], named[name] = ownership.believed(node, self.asked.placed.get(name, frozenset()))
        return replace(self, observed=self.observed | found, claims={**self.claims, **named})

    def _disowned(self, found: Mapping[str, Observed]) -> dict[str, str]:
        """Nodes that this state has made changes on, and that name another owner now → words. None where most of them do.

        One of many cannot be believed, and counts as unreadable. Where most do, it is the state that is wrong, and the
        guards refuse the change.
        """
        words = {}
        for name, node in found.items():
            last = self.asked.last.get(name)
            was, now = (last.ledger if last else None), node.ledger
            if node.error or not was or not was.lineage or not now or (was.lineage, was.fleet) == (now.lineage, now.fleet):
                continue
            words[name] = f"it was ours, and its ledger names fleet {now.fleet} (lineage {now.lineage}) now"
        return {} if 2 * len(words) > sum(not node.error for node in found.values()) else words

    def as_if_running(self, first: Sight) -> Sight:
        """As if what came to its end since `first` still ran: an end within a run is news for the next, no failure of this."""
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
        """Highest serial in the state or on any node: a run that was killed may have been ahead of the state.

        A node that names one that no number of such runs can have reached is not believed: it would drive all others there.
        """
        most = self.asked.serial + _AHEAD if self.asked.serial else _FIRST
        found = (node.ledger.serial for node in self.observed.values() if node.ledger)
        return max([self.asked.serial, *(serial for serial in found if serial <= most)])

    @property
    def dark(self) -> dict[str, str]:
        """Nodes that did not answer → why."""
        return {name: node.error for name, node in self.observed.items() if node.error}

    @property
    def ours(self) -> dict[str, Desired]:
        """Nodes that answered, and are this lineage's or nobody's: they say whether a run may change the fleet."""
        lineage = self.asked.inputs.lineage
        seen = {name: node for name, node in self.observed.items() if not node.error}
        return {
            name: self.asked.all[name]
            for name, node in seen.items()
            if (node.ledger.lineage == lineage if node.ledger else name in self.asked.kept)
        }

    @cached_property
    def plan(self) -> Plan:
        """What can be done now. Raises Refused when no order is safe. A node that is given back already is past asking."""
        gone = {name for name in self.asked.leaving if name in self.observed and not self.observed[name].ledger}
        desired = {name: value for name, value in self.asked.all.items() if name not in gone}
        known = {name: node for name, node in self.observed.items() if name not in gone}
        plan = steps(known, desired, self.agent, self.asked.inputs.solve, self.asked.inputs.fits, self.retry, self.only)
        named = {
            name: each for name, each in self.claims.items()
            if name in desired and not self.observed[name].error and (self.only is None or name in self.only.nodes)
        }  # fmt: skip
        return ownership.given_back(plan, named)

    @cached_property
    def wanted(self) -> Rows:
        """Rows as they are to be after this run, less what jobs at their end hold no more; how they ended stays as it is."""
        goal = self.asked.kept
        if self.only is not None:
            mixed = part(self.observed, self.asked.all, self.only).desired
            touched = {step.node for step in self.plan.steps}
            ours = {name for name, node in self.observed.items() if node.ledger is not None}
            goal = {name: each for name, each in mixed.items() if name in ours | touched}
        kept = keep_ends(self.observed, goal)
        rows = as_rows({name: kept.get(name, value.state) for name, value in goal.items() if value.managed})
        for seen in self.observed.values():
            for name in seen.state.allocations:
                row = rows.get(("Allocation", name), {})
                if ended(seen, name) and row.get("node") == seen.node:
                    row["health"] = "failed" if seen.health[name] == "failed" else "ok"
        return rows

    @cached_property
    def blocked(self) -> dict[Row, str]:
        """Rows with steps that cannot be taken: a node does not answer, or a roll-out halted → why."""
        out: dict[Row, list[str]] = {}
        for left in (left for left in self.plan.left if left.cause != "part"):
            out.setdefault(row_of(left.step), []).append(left.why)
        return {row: "; ".join(dict.fromkeys(whys)) for row, whys in out.items()}

    def guard(self, allowed: int) -> None:
        """Raises Refused when more would stop than anyone can have meant; `allowed` is what a person said."""
        guards.refuse_foreign(self.observed, self.asked.kept, self.asked.inputs.lineage)
        guards.refuse_rename(self.observed, self.asked.all)
        guards.refuse_unseen(self.asked.inputs.stood, self.observed, self.asked.kept, self.asked.inputs.lost)
        leaving = self.asked.leaving if self.only is None else self.asked.leaving.keys() & self.only.nodes
        guards.refuse_removal(self.observed, leaving, self.asked.all)
        stopped = guards.stopped(self.plan, self.asked.kept)
        guards.refuse_mass_stop(stopped, self.asked.inputs.solve.stops, allowed)
        guards.refuse_emptied(stopped, self.asked.kept, allowed)

    def rows(self, old: Rows) -> Rows:
        """Rows as found; of a node that did not answer, as last known. A node without a ledger is not ours (yet)."""
        ours = {name: node for name, node in self.observed.items() if not node.error and node.ledger is not None}
        last = {row: value for row, value in old.items() if home(row, old) in self.dark}
        return as_rows(ours) | last

    def outputs(self, *, applied: bool = False) -> dict[str, Any]:
        """Outputs of the Fleet. `known`: what was last seen of nodes that are not as the state's inputs say, or failed so.

        After a mere reading the inputs still say how a node was left, unless it was not left as they say.
        """
        # What is blocked counts as drift, or the next run would find nothing to do and end well over a dark node.
        drift = [step.id for step in self.plan.steps] + [f"{name}: {why}" for (_, name), why in self.blocked.items()]
        astray = {step.node for step in (*self.plan.steps, *(left.step for left in self.plan.left))}
        astray |= {name for name, node in self.observed.items() if node.setbacks}
        astray = (astray if applied else astray & self.asked.known) | self.dark.keys()
        return {
            **spec.outputs(self.asked.kept),
            "serial": self.serial,
            "drift": sorted(drift),
            "leaving": {name: _dump(self.asked.leaving[name]) for name in self._leaving()},
            "known": {name: _dump(_bare(self.observed[name])) for name in sorted(astray & self.observed.keys())},
        }

    def _leaving(self) -> list[str]:
        """Nodes that should be given back and are not, yet. One that was never reached was never ours."""
        nodes = (self.observed.get(name) for name in self.asked.leaving)
        return sorted(node.node for node in nodes if node and node.ledger)

    def warnings(self) -> tuple[str, ...]:
        """What the plan warns of, what is wrong with machines, and what was found that no ledger names."""
        troubles = [f"{name}: {words}" for name, node in sorted(self.observed.items()) for words in node.troubles]
        foreign = [
            f"{name}: in no ledger, left alone: {', '.join(node.foreign)}"
            for name, node in sorted(self.observed.items())
            if node.foreign
        ]
        names = ", ".join(sorted(self.dark))
        hint = f"{names}: changes deferred to the next `swarm up`; if the machine is gone, set `state: lost`"
        return (*self.plan.warnings, *([hint] if names else ()), *troubles, *foreign)


def as_rows(nodes: Mapping[str, Desired] | Mapping[str, Observed] | Mapping[str, NodeState]) -> Rows:
    """Rows of nodes, wanted or found, as they look after a round trip through the engine."""
    found: Rows = {row: plain(properties) for row, properties in show(nodes).items()}
    return found


def home(row: Row, rows: Rows) -> str:
    """The node that a row lives on; empty when the row is not among `rows`."""
    if row[0] == "Node":
        return row[1]
    return str(rows.get(row, {}).get("node", ""))


def _bare(node: Observed) -> Observed:
    return node.model_copy(
        update={"facts": Facts(), "error": "", "foreign": (), "troubles": (), "health": {}, "started": {}, "ends": {}}
    )


def _dump(value: Desired | Observed) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_defaults=True)
