"""Is a part of the ledger what it is meant to be? Words for the first value that is not.

Only root writes a ledger, and a disk, a restore from elsewhere or a hand may have: nobody acts on half of one.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Union

from . import device

#: A type, or of a mapping the types of those of its values that matter.
Shape = Union[type, Mapping[str, type]]


def wrong(data: Mapping[str, Any], shapes: Mapping[str, Shape], at: str = "") -> str:
    """Where a value is of another type than its shape says; empty where none is. One that is missing, or None, is right."""
    for key, shape in shapes.items():
        value, kind = data.get(key), dict if isinstance(shape, Mapping) else shape
        if value is not None and (not isinstance(value, kind) or (kind is int and not natural(value))):
            return f"{at}{key} is no {kind.__name__}"
        if isinstance(value, dict) and isinstance(shape, Mapping):
            inner = wrong(value, shape, f"{at}{key}.")
            if inner:
                return inner
    return ""


def natural(value: Any) -> bool:
    """Is it a number of something: whole, not negative, and no larger than the kernel's own?"""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


# What no type says of a part, each for the table of concerns; `at` is where the part stands.


def gpu_indices(recorded: Dict[str, Any], at: str) -> str:
    """The node's GPUs: {index: settings}."""
    for index, one in (recorded.get("gpus") or {}).items():
        if not (index.isascii() and index.isdigit() and len(index) < 5 and isinstance(one, dict)):
            return f"{at}gpus[{index[:60]!r}] is none"
    return ""


def instances(recorded: Dict[str, Any], at: str) -> str:
    """The MIG instances that are recorded: {as it is written: what is known of it}."""
    for plain, one in (recorded.get("mig") or {}).items():
        try:
            own = device.gpu(plain)
            right = bool(own.profile) and own.plain == plain and isinstance(one, dict)
        except ValueError:
            right = False
        if (
            not right
            or wrong(one, {"ours": bool, "uuid": str, "files": list})
            or not all(map(_capability, one.get("files") or ()))
        ):
            return f"{at}mig[{plain[:60]!r}] is no MIG instance"
    return ""


def _capability(path: Any) -> bool:
    """Jobs may open it, and its owner is set: it is nothing but the file of a MIG capability."""
    return isinstance(path, str) and re.fullmatch(r"/dev/nvidia-caps/nvidia-cap[0-9]{1,7}", path) is not None


def gpu_list(recorded: Dict[str, Any], at: str) -> str:
    """The GPUs of an allocation."""
    try:
        device.gpus(recorded.get("gpus") or ())
    except ValueError:
        return f"{at}gpus is no list of GPUs"
    return ""


def unit(recorded: Dict[str, Any], at: str) -> str:
    """What runs in an allocation: a unit has a user, and its variables are texts."""
    found = recorded.get("unit") or {}
    env = found.get("env") or {}
    if found and not isinstance(found.get("user"), str):
        return f"{at}unit has no user"
    groups = found.get("links") or ()
    if not all(isinstance(group, list) and all(map(natural, group)) for group in groups):
        return f"{at}unit.links is no list of groups"
    texts = isinstance(env, dict) and all(isinstance(value, str) for value in env.values())
    return "" if texts else f"{at}unit.env is no mapping of texts"


def telemetry(recorded: Dict[str, Any], at: str) -> str:
    """Who may read what is measured, and whose team each user is in: texts."""
    found = recorded.get("telemetry") or {}
    named = [*(found.get("scrapers") or ()), *(found.get("teams") or {}).values()]
    return "" if all(isinstance(one, str) for one in named) else f"{at}telemetry holds what is no text"
