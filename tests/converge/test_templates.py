"""Does a value of a stack file come through Ansible as it was written, and on no command line? With the real one."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swarm_iac.converge.play import environment, inventory, prepare, write_inventory
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Step, Verb
from tests.hostile import HOSTILE, TEMPLATES

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ swarm_steps.start }}"
        dest: "{{ inventory_dir }}/seen.json"
        mode: "0600"
"""


@pytest.mark.engine
def test_every_value_comes_through_ansible_as_it_was_written(tmp_path: Path) -> None:
    values = [*HOSTILE, *TEMPLATES]
    want = {"env": {f"V{number}": value for number, value in enumerate(values)}, "command": " ".join(values), "list": values}
    step = Step(id="a/start/x-0", node="a", verb=Verb.START, allocation="x-0", want=want)
    desired = {"a": Desired(node="a", address="local", fleet="dev")}
    prepare(tmp_path)
    found = inventory(tmp_path, [step], desired, None, {"lineage": "L", "serial": 1, "who": "{{ 7 * 7 }}", "commit": ""}, {})
    found["all"]["vars"]["ansible_python_interpreter"] = sys.executable
    write_inventory(tmp_path, found)
    (tmp_path / "play.yml").write_text(PLAY)
    words = [sys.executable, "-m", "ansible", "playbook", "-i", "inventory.json", "play.yml"]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, **environment(tmp_path, 1)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    asked = json.loads(base64.b64decode((tmp_path / "seen.json").read_text()))
    (seen,) = asked["steps"]
    assert seen["want"] == want and asked["guard"]["who"] == "{{ 7 * 7 }}"
    assert not list(tmp_path.rglob("PWNED"))
