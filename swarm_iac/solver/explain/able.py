"""Which nodes does one rule of a conflict alone forbid, and what have they that the others have not?

A figure such as "the most that is free is 2 on n1" is about these: on any other node more may be free, and be of no use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from swarm_iac.solver.explain.counting import GPU_RULE, NUMA_RULE, by_numa
from swarm_iac.solver.snapshot.capacity import Room, group_of
from swarm_iac.solver.snapshot.layout import NODE, RACK
from swarm_iac.solver.snapshot.snapshot import Ask, Bin
from swarm_iac.solver.snapshot.suitability import FIT

_MODEL = "gpu_model_matches"
_WHICH = {
    "node_is_ready": "that are ready", "selector_matches": "with its labels", _MODEL: "with its GPU model",
    "gpu_memory_suffices": "with GPUs as large",
    "numa_node_suffices": "with NUMA nodes as large",
}  # fmt: skip


def able(room: Room, ask: Ask, rule: str, core: frozenset[str]) -> tuple[list[Bin], str]:
    """Nodes on which no other rule of the core about a node or its rack forbids a replica, and how they differ from the rest.

    A rule that would leave none is passed over.
    """
    bins = list(room.scene.bins.values())
    which: list[str] = []
    enough: list[str] = []
    for name, fits in FIT:
        model = name == _MODEL and rule == GPU_RULE
        rest = [b for b in bins if fits(ask, b)] if name in core or model else bins
        if rest and len(rest) < len(bins):
            bins = rest
            which += [_WHICH[name]] if not model else []
    for what, out in _full(room, ask, bins, core - {rule}):
        rest = [b for b in bins if b.name not in out]
        if rest and len(rest) < len(bins):
            bins = rest
            enough += [what] if what not in enough else []
    which += [f"with enough {listed(enough)}"] if enough else []
    for what, out in _barred(room, ask, bins, core - {rule}):
        rest = [b for b in bins if b.name not in out]
        if rest and len(rest) < len(bins):
            bins = rest
            which += [what]
    return bins, f"of those {listed(which)} " if which else ""


def _full(room: Room, ask: Ask, bins: Sequence[Bin], rules: Set[str]) -> Iterator[tuple[str, set[str]]]:
    """For each of these rules: what nodes or their racks have too little of for one more, and which nodes that are."""
    for i, (budget, need) in enumerate(zip(NODE, ask.need, strict=True)):
        if budget.rule not in rules:
            continue
        out = {b.name for b in bins if need and room.free[b.name][i] < need}
        if ask.shared and budget.rule == GPU_RULE:  # `need` names no GPU for a part of one
            out = {b.name for b in bins if room.shares(ask, b.name) < 1}
        yield budget.noun.noun if budget.level == "machine" else "room under limits.node", out
    for i, budget in enumerate(RACK):
        if budget.rule in rules:
            in_rack = [b for b in bins if b.rack in room.racks]
            out = {b.name for b in in_rack if b.of_rack(ask)[i] > max(0, room.racks[str(b.rack)][i])}
            yield f"{budget.key} of the rack", out


def _barred(room: Room, ask: Ask, bins: Sequence[Bin], rules: Set[str]) -> Iterator[tuple[str, set[str]]]:
    """For each of these rules about where a replica may lie: the nodes that it leaves in words, and those that it bars."""
    counts = room.counts[ask.name]
    if ask.spread and "spread_keeps_apart" in rules:
        held = {group_of(room.scene.bins[node], ask.spread) for node in counts}
        which = "without a replica of it" if ask.spread == "node" else "in a rack without a replica of it"
        yield which, {b.name for b in bins if group_of(b, ask.spread) in held}
    if ask.within and counts and "within_keeps_together" in rules:
        inside = {group_of(room.scene.bins[node], ask.within) for node in counts}
        out = {b.name for b in bins if inside - {group_of(b, ask.within)}}
        yield "in its rack" if ask.within == "rack" else "that hold its others", out
    if ask.single and NUMA_RULE in rules:
        yield "with it free on one NUMA node", {b.name for b in bins if by_numa(room, ask, b, 1) < 1}


def listed(words: list[str]) -> str:
    """As in `a, b and c`."""
    return " and ".join(", ".join(words).rsplit(", ", 1))
