"""How do seconds, memory and gap grow with the fleet and with what is asked for? Prints figures; never fails on time.

    python -m tests.benchmarks.scale [--gpus 100,1000,10000] [--shapes 10,100] [--at 10000] [--json]

Fleets are drawn from six machine shapes, workloads from as many random shapes as asked for, for 130% of the GPUs; a third
of the replicas hold a part of a GPU. One series grows the fleet at 100 shapes, one the shapes at `--at` GPUs. Each row is
a process of its own; `limits` judges its placement. A plot of both series follows the table.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from swarm_iac.limits import judge
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve

Row = dict[str, Any]
#: GPUs, vCPUs and GB of memory of a machine, and how often it comes.
MACHINES = ((8, 96, 384, 10), (8, 128, 768, 4), (4, 32, 128, 2), (4, 96, 384, 2), (2, 104, 512, 8), (2, 16, 120, 3))
#: GPUs of a replica and parts of one in thousandths, with how often they come.
SIZES = ((1, 1000, 10), (2, 1000, 2), (4, 1000, 1), (8, 1000, 1), (1, 500, 3), (1, 250, 2), (1, 330, 1), (1, 700, 1))
#: Most replicas of one workload.
MOST = 5000
#: Length of the longest bar of the plot.
BAR = 24


def fleet(gpus: int, shapes: int, seed: int = 0) -> Stack:
    """A stack of so many GPUs (or a few more) and shapes of workloads."""
    rng = random.Random(seed)
    nodes: dict[str, dict[str, Any]] = {}
    held = 0
    while held < gpus:
        (kind,) = rng.choices(range(len(MACHINES)), [machine[3] for machine in MACHINES])
        name = f"n{len(nodes):06d}"
        nodes[name] = {"name": name, "hardware": f"m{kind}", "ssh": "local"}
        held += MACHINES[kind][0]
    requests: dict[str, dict[str, Any]] = {}
    for i in range(shapes):
        ((count, share, _),) = rng.choices(SIZES, [size[2] for size in SIZES])
        vcpus = max(1, round(count * share / 1000 * rng.choice((3, 6, 8, 10, 11.5, 12, 15, 18)) + rng.randrange(3)))
        memory = max(1, round(vcpus * rng.choice((2, 4, 4, 6))))
        each = {"gpus": {"count": count, "share": share / 1000}, "vcpus": vcpus, "memory": f"{memory} GB"}
        replicas = max(1, round(1.3 * held / shapes / (count * share / 1000)))
        for part, left in enumerate(range(replicas, 0, -MOST)):
            least = min(left, MOST)
            requests[f"w{i:04d}-{part}"] = {
                "user": "all",
                "each": each,
                "replicas": {"least": least, "most": least},
            }
    hardware = {
        f"m{i}": {"gpus": {"count": count, "model": f"G{i}"}, "vcpus": vcpus, "memory": f"{memory} GB"}
        for i, (count, vcpus, memory, _) in enumerate(MACHINES)
    }
    return Stack.model_validate({"fleet": "scale", "hardware": hardware, "nodes": nodes, "workloads": requests})


def measured(gpus: int, shapes: int) -> Row:
    """One row."""
    stack = fleet(gpus, shapes)
    begin = time.monotonic()
    solution = solve(stack)
    took = time.monotonic() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if violations := judge(stack, solution.placement):
        raise SystemExit(f"{len(violations)} rules are broken; the first: {violations[0].text}")
    (goal,) = [goal for goal in solution.proof.goals if "_gpu" in goal.name and "placed" in goal.name]
    return {
        "gpus": gpus,
        "shapes": shapes,
        "nodes": len(stack.nodes),
        "replicas": len(solution.placement.allocations),
        "seconds": round(took, 1),
        "peak_mb": round(peak),
        "gap_percent": round(100 * (goal.bound - goal.value) / max(1, goal.bound), 3),
        "rounds": solution.proof.parameters.get("rounds", 0),
    }


def plot(rows: list[Row], key: str) -> Iterator[str]:
    """A bar for each row, `key` at its head: seconds and MB, each on a logarithmic scale from half its least."""
    yield f"{key:>7}  {'seconds':{BAR + 9}}MB"
    least = {what: min(max(row[what], 0.1) for row in rows) / 2 for what in ("seconds", "peak_mb")}
    most = {what: max(row[what] for row in rows) for what in least}
    for row in rows:
        bars = []
        for what, low in least.items():
            part = math.log(max(row[what], 0.1) / low) / math.log(most[what] / low)
            bars.append(f"{'#' * round(BAR * part)} {row[what]}")
        yield f"{row[key]:>7}  {bars[0]:{BAR + 9}}{bars[1]}"


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=_numbers, default=[100, 1000, 10_000, 100_000], help="sizes of the first series")
    parser.add_argument("--shapes", type=_numbers, default=[10, 30, 100, 300, 1000], help="shapes of the second series")
    parser.add_argument("--at", type=int, default=10_000, help="GPUs of the second series")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    pairs = list(dict.fromkeys([(gpus, 100) for gpus in asked.gpus] + [(asked.at, shapes) for shapes in asked.shapes]))
    rows: list[Row] = []
    if not asked.json:
        print(f"{'GPUs':>7} {'shapes':>7} {'nodes':>7} {'replicas':>9} {'seconds':>8} {'MB':>6} {'gap %':>7} {'rounds':>7}")
    for gpus, shapes in pairs:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            row = pool.submit(measured, gpus, shapes).result()
        rows.append(row)
        if not asked.json:
            print(
                f"{gpus:>7} {shapes:>7} {row['nodes']:>7} {row['replicas']:>9} {row['seconds']:>8} {row['peak_mb']:>6} "
                f"{row['gap_percent']:>7} {row['rounds']:>7}",
                flush=True,
            )
    if asked.json:
        print(json.dumps({"rows": rows}))
        return
    for key, other, at in (("gpus", "shapes", 100), ("shapes", "gpus", asked.at)):
        series = sorted((row for row in rows if row[other] == at), key=lambda row: row[key])
        if len(series) > 1:
            print(f"\n{at} {other}", *plot(series, key), sep="\n")


if __name__ == "__main__":
    main()
