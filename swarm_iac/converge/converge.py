"""How does a plan become real? One run of Ansible after the other, each for all steps that are ready; one result per step.

A step that takes long on its node (a grace period, a model that loads) answers `pending` after a few seconds and goes
along in the next run: it delays those that wait for it and nobody else.
"""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from swarm_iac import assets
from swarm_iac.converge import direct, limit, play
from swarm_iac.converge.outcome import Outcomes
from swarm_iac.converge.ready import barred, ready
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Plan, Step, StepResult
from swarm_iac.printable import printable
from swarm_iac.run_options import NODE_TIMEOUT

Progress = Callable[[str], None]
#: Before a step that is pending is asked again without Ansible. [s]
_PAUSE = 0.5
#: How Ansible begins the lines in which all goes well.
_PROGRESS = ("ok: ", "changed: ", "skipping: ", "included: ", "TASK [", "PLAY ")


def converge(
    plan: Plan,
    desired: Mapping[str, Desired],
    *,
    ssh_config: Path | None = None,
    timeout: float = NODE_TIMEOUT,
    lineage: str,
    serial: int,
    run: str = "",
    who: str = "",
    commit: str = "",
    on_progress: Progress = lambda line: None,
    stop: threading.Event | None = None,
    check: bool = False,
    directly: bool = False,
) -> dict[str, StepResult]:
    """Run the steps of `plan`. Step id → what became of it, for every step.

    A failed step skips those that wait for it; all others go on. When `stop` is set, the steps in hand end and no
    further one begins. `check`: nothing changes, and each result says whether it would. `lineage`, `serial` and `run` (see
    `claimed`) are what the nodes' ledgers must agree to; `who` and `commit` stand in the nodes' audit. `timeout`: a node that
    is silent for this long counts as unreachable. [s] `directly`: without Ansible, see converge.direct. Raises ToolMissing,
    never for one node.
    """
    stop = stop or threading.Event()
    course = _Course(plan, on_progress)
    guard = {"lineage": lineage, "serial": serial, "run": run or secrets.token_hex(8), "who": who, "commit": commit}
    if directly:
        while chosen := course.next(stop):
            outcomes = Outcomes(chosen, on_progress)
            direct.run(chosen, desired, ssh_config, guard, course.began, outcomes)
            results = outcomes.finish(stopped=stop.is_set(), ended="the node gave no outcome")
            course.take(results)
            if any(one.pending for one in results.values()):
                stop.wait(_PAUSE)  # a node waits by itself, and one that does not must not be asked all the time
        return course.done
    folder = play.folder()
    try:
        play.prepare(folder)
        while chosen := course.next(stop):
            each = _Run(folder, chosen, on_progress, stop, check)
            course.take(each.go(desired, ssh_config, guard, course.began, timeout))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return course.done


class _Course:
    """What is done, and what is left."""

    def __init__(self, plan: Plan, on_progress: Progress) -> None:
        self.left = {step.id: step for step in plan.steps}
        self.done: dict[str, StepResult] = {}
        self.began: dict[str, float] = {}
        self.on_progress = on_progress
        self.limits = limit.totals(plan.steps)
        self.over: set[str] = set()

    def next(self, stop: threading.Event) -> list[Step]:
        """The steps of the next run; none when all is done. Those that will never run get their result here."""
        for name, failed in barred(self.left.values(), self.done).items():
            self._skip(name, f"waits for {', '.join(failed)}, which failed")
        if stop.is_set():
            for name in list(self.left):
                words = "stopped before its end; the next run goes on" if name in self.began else "stopped before this step"
                self._skip(name, words)
        chosen = ready(self.left.values(), self.done)
        for step in chosen:
            self.began.setdefault(step.id, time.time())
        return chosen

    def take(self, results: Mapping[str, StepResult]) -> None:
        """Results of one run. What is pending, and what was skipped because it waits for that, stays.

        Whether it is past its limit is asked once more, since other steps may have kept this run waiting for long.
        """
        results = {name: self._in_time(name, result) for name, result in results.items()}
        waits = {name for name, result in results.items() if result.pending}
        for name, result in [(name, results[name]) for name in self.left if name in results]:
            if result.skipped and waits.intersection(self.left[name].after):
                waits.add(name)
                self.began.pop(name, None)
        for name, result in results.items():
            if name not in waits:
                times = {"began": self.began[name], "seconds": round(time.time() - self.began[name], 3)}
                self.done[name] = result.model_copy(update=times)
                del self.left[name]

    def _in_time(self, name: str, result: StepResult) -> StepResult:
        if not result.pending or time.time() - self.began[name] <= self.limits[name]:
            return result
        if name not in self.over:
            self.over.add(name)
            return result
        words = f"not done within {self.limits[name]} s, the most for a step of its kind: {result.message}"
        self.on_progress(f"{name}: failed: {words}")
        return result.model_copy(update={"ok": False, "pending": False, "message": words})

    def _skip(self, name: str, message: str) -> None:
        self.done[name] = StepResult(id=name, ok=False, skipped=True, message=message, began=self.began.get(name, 0))
        self.on_progress(f"{name}: not done: {message}")
        del self.left[name]


class _Run:
    """One run of ansible-runner."""

    def __init__(self, folder: Path, steps: list[Step], on_progress: Progress, stop: threading.Event, check: bool) -> None:
        self.folder = folder
        self.steps = steps
        self.stop = stop
        self.check = check
        self.until = time.monotonic() + limit.run(steps)
        self.outcomes = Outcomes(steps, on_progress, values=check)

    def go(
        self,
        desired: Mapping[str, Desired],
        ssh_config: Path | None,
        guard: Mapping[str, Any],
        began: Mapping[str, float],
        timeout: float,
    ) -> dict[str, StepResult]:
        """Run, and a result for every step. `began`: when each was first asked. [s since 1970]"""
        # ansible-runner takes a third of a second to import; a plan without steps does without.
        import ansible_runner

        waited = {step.id: time.time() - began[step.id] for step in self.steps}
        hosts = play.inventory(self.folder, self.steps, desired, ssh_config, guard, waited, timeout)
        runner = ansible_runner.run(
            private_data_dir=str(self.folder),
            playbook=str(assets.playbooks() / "converge.yml"),
            inventory=str(play.write_inventory(self.folder, hosts)),
            envvars=play.environment(self.folder, len(hosts["all"]["hosts"])),
            cmdline="--check --diff" if self.check else None,
            event_handler=self._on_event,
            cancel_callback=self._pass_on_stop,
            finished_callback=None,
            quiet=True,
            settings={"suppress_ansible_output": True, "pexpect_use_poll": True},
        )
        return self.outcomes.finish(stopped=self.stop.is_set(), ended=self._ended(runner))

    def _on_event(self, event: dict[str, Any]) -> bool:
        return self.outcomes.on_event(event)

    def _pass_on_stop(self) -> bool:
        """Asked a few times a second. A file tells the roles to begin nothing further.

        Ansible itself is ended only when it runs on although the time of all its tasks is over.
        """
        if self.stop.is_set():
            (self.folder / "stop").touch()
        return time.monotonic() > self.until

    def _ended(self, runner: Any) -> str:
        try:
            lines = [line.strip() for line in printable(runner.stdout.read()).splitlines() if line.strip()]
        except (OSError, AttributeError, ValueError):
            lines = []
        last = [line for line in lines[-1:] if not line.startswith(_PROGRESS)]
        errors = [line for line in lines if line.startswith(("ERROR", "[ERROR]", "fatal"))] or last
        # Without an exit status it never came to exec, or a signal ended it.
        status = "was killed by a signal" if runner.rc is None else f"ended with status {runner.rc}"
        return f"Ansible {status} before this was done{': ' + errors[-1][:400] if errors else ''}"
