"""What does `make up` do? Start the sandbox, run `pulumi up` of stacks/dev.yaml on it, show the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from swarm_iac.cli import engine
from swarm_iac.cli.machines import fleet_status, fleet_view
from swarm_iac.cli.terminal.screen import say, show, table
from swarm_iac.cli.toolchain import require_pulumi
from swarm_iac.pluralize import pluralize

_STACK = "dev"


class _Phases:
    """Phases and how long each took."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def run(self, name: str, work: Callable[[], int | None]) -> int:
        say(f"== {name}")
        begin = time.monotonic()
        status = work() or 0
        self.rows.append((name, f"{time.monotonic() - begin:.0f} s"))
        return status


def run(root: Path) -> int:
    """Start the sandbox and apply the stack. Returns the exit status of `pulumi up`."""
    from swarm_iac.sandbox import Sandbox

    phases = _Phases()
    phases.run("toolchain", lambda: say(f"pulumi from {require_pulumi(say)}"))
    phases.run("sandbox", lambda: Sandbox(root / ".sandbox").up(say))
    status = phases.run("pulumi up", lambda: engine.pulumi(root, _STACK, ["up", "--yes", "--skip-preview"], say).returncode)
    view = fleet_view.read(_STACK)
    show(
        table(f"fleet {view.decision.stack.fleet}", fleet_status.NODE_HEADS, fleet_status.node_rows(view)),
        table("workloads", fleet_status.ALLOCATION_HEADS, fleet_status.allocation_rows(view)),
        table("time", ("phase", "took"), phases.rows),
    )
    say(fleet_status.proven(view))
    left = fleet_status.differences(view)
    say(
        "every node is in its desired state"
        if not left
        else f"{pluralize(len(left), 'difference is', 'differences are')} left: swarm assert"
    )
    say('try next: edit stacks/dev.yaml, then `eval "$(.venv/bin/swarm env)"` and `pulumi preview`; swarm ps; swarm why NAME')
    return status or (1 if left else 0)
