"""Which nodes may a workload stand on at all, whatever else runs there?"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from swarm_iac.model.device import share_text
from swarm_iac.model.hardware import numa_part
from swarm_iac.model.place.where import GROUP_RULES, PREFERENCES, Where
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.snapshot.entitlements import Entitlements
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.units import Bytes

Mask = npt.NDArray[np.bool_]


def node_is_ready(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless state_n = ready (what already stands on a cordoned node may stay: see `change`)."""
    return host.state == "ready"


def selector_matches(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless label_n[k] = v for every (k, v) in select_w; site and rack count as labels."""
    return not request.select or all(host.labels.get(key) == value for key, value in request.select)


def taints_are_tolerated(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless tolerate_w[k] ∈ {v, *} for every taint (k, v) of n, and its user is in one of its teams, if it has any.

    What already runs there may stay.
    """
    return not host.taints or request.place.tolerates(host.taints, request.teams)


def gpu_model_matches(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless model_w is left out or model_n is among those it names."""
    return request.model in (None, host.model) or (host.model is not None and host.model in str(request.model).split("|"))


def gpu_memory_suffices(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless gpu_memory_w ≤ gpu_memory_n   [bytes]"""
    return request.gpu_memory <= host.gpu_memory


def mig_profile_exists(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless no MIG profile is asked for, or the cards of n may be cut and have it, as large"""
    if not request.profile:
        return True
    profile = host.profiles.get(request.profile)
    return profile is not None and profile.part == request.share


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


def linked_gpus_suffice(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless one group g of linked GPUs of n has gpus_w ≤ |g|, for w with `links: required`

    With `numa: single` as well: ≤ |g ∩ j| on a NUMA node j that has the cores and the memory. What the whole node, or each NUMA
    node, has too little of is not told by this rule.
    """
    need = request.joined
    if not need or need > host.capacity[GPUS] or not numa_node_suffices(request, host):
        return True
    return any(size >= need for size in domain_sizes(request, host))


def domain_sizes(request: WorkloadRequest, host: NodeCapacity) -> list[int]:
    """GPUs of each group of linked ones; with `numa: single` on each NUMA node that has the cores and the memory."""
    if not request.single:
        return [len(group) for group in host.links]
    rest = [i for i, each in enumerate(request.on_one) if i and each <= host.capacity[(GPUS, CORES, MEMORY)[i]]]
    parts = [numa_part(host.capacity[GPUS], len(host.parts), j) for j in range(len(host.parts))]
    able = [own for own, part in zip(parts, host.parts, strict=True) if all(request.on_one[i] <= part[i] for i in rest)]
    return [sum(i in own for i in group) for group in host.links for own in able]


def company_is_near(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """x[w,n] = 0 unless each v of only_with_w has a replica on n, in its rack or in its site; what already runs there may stay.

    Asked once all have their places; before, it is a rule between workloads.
    """
    return host.company is None or all(
        (level, name) in host.company for level, names in request.place.only_with.items() for name in names
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeRule:
    """A rule on a workload and a node, whatever runs there."""

    fits: Callable[[WorkloadRequest, NodeCapacity], bool]
    judged: str  # in `limits`
    leaves: str  # which nodes it leaves, as in "of those …"
    lacks: str | Callable[[WorkloadRequest, NodeCapacity], str] = ""  # what the others have; of their state, see `lacking`
    path: str = ""  # of the key of the workload that it comes from
    text: Callable[[Snapshot, WorkloadRequest], str] | None = None  # of a reason, where `messages` has none of its own

    @property
    def name(self) -> str:
        """As in reasons."""
        return self.fits.__name__


def _selected(snapshot: Snapshot, request: WorkloadRequest) -> str:
    labels = ", ".join(f"{key}: {value}" for key, value in request.select)
    count = sum(selector_matches(request, host) for host in snapshot.nodes.values())
    one, many = "has it, and has no capacity", "have it, and none of them has capacity"
    every = len(snapshot.nodes)
    have = pluralize(count, f"of {every} {one}", f"of {every} {many}") if count else "no node has it"
    return f"asks for nodes with {labels}; {have}"


def keeping_off(request: WorkloadRequest, host: NodeCapacity) -> list[str]:
    """The taints of a node that keep the workload off it, as in `dedicated: research`."""
    found = []
    for key, taint in sorted(host.taints.items()):
        if not request.place.tolerates({key: taint}, request.teams):
            only = f" for {' and '.join(taint.teams)} alone" if not taint.admits(request.teams) else ""
            found.append(f"{key}: {taint.value}{only}")
    return found


def _first_taint(request: WorkloadRequest, host: NodeCapacity) -> str:
    return f"the taint {keeping_off(request, host)[0]}"


def _other_model(request: WorkloadRequest, host: NodeCapacity) -> str:
    return "another GPU model" if host.capacity[GPUS] else "no GPUs"


def _other_memory(request: WorkloadRequest, host: NodeCapacity) -> str:
    if not host.capacity[GPUS]:
        return "no GPUs"
    return "smaller GPUs" if host.gpu_memory else "GPUs of unknown memory"


def _uncut(request: WorkloadRequest, host: NodeCapacity) -> str:
    return "other MIG profiles" if host.mig else "GPUs that may not be cut"


def _uncut_anywhere(_: Snapshot, request: WorkloadRequest) -> str:
    # With its size: one name is another instance on a card with other memory.
    each = f"{request.profile}, each {share_text(request.share)} of a card,"
    return f"needs MIG instances {each} and the nodes that would do may not cut their GPUs so"


def _unlinked(request: WorkloadRequest, host: NodeCapacity) -> str:
    return "NVLink between fewer GPUs" if host.links else "no NVLink declared"


def _untolerated(snapshot: Snapshot, request: WorkloadRequest) -> str:
    nodes = snapshot.nodes.values()
    counts = Counter(taint for host in nodes if _matches(request, host) for taint in keeping_off(request, host))
    counts = counts or Counter(taint for host in nodes for taint in keeping_off(request, host))
    most = [f"{taint} on {count} of {pluralize(len(nodes), 'node')}" for taint, count in counts.most_common(_TAINTS)]
    more = f" and {len(counts) - _TAINTS} more" if len(counts) > _TAINTS else ""
    return f"taints keep it off nodes: {', '.join(most)}{more}"


def _alone(snapshot: Snapshot, request: WorkloadRequest) -> str:
    named = [f"{name} in its {level}" for level, names in request.place.only_with.items() for name in names]
    named = [text.removesuffix(" in its node") for text in named]
    every, count = len(snapshot.nodes), sum(company_is_near(request, host) for host in snapshot.nodes.values())
    one, many = "is such, and has no capacity", "are such, and none of them has capacity"
    have = pluralize(count, f"of {every} {one}", f"of {every} {many}") if count else "there is none"
    return f"asks for a node with a replica of {' and of '.join(named)}; {have}"


#: So many taints are named in a reason.
_TAINTS = 3
#: In the order in which a node is looked at.
FIT = (
    NodeRule(fits=node_is_ready, judged="states_allow", leaves="that are ready"),
    NodeRule(
        fits=selector_matches, path="place.select", judged="labels_match_select",
        leaves="with its labels", lacks="other labels", text=_selected,
    ),
    NodeRule(
        fits=taints_are_tolerated, path="place.tolerate", judged="taints_keep_new_work_away",
        leaves="whose taints it tolerates", lacks=_first_taint, text=_untolerated,
    ),
    NodeRule(
        fits=company_is_near, path="place.only_with", judged="replicas_have_company",
        leaves="near whom it names", lacks="nobody whom it names", text=_alone,
    ),
    NodeRule(
        fits=gpu_model_matches, path="each.gpus", judged="gpus_match_request",
        leaves="with its GPU model", lacks=_other_model,
        text=lambda _, request: f"needs {request.model}, which the nodes that would do have not",
    ),
    NodeRule(
        fits=gpu_memory_suffices, path="each.gpus", judged="gpus_match_request",
        leaves="with GPUs as large", lacks=_other_memory,
        text=lambda _, request: f"needs GPUs of {Bytes(request.gpu_memory)} or more",
    ),
    NodeRule(
        fits=mig_profile_exists, path="each.gpus", judged="instances_lie_where_cards_allow",
        leaves="whose GPUs may be cut so", lacks=_uncut,
        text=_uncut_anywhere,
    ),
    NodeRule(
        fits=numa_node_suffices, path="place.numa", judged="replicas_are_on_one_numa_node",
        leaves="with NUMA nodes as large", lacks="NUMA nodes that are too small",
    ),
    NodeRule(
        fits=linked_gpus_suffice, path="place.links", judged="gpus_of_a_replica_are_linked",
        leaves="with as many linked GPUs", lacks=_unlinked,
    ),
)  # fmt: skip
#: The keys of `place`, by the names of their rules.
PLACE = {one.rule: one.key for one in GROUP_RULES} | {
    one.name: one.path.removeprefix("place.") for one in FIT if one.path.startswith("place.")
}
assert {*PLACE.values(), *PREFERENCES} == {*Where.model_fields}, "each key of `place` has a rule"


#: The rule on labels, and all of them.
_SELECT = next(one for one in FIT if one.fits is selector_matches)
_EVERY = frozenset(one.name for one in FIT)


def suits(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """May a new replica be placed there?"""
    return host.state == "ready" and suits_but_state(request, host)


def open_to(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """May anything new of it come there, labels and sizes aside? Where not, what runs there may stay all the same."""
    return host.state == "ready" and taints_are_tolerated(request, host) and company_is_near(request, host)


def suits_but_state(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """Would it suit if the node were ready?"""
    others = taints_are_tolerated(request, host) and company_is_near(request, host)
    return others and _matches(request, host) and domain_suffices(request, host)


def domain_suffices(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """Has an empty node a NUMA node, or linked GPUs, for who is bound to such?"""
    return numa_node_suffices(request, host) and linked_gpus_suffice(request, host)


def _matches(request: WorkloadRequest, host: NodeCapacity) -> bool:
    for fits in _LASTING:  # noqa: SIM110 - asked of every pair, and a loop takes half of the time of `all`
        if not fits(request, host):
            return False
    return True


#: What holds for who is new alone.
_OF_NEW = (node_is_ready, taints_are_tolerated, company_is_near, numa_node_suffices, linked_gpus_suffice)
#: What holds for those that stay as well.
_LASTING = tuple(one.fits for one in FIT if one.fits not in _OF_NEW)


def may_stay(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """May a replica that is placed there stay? Also over several NUMA nodes, without links, beside a taint, and alone: nobody
    is stopped by a rule that came later.
    """
    return host.state in ("ready", "cordon") and _matches(request, host)


class Hindering:
    """Which rules keep one workload from each node, in the order of nodes."""

    def __init__(self, rows: Mapping[str, int], kinds: npt.NDArray[np.int64], rules: list[frozenset[str]]) -> None:
        self.rows, self.kinds, self.rules = rows, kinds, rules  # `rules` by kind

    def __getitem__(self, node: str) -> frozenset[str]:
        return self.rules[int(self.kinds[self.rows[node]])]

    def under(self, rules: Set[str]) -> Mask:
        """From which nodes does none of these rules keep it?"""
        mask: Mask = np.array([out.isdisjoint(rules) for out in self.rules], dtype=np.bool_)[self.kinds]
        return mask

    def nodes_under(self, rules: Set[str] = _EVERY) -> list[str]:
        """Their names; those that suit a new replica, if no rules are given."""
        return list(itertools.compress(self.rows, self.under(rules).tolist()))

    @cached_property
    def none(self) -> Mask:
        """Where a new replica may be placed."""
        return self.under(_EVERY)

    @cached_property
    def none_but_state(self) -> Mask:
        """Where it could be if the node were ready."""
        return self.under(_EVERY - {node_is_ready.__name__})


def hindering(snapshot: Snapshot, request: WorkloadRequest) -> Hindering:
    """For each node the rules above that keep the workload from it. Worked out once for nodes and workloads that are alike."""
    key, known = (request.asked, request.on_one, request.joined), snapshot.known(hindering)
    if key not in known:
        kinds, firsts = _kinds(snapshot)
        out = [frozenset(one.name for one in FIT if one is not _SELECT and not one.fits(request, host)) for host in firsts]
        for label, value in request.select:
            kinds = np.where(labelled(snapshot, label, value) | (kinds >= len(firsts)), kinds, kinds + len(firsts))
        known[key] = Hindering(snapshot.rows, kinds, out + [rules | {_SELECT.name} for rules in out])
    return cast("Hindering", known[key])


def could_stand_on(snapshot: Snapshot, request: WorkloadRequest) -> Mask:
    """On which nodes could it be placed, be it new or from before?"""
    found, (kinds, firsts) = hindering(snapshot, request), _kinds(snapshot)
    tainted = np.array([bool(host.taints) for host in firsts], dtype=np.bool_)[kinds]
    of_domains = {numa_node_suffices.__name__, linked_gpus_suffice.__name__}
    mask: Mask = found.under({fits.__name__ for fits in _LASTING}) & (tainted | found.under(of_domains))
    return mask


def labelled(snapshot: Snapshot, label: str, value: str) -> Mask:
    """Which nodes have this label with this value?"""
    known = snapshot.known(labelled)
    if (label, value) not in known:
        known[label, value] = np.array([host.labels.get(label) == value for host in snapshot.nodes.values()], dtype=np.bool_)
    return cast("Mask", known[label, value])


def _kinds(snapshot: Snapshot) -> tuple[npt.NDArray[np.int64], list[NodeCapacity]]:
    """A number for each node, the same for those that nothing but labels tells apart here, and the first of each number."""
    known = snapshot.known(_kinds)
    if () not in known:
        firsts: dict[tuple[object, ...], tuple[int, NodeCapacity]] = {}
        kinds = []
        for host in snapshot.nodes.values():
            like = (host.state, host.model, host.gpu_memory, host.numa, host.mig, host.tainted, host.company)
            kinds.append(firsts.setdefault(like, (len(firsts), host))[0])
        known[()] = np.array(kinds, dtype=np.int64), [host for _, host in firsts.values()]
    return cast("tuple[npt.NDArray[np.int64], list[NodeCapacity]]", known[()])


def heaviest(snapshot: Snapshot, shares: Entitlements, request: WorkloadRequest) -> int:
    """The most that a replica can count, on any node that suits it."""
    if not shares.weights.nodes:
        return shares.counts(request, "")
    known: dict[str, int] = snapshot.known(heaviest)
    if request.name not in known:
        counts = (shares.counts(request, name) for name, host in snapshot.nodes.items() if suits(request, host))
        known[request.name] = max(counts, default=shares.counts(request, ""))
    return known[request.name]
