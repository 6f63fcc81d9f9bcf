"""Does what was chosen fit beside the rest, which stays as it was found?"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from swarm_iac.model.device import WHOLE
from swarm_iac.model.resources.table import COUNTED
from swarm_iac.model.state import Desired, GpuState, Observed
from swarm_iac.plan.step_graph.hand_over_order import At, capacity, hold, levelled, numa_parts


def within_power(observed: Mapping[str, Observed], mixed: dict[str, Desired]) -> None:
    """Where what rises exceeds the budget of its node or rack beside what stays, it rises another time."""
    racks: dict[str, list[str]] = {}
    for name, each in mixed.items():
        if each.rack and each.managed:
            racks.setdefault(each.rack, []).append(name)
    groups = [([name], each.power_w) for name, each in mixed.items() if each.power_w and each.managed]
    groups += [(names, min(mixed[name].rack_power_w for name in names)) for names in racks.values()]
    for names, power in groups:
        old = {name: observed[name].state.gpus if name in observed else {} for name in names}
        budget = max(power, sum(map(_watts, old.values())))
        if sum(_watts(mixed[name].state.gpus) for name in names) <= budget:
            continue
        for name in names:
            gpus = mixed[name].state.gpus
            kept = {gpu: old[name].get(gpu, GpuState()) if _rises(old[name], gpus, gpu) else gpus[gpu] for gpu in gpus}
            kept = {gpu: state for gpu, state in kept.items() if state != GpuState()}
            mixed[name] = mixed[name].model_copy(update={"state": mixed[name].state.model_copy(update={"gpus": kept})})


def _watts(gpus: Mapping[int, GpuState]) -> int:
    return sum(state.power_w or 0 for state in gpus.values())


def _rises(old: Mapping[int, GpuState], new: Mapping[int, GpuState], gpu: int) -> bool:
    return (new[gpu].power_w or 0) > (old.get(gpu, GpuState()).power_w or 0)


def clashes(observed: Mapping[str, Observed], mixed: Mapping[str, Desired], moving: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of each node one allocation that does not fit there, and why; the last by name, so that the first are served."""
    moving = set(moving)
    for node, wanted in sorted(mixed.items()):
        here = moving & wanted.state.allocations.keys()
        if here:
            yield from itertools.islice(_clashes(observed.get(node, Observed(node=node)), wanted, here), 1)


def _clashes(seen: Observed, wanted: Desired, moving: set[str]) -> Iterator[tuple[str, str]]:
    node, ones = wanted.node, wanted.state.allocations
    held = levelled({name: hold(state) for name, state in ones.items()})
    total: Counter[At] = Counter()
    for each in held.values():
        total.update(each.devices)
    for one in sorted(moving, reverse=True):
        for other in sorted(ones.keys() - {one}):
            mine, its = held[one], held[other]
            crowded = [at for at in sorted(mine.devices.keys() & its.devices.keys()) if total[at] > WHOLE]
            if crowded:
                yield one, f"GPU {crowded[0][1]} of {node} is still held by {other}"
            if mine.cpus & its.cpus and (mine.pinned or its.pinned):
                yield one, f"cores of {node} are still held by {other}"
            if ones[one].unit.port == ones[other].unit.port is not None:
                yield one, f"port {ones[one].unit.port} of {node} is still held by {other}"
    has = capacity(seen, seen.state, wanted.state, wanted.hardware)
    for row, how in COUNTED:
        before = {name: how.amount(state) for name, state in seen.state.allocations.items()}
        takers = [one for one in moving if held[one].amount(row.name) > before.get(one, 0)]
        used, total_ = sum(its.amount(row.name) for its in held.values()), has[row.name]
        if takers and total_ and used > max(total_, sum(before.values())):
            yield max(takers), f"{how.noun} of {node} is still held by others"
    seen_ = {name: hold(state) for name, state in seen.state.allocations.items()}
    for parts, size in numa_parts(held.values(), has).items():
        before = {name: each.bound(parts) for name, each in seen_.items()}
        takers = [one for one in moving if held[one].bound(parts) > before.get(one, 0)]
        if takers and sum(its.bound(parts) for its in held.values()) > max(size, sum(before.values())):
            yield max(takers), f"memory of NUMA node {', '.join(map(str, sorted(parts)))} of {node} is still held by others"
