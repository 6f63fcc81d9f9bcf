"""What became of each step, according to Ansible's events?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from swarm_iac.converge.tasks import VERB_OF
from swarm_iac.model.base import Value
from swarm_iac.model.step import Step, StepResult
from swarm_iac.printable import printable

#: What Ansible and mitogen put around the words of the machine.
_NOISE = re.compile(
    r"^(?:Failed to connect to the host via ssh: |Task failed: |Module failed: |"
    r"builtins\.\w+: |Unable to connect.*?: |EOF on stream; last \d+ lines received:\s*|error occurred on host [^:]+: )+",
    re.DOTALL,
)


#: What mitogen says of its own inner life, and what it means for the operator.
_MEANS = {
    "Mitogen was disconnected from the remote environment": (
        "the connection was cut while the node was at work on it, or it said too much"
    ),
    "Unable to find a useable temporary directory": "no temporary directory can be written to: the disk is full or read-only",
}
#: A disk that takes no more. Its path says whose it is: the node's, or this machine's own.
_DISK = re.compile(r"\[Errno (?P<number>28|30)\][^:\n]*(?:: '(?P<path>[^'\n]*)')?")
_FULL = {"28": "the disk is full", "30": "the file system is read-only"}
#: A task that ran into its limit.
_LATE = re.compile(r"Timed out after ([0-9]+) second")
#: Where mitogen begins to tell its own stack.
_STACK = re.compile(r"\s+File \"<stdin>\", line \d+.*", re.DOTALL)


#: Longest message of one step: a reason and the last lines of a journal. [characters]
_WORDS = 8000


class _Change(Value):
    """One value, as a node says that it changed it."""

    model_config = ConfigDict(strict=True, extra="ignore")

    path: str = Field(max_length=1000)
    old: Any = None
    new: Any = None


class _Reported(Value):
    """What a node may say of one step. Another type than these is no answer."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    id: str
    ok: bool
    changed: bool = False
    skipped: bool = False
    pending: bool = False
    message: str = ""
    seconds: float = Field(default=0, ge=0)
    changes: list[_Change] = []


class Outcomes:
    """Collects the results of one run."""

    def __init__(self, steps: Iterable[Step], on_progress: Callable[[str], None], *, values: bool = False) -> None:
        self.steps = {step.id: step for step in steps}
        self.asked = {(step.node, step.verb) for step in self.steps.values()}
        self.results: dict[str, StepResult] = {}
        self.trouble: dict[str, str] = {}
        self.on_progress = on_progress
        self.values = values

    def on_event(self, event: Mapping[str, Any]) -> bool:
        """One event of ansible-runner. Never kept on disk: False. Never raises: an event of one host is none of the others'."""
        kind, data = event.get("event", ""), event.get("event_data") or {}
        try:
            self._read(kind, data)
        except Exception as error:
            self.trouble.setdefault(str(data.get("host", "")), f"the node's answer is not understood: {type(error).__name__}")
        return False

    def answered(self, node: str, outcomes: object) -> None:
        """What a node answered that was asked without Ansible."""
        if isinstance(outcomes, list):
            for raw in outcomes:
                self._take(raw, node)

    def failed(self, node: str, why: str) -> None:
        """Why a node gave no answer."""
        self.trouble.setdefault(node, why)

    def _read(self, kind: str, data: Mapping[str, Any]) -> None:
        host, result = data.get("host", ""), data.get("res") or {}
        if kind == "runner_on_start" and data.get("task_action") == "swarm_step":
            # Ansible announces a task before it looks whether the host has anything to do there.
            if (host, VERB_OF.get(data.get("task", ""))) in self.asked:
                self.on_progress(f"{host}: {data.get('task', '')}")
        elif kind in ("runner_on_ok", "runner_on_failed") and isinstance(result.get("outcomes"), list):
            for raw in result["outcomes"]:
                self._take(raw, host)
        elif kind in ("runner_on_failed", "runner_on_unreachable") and data.get("task_action") != "ansible.builtin.fail":
            self.trouble.setdefault(host, words(result))

    def _take(self, raw: Any, host: str) -> None:
        name = raw.get("id") if isinstance(raw, Mapping) else None
        if not isinstance(name, str) or name not in self.steps:
            return
        if self.steps[name].node != host:
            self.on_progress(f"{host}: answered for a step of {self.steps[name].node}, which counts for nothing")
            return
        try:
            reported = _Reported.model_validate(raw)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            why = f"the node's answer is not understood: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            reported = _Reported(id=name, ok=False, message=why)
        result = StepResult(
            id=name, ok=reported.ok, changed=reported.changed, skipped=reported.skipped, pending=reported.pending,
            message=printable(reported.message, _WORDS), seconds=reported.seconds,
        )  # fmt: skip
        self.results[name] = result
        if result.skipped:
            return  # its cause is reported; whether it will still run is decided elsewhere
        state = "pending" if result.pending else "failed" if not result.ok else "changed" if result.changed else "unchanged"
        self.on_progress(f"{result.id}: {state}{': ' + result.message if result.message else ''}")
        if self.values:
            for change in reported.changes:
                self.on_progress(f"  {printable(change.path)}: {json.dumps(change.old)} → {json.dumps(change.new)}")

    def finish(self, *, stopped: bool, ended: str) -> dict[str, StepResult]:
        """A result for every step of the run: those that nobody spoke of did not run, and say why."""
        for step in self.steps.values():
            if step.id in self.results:
                continue
            if step.node in self.trouble:
                self.results[step.id] = StepResult(id=step.id, ok=False, message=self.trouble[step.node])
            elif stopped:
                self.results[step.id] = StepResult(id=step.id, ok=False, skipped=True, message="stopped before this step")
            else:
                self.results[step.id] = StepResult(id=step.id, ok=False, message=ended)
            self.on_progress(f"{step.id}: not done: {self.results[step.id].message}")
        return self.results


def words(result: Mapping[str, Any]) -> str:
    """The machine's own words in a failed task's result, without what Ansible puts around them."""
    text = printable(str(result.get("msg") or result.get("stderr") or result.get("module_stderr") or "no reason was given"))
    if late := _LATE.search(text):
        return f"no answer within {late[1]} s, the most for its steps of this kind"
    for phrase, meant in _MEANS.items():
        if phrase in text:
            return meant
    if disk := _DISK.search(text):
        return f"{disk['path']}: {_FULL[disk['number']]}" if disk["path"] else _FULL[disk["number"]]
    text = _STACK.sub("", _NOISE.sub("", text.strip()).strip())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if text.startswith("Traceback") else " ".join(lines))[:600] if lines else "no reason was given"
