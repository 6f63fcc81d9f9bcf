"""How much has passed each allocation's bandwidth class? From the kernel's counters of the classes, in and out."""

from __future__ import annotations

import re
from typing import Dict, List

from ..concerns.traffic import IFB
from ..machine.run import Context
from .families import Sample
from .labels import Labels

_SENT = re.compile(r"^class htb 1:([0-9a-f]+) [^\n]*\n\s*Sent ([0-9]+) bytes", re.MULTILINE)


def collect(context: Context, labels: Labels) -> List[Sample]:
    """Samples of every allocation that has a class. Nothing is counted of one that has none, for nothing tells it apart."""
    held = {holder.number: holder.labels for holder in labels.holders.values() if holder.number}
    if not held or not labels.interface:
        return []
    found: List[Sample] = []
    for direction, device in (("out", labels.interface), ("in", IFB)):
        if context.names(f"/sys/class/net/{device}"):
            sent = passed(context.run(["tc", "-s", "class", "show", "dev", device], timeout=10, ok=(0, 1)))
            found += [
                ("swarm_allocation_network_bytes_total", {**held[number], "direction": direction}, total)
                for number, total in sorted(sent.items())
                if number in held
            ]
    return found


def passed(text: str) -> Dict[int, int]:
    """Bytes of each HTB class in `tc -s class show`, by its minor number: iproute2 6.1 has no JSON for them."""
    return {int(minor, 16): int(total) for minor, total in _SENT.findall(text)}
