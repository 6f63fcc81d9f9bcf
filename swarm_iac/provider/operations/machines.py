"""What does the provider do with machines? Read and change them, nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from swarm_iac.model.state import Desired, Observed
    from swarm_iac.model.step import Plan, StepResult
    from swarm_iac.run_options import RunOptions


class Machines(Protocol):
    """The boundary to real machines, so that the provider can be tested without any."""

    def agent(self) -> str:
        """Digest of the node program to install; "": any."""

    def observe(self, targets: Mapping[str, str]) -> dict[str, Observed]:
        """Read each node. `targets`: node → address. Never raises for one node: see Observed.error."""

    def claimed(
        self,
        nodes: Mapping[str, Desired],
        *,
        lineage: str,
        serial: int,
        on_progress: Callable[[str], None],
    ) -> AbstractContextManager[str]:
        """Holds the right to change the fleet; gives the id of this run. `nodes`: those that answered. Raises Refused."""

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
        """Run the steps; ends after the current step if `stop` is set. Step id → result."""


class RealMachines:
    """Machines reached by ssh, or this one."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._reach: Any = {"ssh_config": options.ssh_config, "timeout": options.node_timeout}

    def agent(self) -> str:
        """See Machines."""
        from swarm_iac.reach.node_program import agent_digest

        return agent_digest()

    def observe(self, targets: Mapping[str, str]) -> dict[str, Observed]:
        """See Machines."""
        from functools import partial

        from swarm_iac.live.file import asleep
        from swarm_iac.observe import but_asleep, observe

        return but_asleep(partial(observe, **self._reach), partial(asleep, self._options.live))(targets)

    @contextmanager
    def claimed(
        self,
        nodes: Mapping[str, Desired],
        *,
        lineage: str,
        serial: int,
        on_progress: Callable[[str], None],
    ) -> Iterator[str]:
        """See Machines."""
        import secrets

        from swarm_iac.converge import claimed
        from swarm_iac.reach.author import who

        run = secrets.token_hex(8)
        asked = {"lineage": lineage, "serial": serial, "run": run, "who": who(self._options.who)}
        targets = {name: (each.address, {**asked, "fleet": each.fleet}) for name, each in nodes.items()}
        with claimed(targets, **self._reach, on_progress=on_progress):
            yield run

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
        """See Machines."""
        from swarm_iac.converge import converge
        from swarm_iac.reach.author import commit, who

        return converge(
            plan, desired, **self._reach, lineage=lineage, serial=serial, run=run, who=who(self._options.who), commit=commit(),
            on_progress=on_progress, stop=stop,
        )  # fmt: skip
