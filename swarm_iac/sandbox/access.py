"""How does one reach a node by ssh, and be sure that it is that node?

Keys are made per sandbox and handed to a node on its seed disk; the image holds none.
"""

from __future__ import annotations

import io
import os
import re
import socket
import stat
import tarfile
from pathlib import Path

from swarm_iac.sandbox import tool
from swarm_iac.sandbox.places import Places
from swarm_iac.sandbox.spec import NodeSpec

_HOST = """Host {name}
  HostName 127.0.0.1
  Port {port}
"""
#: A host of it: name and port.
_WRITTEN = re.compile(r"^Host ([a-z0-9-]{1,40})\n  HostName 127\.0\.0\.1\n  Port ([0-9]{1,5})$", re.MULTILINE)
_EVERY = """Host *
  User root
  IdentityFile "{key}"
  IdentitiesOnly yes
  UserKnownHostsFile "{known_hosts}"
  StrictHostKeyChecking yes
  BatchMode yes
  ControlMaster auto
  ControlPersist 15m
  ControlPath "{sockets}/c-%p-%r"
  ConnectTimeout 5
  ServerAliveInterval 5
  ServerAliveCountMax 4
  KexAlgorithms curve25519-sha256
  Ciphers aes128-gcm@openssh.com,chacha20-poly1305@openssh.com
  GSSAPIAuthentication no
  LogLevel ERROR
"""


def _key(path: Path) -> None:
    if not path.exists():
        tool.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "swarm-sandbox", "-f", path)


def _public(path: Path) -> str:
    return path.with_name(path.name + ".pub").read_text()


def prepare(places: Places, nodes: tuple[NodeSpec, ...], base_port: int) -> None:
    """Make the keys that are missing; write `known_hosts` and `ssh_config`."""
    _key(places.key)
    known = []
    for node in nodes:
        _key(places.host_key(node))
        kind, blob = _public(places.host_key(node)).split()[:2]
        known.append(f"[127.0.0.1]:{base_port + node.number} {kind} {blob}\n")
    places.known_hosts.write_text("".join(known))
    hosts = "".join(_HOST.format(name=n.name, port=base_port + n.number) for n in nodes)
    every = _EVERY.format(key=places.key, known_hosts=places.known_hosts, sockets=places.sockets)
    places.ssh_config.write_text(hosts + every)


def own(places: Places) -> bool:
    """Is `ssh_config` as `prepare` writes it in this very folder, and this account's? A checkout may bring any other."""
    path = places.ssh_config
    try:
        found = path.lstat()
        text = path.read_text()
    except (OSError, ValueError):
        return False
    hosts = "".join(_HOST.format(name=name, port=port) for name, port in _WRITTEN.findall(text))
    sockets = {places.sockets, Path("/tmp") / places.sockets.name}  # where the folder's name is long: TMPDIR may be another now
    every = {_EVERY.format(key=places.key, known_hosts=places.known_hosts, sockets=each) for each in sockets}
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and text.removeprefix(hosts) in every


def seed(places: Places, node: NodeSpec, nodes: tuple[NodeSpec, ...]) -> bytes:
    """A tar of what makes the image this node: its name, number, keys and cards."""
    hosts = "127.0.0.1 localhost\n" + "".join(f"{n.address} {n.name}\n" for n in nodes)
    files = (
        ("etc/hostname", node.name + "\n", 0o644),
        ("etc/hosts", hosts, 0o644),
        ("etc/sandbox/number", f"{node.number}\n", 0o644),
        ("etc/swarm-nvml/gpus", node.inventory(), 0o644),
        ("etc/ssh/ssh_host_ed25519_key", places.host_key(node).read_text(), 0o600),
        ("etc/ssh/ssh_host_ed25519_key.pub", _public(places.host_key(node)), 0o644),
        ("root/.ssh/authorized_keys", _public(places.key), 0o600),
    )
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        home = tarfile.TarInfo("root/.ssh")
        home.type, home.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(home)
        for name, text, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), mode
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def answers(port: int, seconds: float = 3) -> bool:
    """Whether an ssh server greets on this host's `port` (the forwarder alone accepts long before the node does)."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            link.settimeout(seconds)
            return link.recv(4) == b"SSH-"
    except OSError:
        return False


def taken(port: int) -> bool:
    """Whether some program already listens on this host's `port`."""
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            link.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
