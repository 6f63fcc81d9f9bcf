"""Which reservations did nothing over a window? Their SM activity, memory bandwidth and CPU were all low on average."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass

from swarm_iac.accounting.money import CostSum
from swarm_iac.accounting.window import Window

#: Of what was held, so much has to be measured: what is not known is not idle. [1/1000]
MEASURED = 900
#: What was held for less in the window is not judged. [s]
LEAST_S = 3600
_SUMS = ("held", "used", "unknown", "seconds", "bandwidth", "bandwidth_known", "cpus", "cpus_known")
#: Allocation, workload, user, team, model.
_Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Thresholds:
    """An allocation is idle below all three. `active`, `bandwidth`: on average [1/1000]; `cpus`: used by it [1/1000]."""

    active: int = 50
    bandwidth: int = 50
    cpus: int = 200


@dataclass
class Idle:
    """One allocation with what it did on average, as Thresholds has it. `held` [GPU-ms]; `peak`: highest SM activity seen."""

    allocation: str
    workload: str
    user: str
    team: str
    nodes: tuple[str, ...]
    model: str
    held: int
    active: int
    bandwidth: int
    cpus: int
    peak: int
    cost: CostSum


def idle(store: sqlite3.Connection, stack: str, window: Window, below: Thresholds) -> tuple[Idle, ...]:
    """Those that are below, the most GPU-hours first. On nodes of two models, one for each."""
    sums: dict[_Key, dict[str, int]] = {}
    costs: dict[_Key, CostSum] = {}
    nodes: dict[_Key, set[str]] = {}
    columns = ", ".join(f"sum({one}) AS {one}" for one in _SUMS)
    for per, since, until in window.parts():
        rows = store.execute(
            f"SELECT allocation, workload, user, team, model, name, amount, currency, peak, {', '.join(_SUMS)} FROM "
            f"(SELECT node, account, max(peak) AS peak, {columns} FROM held_{per} WHERE {per} >= ? AND {per} < ? "
            "GROUP BY node, account) JOIN node ON node.id = node JOIN account ON account.id = account WHERE stack = ?",
            (since, until, stack),
        )
        for allocation, workload, user, team, model, name, amount, currency, peak, *values in rows:
            key = (allocation, workload, user, team, model)
            mine = sums.setdefault(key, dict.fromkeys((*_SUMS, "peak"), 0))
            for column, value in zip(_SUMS, values, strict=True):
                mine[column] += value
            mine["peak"] = max(mine["peak"], peak)
            costs.setdefault(key, CostSum()).add(values[0], amount, currency)
            nodes.setdefault(key, set()).add(name)
    found = []
    for key, mine in sums.items():
        means = _means(mine)
        if means is not None and all(mean < most for mean, most in zip(means, astuple(below), strict=True)):
            allocation, workload, user, team, model = key
            where = tuple(sorted(nodes[key]))
            found.append(Idle(allocation, workload, user, team, where, model, mine["held"], *means, mine["peak"], costs[key]))
    return tuple(sorted(found, key=lambda one: (-one.held, one.allocation, one.model)))


def _means(sums: dict[str, int]) -> tuple[int, int, int] | None:
    """SM activity, bandwidth and CPUs on average; None where too little is known to judge. Rounded up, as zero means none."""
    held, seconds = sums["held"], sums["seconds"]
    measured = held - sums["unknown"]
    known = min(measured / held, sums["bandwidth_known"] / held, sums["cpus_known"] / seconds) if held and seconds else 0
    if known * 1000 < MEASURED or seconds < LEAST_S:
        return None
    return (
        -(-sums["used"] * 1000 // measured),
        -(-sums["bandwidth"] * 1000 // sums["bandwidth_known"]),
        -(-sums["cpus"] // sums["cpus_known"]),
    )
