"""Which nodes does one rule of a conflict alone forbid, and what have they that the others have not?

A figure such as "the most that is free is 2 on n1" is about these: on any other node more may be free, and be of no use.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence, Set

import numpy as np

from swarm_iac.solver.balance.even import left_on_each
from swarm_iac.solver.explain.counting import GPU_RULE
from swarm_iac.solver.explain.domains import LINK_RULE, NUMA_RULE, by_domain
from swarm_iac.solver.explain.model_limits import MODEL_RULES
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import NODE, RACK, SUPPLY
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import FIT, hindering

_MODEL = "gpu_model_matches"


def able(capacity: FreeCapacity, request: WorkloadRequest, rule: str, core: frozenset[str]) -> tuple[list[NodeCapacity], str]:
    """Nodes on which no other rule of the core about a node or its rack forbids a replica, and how they differ from the rest.

    A rule that would leave none is passed over.
    """
    unfit = hindering(capacity.snapshot, request)
    fit = np.ones(len(capacity.snapshot.nodes), dtype=np.bool_)
    which: list[str] = []
    enough: list[str] = []
    for one in FIT:
        model = one.name == _MODEL and rule == GPU_RULE
        less = fit & unfit.under({one.name}) if one.name in core or model else fit
        if 0 < np.count_nonzero(less) < np.count_nonzero(fit):
            fit = less
            which += [one.leaves] if not model else []
    nodes = list(itertools.compress(capacity.snapshot.nodes.values(), fit.tolist()))
    if request.models and rule not in MODEL_RULES and not core.isdisjoint(MODEL_RULES):
        allowed = {model for model in {b.model for b in nodes} if capacity.by_model(request, model) > 0}
        rest = [b for b in nodes if b.model in allowed]
        if rest and len(rest) < len(nodes):
            nodes = rest
            which += ["whose GPU model limits still allow"]
    for what, out in _full(capacity, request, nodes, core - {rule}):
        rest = [b for b in nodes if b.name not in out]
        if rest and len(rest) < len(nodes):
            nodes = rest
            enough += [what] if what not in enough else []
    which += [f"with enough {listed(enough)}"] if enough else []
    for what, out in _barred(capacity, request, nodes, core - {rule}):
        rest = [b for b in nodes if b.name not in out]
        if rest and len(rest) < len(nodes):
            nodes = rest
            which += [what]
    return nodes, f"of those {listed(which)} " if which else ""


def _full(
    capacity: FreeCapacity, request: WorkloadRequest, nodes: Sequence[NodeCapacity], rules: Set[str]
) -> Iterator[tuple[str, set[str]]]:
    """For each of these rules: what nodes or their racks have too little of for one more, and which nodes that are."""
    for i, (budget, need) in enumerate(zip(NODE, request.need, strict=True)):
        if budget.rule not in rules:
            continue
        out = {b.name for b in nodes if capacity.free[b.name][i] < need} if need else set[str]()
        if request.in_pieces and budget.rule == GPU_RULE:  # `need` names no GPU for a part of one
            out = {b.name for b in nodes if capacity.shares(request, b.name, 1) < 1}
        if i == SUPPLY and request.power is not None:
            out = {b.name for b in nodes if capacity.by_supply(request, b) < 1}
        yield "capacity under limits.node" if budget.level == "node" else budget.noun.noun, out
    for i, budget in enumerate(RACK):
        if budget.rule in rules:
            in_rack = [b for b in nodes if b.rack in capacity.racks]
            out = {b.name for b in in_rack if b.of_rack(request)[i] > max(0, capacity.racks[str(b.rack)][i])}
            yield f"{budget.key} of the rack", out


def _barred(
    capacity: FreeCapacity, request: WorkloadRequest, nodes: Sequence[NodeCapacity], rules: Set[str]
) -> Iterator[tuple[str, set[str]]]:
    """For each of these rules about where a replica may lie: the nodes that it leaves in words, and those that it bars."""
    for group in request.groups:
        if group.of.rule in rules:
            full, rows = left_on_each(capacity, request, group) == 0, capacity.snapshot.rows
            out = {b.name for b in nodes if full[rows[b.name]]}
            yield f"{group.format(group.of.leaves)}{f' in the {group.level}' if group.level != 'node' else ''}", out
    for rule, what in ((NUMA_RULE, "on one NUMA node"), (LINK_RULE, "on linked GPUs")):
        if request.local and rule in rules:
            yield f"with it free {what}", {b.name for b in nodes if by_domain(capacity, request, b, 1, rule) < 1}


def listed(words: list[str]) -> str:
    """As in `a, b and c`."""
    return " and ".join(", ".join(words).rsplit(", ", 1))
