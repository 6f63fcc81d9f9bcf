"""Could the least of each wish ever be met, by its user's limit and by some machine?

Only what can never be met is a mistake in the file. What merely finds no room today is the solver's answer, and so is a
limit that was lowered below what runs: it adds nothing and stops nobody, and the file stays right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from swarm_iac.errors import Problem
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Ceiling, Stack
from swarm_iac.model.workload import Workload
from swarm_iac.stackfile.reading.messages import nearest
from swarm_iac.stackfile.reading.source import Source
from swarm_iac.units import BitsPerSecond, Bytes, Cpus


@dataclass(frozen=True)
class _Part:
    """One resource of one replica: its name in limits, the key that asks for it, its unit and how much."""

    name: str
    key: str
    unit: Any
    each: int
    word: str


def wishes(stack: Stack, source: Source, running: Callable[[], Placement]) -> list[Problem]:
    """One problem for each ceiling that a workload's least wish can never keep. `running` is asked where one is found."""
    problems: list[Problem] = []
    shapes = {node.hardware for node in stack.nodes.values()} & set(stack.hardware)
    # An exception counts even when it has expired: expiry stops growth, and the solver tells so; the file stays right.
    users = {user: stack.limits.of_user(user) for user in {workload.user for workload in stack.workloads.values()}}
    for name, workload in stack.workloads.items():
        if workload.replicas.most == 0 and workload.gang is None:
            continue
        parts = _parts(workload)
        problems += _ceilings(stack, source, name, workload, parts, users[workload.user], running)
        if stack.nodes:
            problems += _machines(source, name, workload, {shape: stack.hardware[shape] for shape in sorted(shapes)}, parts)
    if stack.workloads and not stack.nodes:
        message = "there are workloads, and no nodes to run them"
        problems.append(Problem(source.place("workloads"), "workloads", message, "list machines under `nodes:`"))
    return problems


def _parts(workload: Workload) -> tuple[_Part, ...]:
    each = workload.each
    network = int(max(workload.egress, workload.ingress))
    return (
        _Part("gpus", "each.gpus", int, each.gpus.count, "GPUs"),
        _Part("vcpus", "each.vcpus", Cpus, int(each.vcpus), "vCPUs"),
        _Part("memory", "each.memory", Bytes, int(each.memory), "of memory"),
        _Part("storage", "each.scratch" if each.scratch else "each.cache", Bytes, int(workload.storage), "of storage"),
        _Part("bandwidth", _network_key(workload), BitsPerSecond, network, "of bandwidth"),
    )


def _network_key(workload: Workload) -> str:
    given = workload.network
    return "network.egress" if given.egress else "network.ingress" if given.ingress else "network.between"


def _ceilings(
    stack: Stack,
    source: Source,
    name: str,
    workload: Workload,
    parts: Iterable[_Part],
    of_user: Ceiling,
    running: Callable[[], Placement],
) -> list[Problem]:
    """Σ over the least members ≤ the user's and the cluster's ceiling; what stands together ≤ the node's."""
    limits = stack.limits
    members = max(1, workload.members)
    together = members if workload.place.within == "node" else 1
    levels: tuple[tuple[str, str, Ceiling, int], ...] = (
        ("user", f"user {workload.user}", of_user, members),
        ("node", "one node", limits.node, together),
        ("cluster", "the cluster", limits.cluster, members),
    )
    problems: list[Problem] = []
    for part in parts:
        for level, who, ceiling, count in levels:
            most = getattr(ceiling, part.name)
            if most is None or part.each * count <= most:
                continue
            if level != "node" and _lowered(running(), name, part, most):
                continue
            path = f"workloads.{name}.{part.key}"
            total = part.each * count
            asked = f"{count} x {part.unit(part.each)} = {part.unit(total)}" if count > 1 else f"{part.unit(total)}"
            excess = f"{part.unit(total - most)} too {'many' if part.name in ('gpus', 'vcpus') else 'much'}"
            message = f"{asked} {part.word}, and {who} may have {part.unit(most)}: {excess}"
            limit = _limit_path(stack, level, workload.user, part.name)
            more = ", or add an exception for the user under limits.except" if level == "user" else ""
            more = ", or raise the exception" if "except" in limit else more
            hint = f"the limit is {limit} at {source.place(limit)}; ask for less{more}"
            problems.append(Problem(source.place(path), path, message, hint))
            break
    return problems


def _lowered(running: Placement, workload: str, part: _Part, most: int) -> bool:
    """Was the limit lowered, and the wish once right? By the lock the workload holds more, or waits since it was stopped."""
    if any(gone.workload == workload for gone in running.unplaced):
        return True
    of: dict[str, Callable[[Allocation], int]] = {
        "gpus": lambda one: len(one.gpus),
        "vcpus": lambda one: int(one.vcpus),
        "memory": lambda one: int(one.memory),
        "storage": lambda one: int(one.storage),
        "bandwidth": lambda one: int(max(one.egress, one.ingress)),
    }
    ones = [one for one in running.allocations if one.workload == workload]
    # What has ended held as much while it ran.
    return sum(part.each if one.ended else of[part.name](one) for one in ones) > most


def _limit_path(stack: Stack, level: str, user: str, name: str) -> str:
    if level == "user":
        for index, one in enumerate(stack.limits.exceptions):
            if one.user == user and getattr(one, name) is not None:
                return f"limits.except[{index}].{name}"
    return f"limits.{level}.{name}"


def _machines(
    source: Source, name: str, workload: Workload, shapes: dict[str, Hardware], parts: Iterable[_Part]
) -> list[Problem]:
    """Some machine's hardware holds one replica (all members, when they stand within one node)."""
    if not shapes:
        return []
    together = max(1, workload.members) if workload.place.within == "node" else 1
    gpus = workload.each.gpus
    base = f"workloads.{name}"
    able = shapes
    if gpus.count and (gpus.model or gpus.memory):
        able = {key: shape for key, shape in shapes.items() if _same_gpu(workload, shape)}
        if not able:
            path = f"{base}.each.gpus"
            models = sorted({shape.gpus.model for shape in shapes.values() if shape.gpus.model and shape.gpus.count})
            asked = " ".join(filter(None, (gpus.model, f"with {gpus.memory}" if gpus.memory else "")))
            unknown = [model for model in (gpus.model or "").split("|") if model and model not in models]
            hint = nearest(unknown[0], models) if unknown else ""
            hint = hint or ("the GPUs of the fleet: " + ", ".join(_gpus_of(shapes)) if models else "no node has GPUs")
            return [Problem(source.place(path), path, f"no node has a GPU {asked}", hint)]
    problems: list[Problem] = []
    for part in parts:
        most, best = max((_has(shape, part.name), key) for key, shape in able.items())
        if part.each * together > most:
            path = f"{base}.{part.key}"
            total = part.unit(part.each * together)
            wish = f"{together} x {part.unit(part.each)} = {total}" if together > 1 else f"{total}"
            fewer = f"ask for at most {part.unit(most // together)}" if most >= together else ""
            fewer = fewer if together == 1 else "ask for less, or leave `within: node` out"
            who = "no node" if able is shapes else f"no node with {gpus.model or gpus.memory}"
            message = f"{who} has {wish} {part.word}: the largest, {best}, has {part.unit(most)}"
            problems.append(Problem(source.place(path), path, message, fewer))
    if not problems and workload.place.numa and not any(_on_one(shape, workload) for shape in able.values()):
        path = f"{base}.place.numa"
        problems.append(Problem(source.place(path), path, _too_small(workload, able), "ask for less, or leave `numa` out"))
    if not problems and not any(all(p.each * together <= _has(shape, p.name) for p in parts) for shape in able.values()):
        asked = ", ".join(f"{p.unit(p.each)} {p.word}" for p in parts if p.each)
        message = f"no single node has all of {asked}, although each fits on some node"
        problems.append(Problem(source.place(f"{base}.each"), f"{base}.each", message, "ask for less of one of them"))
    return problems


def holds(shape: Hardware, workload: Workload) -> bool:
    """Could an empty machine of this shape hold one replica?"""
    gpus = workload.each.gpus
    suits = not gpus.count or not (gpus.model or gpus.memory) or _same_gpu(workload, shape)
    return suits and _on_one(shape, workload) and all(part.each <= _has(shape, part.name) for part in _parts(workload))


def _on_one(shape: Hardware, workload: Workload) -> bool:
    """Has one NUMA node of it the GPUs, pinned cores and memory of a replica that has to be on one?"""
    if workload.place.numa is None:
        return True
    need = _of_numa(workload)
    return any(all(each <= free for each, free in zip(need, part, strict=True)) for part in shape.parts)


def _of_numa(workload: Workload) -> tuple[int, int, int]:
    """GPUs, pinned cores and memory; nothing is bound to a NUMA node where there are no GPUs and no pinned cores."""
    each = workload.each
    cores = int(each.vcpus) // 1000 if each.pinned else 0
    return (each.gpus.count, cores, int(each.memory)) if each.gpus.count or cores else (0, 0, 0)


def _too_small(workload: Workload, shapes: dict[str, Hardware]) -> str:
    """What no NUMA node has enough of, and which has most of it."""
    for i, (need, word) in enumerate(zip(_of_numa(workload), ("GPUs", "pinned cores", "of memory"), strict=True)):
        most, best = max((max(part[i] for part in shape.parts), key) for key, shape in shapes.items())
        if need > most:
            unit: Any = Bytes if i == 2 else int
            return f"no NUMA node has {unit(need)} {word}: the largest, of {best}, has {unit(most)}"
    return "no NUMA node has all of its GPUs, pinned cores and memory, although each fits on some"


def _same_gpu(workload: Workload, shape: Hardware) -> bool:
    asked = workload.each.gpus
    if not shape.gpus.count or not asked.allows(shape.gpus.model):
        return False
    return asked.memory is None or asked.memory <= shape.gpu_memory


def _gpus_of(shapes: dict[str, Hardware]) -> list[str]:
    return sorted({f"{shape.gpus.model} ({shape.gpu_memory})" for shape in shapes.values() if shape.gpus.model})


def _has(shape: Hardware, name: str) -> int:
    table = {
        "gpus": shape.gpus.count,
        "vcpus": shape.vcpus,
        "memory": shape.memory,
        "storage": shape.nvme,
        "bandwidth": shape.nic,
    }
    return int(table[name])
