"""How much more may racks, or sites, differ for a workload with `balance` to find a place? By counting."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from swarm_iac.solver.advice.first_that_fits import smallest
from swarm_iac.solver.advice.offer import Relaxation
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest


def more_skew(key: str, request: WorkloadRequest, offer: Callable[[object, int], Relaxation]) -> Iterator[Relaxation]:
    """`place.balance` with the smallest skew that would do, if any does; `offer`: an edit of it that is changed so much."""
    balance = request.place.balance
    if balance is None or key != "balance":
        return

    def skewed(skew: int) -> Relaxation:
        return offer({"over": balance.over, "skew": skew}, 300 + 10 * (skew - balance.skew))

    found = smallest([*range(balance.skew + 1, request.wanted + 1)], lambda skew: skewed(skew).whole)
    if found is not None:
        yield skewed(found)
