"""Which commands does `swarm sandbox` have?"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from swarm_iac.sandbox import image
from swarm_iac.sandbox.fleet import DEFAULT_ROOT, Sandbox
from swarm_iac.sandbox.spec import Say


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="swarm sandbox", description="a virtual fleet of real Debian nodes")
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help="the sandbox's folder (default: .sandbox)")
    parser.add_argument("--base-port", type=int, help="node n has ssh on this port + n (default: the previous one, or 2200)")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up", help="start the nodes")
    verbs.add_parser("down", help="stop the nodes and the switch")
    verbs.add_parser("reset", help="power off and drop the disks")
    verbs.add_parser("status", help="show which nodes run and answer")
    verbs.add_parser("image", help="build the nodes' image unless it is cached")
    ssh = verbs.add_parser("ssh", help="run a command on a node, or a shell")
    ssh.add_argument("node")
    ssh.add_argument("words", nargs=argparse.REMAINDER)
    fault = verbs.add_parser("fault", help="inject a fault into a node")
    fault.add_argument("node")
    fault.add_argument("name")
    fault.add_argument("args", nargs="*")
    return parser


def _say_status(sandbox: Sandbox, say: Say) -> None:
    for node in sandbox.status():
        state = "up" if node.reachable else "running, ssh does not answer" if node.running else "off"
        say(f"{node.name}  {node.address}  127.0.0.1:{node.port}  {state}")


def main(argv: list[str], say: Say) -> int:
    """Run the command `argv`; its exit status. Raises SandboxError."""
    asked = _parser().parse_args(argv)
    sandbox = Sandbox(asked.root, asked.base_port)
    match asked.verb:
        case "up":
            sandbox.up(say)
        case "down":
            sandbox.down(say)
        case "reset":
            sandbox.reset(say)
        case "status":
            _say_status(sandbox, say)
        case "image":
            say(str(image.ready(say).folder))
        case "ssh":
            return subprocess.call([*sandbox.ssh_command(asked.node), *asked.words])
        case "fault":
            sandbox.fault(asked.node, asked.name, *asked.args, say=say)
    return 0
