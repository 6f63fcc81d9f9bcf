"""Who left without need? What moved or stopped and fits where it ran goes back.

A search that was ended early has placed what it could, and has not yet looked at what that moved and stopped. Those that
came stay where they are; of those that left as many as fit go home, by priority, the largest first. Who cannot keeps the
place he was given or takes any other, and what has no place yet takes what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from swarm_iac.solver.balance.even import even
from swarm_iac.solver.packing.mig_instances import Held
from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.kinds import simple
from swarm_iac.solver.repair.restoring import capacity_beside
from swarm_iac.solver.snapshot.layout import MEMORY
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, Task, by_workload
from swarm_iac.solver.snapshot.value import MOVE, total, unaccompanied

#: So often all that left are asked again: each that goes home frees capacity for others.
TURNS = 4


def undo_moves(snapshot: Snapshot, classified: Classified, counts: Pairs) -> Pairs:
    """What is worth the most, with at least as many replicas of each workload: `counts`, or after some ways home."""
    for _ in range(TURNS):
        found = _once(snapshot, classified, counts)
        if found == counts:
            break
        counts = found
    return counts


def _once(snapshot: Snapshot, classified: Classified, counts: Pairs) -> Pairs:
    most = max(moves_of(snapshot, classified, counts), int(snapshot.stack.solve.moves))
    best = counts
    for way, single in ((_all_again, True), (_one_by_one, False)):
        left = by_workload(classified.stand - best)
        order = sorted(
            (name for name in left if not single or simple(snapshot.requests[name])), key=lambda name: _rank(snapshot, name)
        )
        found, uneven = _home(snapshot, classified, best, most, way, order)
        if uneven:  # who goes home leaves one rack for another one: then those that others count on stay where they are
            order = [name for name in order if not (snapshot.requests[name].even or snapshot.requests[name].sought)]
            found, _ = _home(snapshot, classified, best, most, way, order)
        best = found
    return best


def _home(snapshot: Snapshot, classified: Classified, best: Pairs, most: int, way: Way, order: list[str]) -> tuple[Pairs, bool]:
    """What is worth more than `best`, with some of these at home and at `most` so many moves, or `best`.

    And whether something better was refused since it is uneven, or leaves somebody alone.
    """
    if not order:
        return best, False
    stand, uneven = classified.stand, False
    gone = stand - best
    left = by_workload(gone)
    homes = {name: sorted(node for one, node in gone if one == name) for name in order}
    place = _Place(snapshot, classified, best & stand)
    way(place, best - stand, gone, homes, Counter({name: left[name] for name in order}))
    home = +place.counts
    if not (home & stand) - (best & stand):
        return best, False  # nobody went home
    # What has no place yet takes what is left; where one that ran comes up elsewhere, that is a move of the budget.
    for found in (home + greedy(Task(snapshot, place.capacity, _missing(snapshot, home))), home):
        if by_workload(best) - by_workload(found) or moves_of(snapshot, classified, found) > most:
            continue
        if unaccompanied(snapshot, found):
            uneven = True
        elif net(snapshot, classified, found) > net(snapshot, classified, best):
            if even(snapshot, found):
                return found, False
            uneven = True
    return best, uneven


def net(snapshot: Snapshot, classified: Classified, counts: Pairs) -> int:
    """What is placed, less what it moves."""
    return total(snapshot, counts) - MOVE * moves_of(snapshot, classified, counts)


def eased(snapshot: Snapshot, classified: Classified, counts: Pairs) -> Pairs:
    """The same, with every replica that had to change at home again, if its node has capacity for what it is now."""
    stood: Pairs = Counter((a.workload, a.node) for a in (*classified.stay.values(), *classified.soft.values()))
    soft = {(a.workload, a.node) for a in classified.soft.values()}
    left = [pair for pair in sorted(stood - counts) if pair in soft]
    if not left:
        return counts
    capacity, found, away = capacity_beside(snapshot, classified, counts), Counter(counts), counts - stood
    for name, home in left:
        request, host = snapshot.requests[name], snapshot.nodes[home]
        for there in sorted(node for one, node in away if one == name):
            while away[name, there] and found[name, home] < stood[name, home]:
                capacity.take(request, snapshot.nodes[there], -1)
                if capacity.most(request, host) <= 0:
                    capacity.take(request, snapshot.nodes[there], 1)
                    break
                capacity.take(request, host, 1)
                found[name, there] -= 1
                away[name, there] -= 1
                found[name, home] += 1
    found = +found
    well = moves_of(snapshot, classified, found) <= moves_of(snapshot, classified, counts) and even(snapshot, found)
    return found if well and not unaccompanied(snapshot, found) else counts


Homes = dict[str, list[str]]
#: How some of those that left go home: who stands, who came, who left and from where, and how many of each.
Way = Callable[["_Place", Pairs, Pairs, Homes, Counter[str]], None]


def _all_again(place: _Place, comes: Pairs, gone: Pairs, homes: Homes, leavers: Counter[str]) -> None:
    """Those that did not run come first, then all that left go home as far as they can, then to where they were given."""
    cleared = {node for _, node in gone}
    newcomers, given = by_workload(comes) - leavers, Counter(comes)
    for (name, node), count in sorted(comes.items(), key=lambda one: (one[0][1] not in cleared, one)):
        new = min(count, newcomers[name])
        newcomers[name] -= new
        given[name, node] -= new
        place.put(name, node, new)
    for name, nodes in homes.items():
        for node in nodes:
            leavers[name] -= place.put(name, node, min(leavers[name], gone[name, node]), home=True)
    for (name, node), count in sorted(given.items(), key=lambda one: (_rank(place.snapshot, one[0][0]), one)):
        leavers[name] -= place.put(name, node, min(leavers[name], count))


def _one_by_one(place: _Place, comes: Pairs, gone: Pairs, homes: Homes, leavers: Counter[str]) -> None:
    """All stand where they were given, and each that fits at home goes there. Those that stopped, too.

    Who has to stay near the others of its workload fits only with all of them.
    """
    given = Counter({pair: place.put(*pair, count) for pair, count in sorted(comes.items())})
    left, back = Counter(gone), 1
    while back:
        back = 0
        for name, nodes in homes.items():
            for node in nodes:
                while left[name, node] and place.back(name, node, given):
                    left[name, node] -= 1
                    back += 1
            if place.snapshot.requests[name].together and (went := place.all_back(name, left, given)):
                left -= went
                back += went.total()


def _rank(snapshot: Snapshot, name: str) -> tuple[int, int, int, str]:
    request = snapshot.requests[name]
    return (-request.priority, -request.gpus * request.share, -request.need[MEMORY], name)


def _missing(snapshot: Snapshot, counts: Pairs) -> dict[str, int]:
    placed = by_workload(counts)
    return {name: rest for name, request in snapshot.requests.items() if (rest := request.members - placed[name]) > 0}


class _Place:
    """Who stands where so far. Parts of GPUs that are kept, and those that go home, hold the card that they had."""

    def __init__(self, snapshot: Snapshot, classified: Classified, kept: Pairs) -> None:
        self.snapshot, self.counts, self.capacity = snapshot, Counter(kept), classified.kept(snapshot, kept)
        self.cards: dict[tuple[str, str], list[Held]] = {}
        left = Counter({pair: kept[pair] for pair in classified.stand - kept if snapshot.requests[pair[0]].in_pieces})
        for a in classified.stay.values() if left else ():
            pair = (a.workload, a.node)
            if left.get(pair, 0):
                left[pair] -= 1
            elif pair in left:
                self.cards.setdefault(pair, []).append(a.gpus)

    def put(self, name: str, node: str, count: int, *, home: bool = False) -> int:
        """Put up to `count` there; returns how many fit."""
        request, host = self.snapshot.requests[name], self.snapshot.nodes[node]
        fits = min(count, self.capacity.most(request, host)) if count > 0 else 0
        if home and request.in_pieces:
            fits = self.capacity.put_back(request, host, fits, self.cards.get((name, node), ()))
        elif fits:
            self.capacity.take(request, host, fits)
        self.counts[name, node] += fits
        return fits

    def back(self, name: str, node: str, given: Pairs) -> bool:
        """Does one go home from a place that it was given, or from nowhere? If not, all is as before."""
        request = self.snapshot.requests[name]
        theres = sorted(there for (one, there), count in given.items() if one == name and count)
        if not theres:  # a gang starts whole, or not at all
            return not request.gang and self.put(name, node, 1, home=True) == 1
        for there in theres:  # who spreads over racks may have to leave one of them
            self.capacity.take(request, self.snapshot.nodes[there], -1)
            if self.put(name, node, 1, home=True) == 1:
                self.counts[name, there] -= 1
                given[name, there] -= 1
                return True
            self.capacity.take(request, self.snapshot.nodes[there], 1)
        return False

    def all_back(self, name: str, left: Pairs, given: Pairs) -> Pairs:
        """Do all that were given places go home together? Who went where; if not, nobody, and all is as before."""
        request = self.snapshot.requests[name]
        theres = Counter({pair: count for pair, count in given.items() if pair[0] == name and count > 0})
        homes = Counter({pair: count for pair, count in left.items() if pair[0] == name and count > 0})
        if not theres or theres.total() > homes.total():
            return Counter()
        for (_, there), count in theres.items():
            self.capacity.take(request, self.snapshot.nodes[there], -count)
        rest, went = theres.total(), Counter[tuple[str, str]]()
        for (_, node), count in sorted(homes.items()):
            went[name, node] = self.put(name, node, min(rest, count), home=True)
            rest -= went[name, node]
        if not rest:
            self.counts -= theres
            given -= theres
            return went
        for (_, node), count in went.items():
            self.capacity.take(request, self.snapshot.nodes[node], -count)
        self.counts -= went
        for (_, there), count in theres.items():
            self.capacity.take(request, self.snapshot.nodes[there], count)
        return Counter()
