"""Which reservations did nothing over a window? Their SM activity, memory bandwidth and CPU were all low on average."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass

from swarm_iac.accounting.money import CostSum
from swarm_iac.accounting.retention import check_kept
from swarm_iac.accounting.schema import as_written, texts
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


@as_written()
def idle(store: sqlite3.Connection, stack: str, window: Window, below: Thresholds) -> tuple[Idle, ...]:
    """Those that are below, the most GPU-hours first. One for each model. Raises as `check_kept`."""
    check_kept(store, stack, window.parts())
    sums: dict[_Key, list[int]] = {}
    #: Of each: GPU-ms at a price, and the numbers of the nodes. Most are of no interest, so they are not added up yet.
    paid: dict[_Key, list[tuple[int, int, str, str]]] = {}
    columns = ", ".join(f"sum({one}) AS {one}" for one in _SUMS)
    names = dict(store.execute("SELECT id, name FROM node WHERE stack = ?", (stack,)))
    texts(*names.values())
    for per, since, until in window.parts():
        rows = store.execute(
            f"SELECT allocation, workload, user, team, model, nodes, amount, currency, peak, {', '.join(_SUMS)} FROM "
            f"(SELECT account, group_concat(DISTINCT node) AS nodes, max(peak) AS peak, {columns} FROM held_{per} "
            f"WHERE {per} >= ? AND {per} < ? AND node IN (SELECT id FROM node WHERE stack = ?) GROUP BY account) h "
            "JOIN account ON account.id = h.account",
            (since, until, stack),
        )
        for allocation, workload, user, team, model, where, amount, currency, *values in rows:
            key = (allocation, workload, user, team, model)
            texts(*key)
            before = sums.get(key)
            if before is None:
                sums[key], paid[key] = values, [(values[1], amount, currency, where)]
                continue
            peak = max(before[0], values[0])
            sums[key] = [peak, *(one + other for one, other in zip(before[1:], values[1:], strict=True))]
            paid[key].append((values[1], amount, currency, where))
    found = []
    for key, (peak, *mine) in sums.items():
        means = _means(dict(zip(_SUMS, mine, strict=True)))
        if means is not None and all(mean < most for mean, most in zip(means, astuple(below), strict=True)):
            cost = CostSum()
            for held, amount, currency, _ in paid[key]:
                cost.add(held, amount, currency)
            where = {int(node) for *_, nodes in paid[key] for node in nodes.split(",")}
            nodes = tuple(sorted(names[node] for node in where))
            allocation, workload, user, team, model = key
            found.append(Idle(allocation, workload, user, team, nodes, model, mine[0], *means, peak, cost))
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
