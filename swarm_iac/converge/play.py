"""What does Ansible need for one run? A private folder with inventory, settings and the node program."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from swarm_iac import assets
from swarm_iac.converge import limit
from swarm_iac.converge.tasks import WORDS
from swarm_iac.errors import ToolMissing
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Step, Verb
from swarm_iac.reach.address import parse
from swarm_iac.reach.node_program import agent_digest, archive
from swarm_iac.run_options import NODE_TIMEOUT

#: Missed keepalives in a row after which a node counts as unreachable.
_SIGNS = 4


#: Ansible is interrupted when we die: otherwise it would wait forever for a reader of its output.
_PLAYBOOK = """\
#!/bin/sh
if command -v setpriv > /dev/null; then exec setpriv --pdeathsig INT {real} "$@"; fi
exec {real} "$@"
"""


def folder() -> Path:
    """A private folder for one run, which removes it.

    A run that is killed cannot, and what its steps were to set lies there: the next one removes it.
    """
    for left in Path(tempfile.gettempdir()).glob("swarm-run-*-*"):
        pid = left.name.split("-")[2]
        with contextlib.suppress(OSError):
            if pid.isdecimal() and not psutil.pid_exists(int(pid)) and left.stat().st_uid == os.geteuid():
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"swarm-run-{os.getpid()}-"))


def prepare(folder: Path) -> None:
    """Fill the folder with what all runs share."""
    (folder / "archive").write_bytes(base64.b64encode(archive()))
    real = shutil.which("ansible-playbook", path=_path())
    if real is None:
        raise ToolMissing("ansible-playbook is not installed here", hint="pip install ansible-core")
    own = folder / "bin" / "ansible-playbook"
    own.parent.mkdir()
    own.write_text(_PLAYBOOK.format(real=shlex.quote(real)))
    own.chmod(0o700)


def _path() -> str:
    """The ansible-playbook of this very Python comes first: one that PATH finds elsewhere would not see our mitogen."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def inventory(
    folder: Path,
    steps: Iterable[Step],
    desired: Mapping[str, Desired],
    ssh_config: Path | None,
    guard: Mapping[str, Any],
    waited: Mapping[str, float],
    timeout: float = NODE_TIMEOUT,
) -> dict[str, Any]:
    """Ansible's inventory of one run: each node with its own steps by verb, as text. Raises ValueError for a bad address.

    `waited`: for how long each step has been asked already. [s] `timeout`: silence after which a node is unreachable. [s]
    """
    verbs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    steps = tuple(steps)
    limits = limit.tasks(steps)
    for step in steps:
        asked = request(step, waited.get(step.id, 0))
        verbs.setdefault(step.node, {}).setdefault(step.verb.value, []).append(asked)
    hosts = {
        node: {
            **parse(desired[node].address).inventory(ssh_config),
            "swarm_steps": {
                verb: carried({"steps": each, "guard": {**guard, "fleet": desired[node].fleet}}) for verb, each in found.items()
            },
            "swarm_limits": limits[node],
        }
        for node, found in verbs.items()
    }
    shared = {
        "ansible_python_interpreter": "/usr/bin/python3",
        "swarm_digest": agent_digest(),
        "swarm_archive": str(folder / "archive"),
        "swarm_stop": str(folder / "stop"),
        "swarm_words": {verb.value: words for verb, words in WORDS.items()},
        # For a node that becomes unreachable during a step: mitogen's own 30 s × 10 would delay everything for minutes.
        "mitogen_ssh_keepalive_interval": max(1, round(timeout / _SIGNS)),
        "mitogen_ssh_keepalive_count": _SIGNS,
    }
    return {"all": {"hosts": hosts, "vars": shared}}


def request(step: Step, waited: float) -> dict[str, Any]:
    """One step as the node program is asked for it. `waited`: for how long it has been asked already. [s]"""
    asked: dict[str, Any] = {"id": step.id, "allocation": step.allocation, "want": step.want, "after": list(step.after)}
    if step.verb in (Verb.SETTINGS, Verb.GPUS):
        asked |= {"sets": {change.path: change.new for change in step.changes}, "rollout": bool(step.rollout)}
    return {**asked, "waited": round(waited, 1)}


def carried(asked: Mapping[str, Any]) -> str:
    """Steps as a text that nothing on the way to the node takes for more than text: base64 of JSON.

    Ansible would evaluate `{{ … }}` in a command, and read keys such as `__ansible_unsafe` or `__ansible_vault` as its own.
    """
    return base64.b64encode(json.dumps(asked, separators=(",", ":")).encode()).decode()


def write_inventory(folder: Path, content: Mapping[str, Any]) -> Path:
    """Put it into the folder, for Ansible to read."""
    place = folder / "inventory.json"
    place.write_text(json.dumps(content), encoding="utf-8")
    return place


def environment(folder: Path, hosts: int) -> dict[str, str]:
    """Settings of ansible-playbook. Those of the user's own ansible.cfg do not apply: a run must not depend on them."""
    config = folder / "ansible.cfg"
    if importlib.util.find_spec("ansible_mitogen") is None:
        raise ToolMissing("mitogen is not installed here", hint="pip install mitogen")
    config.write_text(
        "\n".join(
            (
                "[defaults]",
                f"strategy_plugins = {assets.playbooks() / 'plugins' / 'strategy'}",
                # Each node goes its own way: one node's long grace period must not delay another's settings.
                "strategy = mitogen_bounded",
                f"forks = {max(1, min(hosts, 50))}",
                # Covers mitogen starting Python on a busy machine; ConnectTimeout detects an unreachable one.
                "timeout = 60",
                "host_key_checking = True",
                f"library = {assets.playbooks() / 'library'}",
                f"action_plugins = {assets.playbooks() / 'plugins' / 'action'}",
                # What a node says of itself is no variable: it would take the place of one of ours.
                "inject_facts_as_vars = False",
                f"roles_path = {assets.playbooks() / 'roles'}",
                f"local_tmp = {folder / 'tmp'}",
                # Arguments hold users' environments; they are nobody's business in a node's system log.
                "no_target_syslog = True",
                "retry_files_enabled = False",
                "localhost_warning = False",
                "deprecation_warnings = False",
                "bin_ansible_callbacks = False",
                "",
                "[inventory]",
                "enable_plugins = ansible.builtin.yaml",
                "",
            )
        ),
        encoding="utf-8",
    )
    path = f"{folder / 'bin'}{os.pathsep}{_path()}"
    return {"ANSIBLE_CONFIG": str(config), "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_NOCOLOR": "1", "PATH": path}
