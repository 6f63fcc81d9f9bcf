"""Do huge pages leave a machine memory, and do a machine and a rack carry what their GPUs may draw?"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from swarm_iac.model.stack import Stack
from swarm_iac.units import Bytes, Watts

#: Path, what is wrong, and a hint.
Said = tuple[str, str, str]


def huge_page_problems(stack: Stack) -> Iterator[Said]:
    """Huge pages leave memory on every node that has them. Told once for each tuning."""
    for name, tuning in stack.tuning.items():
        shapes = {node.hardware for node in stack.nodes.values() if node.tuning == name} & stack.hardware.keys()
        for shape in sorted(shapes):
            one = stack.hardware[shape]
            own = [size for size in (tuning.hugepages, tuning.hugepages_1g) if size]
            pages = Bytes(sum(map(int, (*own, one.hugepages, one.hugepages_1g))))
            if own and pages >= one.memory:
                hint = f"{shape} has {one.memory} in all, of which workloads get the rest"
                key = "hugepages" if tuning.hugepages else "hugepages_1g"
                yield f"tuning.{name}.{key}", f"{pages} leave nothing of the memory of {shape}", hint


def power_problems(stack: Stack, broken: Collection[str]) -> Iterator[Said]:
    """Σ over the GPUs of a node, and of a rack, of their tuning's `gpu_power` ≤ its power, whatever is placed there. [W]

    Of a range the lower end counts. `broken`: sections of the file that have errors themselves.
    """
    if {"nodes", "racks", "hardware", "tuning"} & {*broken}:
        return
    told: set[str] = set()
    for node in stack.nodes.values():
        tuning, hardware = stack.tuning.get(node.tuning or ""), stack.hardware.get(node.hardware)
        if tuning is None or hardware is None or hardware.power is None or node.state == "lost":
            continue
        watts = int(tuning.gpu_power or 0) * hardware.gpus.count
        if watts > hardware.power and node.hardware not in told:
            told.add(node.hardware)
            hint = f"lower gpu_power in the tuning {node.tuning}; its lower end counts"
            yield f"hardware.{node.hardware}.power", f"{hardware.power} cannot carry GPUs that may draw {Watts(watts)}", hint
    used: dict[str, int] = {}
    for node in stack.nodes.values():
        tuning = stack.tuning.get(node.tuning or "")
        hardware = stack.hardware.get(node.hardware)
        if node.rack and tuning and tuning.gpu_power and hardware and node.state != "lost":
            used[node.rack] = used.get(node.rack, 0) + int(tuning.gpu_power) * hardware.gpus.count
    for name, watts in used.items():
        power = stack.racks[name].power if name in stack.racks else None
        if power is not None and watts > power:
            hint = "lower gpu_power in the tuning of its nodes, or spread them over more racks"
            yield f"racks.{name}.power", f"{power} cannot carry GPUs that may draw {Watts(watts)}", hint
