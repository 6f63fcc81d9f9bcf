"""How does a command get its user's variables, so that no other process of its unit does?

A unit's `Environment=` is for all its commands, also for those that systemd runs as root around the user's: with PATH or
LD_PRELOAD set there the user would be root. So variables go into a credential of the unit, and the command is started
by a program of a few lines, which runs as the user already, reads them there, and becomes the command. They stand on no
command line. A value that is a secret is read from its own credential.
"""

from __future__ import annotations

from typing import Any, Dict, List

from ..machine import systemd
from ..machine.run import NodeError
from . import secrets

#: Name of the credential. A secret's begins with a letter or a digit.
_NAME = "_env"
#: What the kernel was given, not what Python made of it: Python sets LC_CTYPE, and ignores SIGXFSZ, which would be inherited.
_SCRIPT = """\
import os, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
def read(path):
    with open(path, "rb") as file:
        return file.read()
home = os.environb[b"CREDENTIALS_DIRECTORY"] + b"/"
env = dict(one.split(b"=", 1) for one in read("/proc/self/environ").split(b"\\0") if b"=" in one)
for one in read(home + b"_env").split(b"\\0"):
    name, _, value = one[1:].partition(b"=")
    env[name] = value if one[:1] == b"=" else read(home + value).replace(b"\\0", b"").rstrip(b"\\n")
os.execve(sys.argv[1], sys.argv[1:], env)
"""
#: Comes before the command. Isolated: nothing of the user's is imported or read.
PREFIX = ["/usr/bin/python3", "-I", "-S", "-X", "utf8", "-c", _SCRIPT]


def properties(want: Dict[str, Any]) -> List[str]:
    """Lines of a service's unit file that hold the variables. NodeError for names that are none."""
    hidden, env = secrets.named(want), want.get("env") or {}
    if any("\0" in value for value in env.values()):
        raise NodeError("a NUL character cannot stand in a variable")
    lines = [systemd.setting("LoadCredential", f"{one}:{secrets.FOLDER}/{one}") for one in sorted(set(hidden.values()))]
    each = [f"${name}={hidden[name]}" if name in hidden else f"={name}={value}" for name, value in sorted(env.items())]
    return [*lines, f"SetCredential={_NAME}:{systemd.escaped(chr(0).join(each))}"] if each else []


def read(credentials: Any) -> Dict[str, str]:
    """The variables again, from the property SetCredential as D-Bus has it: [[name, bytes], …]."""
    found = {}
    for name, octets in credentials or ():
        for one in bytes(octets).decode("utf-8", "replace").split("\0") if name == _NAME else ():
            key, _, value = one[1:].partition("=")
            found[key] = f"secret:{value}" if one[:1] == "$" else value
    return found
