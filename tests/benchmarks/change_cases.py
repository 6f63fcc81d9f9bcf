"""Which daily changes are tried? The openb fleet, packed and then thinned at random to a part of its GPUs.

A workload is a shape of pods with a priority (a fifth high, half normal, the rest low, drawn at random). The fleet is
filled by the solver from 130% demand; then random replicas are taken away until `packed` of the GPUs are held, which
leaves the holes that a fleet in use has.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from tests.benchmarks import openb_trace

#: Cumulative shares of high and normal priority.
PRIORITIES = ((0.2, "high"), (0.7, "normal"), (1.0, "low"))
#: Moves that a change may make; the fewest are wanted, so the budget is wide.
MOVES = 500


@dataclass(frozen=True)
class Case:
    """A change: what runs, and the stack as it is wanted now."""

    name: str
    stack: Stack
    last: Placement


def packed(folder: Path, trace: str, part: float, seed: int) -> tuple[Stack, Placement]:
    """The fleet with `part` of its GPUs held; every workload is placed whole."""
    drawn = openb_trace.read(folder, trace, 1.3, seed)
    plain = openb_trace.stack(drawn)
    found = list(solve(plain).placement.allocations)
    rng = random.Random(seed)
    rng.shuffle(found)
    size = {name: w.each.gpus.count * w.each.gpus.share for name, w in plain.workloads.items()}
    held = sum(size[a.workload] for a in found)
    while held > part * drawn.capacity:
        held -= size[found.pop().workload]
    labels = [(f"{a.workload}-{_priority(rng)}", a) for a in found]
    counts = Counter(label for label, _ in labels)
    stack = _with(plain, counts)
    return stack, _indexed(labels)


def _priority(rng: random.Random) -> str:
    draw = rng.random()
    return next(name for most, name in PRIORITIES if draw <= most)


def _with(plain: Stack, counts: Counter[str]) -> Stack:
    """The stack with so many replicas of each `SHAPE-PRIORITY`."""
    workloads = {}
    for label, count in sorted(counts.items()):
        shape, priority = label.rsplit("-", 1)
        base = plain.workloads[shape if shape in plain.workloads else label]
        replicas = base.replicas.model_copy(update={"least": count, "most": count})
        workloads[label] = base.model_copy(update={"replicas": replicas, "priority": priority})
    return plain.model_copy(update={"workloads": workloads, "solve": plain.solve.model_copy(update={"moves": MOVES})})


def _indexed(labels: list[tuple[str, Allocation]]) -> Placement:
    """Allocations of the named workloads, numbered from 0 in the order given."""
    indices: Counter[str] = Counter()
    found = []
    for label, a in labels:
        found.append(a.model_copy(update={"workload": label, "index": indices[label], "name": f"{label}-{indices[label]}"}))
        indices[label] += 1
    return Placement(allocations=tuple(sorted(found, key=lambda a: a.name)))


def churn(stack: Stack, last: Placement, churned: float, seed: int) -> Case:
    """Replicas on a part of the GPUs held leave, and others come for as many: each GPU is as likely to be asked for.

    So a job of eight GPUs comes eight times as often as one of a single GPU, which is what needs room to be made.
    """
    rng = random.Random(seed + 1)
    every = [a for a in last.allocations if a.gpus]
    size = {name: w.each.gpus.count * w.each.gpus.share for name, w in stack.workloads.items()}
    part = churned * sum(size[a.workload] for a in every)
    gone = {a.name for a in _until(part, rng.sample(every, len(every)), size)}
    new = _until(part, rng.choices(every, [size[a.workload] for a in every], k=len(every)), size)
    stay = [a for a in last.allocations if a.name not in gone]
    counts = Counter(a.workload for a in stay) + Counter(a.workload for a in new)
    return Case(f"{churned:.0%} out, {churned:.0%} in", _with(stack, counts), _indexed([(a.workload, a) for a in stay]))


def _until(part: float, found: list[Allocation], size: dict[str, int]) -> list[Allocation]:
    """The first of them, until they hold `part` thousandths of GPUs."""
    held, taken = 0, []
    for a in found:
        if held >= part:
            break
        held += size[a.workload]
        taken.append(a)
    return taken


def closed(stack: Stack, last: Placement, count: int, state: str, seed: int) -> Case:
    """So many nodes, drawn at random, are lost or drained."""
    rng = random.Random(seed + 2)
    nodes = dict(stack.nodes)
    for name in rng.sample(sorted(nodes), count):
        nodes[name] = nodes[name].model_copy(update={"state": state})
    what = "nodes lost" if state == "lost" else "nodes drained"
    return Case(f"{count} {what}", stack.model_copy(update={"nodes": nodes}), last)
