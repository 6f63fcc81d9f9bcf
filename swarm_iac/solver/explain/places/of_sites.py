"""How is it told that the links between sites carry too little for a gang, and who holds what of them?"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from swarm_iac.model.place.groups import BALANCE, SITE_LINKS
from swarm_iac.model.placement import Reason
from swarm_iac.solver.explain.counting import EVERY, Tally
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.site_links import crossing, site, used
from swarm_iac.solver.snapshot.site_links import most as most_members
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.units import BitsPerSecond

#: With more links than that it is not tried which would do alone.
TRIED = 10
#: Of how many fit into a site each speaks for itself: those that compare sites do not.
BESIDES = EVERY - {SITE_LINKS.rule, BALANCE.rule}


def reason(capacity: FreeCapacity, request: WorkloadRequest, rule: str) -> Reason:
    """The link on which the least is missing, of those with which alone all would fit; and its line.

    Where there is none, of those that would let members into another site.
    """
    fit = _fit(capacity, request)
    needs = _enough(capacity, request, fit)
    whole = {pair: rate for pair, rate in capacity.links.items() if all(fit[place] for place in pair)} or capacity.links

    def missing(pair: tuple[str, str]) -> tuple[int, tuple[str, str]]:
        need = needs.get(pair) or _needed(request, fit, pair)
        return need - capacity.links[pair] + used(capacity, pair, request), pair

    short = [one for one in needs or whole if missing(one)[0] > 0]
    pair = min(short, key=missing, default=min(whole, key=missing))
    most, left = max(fit[place] for place in pair), max(0, capacity.links[pair] - used(capacity, pair, request))
    need = BitsPerSecond(needs.get(pair) or _needed(request, fit, pair))
    sites = f"between {pair[0]} and {pair[1]}"
    text = f"needs {need} {sites}: one site takes at most {min(most, request.members)} of its {request.members} members"
    text += f"; the link has {BitsPerSecond(left)} left of {BitsPerSecond(capacity.links[pair])}"
    return Reason(rule=rule, text=text, path=f"sites.{pair[0]}.links.{pair[1]}")


def _enough(capacity: FreeCapacity, request: WorkloadRequest, fit: Counter[str]) -> dict[tuple[str, str], int]:
    """Of each link what would do for all members, with all others as they are; of those with which alone all fit. [bit/s]"""
    if len(capacity.links) > TRIED:
        return {}
    there = Counter({place: capacity.groups.get((request.name, "site"), {}).get(site(place), 0) for place in fit})
    more = {site(place): count - there[place] for place, count in fit.items()}
    nowhere = {host.name for host in capacity.snapshot.nodes.values() if host.site is None}
    more[""] = Tally(capacity, request, BESIDES, nowhere).reach() if nowhere else 0
    found, most = {}, request.members // 2
    for pair in capacity.links:

        def fits(across: int, pair: tuple[str, str] = pair) -> bool:
            wide = copy.copy(capacity)
            wide.links = {**capacity.links, pair: used(capacity, pair, request) + across * request.between}
            return most_members(wide, request, more) + capacity.counts[request.name].total() >= request.members

        across = 1 + bisect_left(range(1, most + 1), True, key=fits)
        if across <= most:
            found[pair] = across * request.between
    return found


def _fit(capacity: FreeCapacity, request: WorkloadRequest) -> Counter[str]:
    """How many members each site holds by all other rules on it alone, with those that are there."""
    found, inside = Counter[str](), dict[str, set[str]]()
    for host in capacity.snapshot.nodes.values():
        if host.site is not None:
            found[host.site] += capacity.counts[request.name][host.name]
            inside.setdefault(host.site, set()).add(host.name)
    for place, names in inside.items():
        found[place] += Tally(capacity, request, BESIDES, names).reach()
    return found


def _needed(request: WorkloadRequest, fit: Counter[str], pair: tuple[str, str]) -> int:
    """What the members that one of the sites does not take send to the others there. [bit/s]"""
    large, small = sorted((fit[place] for place in pair), reverse=True)
    return request.between * max(1, min(request.members - large, small, large))


def held(capacity: FreeCapacity, name: str) -> Iterator[str]:
    """What a gang has of each link."""
    for pair in capacity.links:
        if rate := crossing(capacity, capacity.snapshot.requests[name], pair):
            yield f"{BitsPerSecond(rate)} between {pair[0]} and {pair[1]}"
