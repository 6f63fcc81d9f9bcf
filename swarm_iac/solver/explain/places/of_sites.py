"""How is it told that the links between sites carry too little for a gang, and who holds what of them?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from swarm_iac.model.place.groups import SITE_LINKS
from swarm_iac.model.placement import Reason
from swarm_iac.solver.explain.counting import EVERY, Tally
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.site_links import crossing, used
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.units import BitsPerSecond


def reason(capacity: FreeCapacity, request: WorkloadRequest, rule: str) -> Reason:
    """The link on which the least is missing, of those that would let members into another site; and its line."""
    fit = _fit(capacity, request)
    whole = {pair: rate for pair, rate in capacity.links.items() if all(fit[place] for place in pair)} or capacity.links

    def missing(pair: tuple[str, str]) -> tuple[int, tuple[str, str]]:
        return _needed(request, fit, pair) - whole[pair] + used(capacity, pair, request), pair

    pair = min((one for one in whole if missing(one)[0] > 0), key=missing, default=min(whole, key=missing))
    most, left = max(fit[place] for place in pair), max(0, whole[pair] - used(capacity, pair, request))
    need = BitsPerSecond(_needed(request, fit, pair))
    sites = f"between {pair[0]} and {pair[1]}"
    text = f"needs {need} {sites}: one site takes at most {min(most, request.members)} of its {request.members} members"
    text += f"; the link has {BitsPerSecond(left)} left of {BitsPerSecond(whole[pair])}"
    return Reason(rule=rule, text=text, path=f"sites.{pair[0]}.links.{pair[1]}")


def _fit(capacity: FreeCapacity, request: WorkloadRequest) -> Counter[str]:
    """How many members each site holds by all other rules, with those that are there."""
    found, inside = Counter[str](), dict[str, set[str]]()
    for host in capacity.snapshot.nodes.values():
        if host.site is not None:
            found[host.site] += capacity.counts[request.name][host.name]
            inside.setdefault(host.site, set()).add(host.name)
    for place, names in inside.items():
        found[place] += Tally(capacity, request, EVERY - {SITE_LINKS.rule}, names).reach()
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
