"""Which ceilings can never bind? What everything that is wanted could take at most, summed, and compared.

A ceiling that nothing can reach is left out of the model: users without one are alike, and so are racks.

    Σ_w members_w · usage_w ≤ limit                                   users, teams and the cluster, for each resource
    min( Σ_w top_{w,r} · use_w , Σ_{n∈r} most_n ) ≤ budget            racks; top: replicas that the rack's nodes could hold
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from swarm_iac.solver.snapshot.layout import ALL_GPUS, COUNTED, GPUS, NODE, POWER, RACK, UPLINK
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import could_stand_on


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
    if all(budget >= ENDLESS for budgets in snapshot.racks.values() for budget in budgets):
        return snapshot.racks
    taken = _most(snapshot)
    return {name: _binding(limits, taken[:, i].tolist()) for i, (name, limits) in enumerate(snapshot.racks.items())}


def _most(snapshot: Snapshot) -> npt.NDArray[np.int64]:
    """What the nodes of each rack could take of it at most: by resource, in the order of RACK, and rack."""
    number = {name: i for i, name in enumerate(snapshot.racks)}
    hosts = [host for host in snapshot.nodes.values() if host.rack in number]
    rows = np.array([snapshot.rows[host.name] for host in hosts], dtype=np.int64)
    rack = np.array([number[str(host.rack)] for host in hosts], dtype=np.int64)
    capacity = np.array([host.capacity for host in hosts], dtype=np.int64).reshape(len(hosts), len(NODE))
    power = np.array([host.power for host in hosts], dtype=np.int64)

    def of_racks(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        found = np.zeros(len(number), dtype=np.int64)
        np.add.at(found, rack, values)
        return found

    nics = np.array([of_racks(capacity[:, i]) for i in UPLINK])
    wanted = np.zeros((len(RACK), len(number)), dtype=np.int64)
    steepest = np.zeros(len(hosts), dtype=np.int64)  # the most watts that one GPU of the node could add
    for request in snapshot.requests.values():
        uses, draws = [request.need[i] for i in UPLINK], request.gpus > 0 and request.power is not None
        if not any(uses) and not draws:
            continue
        top = np.where(could_stand_on(snapshot, request)[rows], min(request.members, request.per_node or request.members), 0)
        for i, need in request.needs:
            top = np.minimum(top, capacity[:, i] // need)
        held = np.minimum(of_racks(top), request.members)
        for i, use in enumerate(uses):
            wanted[i] = np.minimum(wanted[i] + use * held, nics[i])
        if draws:  # on whichever of its nodes it draws the most, also where others could hold all
            watts = np.where(top > 0, np.maximum(0, int(request.power or 0) - power), 0)
            steepest, worst = np.maximum(steepest, watts), np.zeros(len(number), dtype=np.int64)
            np.maximum.at(worst, rack, watts * request.gpus)
            wanted[POWER] += worst * held
    if not _shared(snapshot):
        wanted[POWER] = np.minimum(wanted[POWER], of_racks(capacity[:, GPUS] * steepest))
    return wanted


def _shared(snapshot: Snapshot) -> bool:
    """Are parts of GPUs wanted with power of their own? Each counts its whole card then."""
    return any(request.shared and request.power is not None for request in snapshot.requests.values())
