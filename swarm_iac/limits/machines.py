"""Does each machine carry what is placed on it? One rule, one function, its equation in the docstring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter

from swarm_iac.limits.index import PlacementIndex, Violation
from swarm_iac.model.device import format_devices
from swarm_iac.model.placement import Allocation
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.units import Watts

#: What machines have so much of, and what goes through the uplinks of racks. Pieces have owners, and rules of their own.
_JUDGED = tuple((row, row.capacity) for row in RESOURCES if row.capacity and row.capacity.judged)
_UPLINK = tuple((row, row.uplink) for row in RESOURCES if row.uplink)
#: The rules of `nodes_carry_what_is_placed`.
NODE_RULES = tuple(dict.fromkeys(there.judged for _, there in _JUDGED))


def gpus_have_one_owner(placed: PlacementIndex) -> Iterator[Violation]:
    """For every node n, GPU g < gpus_n and eighth e of it:  Σ_a share_a · [(g, e) ∈ gpus_a] ≤ 1000, no other g is named

    In thousandths. A MIG instance has the eighths of its memory slices whole; who else has the card, or a part of it, has as
    much of each.
    """
    for node, ones in placed.by_node.items():
        owners: dict[tuple[int, int], str] = {}
        held: dict[tuple[int, int], int] = defaultdict(int)
        count = placed.stack.hardware_of(node).gpus.count
        for one in ones:
            for device in one.gpus:
                gpu = device.index
                for eighth in device.slices:
                    held[gpu, eighth] += 1000 if device.profile else device.part
                if not 0 <= gpu < count:
                    yield _on(
                        one, "gpus_have_one_owner", f"{one.name} holds GPU {gpu} of {node}, which has {count}", "each.gpus"
                    )
                elif over := [eighth for eighth in device.slices if held[gpu, eighth] > 1000]:
                    text = f"GPU {gpu} of {node} is held by {owners.get((gpu, over[0]), one.name)} and {one.name}"
                    yield _on(one, "gpus_have_one_owner", text, "each.gpus")
                for eighth in device.slices:
                    owners.setdefault((gpu, eighth), one.name)


def cpus_have_one_owner(placed: PlacementIndex) -> Iterator[Violation]:
    """For every node n and CPU c < vcpus_n:  Σ_a [c ∈ cpus_a] ≤ 1, and no other c or NUMA node is named."""
    for node, ones in placed.by_node.items():
        owners: dict[int, str] = {}
        hardware = placed.stack.hardware_of(node)
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


def gpus_match_request(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a with GPUs:  model_n ∈ models_a, where a names some,  memory_a ≤ gpu_memory_n,  and  part_a,g = share_a"""
    for one in placed.known:
        if not one.gpus:
            continue
        request = placed.stack.workloads[one.workload].each.gpus
        if other := next((gpu for gpu in one.gpus if (gpu.profile, gpu.part) != (request.profile, request.part)), None):
            text = f"{one.name} has {format_devices([other])}, and it asks for {request}"
            yield _on(one, "gpus_match_request", text, "each.gpus")
        hardware = placed.stack.hardware_of(one.node)
        if not request.allows(hardware.gpus.model):
            text = f"{one.name} asks for {request.model}, and {one.node} has {hardware.gpus.model}"
            yield _on(one, "gpus_match_request", text, "each.gpus")
        elif request.memory and request.memory > hardware.gpu_memory:
            text = f"{one.name} asks for GPUs of {request.memory}, and those of {one.node} have {hardware.gpu_memory}"
            yield _on(one, "gpus_match_request", text, "each.gpus")


def instances_lie_where_cards_allow(placed: PlacementIndex) -> Iterator[Violation]:
    """For every MIG instance of profile p on a card of n:  n may be cut, and (start, size) is a position of p on its cards"""
    for one in placed.known:
        for device in one.gpus:
            if not device.profile:
                continue
            profile = placed.stack.hardware_of(one.node).profiles.get(device.profile)
            if profile is None:
                text = f"{one.name} has {device.profile} of GPU {device.index} of {one.node}, whose GPUs may not be cut so"
                yield _on(one, "instances_lie_where_cards_allow", text, "each.gpus")
            elif device.start not in profile.starts or (device.size, device.part) != (profile.size, profile.part):
                lies = f"{device.profile} at {device.position} of GPU {device.index} of {one.node}"
                text = f"{one.name} has {lies}, and that is no position of this profile"
                yield _on(one, "instances_lie_where_cards_allow", text, "each.gpus")


def nodes_carry_what_is_placed(placed: PlacementIndex) -> Iterator[Violation]:
    """For every node n and resource r of its machine:  Σ_{a∈n} r_a ≤ r_n, or all a∈n with any of it have ended

    One rule for each row of the table (`memory_fits_node`). Files of what has ended stay when the disk is another one, and
    nothing may come to them.
    """
    for row, there in _JUDGED:
        held = attrgetter(row.field)
        for node, ones in placed.by_node.items():
            used = sum(map(int.__int__, map(held, ones)))
            has = there.of(placed.stack.hardware_of(node))
            if used > has and any(row.held(one) for one in ones if not one.ended):
                text = f"{row.text(used)} of {row.noun} placed on {node}, which has {row.text(has)}"
                path = f"hardware.{placed.stack.nodes[node].hardware}.{there.key}"
                yield Violation(rule=there.judged, text=text, subject=node, path=path)


def uplink_carries_rack(placed: PlacementIndex) -> Iterator[Violation]:
    """For every rack r, each way:  Σ_{n∈r} Σ_{a∈n} egress_a ≤ uplink_r, as if all traffic left the rack   [bit/s]"""
    used: dict[tuple[str, str], int] = defaultdict(int)
    for node, ones in placed.by_node.items():
        rack = placed.stack.nodes[node].rack
        for row, _ in _UPLINK if rack else ():
            used[rack or "", row.name] += sum(map(row.held, ones))
    for name, rack_ in placed.stack.racks.items():
        for row, uplink in _UPLINK:
            if rack_.uplink is not None and used[name, row.name] > int(rack_.uplink):
                text = f"{row.text(used[name, row.name])} {uplink.verb} rack {name}, and its uplink carries {rack_.uplink}"
                yield Violation(rule="uplink_carries_rack", text=text, subject=name, path=f"racks.{name}.uplink")


def power_stays_under_rack_budget(placed: PlacementIndex) -> Iterator[Violation]:
    """For every rack r:  Σ_{n∈r} Σ_{g∈n} cap_g ≤ power_r   [W]

    cap_g is the `gpu_power` of g's allocation, else of the node's tuning, of a range its lower end; a GPU without either is
    not counted.
    """
    used: dict[str, int] = defaultdict(int)
    for name, node in placed.stack.nodes.items():
        rack = placed.stack.racks.get(node.rack or "")
        if not node.rack or rack is None or rack.power is None or node.state == "lost":
            continue
        cap = int(placed.stack.tuning_of(name).gpu_power or 0)
        used[node.rack] += cap * placed.stack.hardware_of(name).gpus.count
        for one in placed.by_node.get(name, ()):
            own = placed.stack.workloads[one.workload].each.gpu_power
            if own is not None:
                used[node.rack] += (int(own) - cap) * len(one.gpus)
    for key, watts in used.items():
        power = placed.stack.racks[key].power
        if power is not None and watts > int(power):
            text = f"the GPUs of rack {key} may draw {Watts(watts)}, and its budget is {power}"
            yield Violation(rule="power_stays_under_rack_budget", text=text, subject=key, path=f"racks.{key}.power")


def power_stays_under_node_budget(placed: PlacementIndex) -> Iterator[Violation]:
    """For every node n with a power budget:  Σ_{g∈n} cap_g ≤ power_n   [W]

    cap_g as in `power_stays_under_rack_budget`.
    """
    for name, node in placed.stack.nodes.items():
        hardware = placed.stack.hardware_of(name)
        if hardware.power is None or node.state == "lost":
            continue
        cap = int(placed.stack.tuning_of(name).gpu_power or 0)
        watts = cap * hardware.gpus.count
        for one in placed.by_node.get(name, ()):
            own = placed.stack.workloads[one.workload].each.gpu_power
            watts += 0 if own is None else (int(own) - cap) * len(one.gpus)
        if watts > int(hardware.power):
            text = f"the GPUs of {name} may draw {Watts(watts)}, and its power budget is {hardware.power}"
            path = f"hardware.{node.hardware}.power"
            yield Violation(rule="power_stays_under_node_budget", text=text, subject=name, path=path)


def _on(one: Allocation, rule: str, text: str, key: str) -> Violation:
    return Violation(rule=rule, text=text, subject=one.name, path=f"workloads.{one.workload}.{key}")
