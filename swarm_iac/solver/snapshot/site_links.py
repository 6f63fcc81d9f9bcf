"""What do the links between sites carry, and how many more members of a gang do they leave in a site?

    For every link l between sites s and t:  Σ_w between_w · min(x[w,s], x[w,t]) ≤ bandwidth_l   [bit/s], each way

x[w,s]: members of the gang w in s. So much is the most that they can send each other: who is in s sends between_w each, and
who is in t receives no more than that (the hose model: Duffield et al. 2002). Both ways are alike. A pair of sites without a
link is not bounded, and neither are nodes without a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from swarm_iac.model.stack import Stack
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, Snapshot, WorkloadRequest

if TYPE_CHECKING:
    from swarm_iac.solver.snapshot.capacity import FreeCapacity

#: With more sites than that the most members in all are bounded and not counted exactly.
EXACT = 10
Links = dict[tuple[str, str], int]


def with_links(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the links that can bind, and what the members of each gang send each other."""
    stack, requests = snapshot.stack, snapshot.requests
    rates = {name: rate for name, one in requests.items() if (rate := between(stack, name)) and one.gang}
    most = sum(rate * (requests[name].members // 2) for name, rate in rates.items())
    links = {pair: rate for pair, rate in stack.site_links.items() if rate < most}
    if not links:
        return snapshot
    return replace(
        snapshot,
        links=links,
        requests={name: replace(one, between=rates.get(name, 0)) for name, one in requests.items()},
    )


def between(stack: Stack, name: str) -> int:
    """What each member of a gang sends the others, and receives: of a range the lower end. [bit/s]"""
    workload = stack.workloads[name]
    return int(workload.network.between or 0) if workload.gang is not None else 0


def site(name: str) -> str:
    """As `group_of` names it."""
    return f"site {name}"


def crossing(capacity: FreeCapacity, request: WorkloadRequest, pair: tuple[str, str]) -> int:
    """between_w · min(x[w,s], x[w,t]) of one workload. [bit/s]"""
    there = capacity.groups.get((request.name, "site"), {})
    return request.between * min(there.get(site(one), 0) for one in pair)


def used(capacity: FreeCapacity, pair: tuple[str, str], but: WorkloadRequest) -> int:
    """What all others send over a link. [bit/s]"""
    own = capacity.snapshot.requests.get(but.name, but)
    return capacity.sent[pair] - crossing(capacity, own, pair)


def _across(capacity: FreeCapacity, request: WorkloadRequest) -> Links:
    """How many members of a gang may be in both sites of each link: the fewer of the two. Beside all that stands of others."""
    return {pair: max(0, rate - used(capacity, pair, request)) // request.between for pair, rate in capacity.links.items()}


def left(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity) -> int | None:
    """How many more members of a gang the links leave in the site of a node, with all others as they are; None: any number."""
    mine = capacity.groups.get((request.name, "site"), {})
    if host.site is None or not mine:
        return None
    fit: int | None = None
    for pair, rate in capacity.links.items():
        if host.site not in pair:
            continue
        other = pair[0] if pair[1] == host.site else pair[1]
        there = mine.get(site(other), 0)
        across = max(0, rate - used(capacity, pair, request)) // request.between if there else 0
        if there > across:
            more = max(0, across - mine.get(site(host.site), 0))
            fit = more if fit is None else min(fit, more)
    return fit


def most(
    capacity: FreeCapacity,
    request: WorkloadRequest,
    counts: Mapping[str, int],
    least: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """The most members in all, where so many more fit in each site (as `group_of` names it) by all other rules.

    Of sites in the order of their members, the most first, each has no more than its link to any before it leaves; and numbers
    that keep this in some order keep the rule. So the best order is looked for: over sets of sites, in 2^sites · sites steps.
    `least`: so many more have to come to a site. 0 where links leave some of them out.
    """
    mine = capacity.groups.get((request.name, "site"), {})
    across = {frozenset(map(site, pair)): rate for pair, rate in _across(capacity, request).items()}
    bound = {place for pair in across for place in pair}
    alone = sum(count for place, count in counts.items() if place not in bound)
    whole = {place: counts.get(place, 0) + mine.get(place, 0) for place in sorted(bound)}
    sites = [place for place, count in whole.items() if count]
    stand = sum(mine.get(place, 0) for place in bound)
    fewest = {place: least.get(place, 0) + mine.get(place, 0) for place in sites}

    def after(place: str, before: list[str]) -> int:
        return min([whole[place], *(across.get(frozenset((place, other)), ENDLESS) for other in before)])

    if len(sites) > EXACT:
        first = (whole[one] + sum(after(other, [one]) for other in sites if other != one) for one in sites)
        return alone + max(first) - stand
    best = [0, *[-1] * ((1 << len(sites)) - 1)]
    for bits in range(len(best)):
        if best[bits] < 0:
            continue
        before = [one for i, one in enumerate(sites) if bits >> i & 1]
        for i, place in enumerate(sites):
            if not bits >> i & 1 and (more := after(place, before)) >= fewest[place]:
                best[bits | 1 << i] = max(best[bits | 1 << i], best[bits] + more)
    return alone + best[-1] - stand if best[-1] >= 0 else 0
