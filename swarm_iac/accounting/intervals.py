"""How much is what lies between two passes, hour by hour? In whole GPU-milliseconds, so that every sum is exact.

A time in whole seconds and a part in thousandths make GPU-milliseconds: of each interval

    used + reserved idle + unknown + unallocated + out of service = capacity

without rounding. What was seen at its beginning counts for the whole interval, if its node was seen at its end as well. What is
not known is unknown: never idle, never free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swarm_iac.accounting.observation import WHOLE, HeldPart, Holder, NodePass

HOUR = 3600


@dataclass(frozen=True)
class NodeAmount:
    """Of a node's cards in one hour [h since 1970]; all [GPU-ms]. `unknown`: what is not even known to be held."""

    hour: int
    capacity: int
    unallocated: int
    off: int
    unknown: int


@dataclass(frozen=True)
class HeldAmount:
    """Of what one allocation holds on one node in one hour.

    `held`, and of that `used` and `unknown` (activity not measured) [GPU-ms]; the rest is reserved and idle. `seconds` [s].
    `bandwidth`: Σ memory bandwidth · held, over `bandwidth_known` of what is held [GPU-ms]. `cpus` [CPU-ms], over `cpus_known`
    [s]. `peak`: highest SM activity that was seen [1/1000].
    """

    hour: int
    holder: Holder
    held: int
    used: int
    unknown: int
    seconds: int
    bandwidth: int
    bandwidth_known: int
    cpus: int
    cpus_known: int
    peak: int


def known(before: NodePass, after: NodePass | None, seconds: int, longest: int) -> bool:
    """Is it known what the node did in between? `after` is None for a node that has left the stack."""
    if seconds > longest:
        return False
    if before.answered and after is not None and after.answered:
        return True
    return before.out_of_service and (after is None or after.answered or after.out_of_service)


def pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Each hour that an interval touches, and how much of it. [h since 1970], [s]"""
    while start < end:
        hour = start // HOUR
        until = min(end, (hour + 1) * HOUR)
        yield hour, until - start
        start = until


def of_node(one: NodePass, start: int, end: int, *, is_known: bool) -> Iterator[NodeAmount]:
    """The node's own amounts."""
    whole = one.cards * WHOLE
    for hour, seconds in pieces(start, end):
        if is_known:
            yield NodeAmount(hour, whole * seconds, one.free * seconds, one.off * seconds, one.unknown * seconds)
        else:
            yield NodeAmount(hour, whole * seconds, 0, 0, whole * seconds)


def of_holders(one: NodePass, start: int, end: int) -> Iterator[HeldAmount]:
    """What each allocation holds; for an interval that is known."""
    by_holder: dict[Holder, list[HeldPart]] = {}
    for part in one.held:
        by_holder.setdefault(part.holder, []).append(part)
    for hour, seconds in pieces(start, end):
        for holder, parts in by_holder.items():
            yield _held(hour, holder, parts, seconds)


def _held(hour: int, holder: Holder, parts: list[HeldPart], seconds: int) -> HeldAmount:
    active = [(part.milli, part.active) for part in parts if part.active is not None]
    moved = [(part.milli, part.bandwidth) for part in parts if part.bandwidth is not None]
    held = sum(part.milli for part in parts) * seconds
    measured = sum(milli for milli, _ in active) * seconds
    cpus = next((part.cpus for part in parts if part.cpus is not None), None)
    return HeldAmount(
        hour,
        holder,
        held=held,
        used=_weighted(active, seconds),
        unknown=held - measured,
        seconds=seconds,
        bandwidth=_weighted(moved, seconds),
        bandwidth_known=sum(milli for milli, _ in moved) * seconds,
        cpus=(cpus or 0) * seconds,
        cpus_known=0 if cpus is None else seconds,
        peak=max((ratio for _, ratio in active), default=0),
    )


def _weighted(values: list[tuple[int, int]], seconds: int) -> int:
    """Σ part · ratio · time, to the next GPU-millisecond: never more than what is held."""
    return (sum(milli * ratio for milli, ratio in values) * seconds + WHOLE // 2) // WHOLE
