"""What do the tests of faults stand on? A job that gives its GPUs to another one, and what the machines say of everyone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from swarm_iac.sandbox.tool import SandboxError
from tests.e2e.conftest import NODES, Done, Fleet, Running

#: Where the fault happens.
TARGET = "gpu-02"
#: Whose change must be made meanwhile, and who must never notice.
OTHER = "gpu-01"
_RECORD = "/dev/shm/record"  # neither a full disk nor one that is read-only keeps it from being written
#: It ends by SIGKILL alone, so a stop lasts its whole grace, and a fault can hit the middle of a step. [s]
GRACE = 6
STUBBORN = """/bin/sh -c "trap '' TERM; while :; do sleep 1; done" """


def job(at: str, memory: str, **more: Any) -> dict[str, Any]:
    """A workload of one replica on the node labelled `at`."""
    each = {"vcpus": 0.25, "memory": memory, **more}
    run = {"command": STUBBORN.strip() if "gpus" in more else "/bin/sleep infinity"}
    stop = {"grace": f"{GRACE} s"}
    return {"user": "bo", "kind": "batch", "each": each, "place": {"select": {"at": at}}, "run": run, "stop": stop}


@dataclass
class Trouble:
    """The fleet, with `left` or `right` on four GPUs of TARGET (each turn takes them from one for the other) and a
    `witness` on OTHER whose memory changes with each turn, while it runs."""

    fleet: Fleet
    text: dict[str, Any]
    turn: int = 0
    run: dict[int, psutil.Process] = field(default_factory=dict)  # every process of the run, when its fault came

    @property
    def old(self) -> str:
        """Who gives."""
        return ("right", "left")[self.turn % 2]

    @property
    def new(self) -> str:
        """Who takes."""
        return ("left", "right")[self.turn % 2]

    @property
    def memory(self) -> int:
        """What the witness may hold after this turn. [bytes]"""
        return (64 + 8 * (self.turn % 2)) * 10**6

    def request(self) -> None:
        """Write this turn's wish. The power limit differs, so that each turn sets something on the cards too."""
        workloads = {name: one for name, one in self.text["workloads"].items() if name not in ("left", "right", "witness")}
        power = {"left": "600 W", "right": "500 W"}[self.new]
        workloads[self.new] = job("two", "64 MB", gpus="4 x H100", gpu_power=power)
        workloads["witness"] = job("one", f"{self.memory // 10**6} MB")
        self.text["workloads"] = workloads
        self.fleet.stack.write_text(yaml.safe_dump(self.text, sort_keys=False))

    def during(self, cause: Callable[[Running], None]) -> Done:
        """`swarm up`, with `cause` called while the old job is being stopped."""
        running = self.fleet.begin("up", "--yes", "--skip-preview")
        # A session waits on the node: on a busy machine beginning one may take longer than the stop does.
        state = f"$(systemctl show -p ActiveState --value swarm-{self.old}_0.service)"
        wait = f'for _ in $(seq 50); do [ "{state}" != deactivating ] || exit 0; sleep 0.1; done; echo not yet'
        while self.fleet.node(TARGET, wait):
            assert running.process.poll() is None, f"the stop never began\n{running.end().text[-3000:]}"
        self.run = below(running)
        cause(running)
        return running.end()

    def processes(self) -> dict[str, str]:
        """Of every job that has no part in the change: node/unit → its main process, as systemd says."""
        found = {}
        for node in NODES:
            said = self.fleet.node(node, "systemctl show 'swarm-*.service' -p Id,MainPID")
            for block in said.split("\n\n"):
                one = dict(line.split("=", 1) for line in block.splitlines())
                if one and not re.search("left|right|boot", one["Id"]):
                    found[f"{node}/{one['Id']}"] = one["MainPID"]
        return found

    def serves(self, name: str) -> bool:
        """Does this job run on TARGET?"""
        said = self.fleet.node(TARGET, f"systemctl show -p ActiveState,MainPID swarm-{name}_0.service")
        return "ActiveState=active" in said and "MainPID=0" not in said

    def changed_elsewhere(self) -> bool:
        """Has the witness what this turn gives it?"""
        held = int(self.fleet.node(OTHER, "cat /sys/fs/cgroup/swarm.slice/swarm-witness_0.slice/memory.max"))
        return abs(held - self.memory) < 4096

    def watch(self) -> None:
        """Have the recorder run on TARGET, unless it does: a machine that was off forgot it."""
        begin = f"systemd-run -q --collect --unit=recorder python3 /root/recorder.py {_RECORD} 8000"
        self.fleet.node(TARGET, f"systemctl -q is-active recorder || {begin}")

    def put_recorder(self) -> None:
        script = (Path(__file__).parent / "recorder.py").read_text()
        self.fleet.node(TARGET, f"cat > /root/recorder.py <<'END'\n{script}\nEND")

    def moments(self) -> tuple[int, int]:
        """How often the recorder looked, and how often it saw two jobs alive with one GPU."""
        lines = self.fleet.node(TARGET, f"systemctl -q stop recorder; cat {_RECORD}").splitlines()
        two = 0
        for line in lines:
            cards = [gpu for gpus, _ in json.loads(line)["alive"].values() for gpu in gpus.split(",") if gpu != "-1"]
            two += len(cards) > len(set(cards))
        return len(lines), two

    def wait_for_ssh(self, seconds: float = 240) -> None:
        """Until TARGET answers again."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.fleet.node(TARGET, "true", timeout=10)
                return
            except SandboxError:
                assert time.monotonic() < end, f"{TARGET} does not come back"
                time.sleep(1)


def below(running: Running) -> dict[int, psutil.Process]:
    """Every process below the command, by pid."""
    return {one.pid: one for one in psutil.Process(running.process.pid).children(recursive=True)}


def kill(running: Running, *marks: str) -> int:
    """SIGKILL for every process below the command whose name or command line holds one of `marks`; how many."""
    count = 0
    for one in below(running).values():
        try:
            line = " ".join([one.name(), *one.cmdline()])
        except psutil.NoSuchProcess:
            continue
        if any(mark in line for mark in marks):
            one.kill()
            count += 1
    return count


def gone(processes: Iterable[psutil.Process], seconds: float = 30) -> bool:
    """Have all of them ended, within this time? A zombie has."""

    def runs(one: psutil.Process) -> bool:
        try:
            return bool(one.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    return not any(map(runs, psutil.wait_procs(list(processes), seconds)[1]))
