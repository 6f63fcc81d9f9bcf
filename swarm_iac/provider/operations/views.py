"""Which rows change, and how is each reported to the engine?

A row's `old` comes from the state alone (`old_views`): the engine panics on a row that it does not know. Rows that are not
mentioned stay as they are, so only changed ones are published.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi.runtime.proto import provider_pb2 as pb
from pulumi.runtime.proto import resource_status_pb2 as rs

from swarm_iac.printable import printable
from swarm_iac.provider.plugin.wire import Row, Rows, to_struct

_ORDER = {"Node": 0, "Allocation": 1}
#: A change of these replaces the row: an allocation on another node is a replacement.
_IDENTITY = {"Allocation": ("node",)}


def changed(old: Rows, new: Rows) -> list[Row]:
    """Rows that differ, nodes first, then by name."""
    keys = (key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return sorted(keys, key=lambda key: (_ORDER.get(key[0], 9), key))


def view_steps(old: Rows, new: Rows, *, failures: Mapping[Row, str] | None = None, found: bool = False) -> list[rs.ViewStep]:
    """What to publish so that the rows `old` become `new`.

    `failures`: rows whose change failed, with the reason. `found`: `new` was observed and not made, so nothing was replaced.
    """
    failed = failures or {}
    rows = changed(old, new)
    rows += sorted(row for row in failed if row not in rows and (row in old or row in new))
    return [_step(row, old.get(row), new.get(row), failed.get(row, ""), found) for row in rows]


def _step(row: Row, old: dict[str, Any] | None, new: dict[str, Any] | None, failure: str, found: bool) -> rs.ViewStep:
    kind, name = row
    if failure and new is None:
        new = old  # a failed deletion: the row must stay, or nothing would show that something is left
    step = rs.ViewStep(type=f"swarm:index:{kind}", name=name)
    if old is not None:
        step.old.CopyFrom(_state(row, old))
    if new is not None:
        step.new.CopyFrom(_state(row, new))
    if old is None:
        step.op = rs.ViewStep.CREATE
    elif new is None:
        step.op = rs.ViewStep.DELETE
    else:
        _describe(step, kind, old, new, found)
    if failure:
        step.status = rs.ViewStep.PARTIAL_FAILURE
        step.error = printable(failure)
    return step


def _describe(step: rs.ViewStep, kind: str, old: dict[str, Any], new: dict[str, Any], found: bool) -> None:
    """An update, or a replacement, with the path of every value that differs."""
    step.op = rs.ViewStep.UPDATE
    step.has_detailed_diff = True
    identity = () if found else _IDENTITY.get(kind, ())
    step.diffs.extend(sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key)))
    for path, change in paths(old, new).items():
        replaces = path in identity
        if replaces:
            step.op = rs.ViewStep.REPLACE
            step.keys.append(path)
        step.detailed_diff[path].kind = pb.PropertyDiff.Kind.Value(f"{change}_REPLACE" if replaces else change)
        step.detailed_diff[path].inputDiff = True


def paths(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Path of each value that differs → ADD, DELETE or UPDATE. Lists are compared whole."""
    out: dict[str, str] = {}
    for key in sorted(old.keys() | new.keys()):
        path = _join(prefix, key)
        if key not in old:
            out[path] = "ADD"
        elif key not in new:
            out[path] = "DELETE"
        elif isinstance(old[key], Mapping) and isinstance(new[key], Mapping):
            out |= paths(old[key], new[key], path)
        elif old[key] != new[key]:
            out[path] = "UPDATE"
    return out


def _join(prefix: str, key: str) -> str:
    if key.replace("_", "a").isalnum() and not key[0].isdigit():
        return f"{prefix}.{key}" if prefix else key
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'{prefix}["{quoted}"]'


def _state(row: Row, properties: Mapping[str, Any]) -> rs.ViewStepState:
    struct = to_struct(properties)
    return rs.ViewStepState(type=f"swarm:index:{row[0]}", name=row[1], inputs=struct, outputs=struct)
