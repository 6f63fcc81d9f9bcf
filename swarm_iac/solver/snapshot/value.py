"""What is a placement of a large fleet worth? Its goals as one sum, with exchange rates.

On a fleet that one model can decide, the goals of `goals` are strictly in order. On a large one that buys scraps (many
moves for a part of a GPU), so there they are added up: the columns and their bound maximise this sum, and a neighbourhood
is taken only where it raises it. Within a neighbourhood the strict order holds, so nothing is stopped for its equals.

    term                                     in thousandths of a GPU of the lowest priority
    a replica placed                         LEVEL ** priority · (1000 · GPUs held, or 1 if it holds none)
    a GPU of a team within what it is due    LEVEL ** priority · 1000 · DUE, where GPUs are shared by teams
    a replica that leaves its node           − MOVE
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from swarm_iac.model.device import WHOLE
from swarm_iac.model.place.groups import Level
from swarm_iac.solver.snapshot.capacity import group_of
from swarm_iac.solver.snapshot.layout import GPUS, MACHINE
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest

if TYPE_CHECKING:
    from swarm_iac.solver.snapshot.tasks import Pairs

#: One GPU of a priority for so many of the next lower one.
LEVEL = 1000
#: What a GPU within what its team is due counts beside one that is lent: no placing of more GPUs outweighs a few of those.
DUE = 30
#: What a move costs: a quarter of a GPU of the lowest priority.
MOVE = 250
#: What all the fleet has of one resource, in the unit of `loads`.
PARTS = 10_000


def size(request: WorkloadRequest) -> int:
    """Thousandths of GPUs that one replica holds."""
    return request.gpus * request.share


def worth(request: WorkloadRequest) -> int:
    """What one replica is worth when it is placed."""
    return int(LEVEL**request.priority) * (size(request) or 1)


def total(snapshot: Snapshot, counts: Pairs) -> int:
    """What everything that is placed is worth, but for those that are alone."""
    counts = in_company(snapshot, counts)
    found = sum(worth(snapshot.requests[name]) * count for (name, _), count in counts.items())
    if snapshot.shares:
        one = snapshot.shares.weights.one
        found += sum(int(LEVEL**priority) * DUE * sum(due) // one for priority, due in within(snapshot, counts).items())
    return found


def in_company(snapshot: Snapshot, counts: Pairs) -> Pairs:
    """The same without those that are not accompanied."""
    gone = unaccompanied(snapshot, counts)
    return counts - gone if gone else counts


def unaccompanied(snapshot: Snapshot, counts: Pairs) -> Pairs:
    """Replicas near which nobody is whom `only_with` names, of gangs all members. Who ran there may stay so."""
    if not snapshot.sought:
        return Counter()
    there, found = near(snapshot, counts), Counter[tuple[str, str]]()
    homes = {name: snapshot.home(name) for name, one in snapshot.requests.items() if one.place.only_with}
    for (name, node), count in counts.items():
        if only_with := snapshot.requests[name].place.only_with:
            host, home = snapshot.nodes[node], homes[name]
            named = ((level, other) for level, others in only_with.items() for other in others)
            if count > home[node] and any((*one, group_of(host, one[0])) not in there for one in named):
                found[name, node] = count - home[node]
    gangs = {name for name, _ in found if snapshot.requests[name].gang}
    return found | Counter({pair: count for pair, count in counts.items() if pair[0] in gangs})


def near(snapshot: Snapshot, counts: Pairs) -> set[tuple[Level, str, str]]:
    """Of those that `only_with` names, in which groups of nodes of which kind each has a replica."""
    found: set[tuple[Level, str, str]] = set()
    for (name, node), count in counts.items():
        for level in snapshot.sought.get(name, ()) if count > 0 else ():
            found.add((level, name, group_of(snapshot.nodes[node], level)))
    return found


def within(snapshot: Snapshot, counts: Pairs) -> dict[int, tuple[int, ...]]:
    """By priority, what all teams hold within what they are due, of it and those above: at each depth of teams."""
    if snapshot.shares is None:
        return {}
    held = held_by_teams(snapshot, counts)
    return {level: snapshot.shares.within(held[level], level) for level in snapshot.shares.due}


def held_by_teams(snapshot: Snapshot, counts: Pairs) -> dict[int, Counter[str]]:
    """By priority, what each team holds of it and those above, as `Entitlements` counts; empty where teams share nothing."""
    if snapshot.shares is None:
        return {}
    shares, requests, amounts = snapshot.shares, snapshot.requests, Counter[str]()
    for (name, node), count in counts.items():
        amounts[name] += count * shares.counts(requests[name], node)
    return {level: shares.held(requests, amounts, level) for level in shares.due}


def unit_of_due(snapshot: Snapshot) -> int:
    """What goals about teams count in: whole GPUs, or thousandths where anything counts less."""
    return 1 if snapshot.milli or (snapshot.shares and snapshot.shares.dominant) else WHOLE


def loads(snapshot: Snapshot) -> dict[str, int]:
    """What one replica of each workload takes of the fleet: ten-thousandths of each resource, added up; at least 1."""
    nodes = snapshot.nodes.values()
    counted = [i for i, row in enumerate(MACHINE) if not row.part_of]
    have = [sum(host.capacity[i] for host in nodes) for i in counted]

    def load(request: WorkloadRequest) -> int:
        use = [request.gpus * request.share / WHOLE if i == GPUS else request.need[i] for i in counted]
        return max(1, round(sum(PARTS * each / of for each, of in zip(use, have, strict=True) if of)))

    return {name: load(request) for name, request in snapshot.requests.items()}
