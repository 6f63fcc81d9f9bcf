"""What became of each step, told from Ansible's events?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
    "Mitogen was disconnected from the remote environment": "the connection was cut while the node was at work on it",
    "Unable to find a useable temporary directory": "no temporary directory can be written to: the disk is full or read-only",
}
#: A disk that takes no more. Its path says whose it is: the node's, or this machine's own.
_DISK = re.compile(r"\[Errno (?P<number>28|30)\][^:\n]*(?:: '(?P<path>[^'\n]*)')?")
_FULL = {"28": "the disk is full", "30": "the file system is read-only"}
#: Where mitogen begins to tell its own stack.
_STACK = re.compile(r"\s+File \"<stdin>\", line \d+.*", re.DOTALL)


class Outcomes:
    """Collects the results of one run."""

    def __init__(self, steps: Iterable[Step], on_progress: Callable[[str], None], *, values: bool = False) -> None:
        self.steps = {step.id: step for step in steps}
        self.asked = {(step.node, step.verb.value) for step in self.steps.values()}
        self.results: dict[str, StepResult] = {}
        self.trouble: dict[str, str] = {}
        self.on_progress = on_progress
        self.values = values

    def on_event(self, event: Mapping[str, Any]) -> bool:
        """One event of ansible-runner. Never kept on disk: False."""
        kind, data = event.get("event", ""), event.get("event_data") or {}
        host, result = data.get("host", ""), data.get("res") or {}
        if kind == "runner_on_start" and data.get("task_action") == "swarm_step":
            # Ansible announces a task before it looks whether the host has anything to do there.
            if (host, data.get("role")) in self.asked:
                self.on_progress(f"{host}: {data.get('task', '')}")
        elif kind in ("runner_on_ok", "runner_on_failed") and isinstance(result.get("outcomes"), list):
            for told in result["outcomes"]:
                self._take(told)
        elif kind in ("runner_on_failed", "runner_on_unreachable") and data.get("task_action") != "ansible.builtin.fail":
            self.trouble.setdefault(host, words(result))
        return False

    def _take(self, told: Mapping[str, Any]) -> None:
        if not isinstance(told, Mapping) or told.get("id") not in self.steps:
            return
        fields = ("id", "ok", "changed", "skipped", "pending", "message", "seconds")
        result = StepResult(**{field: told[field] for field in fields if field in told})
        result = result.model_copy(update={"message": printable(result.message)})
        self.results[result.id] = result
        if result.skipped:
            return  # what it waits for is told; whether it will still run is decided elsewhere
        state = "pending" if result.pending else "failed" if not result.ok else "changed" if result.changed else "unchanged"
        self.on_progress(f"{result.id}: {state}{': ' + result.message if result.message else ''}")
        if self.values:
            for change in told.get("changes") or ():
                values = f"{json.dumps(change['old'])} → {json.dumps(change['new'])}"
                self.on_progress(f"  {printable(change['path'])}: {values}")

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
    for told, meant in _MEANS.items():
        if told in text:
            return meant
    if disk := _DISK.search(text):
        return f"{disk['path']}: {_FULL[disk['number']]}" if disk["path"] else _FULL[disk["number"]]
    text = _STACK.sub("", _NOISE.sub("", text.strip()).strip())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if text.startswith("Traceback") else " ".join(lines))[:600] if lines else "no reason was given"
