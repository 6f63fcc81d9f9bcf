"""How is it told that the links between sites carry too little for a gang, and who holds what of them?"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Set

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


def reason(capacity: FreeCapacity, request: WorkloadRequest, rule: str, core: Set[str]) -> Reason:
    """The link on which the least is missing, of those with which alone all would fit; and its line.

    Where there is none, of those that would let members into another site. Where all other rules leave no site for which a
    link is short, others are in the way first: then only the rules of `core` are counted with.
    """
    for rules in (BESIDES, BESIDES & core):
        fit = _fit(capacity, request, rules)
        needs = _enough(capacity, request, fit, rules)
        pairs = needs or {pair: rate for pair, rate in capacity.links.items() if all(fit[place] for place in pair)}
        rates = {pair: needs.get(pair) or _needed(request, fit, pair) for pair in pairs or capacity.links}
        missing = {pair: need - capacity.links[pair] + used(capacity, pair, request) for pair, need in rates.items()}
        if short := [pair for pair in rates if missing[pair] > 0]:
            break
    pair = min(short or rates, key=lambda pair: (missing[pair], pair))
    most, left = max(fit[place] for place in pair), max(0, capacity.links[pair] - used(capacity, pair, request))
    sites = f"between {pair[0]} and {pair[1]}"
    takes = f"one site takes at most {min(most, request.members)} of its {request.members} members"
    text = f"needs {BitsPerSecond(rates[pair])} {sites}: {takes}"
    text += f"; the link has {BitsPerSecond(left)} left of {BitsPerSecond(capacity.links[pair])}"
    return Reason(rule=rule, text=text, path=f"sites.{pair[0]}.links.{pair[1]}")


def _enough(capacity: FreeCapacity, request: WorkloadRequest, fit: Counter[str], rules: Set[str]) -> dict[tuple[str, str], int]:
    """Of each link what would do for all members, with all others as they are; of those with which alone all fit. [bit/s]"""
    if len(capacity.links) > TRIED:
        return {}
    there = Counter({place: capacity.groups.get((request.name, "site"), {}).get(site(place), 0) for place in fit})
    more = {site(place): count - there[place] for place, count in fit.items()}
    nowhere = {host.name for host in capacity.snapshot.nodes.values() if host.site is None}
    more[""] = Tally(capacity, request, rules, nowhere).reach() if nowhere else 0
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


def _fit(capacity: FreeCapacity, request: WorkloadRequest, rules: Set[str]) -> Counter[str]:
    """How many members each site holds by these rules on it alone, with those that are there."""
    found, inside = Counter[str](), dict[str, set[str]]()
    for host in capacity.snapshot.nodes.values():
        if host.site is not None:
            found[host.site] += capacity.counts[request.name][host.name]
            inside.setdefault(host.site, set()).add(host.name)
    for place, names in inside.items():
        found[place] += Tally(capacity, request, rules, names).reach()
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
