"""How is a node played that someone else owns? Its program, or its whole module, is what the test writes; Ansible is real."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from swarm_iac import assets
from swarm_iac.converge import converge, play
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Plan, Step, StepResult

#: Begins a program that answers to steps: `asked` is the request.
HEAD = "import json, os, sys, time\nasked = json.load(sys.stdin)\n"
#: What an honest program answers.
HONEST = """\
def outcome(step, **more):
    told = {"id": step["id"], "ok": True, "changed": True, "skipped": False, "message": "", "changes": [], "seconds": 0.1}
    return dict(told, **more)
"""


class Nodes:
    """Nodes that are processes of this machine, each answering as its program says. Nothing here is changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.patch = monkeypatch
        self.lines: list[str] = []
        monkeypatch.setattr(play, "agent_digest", lambda: "0000hostile0000")
        real = play.inventory

        def inventory(*given: Any) -> dict[str, Any]:
            found = real(*given)
            for name, host in found["all"]["hosts"].items():
                # A Python of its own, or mitogen takes all of them for one machine, which does one thing after the other.
                python = folder / f"python-{name}"
                if not python.is_symlink():
                    python.symlink_to("/usr/bin/python3")
                host["ansible_python_interpreter"] = str(python)
            return found

        monkeypatch.setattr(play, "inventory", inventory)

    def program(self, code: str) -> None:
        """`code` prints the answer to `asked`; `outcome(step)` is an honest one."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr("__main__.py", HEAD + HONEST + code)
        self.patch.setattr(play, "archive", packed.getvalue)

    def module(self, folder: Path, code: str) -> None:
        """`code` is the whole module: what a node sends that does not even run ours."""
        self.program("print(json.dumps({'results': [outcome(one) for one in asked['steps']]}))")
        copy = folder / "playbooks"
        shutil.copytree(assets.playbooks(), copy, ignore=shutil.ignore_patterns("module_utils", "__pycache__"))
        (copy / "library" / "swarm_step.py").write_text("#!/usr/bin/python\n# WANT_JSON\n" + code)
        self.patch.setattr(assets, "playbooks", lambda: copy)

    def converge(self, *steps: Step, **more: Any) -> dict[str, StepResult]:
        """Carry the steps out with the real Ansible."""
        desired = {step.node: Desired(node=step.node, address="local", fleet="dev") for step in steps}
        plan = Plan(steps=steps)
        return converge(plan, desired, lineage="L", serial=1, on_progress=self.lines.append, **more)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    return Nodes(monkeypatch, tmp_path_factory.mktemp("pythons"))
