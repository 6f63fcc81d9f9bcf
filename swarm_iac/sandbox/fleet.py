"""How is the whole virtual fleet brought up, looked at, disturbed and taken down?"""

from __future__ import annotations

import contextlib
import fcntl
import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.pluralize import pluralize
from swarm_iac.sandbox import accelerator, access, faults, process, switch
from swarm_iac.sandbox import image as images
from swarm_iac.sandbox.image import Image
from swarm_iac.sandbox.machine import Host, VirtualMachine
from swarm_iac.sandbox.places import Places
from swarm_iac.sandbox.spec import DEFAULT_BASE_PORT, DEFAULT_NODES, NodeSpec, Say, silent
from swarm_iac.sandbox.tool import SandboxError

DEFAULT_ROOT = Path(".sandbox")
_BOOT_SECONDS = 300
_SHUTDOWN_SECONDS = 40


@dataclass(frozen=True)
class NodeStatus:
    """One node now: whether its machine runs and its ssh answers."""

    name: str
    running: bool
    reachable: bool
    port: int
    address: str


class Sandbox:
    """Real Debian nodes under QEMU in the folder `root`.

    Node n has ssh on 127.0.0.1, port `base_port` + n. Without a `base_port`, the folder's last one holds, else 2200.
    Every method that changes something holds the folder's lock. Raises SandboxError.
    """

    def __init__(
        self, root: Path = DEFAULT_ROOT, base_port: int | None = None, nodes: tuple[NodeSpec, ...] = DEFAULT_NODES
    ) -> None:
        self.places = Places(root.absolute())
        self.nodes = nodes
        self.base_port = base_port or int(self._remembered().get("base_port", DEFAULT_BASE_PORT))

    @property
    def ssh_config(self) -> Path:
        """An OpenSSH client configuration that knows every node by name."""
        return self.places.ssh_config

    def ssh_command(self, node: str) -> list[str]:
        """The words that run a command on `node`: append the command."""
        return ["ssh", "-F", str(self.ssh_config), self._spec(node).name]

    def up(self, say: Say = silent) -> None:
        """Bring every node up, building the image and the disks where they are missing; wait for ssh."""
        with self._locked():
            access.prepare(self.places, self.nodes, self.base_port)
            host = self._host(say)
            begin = time.monotonic()  # an image may have been built until now, which is no part of any node's boot
            switch.start(self.places)
            for node in self.nodes:
                self._start(node, host)
            self._wait_all(begin, say)
            say(f"{pluralize(len(self.nodes), 'node')} up in {time.monotonic() - begin:.0f} s ({host.accelerator})")
            say(f"reach one with: {' '.join(self.ssh_command(self.nodes[0].name))}")

    def down(self, say: Say = silent) -> None:
        """Shut every node down in order, and end the switch: nothing of the sandbox runs any more."""
        with self._locked():
            self._down(say)

    def reset(self, say: Say = silent) -> None:
        """Power everything off and forget the disks; keys stay. The next `up` starts from the image."""
        with self._locked():
            for node in self.nodes:
                self._drop_connection(node)
                self._machine(node).cut()
                self._machine(node).drop_disks()
            switch.stop(self.places)
            self._remember(image=None)
            say("disks dropped")

    def status(self) -> tuple[NodeStatus, ...]:
        """Every node as it is now."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            return tuple(pool.map(self._status, self.nodes))

    def power_off(self, node: str) -> None:
        """Cut the node's power."""
        spec = self._spec(node)
        with self._locked():
            self._machine(spec).cut()
            self._drop_connection(spec)

    def power_on(self, node: str, say: Say = silent) -> None:
        """Give the node power, and wait for ssh."""
        spec = self._spec(node)
        with self._locked():
            switch.start(self.places)
            self._start(spec, self._host(say))
            self._wait(spec, time.monotonic(), say)

    def reboot(self, node: str, say: Say = silent) -> None:
        """Have the node restart itself in order, and wait until ssh answers from the new boot."""
        spec, begin = self._spec(node), time.monotonic()
        with self._locked():
            before = self._boot_id(node)
            failure = self.begin_reboot(node)
            self._drop_connection(spec)
            while time.monotonic() < begin + _BOOT_SECONDS:
                with contextlib.suppress(SandboxError):
                    if self._boot_id(node) != before:
                        say(f"{node}: ssh answers {time.monotonic() - begin:.0f} s after the reboot began")
                        return
                self._drop_connection(spec)
                time.sleep(0.5)
        raise SandboxError(f"{node} did not come back from its reboot", failure or self._machine(spec).last_words())

    def begin_reboot(self, node: str) -> str:
        """Have the node restart itself in order, without waiting for it; what ssh complained of, if it did.

        Only the next boot shows that it restarts: its sshd may end before it says that the command has succeeded.
        """
        try:
            self.run(node, "systemctl --no-block reboot")
        except SandboxError as error:
            return str(error)
        return ""

    def fault(self, node: str, name: str, *args: str, say: Say = silent) -> None:
        """Disturb a node, or end a disturbance; the names are in `faults`."""
        faults.cause(self, node, name, args, say)

    def link(self, node: str, up: bool) -> None:
        """Cut the node off from every network, or join it again; it runs on meanwhile."""
        spec = self._spec(node)
        self._machine(spec).link(up)
        self._drop_connection(spec)

    def run(self, node: str, command: str, seconds: float = 60) -> str:
        """Run a shell command on the node as root; its output."""
        words = [*self.ssh_command(node), command]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise SandboxError(f"{node}: no answer within {seconds:.0f} s") from None
        if done.returncode:
            raise SandboxError(f"{node}: {command}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def _boot_id(self, node: str) -> str:
        return self.run(node, "cat /proc/sys/kernel/random/boot_id", seconds=20)

    def _spec(self, name: str) -> NodeSpec:
        for node in self.nodes:
            if node.name == name:
                return node
        raise SandboxError(f"there is no node {name}", f"nodes: {', '.join(n.name for n in self.nodes)}")

    def _port(self, node: NodeSpec) -> int:
        return self.base_port + node.number

    def _machine(self, node: NodeSpec) -> VirtualMachine:
        return VirtualMachine(self.places, node, self._port(node))

    def _start(self, node: NodeSpec, host: Host) -> None:
        machine = self._machine(node)
        if not machine.running():
            machine.make_disks(host.image, access.seed(self.places, node, self.nodes))
            machine.start(host)

    def _host(self, say: Say) -> Host:
        image = self._image(say)
        choice = accelerator.chosen(image, self.places.accelerator)
        return Host(image, choice, accelerator.tsc_khz() if choice == "tcg" else None)

    def _image(self, say: Say) -> Image:
        """The image that the disks grew from; a newer one only once they are dropped."""
        last = self._remembered().get("image")
        if last:
            image = Image(Path(last))
            if not image.complete():
                raise SandboxError(f"the image of these disks is gone: {last}", "`reset` starts from a new one")
            if not last.endswith(images.digest()):
                say("note: the disks grew from an older image; `reset` renews them")
            return image
        image = images.ready(say)
        self._remember(image=str(image.folder))
        return image

    def _wait_all(self, begin: float, say: Say) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            for waiting in [pool.submit(self._wait, node, begin, say) for node in self.nodes]:
                waiting.result()

    def _wait(self, node: NodeSpec, begin: float, say: Say) -> None:
        machine = self._machine(node)
        while not access.answers(machine.port):
            if not machine.running():
                raise SandboxError(f"{node.name} stopped while booting: {machine.last_words()}")
            if time.monotonic() > begin + _BOOT_SECONDS:
                raise SandboxError(f"{node.name}: no ssh within {_BOOT_SECONDS} s: {machine.last_words()}")
            time.sleep(0.2)
        while True:  # a greeting may still be followed by a refusal while the node is busy booting
            try:
                self.run(node.name, "true")
                break
            except SandboxError:
                if time.monotonic() > begin + _BOOT_SECONDS:
                    raise
                time.sleep(1)
        say(f"{node.name}: ssh answers after {time.monotonic() - begin:.0f} s")

    def _down(self, say: Say) -> None:
        machines = [self._machine(node) for node in self.nodes]
        for node in self.nodes:
            self._drop_connection(node)
        for machine in machines:
            with contextlib.suppress(SandboxError):
                if machine.running():
                    machine.press_power_button()
        end = time.monotonic() + _SHUTDOWN_SECONDS
        for machine in machines:
            pid = self.places.pid(machine.node)
            process.wait_gone(pid, self.places.root, self.places.sockets, seconds=max(0, end - time.monotonic()))
            machine.cut()
        switch.stop(self.places)
        say("nothing of the sandbox runs any more")

    def _drop_connection(self, node: NodeSpec) -> None:
        """End the shared ssh connection, which outlives the node it led to."""
        if self.ssh_config.exists():
            words = ["ssh", "-F", str(self.ssh_config), "-O", "exit", node.name]
            subprocess.run(words, capture_output=True, timeout=10, check=False)
        (self.places.sockets / f"c-{self._port(node)}").unlink(missing_ok=True)

    def _status(self, node: NodeSpec) -> NodeStatus:
        running = self._machine(node).running()
        port = self._port(node)
        return NodeStatus(node.name, running, running and access.answers(port), port, node.address)

    def _remembered(self) -> dict[str, str]:
        path = self.places.settings
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def _remember(self, image: str | None) -> None:
        kept = {"base_port": str(self.base_port), **({"image": image} if image else {})}
        self.places.settings.write_text(json.dumps(kept) + "\n")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.places.make()
        with self.places.lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
