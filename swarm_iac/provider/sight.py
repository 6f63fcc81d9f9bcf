"""What is asked of the machines, what are they, and which steps lie between?

Of a node that does not answer we know what it was last: what the state was applied with, or in `known` what was last
seen of a node that was not as asked. The plan needs it, because what may still run there must not start elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from swarm_iac.model.state import Desired, Facts, LedgerHead, NodeState, Observed
from swarm_iac.model.step import Plan
from swarm_iac.plan import guards, steps
from swarm_iac.plan import rows as show
from swarm_iac.plan.hardware import unlike
from swarm_iac.provider import spec
from swarm_iac.provider.failures import row_of
from swarm_iac.provider.machines import Machines
from swarm_iac.provider.wire import Row, Rows, plain


@dataclass(frozen=True)
class Asked:
    """What is wanted of each node, those on their way out included, and what was last known of it."""

    inputs: spec.Inputs
    kept: dict[str, Desired]
    leaving: dict[str, Desired]
    last: dict[str, Observed]
    known: frozenset[str]
    serial: int

    @classmethod
    def of(cls, news: Mapping[str, Any], old_inputs: Mapping[str, Any], olds: Mapping[str, Any]) -> Asked:
        """From new inputs, old inputs and old outputs. `leaving` there keeps a node until it was really restored."""
        inputs = spec.Inputs.read(news)
        before = spec.Inputs.read(old_inputs)
        serial = int(olds.get("serial") or 0)
        past = spec.unpack_nodes(olds.get("leaving") or {}) | before.nodes
        gone = {
            name: value.model_copy(update={"managed": False, "state": NodeState(), "handover": {}})
            for name, value in past.items()
            if name not in inputs.nodes and name not in inputs.lost
        }
        last = {
            name: Observed(
                node=name, state=value.state, ledger=LedgerHead(lineage=before.lineage, serial=serial, fleet=value.fleet)
            )
            for name, value in before.nodes.items()
        }
        known = {name: Observed.model_validate(value) for name, value in (olds.get("known") or {}).items()}
        return cls(inputs, inputs.nodes, gone, last | known, frozenset(known), serial)

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

    @classmethod
    def look(cls, machines: Machines, asked: Asked) -> Sight:
        """Read every node."""
        return cls(asked, {}, machines.agent())._with(machines, set(asked.all))

    def again(self, machines: Machines) -> Sight:
        """Read those nodes again that had steps: success is what a second reading shows."""
        return self._with(machines, {step.node for step in self.plan.steps})

    def _with(self, machines: Machines, names: set[str]) -> Sight:
        targets = {name: value.address for name, value in self.asked.all.items() if name in names}
        found = machines.observe(targets, ssh_config=self.asked.inputs.ssh_config)
        for name, node in found.items():
            if node.error:
                last = self.asked.last.get(name, Observed(node=name))
                agent = self.agent if last.ledger else ""
                found[name] = last.model_copy(update={"error": node.error, "agent": agent})
        return Sight(self.asked, self.observed | found, self.agent)

    @property
    def serial(self) -> int:
        """Highest serial in the state or on any node: a run that was killed may have been ahead of the state."""
        return max([self.asked.serial, *(node.ledger.serial for node in self.observed.values() if node.ledger)])

    @property
    def dark(self) -> dict[str, str]:
        """Nodes that did not answer → why."""
        return {name: node.error for name, node in self.observed.items() if node.error}

    @cached_property
    def differ(self) -> dict[str, str]:
        """Nodes whose hardware is not what the stack file declares → how."""
        return unlike(self.observed, self.asked.kept)

    @cached_property
    def plan(self) -> Plan:
        """What can be done now. Raises Refused when no order is safe."""
        return self._steps(self.observed)

    @cached_property
    def blocked(self) -> dict[Row, str]:
        """Rows with steps that cannot be taken because a node does not answer, or is not what was declared → why."""
        if not self.dark and not self.differ:
            return {}
        lit = {name: node.model_copy(update={"error": ""}) for name, node in self.observed.items()}
        possible = {step.id for step in self.plan.steps}
        out: dict[Row, str] = {}
        for step in self._steps(lit, checked=False).steps:
            if step.id in possible:
                continue
            if step.node in self.dark:
                out[row_of(step)] = f"{step.node}: cannot be read: {self.dark[step.node]}"
            elif step.node in self.differ:
                out[row_of(step)] = f"{step.node}: not the hardware that the stack file declares: {self.differ[step.node]}"
            else:
                waits = [f"{name}, which cannot be read" for name in sorted(self.dark)]
                waits += [f"{name}, not the hardware that is declared" for name in sorted(self.differ)]
                out.setdefault(row_of(step), f"waits for {'; '.join(waits)}")
        return out

    def _steps(self, observed: Mapping[str, Observed], *, checked: bool = True) -> Plan:
        """A node on its way out that is not ours (any more) is past asking. `checked`: against its declared hardware."""
        gone = {name for name in self.asked.leaving if name in observed and not observed[name].ledger}
        desired = {name: value for name, value in self.asked.all.items() if name not in gone}
        if not checked:
            desired = {name: value.model_copy(update={"hardware": None}) for name, value in desired.items()}
        known = {name: node for name, node in observed.items() if name not in gone}
        return steps(known, desired, self.agent, self.asked.inputs.solve, self.asked.inputs.fits)

    def guard(self, allowed: int) -> None:
        """Raises Refused when more would stop than anyone can have meant; `allowed` is what a person said."""
        guards.refuse_rename(self.observed, self.asked.all)
        guards.refuse_removal(self.observed, self.asked.leaving, self.asked.all)
        stopped = guards.stopped(self.plan, self.asked.kept)
        guards.refuse_mass_stop(stopped, self.asked.inputs.solve.stops, allowed)
        guards.refuse_emptied(stopped, self.asked.kept, allowed)

    def rows(self, old: Rows) -> Rows:
        """Rows as found; of a node that did not answer, as last known. A node without a ledger is not ours (yet)."""
        ours = {name: node for name, node in self.observed.items() if not node.error and node.ledger is not None}
        last = {row: value for row, value in old.items() if home(row, old) in self.dark}
        return as_rows(ours) | last

    def outputs(self, *, applied: bool = False) -> dict[str, Any]:
        """Outputs of the Fleet. `known`: what was last seen of nodes that are not as the state's inputs say.

        After a mere reading the inputs still say how a node was left, unless it was not left as they say.
        """
        # What is blocked counts as drift, or the next run would find nothing to do and end well over a dark node.
        drift = [step.id for step in self.plan.steps] + [f"{name}: {why}" for (_, name), why in self.blocked.items()]
        astray = {step.node for step in self.plan.steps}
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
        hint = f"{names}: what is wanted there waits for the next `swarm up`; of a machine that is gone, say `state: lost`"
        return (*self.plan.warnings, *([hint] if names else ()), *troubles, *foreign)


def as_rows(nodes: Mapping[str, Desired] | Mapping[str, Observed]) -> Rows:
    """Rows of nodes, wanted or found, as they look after a round trip through the engine."""
    found: Rows = {row: plain(properties) for row, properties in show(nodes).items()}
    return found


def home(row: Row, rows: Rows) -> str:
    """The node that a row lives on; empty when the row is not among `rows`."""
    if row[0] == "Node":
        return row[1]
    return str(rows.get(row, {}).get("node", ""))


def _bare(node: Observed) -> Observed:
    return node.model_copy(update={"facts": Facts(), "error": "", "foreign": (), "troubles": (), "health": {}})


def _dump(value: Desired | Observed) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_defaults=True)
