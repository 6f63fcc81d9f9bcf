"""Does what runs keep running while there is no room for it to grow?

A replica whose workload asks for another size may find no place with it. Then the workload keeps the size that it has, all
its replicas together, and the rest is decided beside that. So a job ends for its own growth only where it says so
(`on_grow: stop`), and otherwise only for a higher priority, as any other.
"""

from __future__ import annotations

import datetime

from swarm_iac.model import growth
from swarm_iac.model.placement import Allocation, Growing, Placement, Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.solver.solution import Solution
from swarm_iac.solver.solve import solve
from swarm_iac.solver.watch import Watch

Sizes = dict[str, tuple[Allocation, int]]


def solve_keeping(
    stack: Stack, last: Placement, *, today: datetime.date | None = None, watch: Watch | None = None
) -> tuple[Stack, Solution]:
    """The stack in which nothing grows that cannot, and its solution, whose placement names what waits to grow.

    Every solve after the first has one workload more that keeps its size, or goes without it: there are at most twice as
    many as there are workloads of another size.
    """
    found = solve(stack, last, today=today, watch=watch)
    sizes = _sizes(stack, last)
    waits: dict[str, Unplaced] = {}
    refused: set[str] = set()
    now = stack
    while True:
        lost = {name: why for name, why in _lost(found.placement, last).items() if name in sizes and name not in refused}
        if not lost:
            break
        refused |= lost.keys() & waits.keys()  # at its old size it has no place either: it asks for what is written
        waits |= lost
        now = _at_sizes(stack, {name: sizes[name] for name in waits if name not in refused})
        found = solve(now, last, today=today, watch=watch)
    growing = tuple(
        Growing(workload=name, code=why.code, nodes=why.nodes, reasons=why.reasons)
        for name, why in sorted(waits.items())
        if name not in refused
    )
    if not growing:
        return stack, found
    placement = growth.told(stack, found.placement.model_copy(update={"growing": growing}))
    return now, found.model_copy(update={"placement": placement})


def _at_sizes(stack: Stack, sizes: Sizes) -> Stack:
    smaller = {name: growth.at_size(stack.workloads[name], one, count) for name, (one, count) in sizes.items()}
    return stack.model_copy(update={"workloads": {**stack.workloads, **smaller}})


def _sizes(stack: Stack, last: Placement) -> Sizes:
    """One replica, and how many there are, of each workload that runs in one size and asks for another.

    Who has to leave a node keeps its size, too.
    """
    running: dict[str, list[Allocation]] = {}
    for one in last.allocations:
        workload = stack.workloads.get(one.workload)
        if workload is not None and one.index < workload.members:
            running.setdefault(one.workload, []).append(one)
    found = {}
    for name, ones in running.items():
        wish = stack.workloads[name]
        alike = len({growth.size(one) for one in ones}) == 1
        if wish.on_grow == "keep" and alike and growth.at_size(wish, ones[0], len(ones)) != wish:
            found[name] = ones[0], len(ones)
    return found


def _lost(now: Placement, last: Placement) -> dict[str, Unplaced]:
    """Workloads of which something that ran has no place, and why."""
    ran = {one.name for one in last.allocations}
    return {gone.workload: gone for gone in now.unplaced if any(f"{gone.workload}-{i}" in ran for i in gone.missing)}
