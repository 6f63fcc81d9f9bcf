"""Does each machine carry what is placed on it? One rule, one function, its equation in the docstring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from swarm_iac.limits.index import Board, Violation, shown
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.units import BitsPerSecond, Watts


def gpus_have_one_owner(board: Board) -> Iterator[Violation]:
    """For every node n and GPU g < gpus_n:  Σ_a share_a · [g ∈ gpus_a] ≤ 1000, and no other g is named   [thousandths]"""
    for node, ones in board.by_node.items():
        owners: dict[int, str] = {}
        held: dict[int, int] = defaultdict(int)
        count = board.stack.hardware_of(node).gpus.count
        for one in ones:
            for device in one.gpus:
                gpu = device.index
                held[gpu] += device.part
                if not 0 <= gpu < count:
                    yield _on(
                        one, "gpus_have_one_owner", f"{one.name} holds GPU {gpu} of {node}, which has {count}", "each.gpus"
                    )
                elif held[gpu] > 1000:
                    text = f"GPU {gpu} of {node} is held by {owners.get(gpu, one.name)} and {one.name}"
                    yield _on(one, "gpus_have_one_owner", text, "each.gpus")
                owners.setdefault(gpu, one.name)


def cpus_have_one_owner(board: Board) -> Iterator[Violation]:
    """For every node n and CPU c < vcpus_n:  Σ_a [c ∈ cpus_a] ≤ 1, and no other c or NUMA node is named."""
    for node, ones in board.by_node.items():
        owners: dict[int, str] = {}
        hardware = board.stack.hardware_of(node)
        count = int(hardware.vcpus) // 1000
        for one in ones:
            for cpu in one.cpus:
                if not 0 <= cpu < count:
                    yield _on(
                        one, "cpus_have_one_owner", f"{one.name} pins CPU {cpu} of {node}, which has {count}", "each.vcpus"
                    )
                elif cpu in owners:
                    text = f"CPU {cpu} of {node} is pinned by {owners[cpu]} and {one.name}"
                    yield _on(one, "cpus_have_one_owner", text, "each.vcpus")
                owners.setdefault(cpu, one.name)
            for numa in one.numa:
                if not 0 <= numa < hardware.numa:
                    text = f"{one.name} is bound to NUMA node {numa} of {node}, which has {hardware.numa}"
                    yield _on(one, "cpus_have_one_owner", text, "each")


def gpus_match_wish(board: Board) -> Iterator[Violation]:
    """For every a with GPUs:  model_n ∈ models_a, where a names some,  and  memory_a ≤ gpu_memory_n"""
    for one in board.known:
        if not one.gpus:
            continue
        wish = board.stack.workloads[one.workload].each.gpus
        hardware = board.stack.hardware_of(one.node)
        if not wish.allows(hardware.gpus.model):
            text = f"{one.name} asks for {wish.model}, and {one.node} has {hardware.gpus.model}"
            yield _on(one, "gpus_match_wish", text, "each.gpus")
        elif wish.memory and wish.memory > hardware.gpu_memory:
            text = f"{one.name} asks for GPUs of {wish.memory}, and those of {one.node} have {hardware.gpu_memory}"
            yield _on(one, "gpus_match_wish", text, "each.gpus")


def vcpus_fit_node(board: Board) -> Iterator[Violation]:
    """For every node n:  Σ_{a∈n} vcpus_a ≤ vcpus_n, shared and pinned together   [1/1000 vCPU]"""
    return _fit(board, "vcpus_fit_node", "vcpus", lambda one: one.vcpus, lambda hardware: hardware.vcpus)


def memory_fits_node(board: Board) -> Iterator[Violation]:
    """For every node n:  Σ_{a∈n} memory_a ≤ memory_n   [bytes]"""
    return _fit(board, "memory_fits_node", "memory", lambda one: one.memory, lambda hardware: hardware.memory)


def storage_fits_node(board: Board) -> Iterator[Violation]:
    """For every node n:  Σ_{a∈n} (scratch_a + cache_a) ≤ nvme_n, or all with any of it have ended   [bytes]"""
    return _fit(board, "storage_fits_node", "storage", lambda one: one.storage, lambda hardware: hardware.nvme)


def nic_carries_node(board: Board) -> Iterator[Violation]:
    """For every node n:  Σ_{a∈n} egress_a ≤ nic_n  and  Σ_{a∈n} ingress_a ≤ nic_n   [bit/s]"""
    yield from _fit(board, "nic_carries_node", "bandwidth", lambda one: one.egress, lambda hardware: hardware.nic, way=" out")
    yield from _fit(board, "nic_carries_node", "bandwidth", lambda one: one.ingress, lambda hardware: hardware.nic, way=" in")


def uplink_carries_rack(board: Board) -> Iterator[Violation]:
    """For every rack r, each way:  Σ_{n∈r} Σ_{a∈n} egress_a ≤ uplink_r, as if all traffic left the rack   [bit/s]"""
    out: dict[str, int] = defaultdict(int)
    into: dict[str, int] = defaultdict(int)
    for node, ones in board.by_node.items():
        rack = board.stack.nodes[node].rack
        if rack:
            out[rack] += sum(int.__int__(one.egress) for one in ones)
            into[rack] += sum(int.__int__(one.ingress) for one in ones)
    for name, rack_ in board.stack.racks.items():
        for used, way in ((out[name], "leave"), (into[name], "enter")):
            if rack_.uplink is not None and used > int(rack_.uplink):
                text = f"{BitsPerSecond(used)} {way} rack {name}, and its uplink carries {rack_.uplink}"
                yield Violation(rule="uplink_carries_rack", text=text, subject=name, path=f"racks.{name}.uplink")


def power_stays_under_rack_budget(board: Board) -> Iterator[Violation]:
    """For every rack r:  Σ_{n∈r} Σ_{g∈n} cap_g ≤ power_r   [W]

    cap_g is the `gpu_power` of g's allocation, else of the node's tuning; a GPU without either is not counted.
    """
    used: dict[str, int] = defaultdict(int)
    for name, node in board.stack.nodes.items():
        rack = board.stack.racks.get(node.rack or "")
        if not node.rack or rack is None or rack.power is None or node.state == "lost":
            continue
        cap = int(board.stack.tuning_of(name).gpu_power or 0)
        used[node.rack] += cap * board.stack.hardware_of(name).gpus.count
        for one in board.by_node.get(name, ()):
            own = board.stack.workloads[one.workload].each.gpu_power
            if own is not None:
                used[node.rack] += (int(own) - cap) * len(one.gpus)
    for key, watts in used.items():
        power = board.stack.racks[key].power
        if power is not None and watts > int(power):
            text = f"the GPUs of rack {key} may draw {Watts(watts)}, and its budget is {power}"
            yield Violation(rule="power_stays_under_rack_budget", text=text, subject=key, path=f"racks.{key}.power")


def _fit(
    board: Board,
    rule: str,
    resource: str,
    part: Callable[[Allocation], int],
    whole: Callable[[Hardware], int],
    *,
    way: str = "",
) -> Iterator[Violation]:
    for node, ones in board.by_node.items():
        used = sum(int.__int__(part(one)) for one in ones)
        name = board.stack.nodes[node].hardware
        has = int(whole(board.stack.hardware_of(node)))
        # Files of what has ended stay when the disk is another one, and nothing may come to them.
        if used > has and any(int.__int__(part(one)) for one in ones if not one.ended):
            word = f"{'vCPUs' if resource == 'vcpus' else resource}{way}"
            text = f"{shown(resource, used)} of {word} placed on {node}, which has {shown(resource, has)}"
            field = {"storage": "nvme", "bandwidth": "nic"}.get(resource, resource)
            yield Violation(rule=rule, text=text, subject=node, path=f"hardware.{name}.{field}")


def _on(one: Allocation, rule: str, text: str, key: str) -> Violation:
    return Violation(rule=rule, text=text, subject=one.name, path=f"workloads.{one.workload}.{key}")
