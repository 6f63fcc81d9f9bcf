"""One edit that may place a workload: a guess, until solving confirms it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from swarm_iac.model.edit import Edit

Kind = Literal["limit", "node", "move", "request"]


@dataclass(frozen=True)
class Relaxation:
    """`change` is its size in thousandths of the current value; `whole`: counting says that it suffices."""

    kind: Kind
    edit: Edit
    change: int
    whole: bool
