"""How is it told that replicas would not stand evenly in racks, or sites?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.place.groups import Group
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.balance.even import Even
from swarm_iac.solver.explain.able import listed
from swarm_iac.solver.explain.counting import EVERY, on_node
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest

#: So many racks are named.
NAMED = 3


def balance_text(capacity: FreeCapacity, request: WorkloadRequest, group: Group) -> str:
    """The rule, and the racks that no other may go ahead of: those with the fewest; of a gang those that take the fewest."""
    stands = Even(capacity.snapshot, request, capacity.counts[request.name])
    if not stands.compared:
        return f"{group.format(group.of.text)}; no {group.level} has a ready node for it"
    most = {place: stands.there[place] for place in stands.compared}
    if request.gang:
        fit = Counter[str]()
        for host in capacity.snapshot.nodes.values():
            fit[stands.place(host)] += on_node(capacity, request, host, EVERY, request.members)
        most = {place: count + fit[place] for place, count in most.items()}
    least = min(most.values())
    places = sorted(place for place, count in most.items() if count == least)
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    named = f"{', '.join(places[:NAMED])}{more}" if more else listed(places)
    several = len(places) > 1
    if request.gang:
        found = f"{named} {'take' if several else 'takes'} {least or 'none'} of {pluralize(request.members, 'member')}"
    else:
        found = f"{named} {'have' if several else 'has'} {least or 'none'} and no capacity for one more"
    return f"{group.format(group.of.text)}; {found}"
