"""Does Ansible end when the run that began it dies?"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from swarm_iac.converge import play
from tests.e2e.trouble import gone

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
