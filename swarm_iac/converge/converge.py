"""How does a plan become real? Wave by wave, one run of Ansible each, one result per step."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from swarm_iac import assets
from swarm_iac.converge import play
from swarm_iac.converge.outcome import Outcomes
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Plan, Step, StepResult

Progress = Callable[[str], None]


def converge(
    plan: Plan,
    desired: Mapping[str, Desired],
    *,
    ssh_config: Path | None = None,
    lineage: str,
    serial: int,
    on_progress: Progress = lambda line: None,
    stop: threading.Event | None = None,
    check: bool = False,
) -> dict[str, StepResult]:
    """Run the steps of `plan`. Step id → what became of it, for every step.

    A failed step skips those that wait for it; all others go on. When `stop` is set, the steps in hand end and no
    further one begins. `check`: nothing changes, and each result says whether it would. `lineage` and `serial` are
    what the nodes' ledgers must agree to. Raises ToolMissing, never for one node.
    """
    stop = stop or threading.Event()
    results: dict[str, StepResult] = {}
    folder = Path(tempfile.mkdtemp(prefix="swarm-"))
    try:
        play.prepare(folder)
        for wave in plan.waves():
            ready = _ready(wave, results, stop)
            if ready:
                run = _Wave(folder, ready, on_progress, stop, check)
                results.update(run.go(desired, ssh_config, {"lineage": lineage, "serial": serial}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _ready(wave: Iterable[Step], results: dict[str, StepResult], stop: threading.Event) -> list[Step]:
    """The steps of a wave that may run. The others get their result here."""
    ready = []
    for step in wave:
        failed = [before for before in step.after if before in results and not results[before].ok]
        if stop.is_set():
            results[step.id] = StepResult(id=step.id, ok=False, skipped=True, message="stopped before this step")
        elif failed:
            message = f"waits for {', '.join(failed)}, which failed"
            results[step.id] = StepResult(id=step.id, ok=False, skipped=True, message=message)
        else:
            ready.append(step)
    return ready


class _Wave:
    """One run of ansible-runner."""

    def __init__(self, folder: Path, steps: list[Step], on_progress: Progress, stop: threading.Event, check: bool) -> None:
        self.folder = folder
        self.steps = steps
        self.stop = stop
        self.check = check
        self.outcomes = Outcomes(steps, on_progress, values=check)

    def go(self, desired: Mapping[str, Desired], ssh_config: Path | None, guard: Mapping[str, Any]) -> dict[str, StepResult]:
        """Run, and a result for every step."""
        # ansible-runner takes a third of a second to import; a plan without steps does without.
        import ansible_runner

        hosts = play.inventory(self.folder, self.steps, desired, ssh_config, guard)
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
        """Asked a few times a second. Ansible is never killed: a file tells the roles to begin nothing further."""
        if self.stop.is_set():
            (self.folder / "stop").touch()
        return False

    def _ended(self, runner: Any) -> str:
        try:
            lines = [line.strip() for line in runner.stdout.read().splitlines() if line.strip()]
        except (OSError, AttributeError, ValueError):
            lines = []
        told = [line for line in lines if line.startswith(("ERROR", "[ERROR]", "fatal"))] or lines[-1:]
        # Without an exit status it never came to exec, or a signal ended it.
        status = "killed by a signal" if runner.rc is None else f"exit status {runner.rc}"
        return f"{runner.status}, {status}: {' '.join(told[-1:])[:400] or 'it printed nothing'}"
