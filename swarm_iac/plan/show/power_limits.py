"""Which power limits of GPUs are lowered, and by whose budget?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.model import power
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.ranges import ranges
from swarm_iac.units import Watts

#: Of each row of `lowered`.
HEADS = ("rack", "nodes", "gpu_power", "lowered to", "because")


def lowered(stack: Stack, after: Placement) -> Iterator[tuple[str, ...]]:
    """One row for all nodes of a rack whose range of `gpu_power` is lowered alike."""
    alike = dict[tuple[str, str, str, str], list[str]]()
    for name, now in power.caps(stack, after).items():
        own = stack.tuning_of(name).gpu_power
        if own is not None and now < own.most:
            lost = power.loss(stack, name, now)
            slower = f", {float(lost):.1f}% slower" if lost else ""
            rack = stack.nodes[name].rack or ""
            why = (
                f"{stack.nodes[name].hardware} has {stack.hardware_of(name).power}" if power.by_node(stack, after, name) else ""
            )
            alike.setdefault((rack, str(own), f"{now}{slower}", why), []).append(name)
    drawn = power.drawn_by_workloads(stack, after)
    for (rack, own_text, now_text, why), nodes in sorted(alike.items()):
        if why:
            yield rack, ranges(nodes), own_text, now_text, why
            continue
        watts = sum(drawn[name] for name, node in stack.nodes.items() if node.rack == rack and node.state != "lost")
        by = f", of which workloads with `gpu_power` take {Watts(watts)}" if watts else ""
        yield rack, ranges(nodes), own_text, now_text, f"the rack has {stack.racks[rack].power}{by}"
