"""Which nodes may a workload stand on at all, whatever else runs there?"""

from __future__ import annotations

from collections.abc import Callable

from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import Ask, Bin, Scene


def node_is_ready(ask: Ask, bin_: Bin) -> bool:
    """x[w,n] = 0 unless state_n = ready (what already stands on a cordoned node may stay: see `change`)."""
    return bin_.state == "ready"


def selector_matches(ask: Ask, bin_: Bin) -> bool:
    """x[w,n] = 0 unless label_n[k] = v for every (k, v) in select_w; site and rack count as labels."""
    return all(bin_.labels.get(key) == value for key, value in ask.select)


def gpu_model_matches(ask: Ask, bin_: Bin) -> bool:
    """x[w,n] = 0 unless model_w is left out or model_n is among those it names."""
    return ask.model is None or (bin_.model is not None and bin_.model in ask.model.split("|"))


def gpu_memory_suffices(ask: Ask, bin_: Bin) -> bool:
    """x[w,n] = 0 unless gpu_memory_w ≤ gpu_memory_n   [bytes]"""
    return ask.gpu_memory <= bin_.gpu_memory


def numa_node_suffices(ask: Ask, bin_: Bin) -> bool:
    """x[w,n] = 0 unless one NUMA node j of n has (gpus_w, cores_w, memory_w) ≤ (gpus, cores, memory)_j, for w on one of them.

    What the whole node has too little of is not told by this rule.
    """
    need = ask.on_one
    if not need:
        return True
    whole = (bin_.room[GPUS], bin_.room[CORES], bin_.room[MEMORY])
    left = [i for i, each in enumerate(need) if each <= whole[i]]
    return any(all(need[i] <= part[i] for i in left) for part in bin_.parts)


FIT: tuple[tuple[str, Callable[[Ask, Bin], bool]], ...] = (
    ("node_is_ready", node_is_ready),
    ("selector_matches", selector_matches),
    ("gpu_model_matches", gpu_model_matches),
    ("gpu_memory_suffices", gpu_memory_suffices),
    ("numa_node_suffices", numa_node_suffices),
)


def suits(ask: Ask, bin_: Bin) -> bool:
    """May a new replica stand there?"""
    return bin_.state == "ready" and suits_but_state(ask, bin_)


def suits_but_state(ask: Ask, bin_: Bin) -> bool:
    """Would it suit if the node were ready?"""
    return _matches(ask, bin_) and numa_node_suffices(ask, bin_)


def _matches(ask: Ask, bin_: Bin) -> bool:
    return selector_matches(ask, bin_) and gpu_model_matches(ask, bin_) and gpu_memory_suffices(ask, bin_)


def may_stay(ask: Ask, bin_: Bin) -> bool:
    """May a replica that stands there stay? Also over several NUMA nodes: nobody is stopped by a rule that came later."""
    return bin_.state in ("ready", "cordon") and _matches(ask, bin_)


def hindering(scene: Scene, ask: Ask) -> dict[str, frozenset[str]]:
    """For each node the rules above that keep the workload from it. Worked out once for nodes and workloads that are alike."""
    key = (ask.model, ask.gpu_memory, ask.select, ask.on_one)
    if key not in scene.hindering:
        known: dict[tuple[object, ...], frozenset[str]] = {}
        found = scene.hindering[key] = {}
        for name, bin_ in scene.bins.items():
            like = (
                bin_.state,
                bin_.model,
                bin_.gpu_memory,
                bin_.numa,
                *(bin_.labels.get(label) for label, _ in ask.select),
            )
            if like not in known:
                known[like] = frozenset(rule for rule, fits in FIT if not fits(ask, bin_))
            found[name] = known[like]
    return scene.hindering[key]
