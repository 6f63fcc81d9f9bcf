"""Which ceilings can never bind? What everything that is wanted could take at most, summed, and compared.

A ceiling that nothing can reach is left out of the model: users without one are alike, and so are racks.

    Σ_w members_w · usage_w ≤ limit                                   users, teams and the cluster, for each resource
    min( Σ_w top_{w,r} · use_w , Σ_{n∈r} most_n ) ≤ budget            racks; top: replicas that the rack's nodes could hold
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from swarm_iac.solver.snapshot.layout import ALL_GPUS, COUNTED, GPUS, POWER, RACK, UPLINK
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import could_stand


def without_slack(snapshot: Snapshot) -> Snapshot:
    """The same scene, in which every ceiling that cannot bind is ENDLESS."""
    used: dict[str, list[int]] = {scope: [0] * len(COUNTED) for scope in snapshot.scopes}
    for request in snapshot.requests.values():
        for scope in request.chain:
            sums = used[scope]
            for i, use in request.uses:
                sums[i] += use * request.members
        for _, scope in (one for _, scopes in request.models for one in scopes):
            used[scope][ALL_GPUS] += request.usage[ALL_GPUS] * request.members
    scopes = {scope: _binding(limits, used[scope]) for scope, limits in snapshot.scopes.items()}
    if snapshot.models:
        snapshot = replace(snapshot, requests={name: _bound(one, scopes) for name, one in snapshot.requests.items()})
    return replace(
        snapshot,
        scopes=scopes,
        racks=_racks(snapshot),
    )


def _bound(request: WorkloadRequest, scopes: dict[str, tuple[int, ...]]) -> WorkloadRequest:
    """The workload, counted by those limits on GPU models that can bind."""
    found = ((model, tuple(one for one in ones if scopes[one[1]][ALL_GPUS] < ENDLESS)) for model, ones in request.models)
    models = tuple((model, ones) for model, ones in found if ones)
    return replace(request, models=models) if models != request.models else request


def _binding(limits: tuple[int, ...], used: list[int]) -> tuple[int, ...]:
    return tuple(ENDLESS if use <= limit else limit for limit, use in zip(limits, used, strict=True))


def _racks(snapshot: Snapshot) -> dict[str, tuple[int, ...]]:
    """The same racks; those with nodes that are alike are counted once."""
    inside: dict[str, list[NodeCapacity]] = {name: [] for name in snapshot.racks}
    for host in snapshot.nodes.values():
        if host.rack in inside:
            inside[host.rack].append(host)
    known: dict[tuple[tuple[tuple[int, int], int], ...], tuple[int, ...]] = {}
    found = {}
    for name, nodes in inside.items():
        if all(budget >= ENDLESS for budget in snapshot.racks[name]):
            found[name] = snapshot.racks[name]
            continue
        counts = Counter((snapshot.alike[host.name], host.power) for host in nodes)
        key = tuple(sorted(counts.items()))
        if key not in known:
            firsts = {(snapshot.alike[host.name], host.power): host for host in reversed(nodes)}
            known[key] = _most(snapshot, [(firsts[one], count) for one, count in counts.items()])
        found[name] = _binding(snapshot.racks[name], list(known[key]))
    return found


def _most(snapshot: Snapshot, nodes: list[tuple[NodeCapacity, int]]) -> tuple[int, ...]:
    """What the nodes of a rack could take of it at most, in the order of RACK."""
    wanted = [0] * len(RACK)
    steepest = [0] * len(nodes)  # the most watts that one GPU of the node could add
    for request in snapshot.requests.values():
        uses = [request.need[i] for i in UPLINK]
        if not any(uses) and not (request.gpus and request.power is not None):
            continue
        left, worst = request.members, 0
        for i, (host, count) in enumerate(nodes):
            if could_stand(request, host) and (top := _top(request, host)):
                left -= min(left, top * count)  # on whichever of them it draws the most, also where others could hold all
                watts = host.power_of(request)
                worst = max(worst, watts)
                if request.gpus:
                    steepest[i] = max(steepest[i], watts // request.gpus)
        held = request.members - left
        for i, use in enumerate((*uses, worst)):
            wanted[i] += use * held
    cards = sum(host.capacity[GPUS] * count * steepest[i] for i, (host, count) in enumerate(nodes))
    nics = [sum(host.capacity[i] * count for host, count in nodes) for i in UPLINK]
    return (*map(min, wanted[:POWER], nics), wanted[POWER] if _shared(snapshot) else min(wanted[POWER], cards))


def _shared(snapshot: Snapshot) -> bool:
    """Are parts of GPUs wanted with power of their own? Each counts its whole card then."""
    return any(request.shared and request.power is not None for request in snapshot.requests.values())


def _top(request: WorkloadRequest, host: NodeCapacity) -> int:
    """Replicas that the empty node could hold."""
    fit = min(request.members, request.per_node or request.members)
    for need, capacity in zip(request.need, host.capacity, strict=True):
        if need:
            fit = min(fit, capacity // need)
    return fit
