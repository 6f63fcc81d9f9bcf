"""Does an account that is not root, with the one rule of docs/operations.md, converge a node, and nothing more?

On gpu-03. Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
NODE = "gpu-03"
OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def rule() -> str:
    """The lines of sudoers as they stand in the documentation."""
    (found,) = re.findall(r"^( {4}ops ALL=.*\n(?: {4}.*\n)*)", OPERATIONS.read_text(), re.MULTILINE)
    return "".join(line[4:] + "\n" for line in found.splitlines())


@pytest.fixture
def ops(fleet: Fleet) -> Iterator[str]:
    """The stack file before gpu-03 is reached as ops."""
    fleet.node(NODE, "useradd -m -s /bin/sh ops && install -d -m 700 -o ops -g ops ~ops/.ssh")
    fleet.node(NODE, "install -m 600 -o ops -g ops /root/.ssh/authorized_keys ~ops/.ssh/authorized_keys")
    fleet.node(NODE, f"printf %s {shlex.quote(rule())} > /etc/sudoers.d/swarm; chmod 440 /etc/sudoers.d/swarm; visudo -c")
    before = fleet.stack.read_text()
    name = f"  {NODE}: "
    (line,) = [line for line in before.splitlines() if line.startswith(name)]
    fleet.stack.write_text(before.replace(line, line.replace("root@{name}", "ops@{name}")))
    try:
        yield before
    finally:
        fleet.stack.write_text(before)
        fleet.node(NODE, "rm -f /etc/sudoers.d/swarm; pkill -u ops; sleep 1; userdel -r ops 2> /dev/null; true")
    fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()


def as_ops(fleet: Fleet, command: str) -> str:
    """What ops gets for a command on the node, and its exit status on the last line."""
    return fleet.node(NODE, f"runuser -u ops -- sh -c {shlex.quote(command)} 2>&1 < /dev/null; echo $?")


def test_one_sudo_rule_converges_a_node_and_allows_nothing_else(fleet: Fleet, ops: str) -> None:
    assert "uid=" in as_ops(fleet, "id") and as_ops(fleet, "id -u").splitlines()[0] != "0"
    home = fleet.node(NODE, "readlink -f /usr/local/lib/swarm/current")
    for command in (
        "sudo -n id", "sudo -n -s", "sudo -n /usr/bin/python3 -c 'print(1)'", "sudo -n /usr/bin/python3 -I -S /tmp/x step",
        f"sudo -n /usr/bin/python3 -I -S {home} boot", f"sudo -n /usr/bin/python3 -I -S {home} install",
        "sudo -n /usr/bin/python3 -I -S /usr/local/lib/swarm/../../../../tmp/0123456789abcdef step",
        f"sudo -n PYTHONPATH=/tmp /usr/bin/python3 -I -S {home} step", f"sudo -n -u bo /usr/bin/python3 -I -S {home} step",
        f"sudo -n /usr/bin/python3 -I -S {home} step -c x", f"echo x > {home}/__main__.py",
    ):  # fmt: skip
        said = as_ops(fleet, command)
        assert said.splitlines()[-1] != "0" and "uid=0" not in said, (command, said)

    fleet.edit("gpu_clock: 1410 MHz", "gpu_clock: 1305 MHz")
    done = fleet.swarm(*UP).ok()
    assert f"{NODE}" in done.text
    assert "1305" in fleet.node(NODE, "cat /run/swarm-nvml/state")
    assert "sudo" in fleet.node(
        NODE, "journalctl -q --no-pager -t sudo -n 20"
    ) and "COMMAND=/usr/bin/python3 -I -S" in fleet.node(NODE, "journalctl -q --no-pager -t sudo -n 20")
    fleet.swarm("preview", "--expect-no-changes").ok()
    fleet.swarm("history").ok()

    # The same words by hand: what may be asked so is what a stack file may ask, and none of it is a program for root.
    head = json.loads(fleet.node(NODE, "cat /var/lib/swarm/ledger.json"))
    guard = {"lineage": head["lineage"], "serial": head["serial"] + 1, "fleet": "dev", "run": "by-hand"}
    step = {
        "id": "x/settings",
        "allocation": "",
        "after": [],
        "want": {"settings": {"sysctl": {"kernel.core_pattern": "|/tmp/x"}}},
    }
    asked = json.dumps({"verb": "settings", "steps": [step], "guard": guard, "failed": [], "check": False, "run": {}})
    said = as_ops(fleet, f"echo {shlex.quote(asked)} | sudo -n /usr/bin/python3 -I -S {home} step")
    assert "is no value that is set here" in said, said
