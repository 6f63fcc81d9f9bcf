"""What may a command not do, since no GPU job needs it? What that closes in the kernel, nobody attacks from a job.

Nothing that CUDA, NCCL, MPI, a debugger or a profiler uses is on the list: memory that is written and run (JIT), /dev/nvidia*,
shared memory, ptrace, perf, NUMA placement and all of /proc/driver stay. docs/security-node.md says why for each.
"""

from __future__ import annotations

from typing import Any, Dict, List

#: Not for commands that run as root around the user's: those come with '+', which leaves all of this out.
_LINES = [
    "CapabilityBoundingSet=",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "ProtectSystem=full",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "SystemCallArchitectures=native",
    # What is named is refused, and all else allowed: a list of what is allowed would refuse what a newer libc tries first.
    "SystemCallFilter=~@clock @cpu-emulation @module @mount @obsolete @raw-io @reboot @swap",
    "SystemCallErrorNumber=EPERM",
]


def properties(want: Dict[str, Any]) -> List[str]:
    """Lines of a service's unit file; none for a workload that says `confined: false`."""
    return [] if want.get("unconfined") else list(_LINES)
