"""Which racks, or sites, get the next replicas of a workload with `balance`, in a pass over one workload after the other?

First from the emptiest on, as far as the emptiest one that is full allows. What is too much after that is taken back, since
the budget of a rack or the limit of a user may have left a group less than its nodes have. Then by single steps.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from swarm_iac.solver.balance.even import Even
from swarm_iac.solver.snapshot.node_slots import Slots
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, WorkloadRequest

#: Put up to so many replicas on a node; returns how many.
Put = Callable[[NodeCapacity, int], int]
#: Take one of those that were put on a node away again; was there any?
Back = Callable[[NodeCapacity], bool]


def fill_evenly(
    slots: Slots,
    request: WorkloadRequest,
    hosts: Sequence[NodeCapacity],
    caps: Mapping[str, int],
    left: int,
    put: Put,
    back: Back,
) -> None:
    """Place up to `left` replicas on `hosts`, the best ones first, and keep the rule. `caps`: how many fit on each node."""
    stands = _stands(slots, request)
    came = _turn(hosts, stands, _from_the_emptiest(stands, slots, caps, left), left, put)
    left -= came - _taken_back(slots, request, hosts, back)
    while left > 0:
        stands = _stands(slots, request)
        came = _turn(hosts, stands, _Steps(stands), left, put)
        if not came:
            break
        left -= came


def _stands(slots: Slots, request: WorkloadRequest) -> Even:
    return Even(slots.snapshot, request, slots.capacity.counts[request.name])


class _Steps(Counter[str]):
    """How many more each group takes with all others as they are. Most groups are never asked for."""

    def __init__(self, stands: Even) -> None:
        super().__init__()
        self.stands = stands

    def __missing__(self, place: str) -> int:
        return self.stands.step(place) or 0


def _turn(hosts: Sequence[NodeCapacity], stands: Even, more: Counter[str], left: int, put: Put) -> int:
    """So many more in each group, node after node."""
    came = 0
    for host in hosts:
        if came >= left:
            break
        place = stands.place(host)
        if more[place] > 0:
            count = put(host, min(more[place], left - came))
            more[place] -= count
            came += count
    return came


def _from_the_emptiest(stands: Even, slots: Slots, caps: Mapping[str, int], count: int) -> Counter[str]:
    """How many of `count` each group gets, if all that fit on its nodes could come."""
    fit = Counter[str]()
    for node, cap in caps.items():
        fit[stands.place(slots.snapshot.nodes[node])] += cap
    full = stands.compared.fewest(stands.there + fit)
    more = Counter[str]()
    heap = [(stands.there[place], place) for place in fit if fit[place] and place in stands.compared]
    heapq.heapify(heap)
    while heap and count:
        there, place = heapq.heappop(heap)
        if there < full[stands.compared[place]] + stands.group.skew and more[place] < fit[place]:
            more[place] += 1
            count -= 1
            heapq.heappush(heap, (there + 1, place))
    return more


def _taken_back(slots: Slots, request: WorkloadRequest, hosts: Sequence[NodeCapacity], back: Back) -> int:
    """Give up what is too many, new ones before those that ran there, on the last of the nodes first; returns how many."""
    gone = 0
    while over := (stands := _stands(slots, request)).over():
        place = min(over)
        here = [host for host in reversed(hosts) if stands.place(host) == place]
        here.sort(key=lambda host: stands.counts.get(host.name, 0) <= stands.ran[host.name])
        if not any(back(host) for host in here):  # they were there before
            break
        gone += 1
    return gone
