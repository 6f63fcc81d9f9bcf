"""What does a daily change move on a full fleet? Prints figures; never fails on time.

    python -m tests.benchmarks.change --data DIR [--trace default] [--packed 0.975] [--churn 0.01] [--seed N] [--json]

The openb fleet with 97.5% of its GPUs held, and three changes of it: 1% out and 1% in, three nodes lost, twenty drained.
Each is solved three times, with 5, 30 and 60 seconds; a solve that is done earlier ends earlier. Moves counts running
replicas that could have stayed; what a closed node held had to leave and is not counted. The bound is proven: no placement
that places as much and stops as few has fewer moves. `limits` judges every placement.
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
from swarm_iac.solver import Solution
from tests.benchmarks.change_cases import Case, churn, closed, packed
from tests.benchmarks.openb_swarm import guarded

Row = dict[str, Any]
#: Time given to each solve.
SECONDS = (5.0, 30.0, 60.0)


def measured(case: Case, seconds: float) -> Row:
    """One row. Runs in a process of its own, so that memory is the solve's."""
    begin = time.monotonic()
    solution = guarded(case.stack, case.last, seconds)
    took = time.monotonic() - begin
    before = case.last.by_name()
    found = solution.placement.by_name()
    kept = frozenset(name for name, a in found.items() if name in before and before[name].node == a.node)
    violations = judge(case.stack, solution.placement, kept=kept)
    if violations:
        raise SystemExit(f"{len(violations)} rules are broken; the first: {violations[0].text}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    given = {"change": case.name, "given": seconds}
    return {**given, **_figures(case, solution), "seconds": round(took, 1), "peak_mb": round(peak)}


def _figures(case: Case, solution: Solution) -> Row:
    moves = next((goal for goal in solution.proof.goals if goal.name == "moves"), None)
    missing = {"high": 0, "normal": 0, "low": 0}
    for one in solution.placement.unplaced:
        missing[case.stack.workloads[one.workload].priority] += len(one.missing)
    placed = [goal for goal in solution.proof.goals if "_placed_gpu" in goal.name]
    held, best = sum(goal.value for goal in placed), sum(goal.bound for goal in placed)
    least = moves.bound if moves else 0
    count = moves.value if moves else 0
    return {
        "came": _members(case.stack) - len(case.last.allocations),
        "unplaced": missing,
        "stopped": sum(not move.target for move in solution.moves),
        "had_to_leave": sum(move.forced for move in solution.moves),
        "placed_gap_percent": round(100 * (best - held) / best, 2) if best else 0.0,
        "moves": count,
        "moves_bound": least,
        "gap_percent": round(100 * (count - least) / count, 1) if count else 0.0,
        "cut": "cut" in solution.proof.parameters,
        "rounds": solution.proof.parameters.get("rounds", 0),
    }


def _members(stack: Stack) -> int:
    return sum(workload.members for workload in stack.workloads.values())


def cases(stack: Stack, last: Placement, churned: float, seed: int) -> list[Case]:
    """The changes, in the order of the table."""
    return [churn(stack, last, churned, seed), closed(stack, last, 3, "lost", seed), closed(stack, last, 20, "drain", seed)]


def main() -> None:
    """Print the table, and a line that sums it up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the lists of nodes and pods")
    parser.add_argument("--trace", default="default")
    parser.add_argument("--packed", type=float, default=0.975, help="part of the GPUs that is held before the change")
    parser.add_argument("--churn", type=float, default=0.01, help="part of the GPUs held that is given back, and asked for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    stack, last = packed(asked.data, asked.trace, asked.packed, asked.seed)
    rows: list[Row] = []
    for case in cases(stack, last, asked.churn, asked.seed):
        for seconds in SECONDS:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                rows.append(pool.submit(measured, case, seconds).result())
    if asked.json:
        print(json.dumps({"trace": asked.trace, "packed": asked.packed, "seed": asked.seed, "rows": rows}))
        return
    print(f"{asked.trace}, {asked.packed:.1%} of the GPUs held by {len(last.allocations)} replicas, seed {asked.seed}")
    print(" ".join(f"{name:>{width}}" for name, width in HEADS))
    for row in rows:
        missing = "/".join(str(count) for count in row["unplaced"].values())
        what = (row["change"], f"{row['given']:.0f}", row["came"], missing, row["stopped"], row["had_to_leave"])
        cells = (
            *what,
            row["placed_gap_percent"],
            row["moves"],
            row["moves_bound"],
            row["gap_percent"],
            row["seconds"],
            row["peak_mb"],
        )
        print(" ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, HEADS, strict=True)))
    print(_summed(rows))


#: Columns of the table and their widths.
HEADS = (
    ("change", 17), ("given s", 7), ("came", 5), ("unplaced h/n/l", 14), ("stopped", 7), ("must leave", 10),
    ("gap %", 6), ("moves", 6), ("fewest", 6), ("gap %", 6), ("s", 5), ("MB", 5),
)  # fmt: skip


def _summed(rows: list[Row]) -> str:
    """The last line: what matters at 5, at 30 and at 60 seconds."""
    five, thirty, sixty = ([row for row in rows if row["given"] == seconds] for seconds in SECONDS)
    lacking = sum(row["unplaced"]["high"] + row["unplaced"]["normal"] for row in five)
    return (
        f"at 5 s {lacking} of high and normal priority unplaced, {sum(row['stopped'] for row in five)} stopped; "
        f"at 30 s {', '.join(str(row['moves']) for row in thirty[:2])} moves where at least "
        f"{', '.join(str(row['moves_bound']) for row in thirty[:2])} are needed; "
        f"at 60 s the gap of the third is {sixty[2]['placed_gap_percent']} % of GPUs, {sixty[2]['gap_percent']} % of moves; "
        f"{max(row['seconds'] for row in rows)} s and {max(row['peak_mb'] for row in rows)} MB at most"
    )


if __name__ == "__main__":
    main()
