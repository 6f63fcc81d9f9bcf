"""What do allocations use of CPU, memory and disks, and how long do they wait for it? From the kernel's files of their cgroups."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional

from ..concerns.slices import cgroup
from ..machine.run import Context
from .families import Sample
from .labels import Labels

_MICRO = 1e-6


def collect(context: Context, labels: Labels) -> List[Sample]:
    """Samples of every allocation that has a cgroup. What a kernel does not count is left out."""
    return [each for name, holder in sorted(labels.holders.items()) for each in _of(context, cgroup(name), holder.labels)]


def _of(context: Context, folder: str, who: Dict[str, str]) -> Iterator[Sample]:
    cpu = pairs(context.read(f"{folder}/cpu.stat"))
    for mode in ("user", "system"):
        if f"{mode}_usec" in cpu:
            yield "swarm_allocation_cpu_seconds_total", {**who, "mode": mode}, cpu[f"{mode}_usec"] * _MICRO
    if "throttled_usec" in cpu:
        yield "swarm_allocation_cpu_throttled_seconds_total", who, cpu["throttled_usec"] * _MICRO
    for file, name in (
        ("memory.current", "swarm_allocation_memory_bytes"),
        ("memory.max", "swarm_allocation_memory_limit_bytes"),
        ("pids.current", "swarm_allocation_processes"),
    ):
        found = _number(context.read(f"{folder}/{file}"))
        if found is not None:
            yield name, who, found
    events = pairs(context.read(f"{folder}/memory.events"))
    if "oom_kill" in events:
        yield "swarm_allocation_oom_kills_total", who, events["oom_kill"]
    yield from _disks(context.read(f"{folder}/io.stat"), who)
    for resource in ("cpu", "memory", "io"):
        for waiting, total in pressure(context.read(f"{folder}/{resource}.pressure")).items():
            labels = {**who, "resource": resource, "waiting": waiting}
            yield "swarm_allocation_pressure_seconds_total", labels, total * _MICRO


def _disks(text: Optional[str], who: Dict[str, str]) -> Iterator[Sample]:
    """Over all disks. A cgroup that has not used any has an empty file: nothing read and nothing written."""
    if text is None:
        return
    total = {"rbytes": 0, "wbytes": 0, "rios": 0, "wios": 0}
    for line in text.splitlines():
        for pair in line.split()[1:]:
            key, _, value = pair.partition("=")
            if key in total and value.isdecimal():
                total[key] += int(value)
    for direction, letter in (("read", "r"), ("write", "w")):
        yield "swarm_allocation_io_bytes_total", {**who, "direction": direction}, total[f"{letter}bytes"]
        yield "swarm_allocation_io_operations_total", {**who, "direction": direction}, total[f"{letter}ios"]


def pairs(text: Optional[str]) -> Dict[str, int]:
    """Lines `key number` of a file of the kernel."""
    split = (line.split() for line in (text or "").splitlines())
    return {words[0]: int(words[1]) for words in split if len(words) == 2 and words[1].isdecimal()}


def pressure(text: Optional[str]) -> Dict[str, int]:
    """{some, full}: how long tasks have waited in all, of a PSI file. [us]"""
    found: Dict[str, int] = {}
    for line in (text or "").splitlines():
        kind, _, rest = line.partition(" ")
        total = rest.rpartition("total=")[2]
        if kind in ("some", "full") and total.isdecimal():
            found[kind] = int(total)
    return found


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text and text.isdecimal() else None
