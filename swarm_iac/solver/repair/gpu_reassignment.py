"""Which parts of GPUs stay on their card, where others come to their node? And how many stay there on another one?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.placement import Allocation
from swarm_iac.solver.packing import mig_instances
from swarm_iac.solver.packing.kept_parts import Cards, keeping
from swarm_iac.solver.packing.shared_gpus import fewest_cards
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs


def on_their_card(snapshot: Snapshot, classified: Classified, counts: Pairs) -> dict[str, set[str]]:
    """For each node that something comes to: the names of those that may stay and keep their card, as many as can."""
    if not snapshot.milli:
        return {}
    stand: dict[str, dict[str, list[Allocation]]] = {}
    for a in classified.stay.values():
        if snapshot.requests[a.workload].in_pieces:
            stand.setdefault(a.node, {}).setdefault(a.workload, []).append(a)
    stood = classified.stand
    comes = {node for _, node in counts - stood} & stand.keys()
    here: dict[str, Counter[str]] = {node: Counter() for node in comes}
    wholes: Counter[str] = Counter()
    for (name, node), count in counts.items():
        if count and node in comes:
            if snapshot.requests[name].in_pieces:
                here[node][name] = count
            wholes[node] += snapshot.requests[name].need[GPUS] * count
    found = {}
    for node in sorted(comes):
        found[node], cut = _in_position(snapshot, node, stand[node], here[node], wholes[node]) if snapshot.cuts else (set(), 0)
        parts = {name: some for name, some in stand[node].items() if snapshot.requests[name].shared}
        on = {name: Counter(a.cards[0] for a in some) for name, some in parts.items()}
        shared = Counter({name: count for name, count in here[node].items() if snapshot.requests[name].shared})
        shares = {name: snapshot.requests[name].share for name in (*on, *shared)}
        sure = keeping(Cards(snapshot.nodes[node].capacity[GPUS], {}, on), shares, shared, wholes[node] + cut) or {}
        found[node] |= {a.name for name, some in parts.items() for a in _those(some, sure.get(name, Counter()))}
    return found


def _in_position(
    snapshot: Snapshot, node: str, stand: dict[str, list[Allocation]], here: Counter[str], wholes: int
) -> tuple[set[str], int]:
    """Those whose MIG instances stay where they are, as many as can, and how many cards are cut then."""
    host, requests = snapshot.nodes[node], {name: snapshot.requests[name] for name in (*stand, *here)}
    on = {name: [a.gpus for a in some] for name, some in stand.items() if requests[name].profile}
    counts = {name: count for name, count in here.items() if requests[name].profile}
    sizes = {name: (one.profile, one.gpus) for name, one in requests.items() if one.profile}
    parts = [requests[name].share for name, count in here.items() if requests[name].shared for _ in range(count)]
    empty = mig_instances.CutCards(host.cards, {}, Counter())
    cards = host.capacity[GPUS] - wholes - fewest_cards(parts)
    kept = mig_instances.keeping(empty, cards, on, sizes, counts) or {}
    names = {a.name for name, ones in kept.items() for a in stand[name] if a.gpus in ones}
    for name, count in counts.items():
        for held in kept.get(name, ()):
            empty.put(held)
        empty.loose[sizes[name][0]] += (count - len(kept.get(name, ()))) * sizes[name][1]
    return names, empty.count


def gpu_reassignments(snapshot: Snapshot, classified: Classified, counts: Pairs) -> int:
    """How many parts of GPUs stay on their node, and change their card."""
    sure = on_their_card(snapshot, classified, counts)
    stay = Counter(
        (a.workload, a.node) for a in classified.stay.values() if a.node in sure and snapshot.requests[a.workload].in_pieces
    )
    return (counts & stay).total() - sum(map(len, sure.values()))


def _those(running: list[Allocation], cards: Counter[int]) -> list[Allocation]:
    """So many of them on each card."""
    left = Counter(cards)
    found = []
    for a in running:
        if left[a.cards[0]] > 0:
            left[a.cards[0]] -= 1
            found.append(a)
    return found
