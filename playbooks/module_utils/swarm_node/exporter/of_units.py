"""Does each workload run, as systemd has it, and how often was it started again? Its own health check is not run here."""

from __future__ import annotations

from typing import List

from ..machine import systemd
from ..machine.run import Context, unit_name
from .families import Sample
from .labels import Labels

#: States that systemd has for a service, without those of a moment.
STATES = ("active", "activating", "deactivating", "failed", "inactive")


def collect(context: Context, labels: Labels) -> List[Sample]:
    """Samples of every unit that systemd knows."""
    units = {f"{unit_name(name)}.service": holder.labels for name, holder in sorted(labels.holders.items())}
    if not units:
        return []
    text = context.run(["systemctl", "show", *units, "-p", "Id,LoadState,ActiveState,NRestarts"], timeout=10)
    found: List[Sample] = []
    for name, shown in systemd.parse(text).items():
        if name not in units or shown.get("LoadState") != "loaded":
            continue
        state, restarts = shown.get("ActiveState", ""), shown.get("NRestarts", "")
        if state in STATES:
            found += [("swarm_allocation_unit_state", {**units[name], "state": one}, int(one == state)) for one in STATES]
        if restarts.isdecimal():
            found.append(("swarm_allocation_restarts_total", units[name], int(restarts)))
    return found
