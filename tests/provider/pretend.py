"""What stands for the machines in these tests? A file: who holds what, who is dark, what fails, and how slowly."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.step import Plan, Step, StepResult, Verb


class Pretend:
    """Machines in a JSON file: {node: {ledger, state, agent, error, facts, fail: {step id: words}, dies: step id, sleep, rollout_failures}}."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @contextmanager
    def open(self) -> Iterator[dict[str, Any]]:
        with self.file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            nodes = json.loads(self.file.read_text())
            yield nodes
            fresh = self.file.with_suffix(".new")
            fresh.write_text(json.dumps(nodes, indent=1))
            fresh.replace(self.file)  # whole at any moment, because tests read it while a run goes on

    def agent(self) -> str:
        return ""

    def observe(self, targets: Mapping[str, str]) -> dict[str, Observed]:
        with self.open() as nodes:
            for name in targets:
                nodes.setdefault(name, {})
            return {name: self._observed(name, nodes[name]) for name in targets}

    def _observed(self, name: str, node: dict[str, Any]) -> Observed:
        if node.get("error"):
            return Observed(node=name, error=node["error"])
        health = dict.fromkeys(node.get("state", {}).get("allocations", {}), "healthy")
        return Observed.model_validate(
            {
                "node": name,
                "ledger": node.get("ledger"),
                "state": node.get("state", {}),
                "agent": node.get("agent", ""),
                "health": health,
                "facts": {"hostname": name, "memory": 10**12, **node.get("facts", {})},
                "rollout_failures": node.get("rollout_failures", {}),
            }
        )

    def claimed(self, nodes: Mapping[str, Desired], **more: Any) -> AbstractContextManager[str]:
        return nullcontext("a-run")

    def converge(
        self,
        plan: Plan,
        desired: Mapping[str, Desired],
        *,
        lineage: str,
        serial: int,
        run: str,
        on_progress: Callable[[str], None],
        stop: threading.Event,
    ) -> dict[str, StepResult]:
        results: dict[str, StepResult] = {}
        for step in (step for wave in plan.waves() for step in wave):
            bad = [before for before in step.after if before in results and not results[before].ok]
            if stop.is_set() or bad:
                results[step.id] = StepResult(
                    id=step.id, ok=False, skipped=True, message="stopped" if not bad else f"after {bad[0]}"
                )
                continue
            on_progress(step.id)
            results[step.id] = self._run(step, desired[step.node], lineage, serial)
        return results

    def _run(self, step: Step, desired: Desired, lineage: str, serial: int) -> StepResult:
        with self.open() as nodes:
            seconds = nodes[step.node].get("sleep", 0)
        time.sleep(seconds)
        with self.open() as nodes:
            return act(nodes, step, desired, lineage, serial)


def act(nodes: dict[str, Any], step: Step, desired: Desired, lineage: str, serial: int) -> StepResult:
    """Do one step on the machines, unless one of their ledgers or a fault forbids it."""
    node = nodes[step.node]
    words = node.get("fail", {}).get(step.id)
    if node.get("dies") == step.id:
        node["error"] = "no route to host"
        return StepResult(id=step.id, ok=False, message="connection lost")
    ledger = node.get("ledger")
    if ledger and ledger["lineage"] != lineage:
        words = f"held by the lineage {ledger['lineage']}"
    elif ledger and ledger["serial"] > serial:
        words = f"a newer run was here: {ledger['serial']}"
    if words:
        if step.rollout:
            tried = {each.path: {"value": each.new, "why": words, "serial": serial} for each in step.changes}
            node["rollout_failures"] = {**node.get("rollout_failures", {}), **tried}
        return StepResult(id=step.id, ok=False, message=words)
    if step.verb is Verb.RESTORE:
        nodes[step.node] = {}
    else:
        node["ledger"] = {"lineage": lineage, "serial": serial, "fleet": desired.fleet}
        _do(step, node.setdefault("state", {}), desired.state.model_dump(mode="json"))
    node.setdefault("done", []).append(step.id)
    return StepResult(id=step.id, ok=True, changed=True)


def _do(step: Step, state: dict[str, Any], wanted: dict[str, Any]) -> None:
    allocations = state.setdefault("allocations", {})
    if step.verb is Verb.SETTINGS:
        state["settings"] = wanted["settings"]
    elif step.verb is Verb.GPUS:
        state["gpus"] = wanted["gpus"]
    elif step.verb is Verb.STORAGE:
        state["disk"] = wanted["disk"]
    elif step.verb is Verb.TRAFFIC and not step.allocation:
        state |= {"interface": wanted["interface"], "interface_bps": wanted["interface_bps"]}
    elif step.verb is Verb.RELEASE:
        allocations.pop(step.allocation, None)
    elif step.verb is Verb.STOP and step.allocation in allocations:
        allocations[step.allocation]["unit"]["active"] = False
    elif step.verb in (Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC, Verb.START):
        _part(step.verb, allocations, step.allocation, wanted["allocations"][step.allocation])


def _part(verb: Verb, allocations: dict[str, Any], name: str, wanted: dict[str, Any]) -> None:
    part = {
        Verb.SLICE: ("workload", "gpus", "slice"),
        Verb.DIRECTORIES: ("scratch", "cache"),
        Verb.TRAFFIC: ("bandwidth",),
        Verb.START: ("unit",),
    }[verb]
    fresh = {**wanted, "unit": {**wanted["unit"], "active": False}, "bandwidth": {}, "scratch": None, "cache": None}
    allocations[name] = {**allocations.get(name, fresh), **{key: wanted[key] for key in part}}


def file() -> Path:
    """Where the machines of this test lie."""
    return Path(os.environ["PRETEND"])
