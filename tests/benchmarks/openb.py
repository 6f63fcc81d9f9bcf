"""How many GPUs of a real fleet does each method fill? Prints figures; never fails on time.

    python -m tests.benchmarks.openb --data DIR --trace NAME [--arrival 1.3] [--seed N] [--seconds 60] [--json]

The traces are Alibaba's openb (1,213 nodes, 6,212 GPUs). Each method runs in a process of its own; `limits` judges what
it placed, and only then its GPUs are counted. FGD's row is the published figure, where the folder has it. The bound of
the last row is proven by the solver and holds for every method.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from tests.benchmarks import openb_baselines as baselines
from tests.benchmarks import openb_trace
from tests.benchmarks.openb_swarm import swarm

Row = dict[str, Any]


def placed(stack: Stack, placement: Placement) -> int:
    """Thousandths of GPUs that a placement holds. Raises when `limits` finds anything wrong with it."""
    violations = judge(stack, placement)
    if violations:
        raise SystemExit(f"{len(violations)} rules are broken; the first: {violations[0].text}")
    gpus = {name: workload.each.gpus for name, workload in stack.workloads.items()}
    return sum(len(one.gpus) * gpus[one.workload].share for one in placement.allocations)


def measured(method: str, asked: argparse.Namespace) -> Row:
    """One row. Runs in a process of its own, so that seconds and memory are the method's."""
    trace = openb_trace.read(asked.data, asked.trace, asked.arrival, asked.seed)
    stack = openb_trace.stack(trace)
    begin = time.monotonic()
    if method == "swarm":
        placement, bound = swarm(stack, asked.seconds)
    else:
        methods: dict[str, Callable[[], tuple[baselines.Where, float | None]]] = {
            "best fit": lambda: baselines.best_fit(trace),
            "first-fit-decreasing": lambda: baselines.first_fit_decreasing(trace),
            "CP-SAT assignment": lambda: baselines.assignment(trace, asked.seconds),
        }
        where, bound = methods[method]()
        placement = openb_trace.placement(stack, where)
    took = time.monotonic() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return _row(method, placed(stack, placement), bound, trace.capacity) | {"seconds": round(took, 1), "peak_mb": round(peak)}


def _row(method: str, milli: float, bound: float | None, capacity: int) -> Row:
    percent = 100 * milli / capacity
    limit = None if bound is None else min(100.0, 100 * bound / capacity)
    gap = None if limit is None else max(0.0, 100 * (limit - percent) / limit)
    return {
        "method": method,
        "placed_percent": round(percent, 3),
        "bound_percent": None if limit is None else round(limit, 3),
        "gap_percent": None if gap is None else round(gap, 3),
    }


def published(folder: Path, trace: str, arrival: float) -> Row | None:
    """FGD's figure at this arrival, from the published table, if it is there."""
    file = folder / "published_allocation.csv"
    if not file.exists():
        return None
    with file.open() as lines:
        for row in csv.DictReader(lines):
            figure = row.get(str(round(100 * arrival)))
            if row["workload"] == trace and row["sc_policy"].endswith("FGD") and figure:
                nothing = {"bound_percent": None, "gap_percent": None, "seconds": None, "peak_mb": None}
                return {"method": "FGD (published)", "placed_percent": float(figure), **nothing}
    return None


def rows(asked: argparse.Namespace) -> list[Row]:
    """All rows, ours last."""
    found: list[Row] = []
    for method in ("best fit", "first-fit-decreasing", "FGD", "CP-SAT assignment", "swarm"):
        if method == "FGD":
            row = published(asked.data, asked.trace, asked.arrival)
            found += [row] if row else []
            continue
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found.append(pool.submit(measured, method, asked).result())
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the lists of nodes and pods")
    parser.add_argument("--trace", default="default", help="NAME in openb_pod_list_NAME.csv")
    parser.add_argument("--arrival", type=float, default=1.3, help="GPUs asked for, as a part of those there are")
    parser.add_argument("--seed", type=int, default=0, help="of the resampling")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = rows(asked)
    if asked.json:
        print(json.dumps({"trace": asked.trace, "arrival": asked.arrival, "seed": asked.seed, "rows": found}))
        return
    print(f"{asked.trace}: GPUs asked for {asked.arrival:.0%}, seed {asked.seed}, {asked.seconds:.0f} s")
    print(f"{'method':24} {'placed %':>9} {'bound %':>9} {'gap %':>7} {'seconds':>8} {'peak MB':>8}")
    for row in found:
        cells = [row[key] for key in ("placed_percent", "bound_percent", "gap_percent", "seconds", "peak_mb")]
        placed_, bound, gap, seconds, peak = ("-" if cell is None else str(cell) for cell in cells)
        print(f"{row['method']:24} {placed_:>9} {bound:>9} {gap:>7} {seconds:>8} {peak:>8}")


if __name__ == "__main__":
    main()
