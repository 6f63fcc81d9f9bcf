"""How many more replicas fit where racks, or sites, are compared (`balance`)? From how many fit in each, rules on those aside.

The fewest that any group can have, T = min_h (there_h + fit_h), bounds all others: of group g at most T + skew − there_g come.
That many do come: groups are filled from the emptiest on, and each step keeps the rule. So every smaller number fits as well.
Where sites have a limit of their own (`per_site`), T is the largest that they leave. Where links between sites bound the
members of a gang, each smaller T is tried as well: with fewer in one site, more may come to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set

from swarm_iac.model.place.groups import SITE_LINKS, together
from swarm_iac.solver.balance.even import Even
from swarm_iac.solver.snapshot import site_links
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest

#: Site, rack and name of nodes that are counted together.
Gathered = tuple[str, str, str]


class Evened:
    """Sums over groups that are compared. `counts`: how many fit in all racks, alone; `home`: is what may return in them?"""

    def __init__(
        self,
        capacity: FreeCapacity,
        request: WorkloadRequest,
        counts: Mapping[Gathered, int],
        rules: Set[str],
        *,
        home: bool,
    ) -> None:
        self.stands = Even(capacity.snapshot, request, capacity.counts[request.name])
        groups = [group for group in request.groups if group.of.rule in rules]
        self.together = together(groups)
        self.joined = self.together is None and any(group.of is SITE_LINKS for group in groups)
        self.capacity, self.request = capacity, request
        self.most = min((group.each for group in groups if group.level == "site" and group.each is not None), default=None)
        self.home = home
        self.over_sites = self.stands.group.level == "site"
        fit, site_of = Counter[str](), dict[str, str]()
        for key, count in counts.items():
            fit[self._place(key)] += count
            site_of[self._place(key)] = key[0]
        #: Groups that are compared; who would do under these rules alone is one as well.
        by_site = self.together == "site" and not self.over_sites
        self.near = {place: near if by_site else "" for place, near in self.stands.compared.items()}
        if not home:
            self.near = {place: site_of[place] if by_site else "" for place in fit if fit[place]} | self.near
        self.least: dict[str, int] = {}
        for near in set(self.near.values()):
            mine = [place for place, one in self.near.items() if one == near]
            fewest = min(self.stands.there[place] + fit[place] for place in mine)
            while self.most is not None and not self.over_sites and fewest and not self._reachable(mine, site_of, fewest):
                fewest -= 1
            self.least[near] = fewest

    def _place(self, key: Gathered) -> str:
        site, rack, name = key
        return site if self.over_sites else f"rack {rack}" if rack else f"node {name}"

    def _reachable(self, places: list[str], site_of: Mapping[str, str], fewest: int) -> bool:
        """Does the limit on sites leave each group so many?"""
        more = Counter[str]()
        for place in places:
            more[site_of.get(place, place)] += max(0, fewest - self.stands.there[place])
        return self.most is None or max(more.values()) <= self.most

    def total(self, counts: Mapping[Gathered, int]) -> int:
        """The most in all, of so many in each rack."""
        if self.joined:
            each = self.request.members // max(1, len(self.near))  # of the fewest nobody has more
            return max(self._joined(counts, fewest) for fewest in range(min(self.least.get("", 0), each) + 1))
        fit, site_of = Counter[str](), dict[str, str]()
        for key, count in counts.items():
            fit[self._place(key)] += count
            site_of[self._place(key)] = key[0]
        sites = Counter[str]()
        for place, count in fit.items():
            sites[site_of[place]] += min(count, self._more(place))
        found = [count if self.most is None else min(count, self.most) for count in sites.values()]
        return max(found, default=0) if self.together == "site" else sum(found)

    def _joined(self, counts: Mapping[Gathered, int], fewest: int) -> int:
        """The most that links between sites leave, with no fewer than that in any group."""
        fit, site_of = Counter[str](), dict[str, str]()
        for key, count in counts.items():
            fit[self._place(key)] += count
            site_of[self._place(key)] = key[0]
        sites, least = Counter[str](), Counter[str]()
        for place, count in fit.items():
            sites[site_of[place]] += max(0, min(count, self._more(place, fewest)))
            least[site_of[place]] += min(count, max(0, fewest - self.stands.there[place])) if place in self.near else 0
        return site_links.most(
            self.capacity,
            self.request,
            {site: count if self.most is None else min(count, self.most) for site, count in sites.items()},
            least,
        )

    def _more(self, place: str, fewest: int | None = None) -> int:
        back = self.stands.back[place] if self.home and place not in self.stands.new else 0
        if place not in self.near:
            return back
        fewest = self.least[self.near[place]] if fewest is None else fewest
        return max(back, fewest + self.stands.group.skew - self.stands.there[place])


def evened_under(
    capacity: FreeCapacity,
    request: WorkloadRequest,
    counts: Callable[[], Mapping[Gathered, int]],
    rules: Set[str],
    *,
    home: bool = False,
) -> Evened | None:
    """What compares racks or sites under these rules; None where nothing does, and then nobody asks for `counts`."""
    on = request.even is not None and request.even.of.rule in rules
    return Evened(capacity, request, counts(), rules, home=home) if on else None
