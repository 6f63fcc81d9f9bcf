"""What do teams hold within what they are due, as sums of a relaxation? To maximize them, or to leave them no worse.

    within_d(p) = Σ_t min(due_t(p), Σ_{w of t, of p and above} counts_w,h · y[w,h])         teams t at depth d

A goal is bounded among the placements in which no goal before it is worse: so a bound on the GPUs of a priority holds beside
what teams have of it and of those above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarm_iac.solver.bounds.relaxation import CappedSum, Relaxed, Rule
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Pairs
from swarm_iac.solver.snapshot.value import within

Kinds = Sequence[Sequence[WorkloadRequest]]
Nodes = Sequence[Sequence[str]]


def team_sums(snapshot: Snapshot, level: int, depth: int, kinds: Kinds, nodes: Nodes) -> list[CappedSum]:
    """Of each team at the depth. The kinds are of one team each, and the nodes of a shape have one GPU model."""
    shares = snapshot.shares
    assert shares is not None, "asked only where GPUs are shared by teams"
    amounts: dict[str, dict[tuple[int, int], int]] = {team: {} for team in shares.at(depth)}
    for k, group in enumerate(kinds):
        line = shares.lines.get(group[0].user, ())
        if len(line) > depth and shares.shared(group[0]) and group[0].priority >= level:
            amounts[line[depth]].update({(k, h): shares.counts(group[0], names[0]) for h, names in enumerate(nodes)})
    return [CappedSum(shares.due[level][team], of) for team, of in amounts.items()]


def held_elsewhere(snapshot: Snapshot, level: int, elsewhere: Mapping[str, int]) -> int:
    """What may stay on nodes that the relaxation does not have, of the priority and those above it."""
    shares = snapshot.shares
    assert shares is not None, "asked only where GPUs are shared by teams"
    return sum(
        shares.counts(request, "") * elsewhere[name] for name, request in snapshot.requests.items() if request.priority >= level
    )


def no_less_due(
    snapshot: Snapshot,
    counts: Pairs,
    level: int,
    kinds: Kinds,
    nodes: Nodes,
    elsewhere: Mapping[str, int],
    depths: int | None = None,
) -> tuple[Rule, ...]:
    """What teams hold in `counts` they keep: of each priority above `level`, and of it at so many `depths`, or at all."""
    if snapshot.shares is None:
        return ()

    def kept(relaxed: Relaxed) -> None:
        for priority, values in within(snapshot, counts).items():
            for depth, value in enumerate(values if priority > level or depths is None else values[:depths]):
                least = value - held_elsewhere(snapshot, priority, elsewhere)
                if priority >= level and least > 0:
                    relaxed.model.add(relaxed.sum_of(team_sums(snapshot, priority, depth, kinds, nodes)) >= least)

    return (kept,)
