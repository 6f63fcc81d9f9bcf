"""How far are the power limits of GPUs lowered, so that their rack stays within its budget?

A `tuning` may give a range. The solver counts its lower end, so more fits into a rack, and what the budget leaves above that
is distributed: all open ranges of a rack get the same part f of themselves. For every rack r, over GPUs g without a limit of
their own,

    f = min(1, (power_r − Σ own − Σ_g lo_g) / Σ_g (hi_g − lo_g)),   cap_g = lo_g + ⌊f · (hi_g − lo_g)⌋   [W]

`own`: GPUs whose workload brings a limit. So Σ cap + Σ own ≤ power_r in every placement that keeps the budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.units import PowerRange, Watts


def caps(stack: Stack, placement: Placement) -> dict[str, Watts]:
    """Of every node with a power limit in its tuning: that of its GPUs whose workload brings none. [W]"""
    ranges = {name: own for name in stack.nodes if (own := stack.tuning_of(name).gpu_power) is not None}
    inside: dict[str, list[str]] = {}
    for name, node in stack.nodes.items():
        if node.rack in stack.racks and stack.racks[node.rack].power is not None and node.state != "lost":
            inside.setdefault(node.rack, []).append(name)
    found = {name: Watts(int(own.most)) for name, own in ranges.items()}
    drawn, taken = drawn_by_workloads(stack, placement), _gpus_of(_with_own(stack, placement))
    for rack, nodes in inside.items():
        rest = {name: stack.hardware_of(name).gpus.count - taken[name] for name in nodes if name in ranges}
        if any(ranges[name].open for name in rest):
            budget = int(stack.racks[rack].power or 0) - sum(drawn[name] for name in nodes)
            found |= _throttled(budget, {name: (ranges[name], count) for name, count in rest.items()})
    return found


def drawn_by_workloads(stack: Stack, placement: Placement) -> Counter[str]:
    """What GPUs may draw whose workload brings a limit, by node. [W]"""
    drawn: Counter[str] = Counter()
    for one in _with_own(stack, placement):
        drawn[one.node] += int(stack.workloads[one.workload].each.gpu_power or 0) * len(one.gpus)
    return drawn


def _with_own(stack: Stack, placement: Placement) -> list[Allocation]:
    return [one for one in placement.going() if stack.workloads[one.workload].each.gpu_power is not None]


def _gpus_of(ones: list[Allocation]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in ones:
        found[one.node] += len(one.gpus)
    return found


def _throttled(budget: int, gpus: dict[str, tuple[PowerRange, int]]) -> Iterable[tuple[str, Watts]]:
    """The limit on each node: an equal part of every range, of what the budget leaves above the lower ends."""
    least = sum(int(own) * count for own, count in gpus.values())
    lent = sum(_span(own) * count for own, count in gpus.values())
    part = Fraction(max(0, min(budget - least, lent)), lent) if lent else Fraction(1)
    return [(name, Watts(int(own) + int(part * _span(own)))) for name, (own, _) in gpus.items()]


def _span(own: PowerRange) -> int:
    return int(own.most) - int(own)
