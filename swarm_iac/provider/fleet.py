"""What does one operation on the fleet do: read, foresee, apply, give back?

No gRPC in here: what comes in and goes out are values, so that the laws can be read in one place.

- Act on what the machines are, not on what was once written: every operation observes first.
- A node that does not answer keeps the rows that were last known; its changes fail by name, everyone else's go on.
- A change counts when a second reading shows it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm_iac.errors import Refused
from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.step import Plan
from swarm_iac.plan import steps
from swarm_iac.plan.rows import rows
from swarm_iac.provider import spec
from swarm_iac.provider.failures import divergences, failed_rows, row_of
from swarm_iac.provider.machines import Machines
from swarm_iac.provider.wire import Row, Rows, plain


@dataclass(frozen=True)
class Outcome:
    """What one operation found or did."""

    rows: Rows
    outputs: dict[str, Any]
    failures: dict[Row, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def offline() -> bool:
    """Are the machines out of reach on purpose (SWARM_OFFLINE=1)?"""
    return os.environ.get("SWARM_OFFLINE", "") not in ("", "0")


def read(machines: Machines, inputs: Mapping[str, Any], olds: Mapping[str, Any], old: Rows) -> Outcome:
    """Rows as the machines are, and in `drift` the steps that would make them as last asked."""
    if offline():
        return Outcome(rows=old, outputs=dict(olds), warnings=("SWARM_OFFLINE: shown as last known",))
    asked = _Asked.of(inputs, inputs, olds)
    seen = asked.look(machines)
    plan = seen.plan(asked.all)
    drift = [step.id for step in plan.steps]
    outputs = asked.outputs(serial=max(_serial(olds), seen.serial), drift=drift)
    return Outcome(rows=seen.rows(old), outputs=outputs, warnings=seen.warnings())


def foresee(
    machines: Machines, news: Mapping[str, Any], old_inputs: Mapping[str, Any], olds: Mapping[str, Any], old: Rows
) -> Outcome:
    """Rows as they would be after `apply`. Changes nothing."""
    asked = _Asked.of(news, old_inputs, olds)
    wanted = _rows(asked.kept)
    outputs = asked.outputs(serial=_serial(olds), drift=[])
    if offline():
        return Outcome(rows=wanted, outputs=outputs, warnings=("SWARM_OFFLINE: against what was last known",))
    seen = asked.look(machines)
    plan = seen.plan(asked.all)
    touched = {row_of(step) for step in plan.steps}
    # A row without a step stays as it was found: nothing is going to be done to it.
    kept = {row: old[row] for row in old.keys() & wanted.keys() if row not in touched and not seen.dark_home(row, old)}
    return Outcome(rows=wanted | kept, outputs=outputs, warnings=(*seen.warnings(), *plan.warnings))


def apply(
    machines: Machines,
    news: Mapping[str, Any],
    old_inputs: Mapping[str, Any],
    olds: Mapping[str, Any],
    old: Rows,
    *,
    on_progress: Callable[[str], None],
    stop: threading.Event,
) -> Outcome:
    """Make the machines as asked and read them again. Raises Refused when SWARM_OFFLINE is set."""
    if offline():
        raise Refused("nothing can be applied with SWARM_OFFLINE set", hint="unset it, or run preview")
    asked = _Asked.of(news, old_inputs, olds)
    on_progress("reading the machines")
    seen = asked.look(machines)
    plan = seen.plan(asked.all)
    serial = max(_serial(olds), seen.serial) + 1
    results = {}
    if plan.steps:
        results = machines.converge(
            plan,
            asked.all,
            ssh_config=asked.inputs.ssh_config,
            lineage=asked.inputs.lineage,
            serial=serial,
            on_progress=on_progress,
            stop=stop,
        )
        on_progress("reading the machines again")
        seen = seen.again(asked.look(machines, {step.node for step in plan.steps}))
    failures = failed_rows(plan, results)
    left = seen.plan(asked.all).steps
    tried = {step.id for step in plan.steps if not (step.id in results and results[step.id].ok)}
    failures |= divergences(step for step in left if row_of(step) not in failures and step.id not in tried)
    wanted = _rows(asked.kept)
    failures |= seen.dark_failures(old, wanted, failures)
    found = seen.rows(old)
    for row in failures.keys() - found.keys() - old.keys():
        # The engine records a creation that failed, so the row says the least that is true of it.
        found[row] = {"node": wanted[row]["node"]} if "node" in wanted.get(row, {}) else {}
    outputs = asked.outputs(serial=serial, drift=[step.id for step in left], leaving=seen.leaving(asked))
    return Outcome(found, outputs, failures, (*seen.warnings(), *plan.warnings))


def give_back(
    machines: Machines,
    inputs: Mapping[str, Any],
    olds: Mapping[str, Any],
    old: Rows,
    *,
    on_progress: Callable[[str], None],
    stop: threading.Event,
) -> Outcome:
    """Restore every machine. Rows that are left belong to what could not be given back."""
    done = apply(machines, {**inputs, "spec": ""}, inputs, olds, old, on_progress=on_progress, stop=stop)
    failures = dict(done.failures)
    for name in done.outputs["leaving"]:
        why = [text for row, text in done.failures.items() if _home(row, old) == name]
        failures.setdefault(("Node", name), "; ".join(why) or f"{name}: not restored")
    bad = {_home(row, old) for row in failures}
    return Outcome({row: value for row, value in old.items() if _home(row, old) in bad}, done.outputs, failures, done.warnings)


@dataclass(frozen=True)
class _Asked:
    """What is wanted of each node, those on their way out included."""

    inputs: spec.Inputs
    kept: dict[str, Desired]
    leaving: dict[str, Desired]

    @classmethod
    def of(cls, news: Mapping[str, Any], old_inputs: Mapping[str, Any], olds: Mapping[str, Any]) -> _Asked:
        """`leaving` in the outputs keeps a node that left the stack until it has really been restored."""
        inputs = spec.Inputs.read(news)
        before = spec.unpack_nodes(olds.get("leaving") or {}) | spec.Inputs.read(old_inputs).nodes
        gone = {
            name: Desired(node=name, address=value.address, fleet=value.fleet, managed=False)
            for name, value in before.items()
            if name not in inputs.nodes
        }
        return cls(inputs, inputs.nodes, gone)

    @property
    def all(self) -> dict[str, Desired]:
        return self.kept | self.leaving

    def look(self, machines: Machines, only: set[str] | None = None) -> _Seen:
        """Observe all nodes, or some."""
        targets = {name: value.address for name, value in self.all.items() if only is None or name in only}
        return _Seen(machines.observe(targets, ssh_config=self.inputs.ssh_config))

    def outputs(self, *, serial: int, drift: list[str], leaving: list[str] | None = None) -> dict[str, Any]:
        still = self.leaving if leaving is None else {name: self.leaving[name] for name in leaving}
        return {
            **spec.outputs(self.kept),
            "serial": serial,
            "drift": sorted(drift),
            "leaving": {name: value.model_dump(mode="json", exclude_defaults=True) for name, value in still.items()},
        }


@dataclass(frozen=True)
class _Seen:
    """What the machines are."""

    observed: dict[str, Observed]

    @property
    def serial(self) -> int:
        """Highest serial that any node has recorded: a killed run may have been ahead of the state."""
        return max((node.ledger.serial for node in self.observed.values() if node.ledger), default=0)

    @property
    def dark(self) -> dict[str, str]:
        return {name: node.error for name, node in self.observed.items() if node.error}

    def again(self, later: _Seen) -> _Seen:
        return _Seen(self.observed | later.observed)

    def plan(self, desired: Mapping[str, Desired]) -> Plan:
        """Steps for the nodes that answered. What is not known cannot be planned."""
        light = {name: node for name, node in self.observed.items() if not node.error}
        return steps(light, {name: value for name, value in desired.items() if name in light})

    def rows(self, old: Rows) -> Rows:
        """Rows as found; of a node that did not answer, as last known. A node without a ledger is not ours (yet)."""
        ours = {name: node for name, node in self.observed.items() if not node.error and node.ledger is not None}
        last = {row: value for row, value in old.items() if self.dark_home(row, old)}
        return last | _rows(ours)

    def dark_home(self, row: Row, rows: Rows) -> bool:
        return _home(row, rows) in self.dark

    def dark_failures(self, old: Rows, wanted: Rows, failures: Mapping[Row, str]) -> dict[Row, str]:
        """Rows that should change and live on a node that did not answer."""
        out: dict[Row, str] = {}
        for row in wanted.keys() | old.keys():
            home = _home(row, wanted) or _home(row, old)
            if home in self.dark and row not in failures and old.get(row) != wanted.get(row):
                out[row] = f"{home}: not reached: {self.dark[home]}"
        return out

    def leaving(self, asked: _Asked) -> list[str]:
        """Nodes that should have been given back and were not."""
        nodes = (self.observed.get(name) for name in asked.leaving)
        return sorted(node.node for node in nodes if node and (node.error or node.ledger))

    def warnings(self) -> tuple[str, ...]:
        dark = [f"{name} did not answer, shown as last known: {error}" for name, error in sorted(self.dark.items())]
        foreign = [
            f"{name}: in no ledger, left alone: {', '.join(node.foreign)}"
            for name, node in sorted(self.observed.items())
            if node.foreign
        ]
        return (*dark, *foreign)


def _rows(nodes: Mapping[str, Desired] | Mapping[str, Observed]) -> Rows:
    found: Rows = {row: plain(properties) for row, properties in rows(nodes).items()}
    return found


def _home(row: Row, rows: Rows) -> str:
    """The node that a row lives on; empty when the row is not among `rows`."""
    if row[0] == "Node":
        return row[1]
    return str(rows.get(row, {}).get("node", ""))


def _serial(olds: Mapping[str, Any]) -> int:
    return int(olds.get("serial") or 0)
