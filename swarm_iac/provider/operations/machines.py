"""What does the provider ask of the machines? To be read, and to be changed; nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from swarm_iac.model.state import Desired, Observed
    from swarm_iac.model.step import Plan, StepResult


class Machines(Protocol):
    """The boundary to real machines, so that the provider's own laws can be tried without any."""

    def agent(self) -> str:
        """Digest of the node program that should be installed; "": any."""

    def observe(self, targets: Mapping[str, str], *, ssh_config: Path | None) -> dict[str, Observed]:
        """Read each node. `targets`: node → address. Never raises for one node: see Observed.error."""

    def claimed(
        self,
        nodes: Mapping[str, Desired],
        *,
        ssh_config: Path | None,
        lineage: str,
        serial: int,
        on_progress: Callable[[str], None],
    ) -> AbstractContextManager[str]:
        """With the right to change the fleet, as the name of this run. `nodes`: those that answered. Raises Refused."""

    def converge(
        self,
        plan: Plan,
        desired: Mapping[str, Desired],
        *,
        ssh_config: Path | None,
        lineage: str,
        serial: int,
        run: str,
        on_progress: Callable[[str], None],
        stop: threading.Event,
    ) -> dict[str, StepResult]:
        """Run the steps; ends after the step in hand when `stop` is set. Step id → what became of it."""


class RealMachines:
    """Machines reached by ssh, or this one."""

    def agent(self) -> str:
        """See Machines."""
        from swarm_iac.reach.program import agent_digest

        return agent_digest()

    def observe(self, targets: Mapping[str, str], *, ssh_config: Path | None) -> dict[str, Observed]:
        """See Machines."""
        from swarm_iac.observe import observe
        from swarm_iac.reach.address import patience

        return observe(targets, ssh_config=ssh_config, timeout=patience())

    @contextmanager
    def claimed(
        self,
        nodes: Mapping[str, Desired],
        *,
        ssh_config: Path | None,
        lineage: str,
        serial: int,
        on_progress: Callable[[str], None],
    ) -> Iterator[str]:
        """See Machines."""
        import secrets

        from swarm_iac.converge import claimed
        from swarm_iac.reach.author import who

        run = secrets.token_hex(8)
        asked = {"lineage": lineage, "serial": serial, "run": run, "who": who()}
        targets = {name: (each.address, {**asked, "fleet": each.fleet}) for name, each in nodes.items()}
        with claimed(targets, ssh_config=ssh_config, on_progress=on_progress):
            yield run

    def converge(
        self,
        plan: Plan,
        desired: Mapping[str, Desired],
        *,
        ssh_config: Path | None,
        lineage: str,
        serial: int,
        run: str,
        on_progress: Callable[[str], None],
        stop: threading.Event,
    ) -> dict[str, StepResult]:
        """See Machines."""
        from swarm_iac.converge import converge
        from swarm_iac.reach.author import commit, who

        return converge(
            plan, desired, ssh_config=ssh_config, lineage=lineage, serial=serial, run=run, who=who(), commit=commit(),
            on_progress=on_progress, stop=stop,
        )  # fmt: skip
