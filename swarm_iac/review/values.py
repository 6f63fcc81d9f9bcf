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
    """Each value that differs, in the order of the sections. A list is one value."""
    return tuple(_below((), _plain(before), _plain(after)))


def _plain(loaded: Loaded | None) -> dict[str, Any]:
    if loaded is None:
        return {}
    found = loaded.stack.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # GPUs and replicas are one value each, as people write them: `2 x H100`, `1..4`.
    for name, workload in found.get("workloads", {}).items():
        if "gpus" in workload.get("each", {}):
            workload["each"]["gpus"] = str(loaded.stack.workloads[name].each.gpus)
        if "replicas" in workload:
            workload["replicas"] = current(loaded.stack, f"workloads.{name}.replicas")
    for name, shape in found.get("hardware", {}).items():
        if "gpus" in shape:
            shape["gpus"] = str(loaded.stack.hardware[name].gpus)
    rights = (loaded.rights or Rights()).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # That there is such a section is worth a line as well: it closes what was open to everyone.
    return found | ({} if loaded.rights is None else {"rights": rights})


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
