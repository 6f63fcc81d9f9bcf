"""How far are the power limits of GPUs lowered, so that their rack stays within its budget?

A `tuning` may give a range. The solver counts its lower end, so more fits into a rack, and what the budget leaves above that
is distributed, so that as little speed as possible is lost. For every rack r, over GPUs g without a limit of their own,

    minimise Σ_g loss_g · (hi_g − cap_g) / (hi_g − lo_g)   with  Σ_g cap_g ≤ power_r − Σ own,  lo_g ≤ cap_g ≤ hi_g   [W]

`own`: GPUs whose workload brings a limit; `loss`: `gpu_power_loss` of the tuning, 0 where it says none. This is a fractional
knapsack: watts go first to ranges whose loss per watt, loss / (hi − lo), is larger, and among equals each gets the same part f
of itself, cap_g = lo_g + ⌊f · (hi_g − lo_g)⌋ (Dantzig 1957). So Σ cap + Σ own ≤ power_r in every placement that keeps the
budget, and without any loss all ranges of a rack get the same part.

A node may have a budget of its own (`power` of its hardware): all its GPUs that bring no limit have one range, so that only
lowers the upper end for what follows, hi_n ≤ (power_n − Σ own_n) / GPUs without a limit of their own.
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
    drawn, taken = drawn_by_workloads(stack, placement), _gpus_of(_with_own(stack, placement))
    ranges = {
        name: of_node(stack, name, own, drawn[name], taken[name])
        for name in stack.nodes
        if (own := stack.tuning_of(name).gpu_power) is not None
    }
    inside: dict[str, list[str]] = {}
    for name, node in stack.nodes.items():
        if node.rack in stack.racks and stack.racks[node.rack].power is not None and node.state != "lost":
            inside.setdefault(node.rack, []).append(name)
    found = {name: Watts(int(own.most)) for name, own in ranges.items()}
    for rack, nodes in inside.items():
        rest = {name: stack.hardware_of(name).gpus.count - taken[name] for name in nodes if name in ranges}
        if any(ranges[name].open for name in rest):
            budget = int(stack.racks[rack].power or 0) - sum(drawn[name] for name in nodes)
            found |= _least_lost(stack, budget, {name: (ranges[name], count) for name, count in rest.items()})
    return found


def of_node(stack: Stack, node: str, own: PowerRange, drawn: int, taken: int) -> PowerRange:
    """The range that the node's own budget leaves its GPUs, of which `taken` draw what their workload says, `drawn` in all."""
    hardware = stack.hardware_of(node)
    rest = hardware.gpus.count - taken
    if hardware.power is None or rest <= 0 or not own.open:
        return own
    most = max(int(own.least), (int(hardware.power) - drawn) // rest)
    return own if most >= int(own.most) else own.between(int(own.least), most)


def by_node(stack: Stack, placement: Placement, node: str) -> bool:
    """Is it the node's own budget that lowers the limit of its GPUs, or more than that of its rack?"""
    own, now = stack.tuning_of(node).gpu_power, caps(stack, placement).get(node)
    if own is None or now is None:
        return False
    drawn, taken = drawn_by_workloads(stack, placement), _gpus_of(_with_own(stack, placement))
    narrowed = of_node(stack, node, own, drawn[node], taken[node])
    return int(narrowed.most) < int(own.most) and int(now) == int(narrowed.most)


def loss(stack: Stack, node: str, cap: int) -> Fraction:
    """Speed that each GPU of a node loses at this power limit, in percent; 0 where nobody said how much that would be."""
    own, most = stack.tuning_of(node).gpu_power, stack.tuning_of(node).gpu_power_loss
    return Fraction(most * (int(own.most) - cap), _span(own)) if own is not None and own.open and most else Fraction(0)


def _least_lost(stack: Stack, budget: int, gpus: dict[str, tuple[PowerRange, int]]) -> Iterable[tuple[str, Watts]]:
    """The limit on each node: of what the budget leaves above all lower ends, first to those that lose most by a watt less."""
    per_watt: dict[Fraction, dict[str, tuple[PowerRange, int]]] = {}
    for name, (own, count) in gpus.items():
        whole = stack.tuning_of(name).gpu_power or own
        lost = Fraction(stack.tuning_of(name).gpu_power_loss or 0, _span(whole)) if own.open else Fraction(0)
        per_watt.setdefault(lost, {})[name] = own, count
    left = budget - sum(int(own) * count for own, count in gpus.values())
    for _, alike in sorted(per_watt.items(), reverse=True):
        yield from _throttled(left, alike)
        left = max(0, left - sum(_span(own) * count for own, count in alike.values()))


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


def _throttled(left: int, gpus: dict[str, tuple[PowerRange, int]]) -> Iterable[tuple[str, Watts]]:
    """The limit on each node: an equal part of every range, of what is left above the lower ends."""
    lent = sum(_span(own) * count for own, count in gpus.values())
    part = Fraction(max(0, min(left, lent)), lent) if lent else Fraction(1)
    return [(name, Watts(int(own) + int(part * _span(own)))) for name, (own, _) in gpus.items()]


def _span(own: PowerRange) -> int:
    return int(own.most) - int(own)
