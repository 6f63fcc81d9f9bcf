"""What do the files of a stack say at this moment: the stack file, its lock, what is live beside it, the reasons in its proof?

The lock is shown as soon as it is read; whether it is still valid takes as long again, and is said when that is known.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Grant
from swarm_iac.live.overlay import overlay
from swarm_iac.model.placement import Allocation, Placement, Waiting
from swarm_iac.model.service.variants import applied
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import Loaded, load
from swarm_iac.stackfile.locks import finished, lock
from swarm_iac.stackfile.locks import proof as proofs
from swarm_iac.stackfile.locks.companions import Files, existing, read_lock, read_proof, relative

#: Of each file: is it the one that was read? Device, inode, size and time of change [ns].
Print = tuple[tuple[int, int, int, int] | None, ...]


@dataclass(frozen=True)
class Standing:
    """A stack and the placement of its lock, with the `live` replicas beside it. `stale`: why that lock does not hold, None
    while nobody knows.

    `error`: what is wrong with the files at present; the rest is then as it was before.
    """

    name: str
    loaded: Loaded
    placement: Placement
    stale: tuple[str, ...] | None = None
    error: str = ""
    live: Mapping[str, Grant] = field(default_factory=dict)

    @cached_property
    def stack(self) -> Stack:
        """What the stack file says, each workload in its variant."""
        return applied(self.loaded.stack, self.placement)

    def on(self, node: str) -> tuple[Allocation, ...]:
        """What the lock has there."""
        return self.placement.on(node)

    def of(self, workload: str) -> tuple[Allocation, ...]:
        """The allocations of a workload."""
        return tuple(one for one in self.placement.allocations if one.workload == workload)

    def waits(self, workload: str) -> Waiting | None:
        """Why it is pending, cannot grow, or runs in a lighter variant, if so."""
        return next((one for one in self.placement.refused() if one.workload == workload), None)

    def judged(self, answer: dict[str, Any]) -> Standing:
        """The same, with what judging.py printed about it."""
        placement = self.placement
        if answer["waiting"] is not None:
            waiting = Placement.model_validate(answer["waiting"])
            placement = placement.model_copy(
                update={"unplaced": waiting.unplaced, "growing": waiting.growing, "lighter": waiting.lighter}
            )
        return replace(self, placement=placement, stale=tuple(answer["stale"]))


@dataclass
class Reader:
    """Reads the files of one stack again where they changed. Not for two threads at a time."""

    root: Path
    name: str
    _stack: tuple[Print, datetime.date, Loaded] | None = None

    @property
    def files(self) -> Files:
        """Where they are."""
        return Files.of(self.root, self.name)

    def print(self) -> Print:
        """Differs once a file was written, replaced or removed."""
        files = self.files
        return (*self._stack_print(), *map(_print, (files.lock, files.proof, *([files.live] if files.live else []))))

    def _stack_print(self) -> Print:
        return tuple(map(_print, (self.files.stack, self.root / "policies" / "limits.yaml")))

    def read(self) -> Standing:
        """The placement of the lock; nobody knows yet whether it holds. Raises SwarmError."""
        files, today, found = existing(self.root, self.name), datetime.date.today(), self._stack_print()
        if self._stack is None or self._stack[:2] != (found, today):
            self._stack = (found, today, load(relative(files.stack), today=today))
        loaded = self._stack[2]
        written = lock.renamed(read_lock(files.lock), loaded.stack)
        proof = read_proof(files.proof)
        placement = proofs.explained(finished.of_now(written, loaded.stack), proof)
        layer = live_file.read(files.live, loaded.stack.fleet, self.name) if files.live else None
        if layer is None or not layer.grants:
            return Standing(self.name, loaded, placement)
        beside = overlay(applied(loaded.stack, placement), placement, layer, now=time.time(), today=today)
        return Standing(self.name, loaded, beside.placement, live=beside.live)


def _print(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
