"""Where do two states of one node differ?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from swarm_iac.model.state import AllocationState, NodeState, Observed
from swarm_iac.model.step import Change

#: What a unit may differ in without being stopped for it.
LIVE_UNIT = frozenset({"active", "stop_signal", "grace_s", "healthy", "restart"})


def diff(old: BaseModel | None, new: BaseModel | None, at: str = "") -> tuple[Change, ...]:
    """Every value that differs, in order of path, e.g. `allocations["chat-0"].slice.memory_max`.

    `old` must hold only what is managed (a ledger's view): what `new` does not name is then to be given back, and shows
    as a change to None. An allocation that comes or goes is one change with its whole state as JSON.
    """
    before, after = dict(_leaves(old, at)), dict(_leaves(new, at))
    whole = _come_and_go(old, new)
    found = [
        Change(path=path, old=before.get(path), new=after.get(path))
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path) and not path.startswith(tuple(f"{change.path}." for change in whole))
    ]
    return tuple(sorted([*found, *whole], key=lambda change: change.path))


def _come_and_go(old: BaseModel | None, new: BaseModel | None) -> list[Change]:
    if not isinstance(old, NodeState) or not isinstance(new, NodeState):
        return []
    return [
        Change(path=f"allocations[{json.dumps(name)}]", old=_json(old, name), new=_json(new, name))
        for name in sorted(old.allocations.keys() ^ new.allocations.keys())
    ]


def _json(state: NodeState, name: str) -> Any:
    found = state.allocations.get(name)
    return None if found is None else found.model_dump(mode="json", exclude_none=True)


def _leaves(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _leaves(getattr(value, name), f"{at}.{name}" if at else name)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, f"{at}[{key if isinstance(key, int) else json.dumps(key)}]")
    elif value is not None:
        yield at, list(value) if isinstance(value, tuple) else value


def settled(observed: Observed) -> NodeState:
    """What was found, with jobs that ended well counted as running, because their end is no difference to mend."""
    done = [name for name, health in observed.health.items() if health == "done" and name in observed.state.allocations]
    if not done:
        return observed.state
    allocations = dict(observed.state.allocations)
    for name in done:
        state = allocations[name]
        allocations[name] = state.model_copy(update={"unit": state.unit.model_copy(update={"active": True})})
    return observed.state.model_copy(update={"allocations": allocations})


def restart_for(old: AllocationState, new: AllocationState) -> tuple[str, ...]:
    """Which differences need a stop and a start; empty when all of them are live."""
    found = [name for name in ("workload", "gpus") if getattr(old, name) != getattr(new, name)]
    if old.slice.mems != new.slice.mems:
        found.append("NUMA home")
    fields = sorted(type(old.unit).model_fields.keys() - LIVE_UNIT)
    found += [name for name in fields if getattr(old.unit, name) != getattr(new.unit, name)]
    return tuple(found)
