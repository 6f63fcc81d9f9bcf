"""Which values of a stack file differ between two readings, at which paths?

Both are compared as they are understood: with aliases and ranges of nodes written out, and defaults left out. So it does not
matter how a value came to be there, and neither does the order of keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from swarm_iac.model.edit import current
from swarm_iac.model.service.needs import written
from swarm_iac.model.service.variants import given
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import Loaded
from swarm_iac.stackfile.reading.rights import Rights
from swarm_iac.stackfile.reading.source import join

Path = tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """A value that differs: None where there is none on one side."""

    path: Path
    old: Any
    new: Any

    @property
    def text(self) -> str:
        """The path as in error messages."""
        return join(self.path)


def differences(before: Loaded | None, after: Loaded | None) -> tuple[Difference, ...]:
    """Each value that differs, in the order of the sections. A list is one value, and so is the order of variants."""
    return (*_below((), _plain(before), _plain(after)), *_preferences(before, after))


def _preferences(before: Loaded | None, after: Loaded | None) -> Iterator[Difference]:
    """Variants of which one is preferred to another that was preferred to it."""
    if before is None or after is None:
        return
    was, now = written(before.stack).workloads, written(after.stack).workloads
    for name in sorted(was.keys() & now.keys()):
        old, new = list(was[name].variants), list(now[name].variants)
        if [one for one in old if one in new] != [one for one in new if one in old]:
            yield Difference(("workloads", name, "variants"), old, new)


def _plain(loaded: Loaded | None) -> dict[str, Any]:
    if loaded is None:
        return {}
    stack = written(loaded.stack)
    found = stack.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # GPUs and replicas are one value each, as people write them: `2 x H100`, `1..4`.
    for name, workload in found.get("workloads", {}).items():
        if "gpus" in workload.get("each", {}):
            workload["each"]["gpus"] = str(stack.workloads[name].each.gpus)
        if "replicas" in workload:
            workload["replicas"] = current(stack, f"workloads.{name}.replicas")
        if "variants" in workload:
            workload["variants"] = dict(_variants(stack, name))
    for name, shape in found.get("hardware", {}).items():
        if "gpus" in shape:
            shape["gpus"] = str(stack.hardware[name].gpus)
    rights = (loaded.rights or Rights()).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # That there is such a section is worth a line as well: it closes what was open to everyone.
    return found | ({} if loaded.rights is None else {"rights": rights})


def _variants(stack: Stack, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """With every key that a variant gives: in place of the workload's own value, a default is a change as any other."""
    ones = stack.workloads[name].variants
    for form, found in given(stack.workloads[name]).items():
        if "gpus" in found.get("each", {}):
            found["each"]["gpus"] = str(ones[form].each.gpus)
        if "replicas" in found:
            found["replicas"] = current(stack, f"workloads.{name}.variants.{form}.replicas")
        yield form, found


def _below(path: Path, old: Any, new: Any) -> Iterator[Difference]:
    if old == new and type(old) is type(new):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _below((*path, key), old.get(key), new.get(key))
    elif isinstance(old, Mapping) and new is None and old:
        for key in old:
            yield from _below((*path, key), old[key], None)
    elif isinstance(new, Mapping) and old is None and new:
        for key in new:
            yield from _below((*path, key), None, new[key])
    else:
        yield Difference(path, old, new)


def shown(value: Any) -> str:
    """A value as JSON; empty for none."""
    return "" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
