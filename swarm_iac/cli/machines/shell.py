"""How does one run a command where an allocation runs?"""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.engine import options
from swarm_iac.errors import SwarmError
from swarm_iac.printable import printable

#: Longest part of an endless line that is shown at a time. [characters]
_LINE = 1 << 16


@dataclass(frozen=True)
class Chosen:
    """One allocation, and how its node is reached."""

    name: str
    user: str
    node: str
    address: str
    ssh_config: Path | None

    @property
    def unit(self) -> str:
        """Its service. systemd nests slices on '-', so names carry '_' there."""
        return f"swarm-{self.name.replace('-', '_')}.service"

    @property
    def slice(self) -> str:
        """Its slice."""
        return f"swarm-{self.name.replace('-', '_')}.slice"


def find(name: str, allocation: str) -> Chosen:
    """The allocation by its name, or the only replica of a workload. Raises SwarmError."""
    decision = deciding.current(name)
    all_of = [one for one in decision.placement.allocations if allocation in (one.name, one.workload)]
    if not all_of:
        unplaced = allocation in {gone.workload for gone in decision.placement.unplaced}
        hint = f"it is pending: swarm why {allocation}" if unplaced else "see: swarm ps"
        raise SwarmError(f"nothing is allocated under the name {allocation}", hint=hint)
    if len(all_of) > 1:
        raise SwarmError(f"{allocation} has {len(all_of)} replicas", hint=f"name one: {', '.join(one.name for one in all_of)}")
    one = all_of[0]
    user, node = decision.stack.workloads[one.workload].user, decision.stack.nodes[one.node]
    return Chosen(decision.stack.runs_as(one), user, one.node, node.ssh, options(decision.root).ssh_config)


def on_node(chosen: Chosen, command: list[str], *, terminal: bool = False, words: bool = False) -> int:
    """Run a command on the allocation's node as the login user; its exit status. `words`: filter unprintable output."""
    from swarm_iac.reach.address import parse

    if chosen.address != "local":
        way = parse(chosen.address).ssh(chosen.ssh_config)
        command = [*("-t" if terminal and word == "-T" else word for word in way), shlex.join(command)]
    if not words:
        return subprocess.call(command)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", bufsize=1) as process:
        assert process.stdout
        while line := process.stdout.readline(_LINE):
            sys.stdout.write(printable(line))
            sys.stdout.flush()
    return process.returncode


def inside(chosen: Chosen, command: list[str]) -> list[str]:
    """The command line that runs `command` (a login shell if empty) as the allocation's user within its slice.

    PrivateUsers: without it the owner of a directory on XFS could move files out of their quota's project.
    """
    words = ["systemd-run", "--quiet", "--collect", "--wait", f"--slice={chosen.slice}", f"--uid={chosen.user}"]
    words += ["--property=SupplementaryGroups=swarm-gpu", "--property=PrivateUsers=yes"]
    # systemd would expand variables in the arguments, with its own values.
    command = [word.replace("$", "$$") for word in command]
    return [*words, *(["--pipe", "--", *command] if command else ["--pty", "--", "/bin/bash", "-l"])]
