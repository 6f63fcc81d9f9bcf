"""How long does a fleet take that uses everything at once, how good is the answer, and what does a change of it cost?

    python -m tests.benchmarks.mixed [--gpus 2000] [--seed 1] [--effort normal]

Racks whose power keeps GPUs below their highest limit (and none of them out), three teams that share three GPU models at one and
a half times what there is, cards that are cut, links that are required, parts of GPUs, gangs within a rack, services spread and
even over racks, half of them with a lighter variant, CPU work, limits per user and team. First all new, then 1% of the workloads
are replaced or resized. Each row is a process of its own, so seconds and memory are what a user would see; below it each goal
that is not proven, with its gap.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

Data = dict[str, Any]

#: GPUs of one node.
CARDS = 8
#: Of a hundred nodes: shapes, and how many have them.
SHAPES = {"quads": 35, "switched": 25, "cut": 10, "a100": 20, "l40s": 10}
HARDWARE: Data = {
    "quads": {"gpus": "8 x H100", "links": {"nvlink": [[0, 1, 2, 3], [4, 5, 6, 7]]}},
    "switched": {"gpus": "8 x H100", "links": {"nvlink": "all"}},
    "cut": {"gpus": "8 x H100", "mig": True},
    "a100": {"gpus": "8 x A100", "links": {"nvlink": "all"}},
    "l40s": {"gpus": "8 x L40S"},
}
REST: Data = {"vcpus": 128, "memory": "1 TB", "nvme": "14 TB", "nic": "100 Gbit/s", "numa": 2}
#: Nodes of a rack, and its power for each: less than eight GPUs at the upper end of their range. [W]
IN_A_RACK, WATTS = 10, 3800
TEAMS = {"vision": 3, "speech": 2, "text": 1}
USERS = 8
#: Of a hundred GPUs that are asked for.
DEMAND = 1.5
KINDS = {"linked": 34, "gang": 20, "train": 16, "serve": 14, "part": 8, "cut": 8}


def stack(gpus: int, seed: int, effort: str) -> Data:
    """A stack file's content, for so many GPUs."""
    rng = random.Random(f"mixed {seed}")
    nodes = gpus // CARDS
    shapes = [shape for shape, part in SHAPES.items() for _ in range(round(nodes * part / 100))]
    shapes = (shapes + ["quads"] * nodes)[:nodes]
    teams: Data = {
        team: {"users": [f"{team}{n}" for n in range(USERS)], "share": share, "limits": {"memory": f"{nodes} TB"}}
        for team, share in TEAMS.items()
    }
    found: Data = {
        "fleet": "mixed",
        "teams": teams,
        "worth": {"H100": 2, "A100": 1, "L40S": 1},
        "solve": {"effort": effort, "moves": 20},
        "limits": {
            "cluster": {"gpus": gpus, "vcpus": nodes * 128, "memory": f"{nodes} TB"},
            "user": {"gpus": max(64, gpus // 4), "vcpus": nodes * 40, "memory": f"{nodes} TB"},
        },
        "hardware": {name: one | REST for name, one in HARDWARE.items()},
        "racks": {f"r{n:03d}": {"power": f"{IN_A_RACK * WATTS} W"} for n in range(-(-nodes // IN_A_RACK))},
        "tuning": {"fed": {"gpu_power": "300..500 W"}},
        "nodes": {
            f"n{n:04d}": {
                "hardware": shape,
                "rack": f"r{n // IN_A_RACK:03d}",
                "tuning": "fed",
                "ssh": "root@{name}.example.org",
            }
            for n, shape in enumerate(shapes)
        },
        "workloads": {},
    }
    asked = 0.0
    while asked < gpus * DEMAND:
        name, one, more = workload(rng, len(found["workloads"]))
        found["workloads"][name] = one
        asked += more
    for n in range(nodes):
        found["workloads"][f"etl-{n:04d}"] = {
            "user": _user(rng), "kind": "batch", "priority": "low", "replicas": rng.randint(1, 4),
            "each": {"vcpus": f"{rng.choice([2, 4, 8])}..16", "memory": f"{rng.choice([8, 16])}..64 GB"},
            "run": {"command": "python3 etl.py"},
        }  # fmt: skip
    return found


def workload(rng: random.Random, number: int) -> tuple[str, Data, float]:
    """A name, an entry, and how many GPUs it asks for."""
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    found: Data = {"user": _user(rng), "kind": "train", "priority": rng.choice(["high", "normal", "normal", "low"])}
    each: Data = {"vcpus": rng.choice([4, 8]), "memory": f"{rng.choice([32, 64])} GB"}
    place: Data = {}
    replicas, gpus = rng.choice([1, 1, 2, 4]), float(rng.choice([1, 2]))
    model = rng.choice(["H100", "H100", "A100", "L40S", None])
    if kind == "linked":
        gpus, model, place["links"] = float(rng.choice([2, 3, 4, 4])), rng.choice(["H100", "H100", "A100"]), "required"
    elif kind == "gang":
        replicas, gpus, model = rng.choice([2, 4, 8]), 8.0, rng.choice(["H100", "A100"])
        place["within"] = "rack"
    elif kind == "serve":
        found["kind"], replicas = "serve", rng.choice([2, 3, 6])
        place |= rng.choice([{"spread": "rack"}, {"balance": "rack"}, {}])
        found["network"] = {"egress": f"{rng.choice([1, 2])}..10 Gbit/s"}
        found["run"] = {"command": "serve", "port": 8000 + number % 20000, "healthy": "/ready"}
        if number % 2:
            found["variants"] = {"bf16": {}, "int8": {"worth": 0.9, "each": {"gpus": f"1 x {model}" if model else 1}}}
    elif kind == "part":
        gpus, model = rng.choice([0.25, 0.5]), None
    elif kind == "cut":
        gpus, model = 1.0, None
    each["gpus"] = f"{gpus:g} x {model}" if model else gpus if gpus % 1 else int(gpus)
    if kind == "cut":
        each["gpus"], gpus = f"1 x H100/{rng.choice(['1g.10gb', '2g.20gb', '3g.40gb'])}", 1 / 3
    found |= {"gang" if kind == "gang" else "replicas": replicas, "each": each} | ({"place": place} if place else {})
    if "run" not in found:
        found["run"] = {"command": "python3 train.py"}
    return f"{kind}-{number:04d}", found, replicas * gpus


def _user(rng: random.Random) -> str:
    return f"{rng.choice(list(TEAMS))}{rng.randrange(USERS)}"


def changed(data: Data, seed: int) -> int:
    """One of a hundred workloads is replaced by another or has other replicas; how many."""
    rng = random.Random(f"change {seed}")
    names = rng.sample(list(data["workloads"]), max(1, len(data["workloads"]) // 100))
    for i, name in enumerate(names):
        if i % 2:
            one = data["workloads"][name]
            one["gang" if "gang" in one else "replicas"] += 1
        else:
            del data["workloads"][name]
            new, one, _ = workload(rng, 100_000 + i)
            data["workloads"][new] = one
    return len(names)


def measured(title: str, folder: Path) -> None:
    """Solve in a process of its own, and print what it took and what is not proven."""
    words = [sys.executable, "-m", "swarm_iac.cli", "solve", "--stack", "mixed", "--json"]
    begin = time.monotonic()
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        child = subprocess.Popen(words, cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
    took, text = time.monotonic() - begin, (folder / "out").read_text()
    code = os.waitstatus_to_exitcode(status)
    print(f"{title:28} {took:6.1f} s, CPU {used.ru_utime + used.ru_stime:6.1f} s, {used.ru_maxrss / 1024:5.0f} MB, exit {code}")
    if code:
        sys.exit((folder / "err").read_text())
    for goal in json.loads(text)["proof"]["goals"]:
        if goal["value"] != goal["bound"]:
            gap = 100 * abs(goal["bound"] - goal["value"]) / max(1, abs(goal["bound"]), abs(goal["value"]))
            print(f"  {goal['name']:32} {goal['value']:>9} of {goal['bound']:>9}  gap {gap:5.2f}%")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--effort", default="normal", choices=["quick", "normal", "thorough"])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the stack files here, and leave them")
    asked = parser.parse_args()
    data = stack(asked.gpus, asked.seed, asked.effort)
    with tempfile.TemporaryDirectory() as name:
        folder = asked.keep or Path(name)
        (folder / "stacks").mkdir(parents=True, exist_ok=True)
        (folder / "Pulumi.yaml").write_text("name: mixed\nruntime: python\nbackend: {url: 'file://./.state'}\n")
        file = folder / "stacks" / "mixed.yaml"
        file.with_suffix(".lock.yaml").unlink(missing_ok=True)
        print(f"{len(data['nodes'])} nodes, {len(data['workloads'])} workloads")
        file.write_text(yaml.safe_dump(data, sort_keys=False))
        measured("all new", folder)
        count = changed(data, asked.seed)
        file.write_text(yaml.safe_dump(data, sort_keys=False))
        measured(f"{count} workloads change", folder)


if __name__ == "__main__":
    main()
