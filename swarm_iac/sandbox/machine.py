"""How is one node's virtual machine made, started and stopped?"""

from __future__ import annotations

from dataclasses import dataclass

from swarm_iac.sandbox import access, monitor, process, tool
from swarm_iac.sandbox.image import Image
from swarm_iac.sandbox.places import Places
from swarm_iac.sandbox.spec import NodeSpec
from swarm_iac.sandbox.tool import SandboxError

_DATA_DISK = "4G"
_KERNEL = (
    "root=/dev/vda rootfstype=ext4 rw console=ttyS0 quiet loglevel=4 panic=-1 net.ifnames=0 biosdevname=0 "
    "systemd.show_status=false mitigations=off audit=0 random.trust_cpu=on tsc=reliable no_timer_check nowatchdog"
)
# One thread for all processors of a node: with several, a processor may run on in code that another has just patched
# (the kernel does so whenever it flips a static key), and trap in it for ever. Three nodes fill the host anyhow.
_TCG = ("-accel", "tcg,thread=single,tb-size=256", "-cpu", "Nehalem")
_KVM = ("-accel", "kvm", "-cpu", "host")


@dataclass(frozen=True)
class Host:
    """What all machines of a sandbox share: the image, the way of running, the counter's rate [kHz]."""

    image: Image
    accelerator: str
    tsc_khz: int | None


@dataclass(frozen=True)
class VirtualMachine:
    """One node as a QEMU process; `port` is its ssh on this host."""

    places: Places
    node: NodeSpec
    port: int

    def running(self) -> bool:
        return process.running(self.places.pid(self.node), self.places.root, self.places.sockets) is not None

    def make_disks(self, image: Image, seed: bytes) -> None:
        """Make the disks that are missing: root grows from the image, data is blank, seed is the node's own."""
        folder = self.places.node(self.node)
        folder.mkdir(exist_ok=True, mode=0o700)
        root, data = folder / "root.qcow2", folder / "data.qcow2"
        if not root.exists():
            tool.run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image.disk, root)
        if not data.exists():
            tool.run("qemu-img", "create", "-q", "-f", "qcow2", data, _DATA_DISK)
        (folder / "seed.tar").write_bytes(seed)

    def drop_disks(self) -> None:
        for name in ("root.qcow2", "data.qcow2", "seed.tar"):
            (self.places.node(self.node) / name).unlink(missing_ok=True)

    def start(self, host: Host) -> None:
        """Power on; returns when the machine runs, long before its ssh answers."""
        if self.running():
            return
        if access.taken(self.port):
            raise SandboxError(f"{self.node.name}: port {self.port} of this host is taken", "choose another --base-port")
        self.places.monitor(self.node).unlink(missing_ok=True)
        self.places.pid(self.node).unlink(missing_ok=True)
        tool.run("qemu-system-x86_64", *self._hardware(host), *self._disks(), *self._network(), *self._boot(host))
        process.record(self.places.pid(self.node))

    def cut(self) -> None:
        """Cut the power: nothing is flushed or notified."""
        process.end(self.places.pid(self.node), self.places.root, self.places.sockets)
        self.places.monitor(self.node).unlink(missing_ok=True)

    def press_power_button(self) -> None:
        """Ask the node to shut down in order."""
        monitor.tell(self.places.monitor(self.node), "system_powerdown")

    def link(self, up: bool) -> None:
        """Plug both network cables in or out."""
        for card in ("eth0", "eth1"):
            monitor.tell(self.places.monitor(self.node), "set_link", name=card, up=up)

    def last_words(self) -> str:
        """The end of the serial console."""
        log = self.places.node(self.node) / "serial.log"
        return log.read_text(errors="replace").strip()[-400:] if log.exists() else ""

    def _hardware(self, host: Host) -> list[str]:
        half, cpus = self.node.memory // 2, self.node.vcpus
        args = ["-name", self.node.name, "-M", "q35,vmport=off,smbus=off", *(_KVM if host.accelerator == "kvm" else _TCG)]
        args += ["-m", f"{2 * half}M", "-smp", f"{cpus},sockets=2,cores={cpus // 2},threads=1"]
        for numa in (0, 1):
            args += ["-object", f"memory-backend-ram,id=m{numa},size={half}M"]
            args += ["-numa", f"node,nodeid={numa},memdev=m{numa},cpus={numa * cpus // 2}-{(numa + 1) * cpus // 2 - 1}"]
        return [*args, "-nodefaults", "-no-user-config", "-display", "none", "-device", "virtio-rng-pci"]

    def _disks(self) -> list[str]:
        folder = self.places.node(self.node)
        args = []
        for disk in ("root", "data"):
            options = "format=qcow2,cache=writeback,discard=unmap,aio=threads"
            args += ["-drive", f"if=none,id={disk},file={folder / disk}.qcow2,{options}"]
            args += ["-device", f"virtio-blk-pci,drive={disk},serial={disk}"]
        args += ["-drive", f"if=none,id=seed,file={folder}/seed.tar,format=raw,readonly=on"]
        return [*args, "-device", "virtio-blk-pci,drive=seed,serial=seed"]

    def _network(self) -> list[str]:
        # `restrict` keeps the node from reaching this host and beyond; the forwarded port is let through.
        outside = f"user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        args = ["-netdev", outside, "-netdev", f"vde,id=n1,sock={self.places.switch}"]
        for card in (0, 1):
            mac = f"52:54:00:00:{card + 1:02x}:{self.node.number:02x}"
            args += ["-device", f"virtio-net-pci,id=eth{card},netdev=n{card},mac={mac}"]
        return args

    def _boot(self, host: Host) -> list[str]:
        folder = self.places.node(self.node)
        line = _KERNEL + (f" tsc_early_khz={host.tsc_khz}" if host.tsc_khz and host.accelerator == "tcg" else "")
        args = ["-kernel", str(host.image.kernel), "-initrd", str(host.image.initrd), "-append", line]
        args += ["-serial", f"file:{folder}/serial.log", "-qmp", f"unix:{self.places.monitor(self.node)},server=on,wait=off"]
        return [*args, "-daemonize", "-pidfile", str(self.places.pid(self.node))]
