"""Who left without need? What moved or stopped and finds room where it stood goes back.

A search that was ended early has placed what it could, and has not yet looked at what that moved and stopped. Those that
came stay where they are; of those that left as many as fit go home, by priority, the largest first. Who cannot keeps the
place he was given or takes any other, and what has no place yet takes what is left.
"""

from __future__ import annotations

from collections import Counter

from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.kinds import simple
from swarm_iac.solver.repair.restoring import room_beside
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.layout import MEMORY
from swarm_iac.solver.snapshot.snapshot import Scene
from swarm_iac.solver.snapshot.tasks import Pairs, Settled, Task, by_workload
from swarm_iac.solver.snapshot.value import MOVE, total

#: So often all who left are asked anew: each who goes home makes room for others.
TURNS = 4


def homeward(scene: Scene, settled: Settled, counts: Pairs) -> Pairs:
    """What is worth the most, with at least as many replicas of each workload: `counts`, or after some ways home."""
    for _ in range(TURNS):
        found = _once(scene, settled, counts)
        if found == counts:
            break
        counts = found
    return counts


def _once(scene: Scene, settled: Settled, counts: Pairs) -> Pairs:
    stand: Pairs = Counter((a.workload, a.node) for a in settled.stay.values())
    most = max(moves_of(scene, settled, counts), int(scene.stack.solve.moves))
    best = counts
    for way, alone in ((_all_anew, True), (_one_by_one, False)):
        gone = stand - best
        left = by_workload(gone)
        order = sorted((name for name in left if not alone or simple(scene.asks[name])), key=lambda name: _rank(scene, name))
        if not order:
            continue
        homes = {name: sorted(node for one, node in gone if one == name) for name in order}
        place = _Place(scene, settled, best & stand)
        way(place, best - stand, gone, homes, Counter({name: left[name] for name in order}))
        home = +place.counts
        # What has no place yet takes what is left; where one that ran comes up elsewhere, that is a move of the budget.
        for found in (home + greedy(Task(scene, place.room, _missing(scene, home))), home):
            well = not by_workload(best) - by_workload(found) and moves_of(scene, settled, found) <= most
            if well and net(scene, settled, found) > net(scene, settled, best):
                best = found
                break
    return best


def net(scene: Scene, settled: Settled, counts: Pairs) -> int:
    """What is placed, less what it moves."""
    return total(scene, counts) - MOVE * moves_of(scene, settled, counts)


def eased(scene: Scene, settled: Settled, counts: Pairs) -> Pairs:
    """The same, with every replica that had to change at home again, if its node has room for what it is now."""
    stood: Pairs = Counter((a.workload, a.node) for a in (*settled.stay.values(), *settled.soft.values()))
    soft = {(a.workload, a.node) for a in settled.soft.values()}
    left = [pair for pair in sorted(stood - counts) if pair in soft]
    if not left:
        return counts
    room, found, away = room_beside(scene, settled, counts), Counter(counts), counts - stood
    for name, home in left:
        ask, bin_ = scene.asks[name], scene.bins[home]
        for there in sorted(node for one, node in away if one == name):
            while away[name, there] and found[name, home] < stood[name, home]:
                room.take(ask, scene.bins[there], -1)
                if room.most(ask, bin_) <= 0:
                    room.take(ask, scene.bins[there], 1)
                    break
                room.take(ask, bin_, 1)
                found[name, there] -= 1
                away[name, there] -= 1
                found[name, home] += 1
    found = +found
    return found if moves_of(scene, settled, found) <= moves_of(scene, settled, counts) else counts


Homes = dict[str, list[str]]


def _all_anew(place: _Place, comes: Pairs, gone: Pairs, homes: Homes, leavers: Counter[str]) -> None:
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
    for (name, node), count in sorted(given.items(), key=lambda one: (_rank(place.scene, one[0][0]), one)):
        leavers[name] -= place.put(name, node, min(leavers[name], count))


def _one_by_one(place: _Place, comes: Pairs, gone: Pairs, homes: Homes, leavers: Counter[str]) -> None:
    """All stand where they were given, and each that finds room at home goes there. Those that stopped, too.

    Who has to stay near the others of its workload finds room only with all of them.
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
            if place.scene.asks[name].within and (went := place.all_back(name, left, given)):
                left -= went
                back += went.total()


def _rank(scene: Scene, name: str) -> tuple[int, int, int, str]:
    ask = scene.asks[name]
    return (-ask.priority, -ask.gpus * ask.share, -ask.need[MEMORY], name)


def _missing(scene: Scene, counts: Pairs) -> dict[str, int]:
    placed = by_workload(counts)
    return {name: rest for name, ask in scene.asks.items() if (rest := ask.members - placed[name]) > 0}


class _Place:
    """Who stands where so far. Parts of GPUs that are kept, and those that go home, hold the card that they had."""

    def __init__(self, scene: Scene, settled: Settled, kept: Pairs) -> None:
        self.scene, self.counts, self.room = scene, Counter(kept), Room(scene)
        self.cards: dict[tuple[str, str], list[int]] = {}
        for a in settled.stay.values():
            pair = (a.workload, a.node)
            if self.room.counts[a.workload][a.node] < kept[pair]:
                self.room.take(scene.asks[a.workload], scene.bins[a.node], 1, a.cards)
            elif scene.asks[a.workload].shared:
                self.cards.setdefault(pair, []).append(a.cards[0])

    def put(self, name: str, node: str, count: int, *, home: bool = False) -> int:
        """Put up to `count` there; returns how many found room."""
        ask, bin_ = self.scene.asks[name], self.scene.bins[node]
        fits = min(count, self.room.most(ask, bin_)) if count > 0 else 0
        if home and ask.shared:
            fits = self.room.put_back(ask, bin_, fits, self.cards.get((name, node), ()))
        elif fits:
            self.room.take(ask, bin_, fits)
        self.counts[name, node] += fits
        return fits

    def back(self, name: str, node: str, given: Pairs) -> bool:
        """Does one go home from a place that it was given, or from nowhere? If not, all is as before."""
        ask = self.scene.asks[name]
        theres = sorted(there for (one, there), count in given.items() if one == name and count)
        if not theres:  # a gang starts whole, or not at all
            return not ask.gang and self.put(name, node, 1, home=True) == 1
        for there in theres:  # who spreads over racks may have to leave one of them
            self.room.take(ask, self.scene.bins[there], -1)
            if self.put(name, node, 1, home=True) == 1:
                self.counts[name, there] -= 1
                given[name, there] -= 1
                return True
            self.room.take(ask, self.scene.bins[there], 1)
        return False

    def all_back(self, name: str, left: Pairs, given: Pairs) -> Pairs:
        """Do all that were given places go home together? Who went where; if not, nobody, and all is as before."""
        ask = self.scene.asks[name]
        theres = Counter({pair: count for pair, count in given.items() if pair[0] == name and count > 0})
        homes = Counter({pair: count for pair, count in left.items() if pair[0] == name and count > 0})
        if not theres or theres.total() > homes.total():
            return Counter()
        for (_, there), count in theres.items():
            self.room.take(ask, self.scene.bins[there], -count)
        rest, went = theres.total(), Counter[tuple[str, str]]()
        for (_, node), count in sorted(homes.items()):
            went[name, node] = self.put(name, node, min(rest, count), home=True)
            rest -= went[name, node]
        if not rest:
            self.counts -= theres
            given -= theres
            return went
        for (_, node), count in went.items():
            self.room.take(ask, self.scene.bins[node], -count)
        self.counts -= went
        for (_, there), count in theres.items():
            self.room.take(ask, self.scene.bins[there], count)
        return Counter()
