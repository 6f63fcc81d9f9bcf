"""What does one GPU of each model count where teams share GPUs? Integers, so that what is due is exact."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Annotated

from pydantic import AfterValidator

from swarm_iac.model.device import WHOLE
from swarm_iac.units import GpuCount

#: No model counts more GPUs than this.
MOST = 1000


def _counts(value: GpuCount) -> GpuCount:
    if not 0 < value <= MOST * WHOLE:
        raise ValueError(f"a GPU counts more than 0 and at most {MOST}; write it like 2.5")
    return value


#: `2.5`: one GPU of the model counts as two and a half of a model that is not named.
Worth = Annotated[GpuCount, AfterValidator(_counts)]


@dataclass(frozen=True)
class Weights:
    """What a GPU on each node counts, in integers with no common divisor: `one` of them are a GPU that counts as 1.

    Empty: each counts as 1, and so do they if all models are worth 1.
    """

    nodes: Mapping[str, int]
    one: int = 1

    @functools.cached_property
    def top(self) -> int:
        """The highest there is."""
        return max(self.nodes.values(), default=self.one)

    @property
    def step(self) -> int:
        """What every sum of them is a multiple of."""
        return gcd(*self.nodes.values()) if self.nodes else 1

    def of(self, node: str) -> int:
        """Of a GPU on a node; on one that is not known, the highest."""
        return self.nodes.get(node, self.top) if self.nodes else 1

    def lowest(self, nodes: Iterable[str]) -> int:
        """The least that a GPU counts on any of the nodes; on none of them, on any."""
        return min(map(self.of, nodes), default=min(self.nodes.values(), default=1))


def weights(worth: Mapping[str, GpuCount], models: Mapping[str, str | None]) -> Weights:
    """w_m = worth_m / g,  one = 1 / g,  g = gcd(1, worth_m for all m).  `models`: of the nodes that have GPUs.

    A model that `worth` does not name is worth 1.
    """
    milli = {node: int(worth.get(model or "", GpuCount(WHOLE))) for node, model in models.items()}
    if all(value == WHOLE for value in milli.values()):
        return Weights({})
    common = gcd(WHOLE, *milli.values())
    return Weights({node: value // common for node, value in milli.items()}, WHOLE // common)
