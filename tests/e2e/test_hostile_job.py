"""A user's job does its worst: is it drained and removed within its grace, without root running a byte of that user's?

On gpu-02, which runs nothing else. Leaves the fleet as it found it.
"""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Fleet
from tests.e2e.test_secrets import written

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
NODE, GRACE = "gpu-02", 10
#: So many processes it has started, by the count of its node's kernel, before it is drained.
PROCESSES = 100_000
#: What the user has on the node. Root that runs any of it writes here who it was.
HOME, CAUGHT = "/var/tmp/evil", "/root/pwned"
NAMES = [
    "sh",
    "bash",
    "env",
    "rm",
    "sync",
    "systemctl",
    "python3",
    "kill",
    "cat",
    "echo",
    "find",
    "mount",
    "umount",
    "xfs_quota",
    "systemd-run",
    "setpriv",
]
LIBRARY = f"""
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) {{
  if (getuid()) return;
  int file = open("{CAUGHT}", O_CREAT | O_APPEND | O_WRONLY, 0600);
  if (write(file, "library\\n", 8)) {{}}
}}
"""
#: One process after the other, each gone at once; vfork, since an emulated machine copies page tables slowly. Every fiftieth
#: leaves one behind in a session of its own: the first forty for good, the others for a moment.
STORM = """
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  for (long count = 0;;) {
    pid_t child = count % 50 ? vfork() : fork();
    if (child < 0) {
      usleep(10000);
      continue;
    }
    if (!child) {
      if (count % 50 == 0 && setsid() > 0 && fork() == 0) {
        if (count < 2000) for (;;) pause();
        usleep(200000);
      }
      _exit(0);
    }
    waitpid(child, 0, 0);
    if (++count % 1000 == 0) {
      printf("%ld processes\\n", count);
      fflush(stdout);
    }
  }
}
"""
JOB = f"""
import os, signal, socket, sys, threading, time
for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(one, signal.SIG_IGN)
for number in range(3000):
    os.symlink(("/", "/etc/passwd", "/root", "../../..", "farm0")[number % 5], "farm%d" % number)
deep = "."
for number in range(200):
    deep += "/d"
    os.mkdir(deep)
    os.symlink("/", deep + "/up")
os.mkdir("shut")
os.chmod("shut", 0)
def fill():
    with open("full", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * (1 << 20))
        except OSError:
            pass
threading.Thread(target=fill).start()
def serve():
    line = socket.create_server(("127.0.0.1", 8123))
    while True:
        one = line.accept()[0]
        def answer(one=one):
            try:
                if not os.path.exists("{HOME}/drip"):
                    one.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n")
                else:
                    while True:
                        one.sendall(b"H")
                        time.sleep(1)
            except OSError:
                pass
            one.close()
        threading.Thread(target=answer, daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
storm = os.fork()
if not storm:
    os.execv("{HOME}/storm", ["storm"])
while True:
    time.sleep(1)
"""


def forks(fleet: Fleet) -> int:
    """How many processes and threads the node's kernel has made since it booted."""
    return int(fleet.node(NODE, "awk '/^processes/ {print $2}' /proc/stat"))


@pytest.fixture
def hostile(fleet: Fleet, tmp_path: Path) -> Iterator[str]:
    """The stack file with the job in it, after its `up`."""
    (tmp_path / "evil.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-s", "-o", tmp_path / "evil.so", tmp_path / "evil.c"], check=True)
    (tmp_path / "storm.c").write_text(STORM)
    subprocess.run(["gcc", "-O1", "-s", "-o", tmp_path / "storm", tmp_path / "storm.c"], check=True)
    fleet.node(NODE, f"mkdir -p {HOME}/bin; rm -f {CAUGHT}")
    for name in ("evil.so", "storm"):
        binary = base64.b64encode((tmp_path / name).read_bytes()).decode()
        fleet.node(NODE, f"echo {binary} | base64 -d > {HOME}/{name}; chmod 755 {HOME}/{name}")
    for name in NAMES:
        script = f'#!/bin/sh\n[ "$(/usr/bin/id -u)" != 0 ] || echo {name} >> {CAUGHT}\nexec /usr/bin/{name} "$@"\n'
        fleet.node(NODE, f"printf %s {shlex.quote(script)} > {HOME}/bin/{name}; chmod 755 {HOME}/bin/{name}")
    python = f"import os\nif not os.getuid(): open({CAUGHT!r}, 'a').write('python')\n"
    fleet.node(NODE, f"printf %s {shlex.quote(python)} | tee {HOME}/sitecustomize.py {HOME}/usercustomize.py {HOME}/rc")
    assert fleet.node(NODE, f"LD_PRELOAD={HOME}/evil.so PATH={HOME}/bin:$PATH sh -c : ; cat {CAUGHT}; rm {CAUGHT}"), (
        "the trap works"
    )
    before = fleet.stack.read_text()
    text = yaml.safe_load(before)
    text["nodes"][NODE] = {**text["nodes"].get(NODE, {}), "labels": {"with": "worst"}}
    env = {
        "PATH": f"{HOME}/bin:/usr/bin:/bin", "LD_PRELOAD": f"{HOME}/evil.so", "LD_LIBRARY_PATH": HOME, "PYTHONPATH": HOME,
        "BASH_ENV": f"{HOME}/rc", "ENV": f"{HOME}/rc", "PYTHONSTARTUP": f"{HOME}/rc", "SERVICE_RESULT": "success",
    }  # fmt: skip
    text["workloads"]["worst"] = {
        "user": "ada", "kind": "serve", "each": {"vcpus": 2, "memory": "200 MB", "scratch": "200 MB"},
        "place": {"select": {"with": "worst"}}, "stop": {"signal": "TERM", "grace": f"{GRACE} s"},
        "run": {"command": shlex.join(["python3", "-c", JOB]), "env": env, "port": 8123, "healthy": "/"},
    }  # fmt: skip
    fleet.stack.write_text(written(text))
    try:
        fleet.swarm(*UP).ok()
        yield before
    finally:
        fleet.stack.write_text(before)
        fleet.node(NODE, f"rm -rf {HOME} {CAUGHT}")
    fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()


def test_a_hostile_job_is_drained_and_removed_within_its_grace_and_root_runs_nothing_of_it(fleet: Fleet, hostile: str) -> None:
    scratch, journal = "/srv/swarm/scratch/worst-0", "journalctl -q --no-pager -o short-unix -u swarm-worst_0.service"
    begun, end = forks(fleet), time.monotonic() + 1200
    while int(fleet.node(NODE, f"stat -c %s {scratch}/full")) < 150 << 20 or forks(fleet) < begun + PROCESSES:
        assert time.monotonic() < end, f"it does not do its worst: {forks(fleet) - begun} processes"
        time.sleep(2)
    fleet.node(NODE, f"touch {HOME}/drip")
    text = yaml.safe_load(fleet.stack.read_text())
    text["nodes"][NODE]["state"] = "drain"
    fleet.stack.write_text(written(text))
    done = fleet.swarm(*UP)

    said = fleet.node(NODE, f"{journal} -n 2000")
    stopping = float(re.findall(r"^([0-9.]+) .*systemd\[1\]: Stopping ", said, re.MULTILINE)[-1])
    gone = float(re.findall(r"^([0-9.]+) .*systemd\[1\]: .*: Main process exited", said, re.MULTILINE)[-1])
    stopped = float(re.findall(r"^([0-9.]+) .*systemd\[1\]: Stopped ", said, re.MULTILINE)[-1])
    counts = re.findall(r"([0-9]+) processes", said)
    print(f"{counts[-1]} processes; gone within {gone - stopping:.1f} s, stopped within {stopped - stopping:.1f} s")
    # It ignores its signal, so it has its whole grace. The rest is an emulated machine, busy with what it started.
    assert int(counts[-1]) > 0.99 * PROCESSES, "the node's kernel counted others' processes"
    assert gone - stopping < GRACE + 10 and stopped - stopping < GRACE + 15, said[-2000:]
    assert fleet.node(NODE, f"ls -d {scratch} /sys/fs/cgroup/swarm.slice/swarm-worst_0.slice 2> /dev/null; true") == ""
    assert fleet.node(NODE, f"pgrep -f {HOME} -u ada; true") == "" and fleet.node(NODE, "pgrep -u ada python3; true") == ""
    assert fleet.node(NODE, f"cat {CAUGHT} 2> /dev/null; true") == "", "root ran something of the user's"
    assert "worst" not in str(fleet.placed()), done.text[-2000:]
    assert fleet.node(NODE, "test -e /etc/passwd && test -d /root/.ssh && echo whole") == "whole", "no link led anywhere"
