"""Which nodes may a workload stand on at all, whatever else runs there?"""

from __future__ import annotations

from collections.abc import Callable

from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest


def node_is_ready(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless state_n = ready (what already stands on a cordoned node may stay: see `change`)."""
    return host.state == "ready"


def selector_matches(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless label_n[k] = v for every (k, v) in select_w; site and rack count as labels."""
    return all(host.labels.get(key) == value for key, value in request.select)


def gpu_model_matches(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless model_w is left out or model_n is among those it names."""
    return request.model is None or (host.model is not None and host.model in request.model.split("|"))


def gpu_memory_suffices(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless gpu_memory_w ≤ gpu_memory_n   [bytes]"""
    return request.gpu_memory <= host.gpu_memory


def numa_node_suffices(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless one NUMA node j of n has (gpus_w, cores_w, memory_w) ≤ (gpus, cores, memory)_j, for w on one of them.

    What the whole node has too little of is not told by this rule.
    """
    need = request.on_one
    if not need:
        return True
    whole = (host.capacity[GPUS], host.capacity[CORES], host.capacity[MEMORY])
    left = [i for i, each in enumerate(need) if each <= whole[i]]
    return any(all(need[i] <= part[i] for i in left) for part in host.parts)


FIT: tuple[tuple[str, Callable[[WorkloadRequest, NodeCapacity], bool]], ...] = (
    ("node_is_ready", node_is_ready),
    ("selector_matches", selector_matches),
    ("gpu_model_matches", gpu_model_matches),
    ("gpu_memory_suffices", gpu_memory_suffices),
    ("numa_node_suffices", numa_node_suffices),
)


def suits(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """May a new replica be placed there?"""
    return host.state == "ready" and suits_but_state(request, host)


def suits_but_state(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """Would it suit if the node were ready?"""
    return _matches(request, host) and numa_node_suffices(request, host)


def _matches(request: WorkloadRequest, host: NodeCapacity) -> bool:
    return selector_matches(request, host) and gpu_model_matches(request, host) and gpu_memory_suffices(request, host)


def may_stay(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """May a replica that is placed there stay? Also over several NUMA nodes: nobody is stopped by a rule that came later."""
    return host.state in ("ready", "cordon") and _matches(request, host)


def hindering(snapshot: Snapshot, request: WorkloadRequest) -> dict[str, frozenset[str]]:
    """For each node the rules above that keep the workload from it. Worked out once for nodes and workloads that are alike."""
    key = (request.model, request.gpu_memory, request.select, request.on_one)
    if key not in snapshot.hindering:
        known: dict[tuple[object, ...], frozenset[str]] = {}
        found = snapshot.hindering[key] = {}
        for name, host in snapshot.nodes.items():
            like = (
                host.state,
                host.model,
                host.gpu_memory,
                host.numa,
                *(host.labels.get(label) for label, _ in request.select),
            )
            if like not in known:
                known[like] = frozenset(rule for rule, fits in FIT if not fits(request, host))
            found[name] = known[like]
    return snapshot.hindering[key]
