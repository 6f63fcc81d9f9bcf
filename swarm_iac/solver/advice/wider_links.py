"""How much would a link between sites have to carry for a gang to find a place, or how little may its members send?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from swarm_iac.model.edit import Edit
from swarm_iac.model.resources.table import giga_step
from swarm_iac.solver.advice.first_that_fits import largest, smallest
from swarm_iac.solver.advice.offer import Relaxation
from swarm_iac.solver.explain.counting import reach
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.site_links import used
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.units import BitsPerSecond


def wider_links(
    capacity: FreeCapacity, request: WorkloadRequest, goal: int, offer: Callable[[str, object, int], Relaxation]
) -> Iterator[Relaxation]:
    """Each link with the least bandwidth that would do; the most that members may send each other. `offer`: of its own keys."""
    for pair, rate in capacity.links.items():
        others = used(capacity, pair, request)

        def fits(across: int, pair: tuple[str, str] = pair, others: int = others) -> bool:
            wide = capacity.copy()
            wide.links = {**capacity.links, pair: others + across * request.between}
            return reach(wide, request) >= goal

        most = range(max(0, rate - others) // request.between + 1, request.members // 2 + 1)
        least = smallest([*most], fits)
        if (across := least or (most[-1] if most else None)) is not None:
            value = others + across * request.between
            edit = Edit(path=f"sites.{pair[0]}.links.{pair[1]}", value=str(BitsPerSecond(value)))
            yield Relaxation("limit", edit, 1000 * (value - rate) // max(1, rate), whole=least is not None)
    step = giga_step(request.between)
    lefts = {max(0, rate - used(capacity, pair, request)) for pair, rate in capacity.links.items()}
    parts = {left // across // step * step for left in lefts for across in range(1, min(request.members // 2, 16) + 1)}
    values = sorted(value for value in parts if 0 < value < request.between)
    best = largest(values, lambda value: reach(capacity, replace(request, between=value)) >= goal)
    if best is not None:
        yield offer("network.between", str(BitsPerSecond(best)), 1000 * (request.between - best) // request.between)
