"""Which allocations are there, whose are they, and what do they hold? From the file that steps leave for the sampler.

Not from the ledger, which only root may read: commands and variables of all users are in it.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Tuple

from .. import device
from ..concerns.telemetry import LABELS
from ..machine.run import Context


class Holder(NamedTuple):
    """One allocation. `number`: of its bandwidth class, 0 for none; `quotas`: of its directories. [bytes]"""

    labels: Dict[str, str]
    gpus: List[device.Device]
    number: int
    quotas: Dict[str, int]


class Labels(NamedTuple):
    """All that the file says. `interface`: the one that is shaped; `instances`: MIG instances by NVML's name, MIG-…."""

    interface: str = ""
    instances: Dict[str, device.Device] = {}
    holders: Dict[str, Holder] = {}


def read(context: Context) -> Labels:
    """What the file says now; nothing where there is none, as between a boot and the end of its restore."""
    text = context.read(LABELS)
    if not text:
        return Labels()
    try:
        found = json.loads(text)
        instances = {str(uuid): device.gpu(plain) for uuid, plain in found["instances"].items()}
        holders = {str(name): _holder(name, one) for name, one in found["allocations"].items()}
        return Labels(str(found["interface"]), instances, holders)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{LABELS}: {error}") from None


def _holder(name: str, one: Dict[str, Any]) -> Holder:
    labels = {"allocation": name, **{key: str(one[key]) for key in ("workload", "user", "team") if one.get(key)}}
    quotas = {str(kind): int(size) for kind, size in (one.get("quotas") or {}).items()}
    return Holder(labels, device.gpus(one.get("gpus") or ()), int(one.get("class") or 0), quotas)


def of_cards(labels: Labels) -> List[Tuple[device.Device, Dict[str, str]]]:
    """Each GPU, part or instance that somebody holds, and who does."""
    return [(one, holder.labels) for _, holder in sorted(labels.holders.items()) for one in holder.gpus]
