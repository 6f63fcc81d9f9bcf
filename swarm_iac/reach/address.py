"""How is a node reached, given its address? `user@host[:port]`, or `local` for this machine."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

#: No character that a shell, ssh or a language of templates takes for its own.
_ADDRESS = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.+-]*)@)?"
    r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:]*)"
    r"(?::(?P<port>[0-9]{1,5}))?"
)

#: A machine that does not answer its port for this long counts as unreachable. [s]
CONNECT = 5
#: The same for a change: it follows an observation, so the machine was there, and may be busy. [s]
PATIENCE = 15


@dataclass(frozen=True)
class Address:
    """Where a node is. `local` means this machine, without ssh."""

    host: str
    user: str = ""
    port: int = 0

    @property
    def local(self) -> bool:
        """Is it this machine?"""
        return self.host == "local" and not self.user

    def ssh(self, ssh_config: Path | None) -> tuple[str, ...]:
        """The OpenSSH command line up to and with the destination."""
        words = ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT}", "-T"]
        if ssh_config:
            words += ["-F", str(ssh_config)]
        if self.port:
            words += ["-p", str(self.port)]
        if self.user:
            words += ["-l", self.user]
        return (*words, "--", self.host)

    def inventory(self, ssh_config: Path | None) -> dict[str, str | int]:
        """The same for Ansible."""
        if self.local:
            return {"ansible_connection": "local"}
        found: dict[str, str | int] = {"ansible_host": self.host}
        if self.user:
            found["ansible_user"] = self.user
        if self.port:
            found["ansible_port"] = self.port
        patient = f"-o ConnectTimeout={PATIENCE}"
        found["ansible_ssh_common_args"] = f"{patient} -F {shlex.quote(str(ssh_config))}" if ssh_config else patient
        return found


def parse(text: str) -> Address:
    """Read an address. Raises ValueError saying what was expected."""
    match = _ADDRESS.fullmatch(text)
    if not match or text.startswith("-") or match["host"].startswith("-"):
        raise ValueError(f"{text!r} is no address; write user@host, user@host:port or local")
    return Address(match["host"].strip("[]"), match["user"] or "", int(match["port"] or 0))
