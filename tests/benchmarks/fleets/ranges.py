"""Which requests of a drawn fleet are ranges? Only their upper ends are drawn here: nothing may be placed otherwise for them."""

from __future__ import annotations

import random

from tests.benchmarks.fleets.draw import chance
from tests.benchmarks.fleets.written import Data, Drawn


def least(value: object) -> int:
    """The lower end of an amount as it is written, in its unit."""
    return int(str(value).partition("..")[0].partition(" ")[0])


def with_least(value: object, fresh: int) -> object:
    """The same with another lower end, below the upper one."""
    ends, _, unit = str(value).partition(" ")
    most = ends.partition("..")[2]
    new = f"{fresh}..{max(fresh, int(most))}" if most else fresh
    return f"{new} {unit}" if unit else new


def ceiling(rng: random.Random, one: Data) -> str:
    """Give one request of a workload another upper end, or none, and say so. Pinned cores have none."""
    network: Data = one.get("network", {})
    keys = [*network, *(["memory"] if "memory" in one["each"] else []), *(["vcpus"] if not one["each"].get("pinned") else [])]
    if not keys:
        return ""
    key = rng.choice(keys)
    part = network if key in network else one["each"]
    low, unit = least(part[key]), str(part[key]).partition(" ")[2]
    text = rng.choice([f"{low}", f"{low}..{low + 1}", f"{low}..{4 * low}", f"{low}..{100 * low}"])
    part[key] = f"{text} {unit}" if unit else int(text) if text.isdigit() else text
    return f"{key} {part[key]}"


def some(seed: int, drawn: Drawn) -> None:
    """Ranges in some fleets, with a generator of their own, so that all else is drawn as it was."""
    rng = random.Random(f"ranges {seed}")
    if chance(rng, 0.4):
        for one in drawn.data["workloads"].values():
            if chance(rng, 0.5):
                ceiling(rng, one)
        for tuning in drawn.data["tuning"].values():
            if "gpu_power" in tuning and chance(rng, 0.3):
                low = least(tuning["gpu_power"])
                tuning["gpu_power"] = f"{low}..{low + rng.choice([1, 50, 300])} W"
