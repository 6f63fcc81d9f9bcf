"""Who takes what was freed as replicas moved to one NUMA node each?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.placement import Allocation, Goal
from swarm_iac.solver.balance.besides import beside_value
from swarm_iac.solver.balance.company import alone_value
from swarm_iac.solver.balance.nearest import near_value
from swarm_iac.solver.balance.overqualification import Overqualification
from swarm_iac.solver.balance.preferred import lacks_value
from swarm_iac.solver.decide import locality
from swarm_iac.solver.decide.proofs import with_shares_of
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.repair.undo_moves import undo_moves
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload


def filled_again(
    snapshot: Snapshot,
    classified: Classified,
    counts: Pairs,
    ones: tuple[Allocation, ...],
    goals: dict[str, Goal],
    watch: Watch,
) -> tuple[Pairs, tuple[Allocation, ...], dict[str, Goal]]:
    """A replica that moved may have freed capacity: who left goes home if that splits nobody, and what never ran takes it."""
    home = undo_moves(snapshot, classified, counts)
    if by_workload(home) != by_workload(counts):
        home = counts
    more = restored(snapshot, classified, home, watch.ended)
    new = Counter({pair: count for pair, count in (more - home).items() if pair[0] not in snapshot.running})
    new = Counter() if home - more else new
    if not new and home == counts:
        return counts, ones, goals
    found = assemble(snapshot, classified, home + new)
    # To be placed comes before being within one NUMA node: what is new may be split, or have others split.
    if not new and len(locality.needless(snapshot, classified, found)) > len(locality.needless(snapshot, classified, ones)):
        return counts, ones, goals
    overqualification, shown = Overqualification(snapshot), dict(goals)

    def add(name: str, value: int) -> None:
        if name in shown:
            shown[name] = shown[name].model_copy(update={"value": shown[name].value + value})

    for name, count in by_workload(new).items():
        request, level = snapshot.requests[name], snapshot.stack.workloads[name].priority
        add(f"{level}_placed_gpus", request.gpus * count)
        add(f"{level}_placed_gpu_milli", request.gpus * request.share * count)
        add(f"{level}_placed_replicas", count)
    for sign, ones_there in ((1, home + new - counts), (-1, counts - home)):
        for (name, node), count in ones_there.items():
            add("overqualification", sign * overqualification.of(snapshot.requests[name], snapshot.nodes[node]) * count)
    shown = with_shares_of(snapshot, home + new, shown)
    add("moves", moves_of(snapshot, classified, home) - moves_of(snapshot, classified, counts))
    liked = {"near": near_value, "alone": alone_value, "beside": beside_value, "preferred": lacks_value}
    for name, of in liked.items():
        add(name, of(snapshot, home + new) - of(snapshot, counts))
    return home + new, found, shown
