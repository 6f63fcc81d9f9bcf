"""How many replicas find a place on the nodes seen so far, at the least? Where that is all, nobody looks at the others."""

from __future__ import annotations

from collections import Counter

from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, WorkloadRequest


class AtLeast:
    """The sum over racks, or the best rack (or node) where all have to be in one. 0 where other rules on groups decide."""

    def __init__(self, capacity: FreeCapacity, request: WorkloadRequest, of_models: dict[str, int]) -> None:
        """`of_models`: what limits on GPU models leave of each; it is used up here."""
        self.capacity, self.request, self.of_models = capacity, request, of_models
        self.together = request.together  # not kept there, and asked for each node
        sites = any(group.level == "site" and group.each is not None for group in request.groups)
        self.unknown = sites or self.together == "site" or bool(request.even or request.between)
        self.unknown = self.unknown or bool(self.together and of_models)
        self.each = min((g.each for g in request.groups if g.each is not None and g.level == "rack"), default=ENDLESS)
        self.found: Counter[str] = Counter()
        self.watts: dict[str, int] = {}  # of one replica on the first node of each rack
        self.total = 0

    def add(self, host: NodeCapacity, count: int) -> int:
        """One more node, which takes so many by itself. Returns how many have a place in all."""
        if self.unknown:
            return 0
        request, rack = self.request, group_of(host, "node" if self.together == "node" else "rack")
        if self.watts.setdefault(rack, host.power_of(request)) == host.power_of(request):
            room = self.capacity.by_rack(request, host) - self.found[rack]
            if self.each < ENDLESS and self.found[rack]:  # who stands in the rack already counts as well
                room = 0
            more = max(0, min(count, room, self.of_models.get(host.model or "", count)))
            if host.model in self.of_models:
                self.of_models[host.model] -= more
            self.found[rack] += more
            self.total = max(self.total, self.found[rack]) if self.together else self.total + more
        return self.total
