"""How full are scratch and caches? XFS answers for a directory with a quota as for a disk of that size, without any right.

So no right is needed that would let the sampler read what is in them.
"""

from __future__ import annotations

import os
from typing import Dict, List, Set

from ..concerns.directories import directory
from ..machine.run import Context
from .families import Sample
from .labels import Labels


def collect(context: Context, labels: Labels) -> List[Sample]:
    """Samples of each directory whose quota is in force. A directory on which its user mounted something is not asked:
    that file system would answer what it likes, or never.
    """
    over, found = _mounts(context), []
    for name, holder in sorted(labels.holders.items()):
        for kind, quota in sorted(holder.quotas.items()):
            path = directory(kind, name)
            if path not in over:
                found += _one(context, path, quota, {**holder.labels, "directory": kind})
    return found


def _one(context: Context, path: str, quota: int, who: Dict[str, str]) -> List[Sample]:
    try:
        seen = os.statvfs(context.path(path))
    except OSError:
        return []
    size, free = seen.f_blocks * seen.f_frsize, seen.f_bfree * seen.f_frsize
    if abs(size - quota) >= max(seen.f_frsize, 4096):
        return []  # the quota is not in force: this is the whole disk
    return [
        ("swarm_allocation_directory_used_bytes", who, size - free),
        ("swarm_allocation_directory_quota_bytes", who, size),
    ]


def _mounts(context: Context) -> Set[str]:
    lines = (context.read("/proc/self/mountinfo") or "").splitlines()
    return {line.split(" ")[4].replace("\\040", " ") for line in lines if line.count(" ") > 4}
