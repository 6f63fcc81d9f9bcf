"""What does a daily change move on a full fleet? Prints figures; never fails on time.

    python -m tests.benchmarks.change --data DIR [--trace default] [--packed 0.975] [--seed N] [--json]

The openb fleet with 97.5% of its GPUs held, and three changes of it: 1% out and 1% in, three nodes lost, twenty drained.
Moves counts running replicas that could have stayed; what a closed node held had to leave and is not counted. The bound
is proven: no placement that places as much and stops as few has fewer moves. `limits` judges every placement.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve
from tests.benchmarks.change_cases import Case, churn, closed, packed

Row = dict[str, Any]


def measured(case: Case) -> Row:
    """One row. Runs in a process of its own, so that memory is the solve's."""
    begin = time.monotonic()
    solution = solve(case.stack, case.last)
    took = time.monotonic() - begin
    before = case.last.by_name()
    found = solution.placement.by_name()
    kept = frozenset(name for name, a in found.items() if name in before and before[name].node == a.node)
    violations = judge(case.stack, solution.placement, kept=kept)
    if violations:
        raise SystemExit(f"{len(violations)} rules are broken; the first: {violations[0].text}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"change": case.name, **_figures(case, solution), "seconds": round(took, 1), "peak_mb": round(peak)}


def _figures(case: Case, solution: Solution) -> Row:
    moves = next((goal for goal in solution.proof.goals if goal.name == "moves"), None)
    missing = {"high": 0, "normal": 0, "low": 0}
    for one in solution.placement.unplaced:
        missing[case.stack.workloads[one.workload].priority] += len(one.missing)
    least = moves.bound if moves else 0
    count = moves.value if moves else 0
    return {
        "came": _members(case.stack) - len(case.last.allocations),
        "unplaced": missing,
        "stopped": sum(not move.target for move in solution.moves),
        "had_to_leave": sum(move.forced for move in solution.moves),
        "moves": count,
        "moves_bound": least,
        "gap_percent": round(100 * (count - least) / count, 1) if count else 0.0,
        "rounds": solution.proof.parameters.get("rounds", 0),
    }


def _members(stack: Stack) -> int:
    return sum(workload.members for workload in stack.workloads.values())


def cases(stack: Stack, last: Placement, seed: int) -> list[Case]:
    """The changes, in the order of the table."""
    return [churn(stack, last, seed), closed(stack, last, 3, "lost", seed), closed(stack, last, 20, "drain", seed)]


def main() -> None:
    """Print the table, and a line that sums it up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the lists of nodes and pods")
    parser.add_argument("--trace", default="default")
    parser.add_argument("--packed", type=float, default=0.975, help="part of the GPUs that is held before the change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    stack, last = packed(asked.data, asked.trace, asked.packed, asked.seed)
    rows: list[Row] = []
    for case in cases(stack, last, asked.seed):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            rows.append(pool.submit(measured, case).result())
    if asked.json:
        print(json.dumps({"trace": asked.trace, "packed": asked.packed, "seed": asked.seed, "rows": rows}))
        return
    print(f"{asked.trace}, {asked.packed:.1%} of the GPUs held by {len(last.allocations)} replicas, seed {asked.seed}")
    print(
        f"{'change':18} {'unplaced h/n/l':>15} {'stopped':>8} {'must leave':>10} {'moves':>6} {'bound':>6} {'s':>6} {'MB':>6}"
    )
    for row in rows:
        missing = "/".join(str(count) for count in row["unplaced"].values())
        cells = (row["stopped"], row["had_to_leave"], row["moves"], row["moves_bound"], row["seconds"], row["peak_mb"])
        stopped, forced, moves, bound, seconds, peak = cells
        print(f"{row['change']:18} {missing:>15} {stopped:>8} {forced:>10} {moves:>6} {bound:>6} {seconds:>6} {peak:>6}")
    print(
        f"{sum(row['moves'] for row in rows)} moves where at least {sum(row['moves_bound'] for row in rows)} are needed, "
        f"{sum(row['unplaced']['high'] + row['unplaced']['normal'] for row in rows)} of high and normal priority unplaced, "
        f"{sum(row['stopped'] for row in rows)} stopped, {max(row['seconds'] for row in rows)} s and "
        f"{max(row['peak_mb'] for row in rows)} MB at most"
    )


if __name__ == "__main__":
    main()
