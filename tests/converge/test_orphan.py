"""What is left of a run that is killed? No Ansible, and after the next run no folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from swarm_iac.converge import play
from tests.e2e.trouble import gone

pytestmark = pytest.mark.engine

PARENT = "import subprocess, sys; one = subprocess.Popen(sys.argv[1:]); print(one.pid, flush=True); one.wait()"
PLAYBOOK = """\
- hosts: localhost
  connection: local
  gather_facts: false
  tasks: [{ansible.builtin.command: sleep 77}]
"""


def test_nothing_of_a_run_is_left_when_who_began_it_is_killed(tmp_path: Path) -> None:
    play.prepare(tmp_path)
    variables = {**os.environ, **play.environment(tmp_path, 1)}
    (tmp_path / "sleep.yml").write_text(PLAYBOOK)
    program = shutil.which("ansible-playbook", path=variables["PATH"])
    words = [sys.executable, "-c", PARENT, str(program), str(tmp_path / "sleep.yml")]
    parent = subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert parent.stdout
    ansible = psutil.Process(int(parent.stdout.readline()))
    end = time.monotonic() + 60
    while not any(one.name() == "sleep" for one in ansible.children(recursive=True)):
        assert time.monotonic() < end, "its task never began"
        time.sleep(0.2)
    (task,) = (one for one in ansible.children(recursive=True) if one.name() == "sleep")  # the machine's, not ours
    run = [one for one in (ansible, *ansible.children(recursive=True)) if one != task]
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    ended = gone(run, 20)
    for one in (*run, task):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    assert ended


def test_the_folder_of_a_run_that_was_killed_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = "from swarm_iac.converge import play; print(play.folder(), flush=True); input()"
    run = subprocess.Popen(
        [sys.executable, "-c", words],
        env={**os.environ, "TMPDIR": str(tmp_path)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert run.stdout
    left = Path(run.stdout.readline().strip())
    (left / "inventory.json").write_text("{}")
    foreign = tmp_path / "swarm-run-of-mine"
    foreign.mkdir()
    play.folder()
    assert left.is_dir(), "it runs still"
    run.kill()
    run.wait()
    play.folder()
    assert not left.exists() and foreign.is_dir()
