"""Where do two states of one node differ?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from swarm_iac.model.base import value_at
from swarm_iac.model.device import Device
from swarm_iac.model.resources.table import ENFORCED
from swarm_iac.model.state import TIME_LIMIT, AllocationState, NodeState, Observed
from swarm_iac.model.step import Change
from swarm_iac.plan.state import cpulist

#: What a unit may differ in without being stopped for it.
LIVE_UNIT = frozenset({"active", "stop_signal", "grace_s", "time_limit_s", "healthy", "restart", "gang", "on_boot", "links"})


def diff(old: BaseModel | None, new: BaseModel | None, at: str = "") -> tuple[Change, ...]:
    """Every value that differs, in order of path, e.g. `allocations["chat-0"].slice.memory_max`.

    `old` must hold only what is managed (a ledger's view): what `new` does not name is then to be released, and shows
    as a change to None. "", () and None are one: absent. `at` is the path of the two values themselves.
    """
    if old == new:
        return ()
    before, after = dict(_leaves(old, at)), dict(_leaves(new, at))
    return tuple(
        Change(path=path, old=before.get(path), new=after.get(path))
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    )


def within(name: str) -> str:
    """Path of an allocation's state."""
    return f"allocations[{json.dumps(name)}]"


def _leaves(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _leaves(getattr(value, name), f"{at}.{name}" if at else name)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, f"{at}[{key if isinstance(key, int) else json.dumps(key)}]")
    elif value is not None and value not in ("", ()):
        yield at, [one.plain if isinstance(one, Device) else one for one in value] if isinstance(value, tuple) else value


def ended(observed: Observed, name: str) -> bool:
    """Is it a finished job, whether it failed or not? Its end is no difference: it is not started again.

    Its time limit ends it for good, also where it is started again when it fails.
    """
    state = observed.state.allocations.get(name)
    health = observed.health.get(name)
    if state is None or health != "failed":
        return state is not None and health == "done"
    return not state.unit.restart or timed_out(observed, name)


def timed_out(observed: Observed, name: str) -> bool:
    """Did it end at its time limit?"""
    return observed.health.get(name) == "failed" and observed.ends.get(name) == TIME_LIMIT


def with_ended_as_running(observed: Observed) -> NodeState:
    """What was found, with jobs that have ended counted as running."""
    found = [name for name in observed.state.allocations if ended(observed, name)]
    if not found:
        return observed.state
    allocations = dict(observed.state.allocations)
    for name in found:
        state = allocations[name]
        allocations[name] = state.model_copy(update={"unit": state.unit.model_copy(update={"active": True})})
    return observed.state.model_copy(update={"allocations": allocations})


def restart_for(old: AllocationState, new: AllocationState) -> tuple[str, ...]:
    """Which differences need a stop and a start; empty when all of them are live.

    Memory that may lie on more NUMA nodes stays where it is; on others, the kernel would copy it under the job.
    """
    found = ["workload"] if old.workload != new.workload else []
    fixed = [(row, how) for row, how in ENFORCED if not how.live]
    found += [row.name for row, how in fixed if any(value_at(old, path) != value_at(new, path) for path in how.at)]
    before, after = cpulist.read(old.slice.mems), cpulist.read(new.slice.mems)
    if after and not (before and before <= after):
        found.append("NUMA home")
    fields = sorted(type(old.unit).model_fields.keys() - LIVE_UNIT)
    found += [name for name in fields if getattr(old.unit, name) != getattr(new.unit, name)]
    return tuple(found)
