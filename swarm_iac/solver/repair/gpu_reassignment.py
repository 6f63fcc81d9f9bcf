"""Which parts of GPUs stay on their card, where others come to their node? And how many stay there on another one?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.placement import Allocation
from swarm_iac.solver.packing.kept_parts import Cards, keeping
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs


def on_their_card(snapshot: Snapshot, classified: Classified, counts: Pairs) -> dict[str, set[str]]:
    """For each node that something comes to: the names of those that may stay and keep their card, as many as can."""
    stand: dict[str, dict[str, list[Allocation]]] = {}
    for a in classified.stay.values():
        if snapshot.requests[a.workload].shared:
            stand.setdefault(a.node, {}).setdefault(a.workload, []).append(a)
    stood = Counter((a.workload, a.node) for a in classified.stay.values())
    comes = {node for _, node in counts - stood} & stand.keys()
    here: dict[str, Counter[str]] = {node: Counter() for node in comes}
    wholes: Counter[str] = Counter()
    for (name, node), count in counts.items():
        if count and node in comes:
            if snapshot.requests[name].shared:
                here[node][name] = count
            wholes[node] += snapshot.requests[name].need[GPUS] * count
    found = {}
    for node in sorted(comes):
        on = {name: Counter(a.cards[0] for a in some) for name, some in stand[node].items()}
        shares = {name: snapshot.requests[name].share for name in (*on, *here[node])}
        sure = keeping(Cards(snapshot.nodes[node].capacity[GPUS], {}, on), shares, here[node], wholes[node]) or {}
        found[node] = {a.name for name, some in stand[node].items() for a in _those(some, sure.get(name, Counter()))}
    return found


def gpu_reassignments(snapshot: Snapshot, classified: Classified, counts: Pairs) -> int:
    """How many parts of GPUs stay on their node, and change their card."""
    sure = on_their_card(snapshot, classified, counts)
    stay = Counter(
        (a.workload, a.node) for a in classified.stay.values() if a.node in sure and snapshot.requests[a.workload].shared
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
