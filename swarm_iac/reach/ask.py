"""How is the node program asked something? The words for OpenSSH, or for a shell of this machine.

Where we are not root, the program runs by `sudo`, with the words of docs/operations.md and no others: a rule can be as
narrow as that.
"""

from __future__ import annotations

from pathlib import Path

from swarm_iac.reach.address import parse
from swarm_iac.reach.node_program import agent_digest

HOME = "/usr/local/lib/swarm"
#: What the node's shell answers when the program is not there. No command of ours ends with it.
ABSENT = 113
_ROOT = 's=; [ "$(id -u)" = 0 ] || s="sudo -n --"'


def installed(address: str, ssh_config: Path | None, question: str, program: str = "") -> tuple[str, ...]:
    """Ask the program that lies on the node: this installation's, or `program`. ABSENT: it does not."""
    home = f"{HOME}/{program or agent_digest()}"
    line = f"[ -d {home} ] || exit {ABSENT}; {_ROOT}; exec $s /usr/bin/python3 -I -S {home} {question}"
    return (*_way(address, ssh_config), line)


def sent(address: str, ssh_config: Path | None, question: str, size: int) -> tuple[str, ...]:
    """Ask a program that comes first on the input, with so many bytes; what follows there is for the program.

    An account with a narrow sudo rule may not run a program of its own: then the message says what to do.
    """
    line = (
        f't=$(mktemp) && head -c {size} > "$t" && {{ {_ROOT}; $s /usr/bin/python3 -I -S "$t" {question}; code=$?; rm -f "$t"; '
        f'if [ -n "$s" ] && [ $code = 1 ]; then echo "the node program {agent_digest()} is not installed here, and this '
        'account may not bring it: see `swarm program`" >&2; fi; exit $code; }'
    )
    return (*_way(address, ssh_config), line)


def _way(address: str, ssh_config: Path | None) -> tuple[str, ...]:
    """Raises ValueError for a bad address."""
    where = parse(address)
    return ("sh", "-c") if where.local else where.ssh(ssh_config)
