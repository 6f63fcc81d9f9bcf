"""What could a trace look like that nobody has seen? Writes lists of nodes and pods like openb's, drawn from a seed.

    python -m tests.benchmarks.openb_unseen --out DIR [--seed N] [--nodes 1213]
    python -m tests.benchmarks.openb_unseen --out DIR --like DATA [--named 0.33] [--seed N]
    python -m tests.benchmarks.openb --data DIR --trace NAME

Each trace leans another way than the published ones; `wide` and `named` have the 11 columns, the others 5. All share the
list of nodes, which is drawn too. `--like`: the published nodes, and the pods of `gpuspec10`, of which so many more name GPU models,
as trace `gpuspecN`: as many models with few of each as a fleet has that grew over years.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Callable
from pathlib import Path

#: GPUs, vCPUs, MiB of memory and model of a machine, and how often it comes.
MACHINES = (
    (8, 96, 786432, "A100", 9), (8, 128, 1048576, "H100", 6), (8, 64, 524288, "L40S", 5), (4, 48, 393216, "A10", 6),
    (4, 64, 262144, "V100", 4), (2, 32, 131072, "T4", 8), (1, 12, 49152, "T4", 3), (2, 96, 262144, "L4", 2),
)  # fmt: skip
MODELS = sorted({machine[3] for machine in MACHINES})
#: Pods in a list, and different shapes among them unless the trace says otherwise.
PODS, SHAPES = 8000, 150

#: cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec
Shape = tuple[int, int, int, int, str]
Draw = Callable[[random.Random], Shape]


def _with(rng: random.Random, gpus: int, milli: int, cpu: float = 8.0, memory: float = 40_000, spec: str = "") -> Shape:
    """A shape with about so many vCPUs and MiB for each GPU, spread over a factor of four or so."""
    gpus = gpus if milli == 1000 else 1  # openb holds only a single GPU in part
    size = gpus * milli / 1000
    vcpus = round(1000 * max(1, min(90, size * cpu * rng.lognormvariate(0, 0.5))), -2)
    mib = int(max(512, min(390_000, size * memory * rng.lognormvariate(0, 0.5))))
    return int(vcpus), mib, gpus, milli, spec


def _count(rng: random.Random) -> int:
    (count,) = rng.choices((1, 2, 4, 8), (12, 3, 2, 1))
    return int(count)


def _share(rng: random.Random) -> int:
    return rng.randrange(50, 960, 10)


def _named(rng: random.Random) -> Shape:
    spec = "|".join(sorted(rng.sample(MODELS, rng.choice((1, 1, 2, 3))))) if rng.random() < 0.4 else ""
    return _with(rng, _count(rng), 1000, spec=spec)


#: (what one shape is, how many shapes)
TRACES: dict[str, tuple[Draw, int]] = {
    "whole": (lambda rng: _with(rng, _count(rng), 1000), SHAPES),
    "odd": (lambda rng: _with(rng, rng.randint(1, 8), 1000), SHAPES),
    "shared": (lambda rng: _with(rng, 1, _share(rng) if rng.random() < 0.8 else 1000), SHAPES),
    "cpu": (lambda rng: _with(rng, _count(rng), 1000, cpu=13.0), SHAPES),
    "memory": (lambda rng: _with(rng, _count(rng), _share(rng) if rng.random() < 0.2 else 1000, memory=90_000), SHAPES),
    "few": (lambda rng: _with(rng, _count(rng), 1000 if rng.random() < 0.6 else _share(rng)), 8),
    "wide": (lambda rng: _with(rng, _count(rng), 1000 if rng.random() < 0.7 else _share(rng), memory=50_000), 900),
    "named": (_named, 250),
}


def _nodes(rng: random.Random, count: int) -> list[tuple[object, ...]]:
    drawn = rng.choices(MACHINES, [machine[4] for machine in MACHINES], k=count)
    found = sorted((gpus, vcpus, memory, model) for gpus, vcpus, memory, model, _ in drawn)
    return [(f"node-{i:04d}", 1000 * vcpus, memory, gpus, model) for i, (gpus, vcpus, memory, model) in enumerate(found)]


def _pods(rng: random.Random, draw: Draw, shapes: int) -> list[Shape]:
    """Few shapes are asked for often and many seldom, and a tenth of the pods wants no GPU."""
    known = [draw(rng) for _ in range(shapes)]
    weights = [1 / (1 + rank) ** 0.8 for rank in range(shapes)]
    plain = [(1000 * rng.randint(1, 32), 1024 * rng.randint(2, 128), 0, 0, "") for _ in range(10)]
    return [rng.choice(plain) if rng.random() < 0.1 else rng.choices(known, weights)[0] for _ in range(PODS)]


def write(folder: Path, seed: int, nodes: int) -> None:
    """All lists of a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "openb_node_list_gpu_node.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("sn", "cpu_milli", "memory_mib", "gpu", "model"), *_nodes(random.Random(seed), nodes)])
    for name, (draw, shapes) in TRACES.items():
        long = name in ("wide", "named")
        heads = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"]
        heads += ["gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"] if long else []
        with (folder / f"openb_pod_list_{name}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(heads)
            for i, (*four, spec) in enumerate(_pods(random.Random(f"{seed} {name}"), draw, shapes)):
                out.writerow([f"pod-{i:04d}", *four, *([spec, "LS", "Running", i, i + 1, i] if long else [])])


def write_like(data: Path, folder: Path, named: float, seed: int) -> str:
    """The published nodes, and pods of which about a part of `named` more name models, each as a published one does."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "openb_node_list_gpu_node.csv").write_text((data / "openb_node_list_gpu_node.csv").read_text())
    with (data / "openb_pod_list_gpuspec10.csv").open() as file:
        pods = list(csv.DictReader(file))
    specs = [pod["gpu_spec"] for pod in pods if pod["gpu_spec"]]
    name = f"gpuspec{round(100 * named)}"
    with (folder / f"openb_pod_list_{name}.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, list(pods[0]))
        out.writeheader()
        for pod in pods:
            if not pod["gpu_spec"] and int(pod["num_gpu"]) and rng.random() < named:
                pod["gpu_spec"] = rng.choice(specs)
            out.writerow(pod)
    return name


def main() -> None:
    """Write the lists and say their names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1213)
    parser.add_argument("--like", type=Path, metavar="DATA", help="folder with the published lists")
    parser.add_argument("--named", type=float, default=0.33, help="part of the pods that name GPU models besides those")
    asked = parser.parse_args()
    if asked.like:
        print(write_like(asked.like, asked.out, asked.named, asked.seed))
        return
    write(asked.out, asked.seed, asked.nodes)
    print(" ".join(TRACES))


if __name__ == "__main__":
    main()
