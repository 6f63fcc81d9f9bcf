"""How are idle reservations shown, with what they kept waiting? As a table, CSV or JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from swarm_iac.accounting.idle import Idle, Thresholds
from swarm_iac.accounting.money import CostSum, hours
from swarm_iac.accounting.window import Window
from swarm_iac.cli.usage.kept_waiting import KeptWaiting, Waited
from swarm_iac.cli.usage.usage_report import UsageTable, cost_cells, cost_document, csv_text, safe, span, times
from swarm_iac.pluralize import pluralize

#: So many workloads, and allocations of which something is not known, are named.
_NAMED = 3
_HEADS = (
    "allocation",
    "user",
    "team",
    "node",
    "model",
    "SM activity",
    "highest",
    "memory bandwidth",
    "CPUs",
    "GPU-hours",
    "cost",
)


def idle_table(
    found: tuple[Idle, ...], window: Window, stack: str, below: Thresholds, waited: KeptWaiting | None = None
) -> UsageTable:
    """For people. Without `waited`, nothing is said of who waited; where nothing did, there is no column for it."""
    told = waited if waited and waited.states else None
    rows = [
        (one.allocation, one.user or "?", one.team or "no team", ", ".join(one.nodes), one.model, _percent(one.active),
         _percent(one.peak), _percent(one.bandwidth), f"{one.cpus / 1000:.2f}", hours(one.held), str(one.cost),
         *([_who(told.alone.get(one.allocation, ()))] if told else []))
        for one in found
    ]  # fmt: skip
    together = [_who(told.together)] if told else []
    rows.append(("(total)", *[""] * 8, hours(sum(one.held for one in found)), str(_together(found)), *together))
    limits = f"SM activity below {_percent(below.active)}, memory bandwidth below {_percent(below.bandwidth)}"
    cpus = pluralize(f"{below.cpus / 1000:g}", "CPU")
    note = f"on average: {limits}, fewer than {cpus}; what was measured for too little of its time is left out"
    heads = (*_HEADS, *(["kept waiting"] if told else []))
    return UsageTable(f"idle in {stack}, {span(window)}", heads, tuple(rows), (note, *_notes(waited)))


def _who(ones: Sequence[Waited]) -> str:
    """`pretrain: 8 GPUs, 118 h`, those first that waited for most."""
    order = sorted(ones, key=lambda one: (-one.gpu_ms, -one.seconds, one.workload))
    texts = [f"{one.workload}: {_size(one)}, {one.seconds / 3600:.3g} h" for one in order[:_NAMED]]
    more = [f"{len(order) - _NAMED} more"] if len(order) > _NAMED else []
    return "; ".join(texts + more) or "-"


def _size(one: Waited) -> str:
    if one.gpu_milli:
        return pluralize(f"{one.gpu_milli / 1000:g}", "GPU")
    return pluralize(one.replicas, "replica")


def _notes(waited: KeptWaiting | None) -> list[str]:
    if waited is None:
        return []
    notes = []
    if waited.states:
        notes.append(
            "kept waiting: what `swarm what-if` places without it, with stack file and lock of that time; "
            f"the last row without all of them ({waited.tried} of {waited.states} such states tried)"
        )
    elif not waited.missing:
        notes.append("kept waiting: nothing was pending meanwhile")
    by_reason: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, why), long in waited.missing.items():
        by_reason[why][name] = long
    for why, names in sorted(by_reason.items()):
        order = sorted(names, key=lambda name: (-names[name], name))
        more = f" and {len(order) - _NAMED} more" if len(order) > _NAMED else ""
        notes.append(f"not known of {', '.join(order[:_NAMED])}{more} for up to {max(names.values()) / 3600:.3g} h: {why}")
    return notes


def _together(found: Iterable[Idle]) -> CostSum:
    total = CostSum()
    for one in found:
        total.sums.update(one.cost.sums)
        total.unpriced += one.cost.unpriced
    return total


def idle_csv(found: tuple[Idle, ...], waited: KeptWaiting | None = None) -> str:
    """One row for each allocation, and no total."""
    currencies = sorted(_together(found).sums)
    heads = ["allocation", "workload", "user", "team", "nodes", "model", "sm_activity", "sm_activity_highest",
             "memory_bandwidth", "cpus", "gpu_hours", *(f"cost_{one}" for one in currencies),
             *(["kept_waiting", "kept_waiting_gpu_hours"] if waited else [])]  # fmt: skip
    rows = [
        [*map(safe, (one.allocation, one.workload, one.user, one.team, " ".join(one.nodes), one.model)),
         *(f"{value / 1000:.3f}" for value in (one.active, one.peak, one.bandwidth, one.cpus)), hours(one.held, 7),
         *cost_cells(one.cost, currencies), *(_waited_cells(waited.alone.get(one.allocation, ())) if waited else [])]
        for one in found
    ]  # fmt: skip
    return csv_text(heads, rows)


def _waited_cells(ones: Sequence[Waited]) -> list[str]:
    return [safe(" ".join(sorted(one.workload for one in ones))), hours(sum(one.gpu_ms for one in ones), 7)]


def idle_json(
    found: tuple[Idle, ...], window: Window, stack: str, below: Thresholds, waited: KeptWaiting | None = None
) -> dict[str, Any]:
    """Ratios from 0 to 1."""
    rows = [
        {
            "allocation": one.allocation, "workload": one.workload, "user": one.user, "team": one.team, "nodes": one.nodes,
            "model": one.model, "sm_activity": one.active / 1000, "sm_activity_highest": one.peak / 1000,
            "memory_bandwidth": one.bandwidth / 1000, "cpus": one.cpus / 1000, "held_gpu_ms": one.held,
            **cost_document(one.cost),
            **({"kept_waiting": _documents(waited.alone.get(one.allocation, ()))} if waited else {}),
        }
        for one in found
    ]  # fmt: skip
    limits = {"sm_activity": below.active / 1000, "memory_bandwidth": below.bandwidth / 1000, "cpus": below.cpus / 1000}
    total = {"held_gpu_ms": sum(one.held for one in found), **cost_document(_together(found))}
    document = {"stack": stack, **times(window), "below": limits, "idle": rows, "total": total}
    if waited:
        total["kept_waiting"] = _documents(waited.together)
        missing = [
            {"allocation": name, "seconds": long, "because": why} for (name, why), long in sorted(waited.missing.items())
        ]
        document["tried"] = {"states": waited.tried, "pending_states": waited.states, "missing": missing}
    return document


def _documents(ones: Iterable[Waited]) -> list[dict[str, Any]]:
    return [
        {"workload": one.workload, "replicas": one.replicas, "gpu_milli": one.gpu_milli, "seconds": one.seconds,
         "gpu_ms": one.gpu_ms}
        for one in sorted(ones, key=lambda one: one.workload)
    ]  # fmt: skip


def _percent(milli: int) -> str:
    return f"{milli / 10:g} %"
