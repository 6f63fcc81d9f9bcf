"""What caused a running allocation to leave its node?

Put back where it stood, beside all that stands now, it would be in somebody's way: the fewest newcomers without whom it
would fit are those it moved for.
"""

from __future__ import annotations

import datetime

from swarm_iac.limits import BESIDES, Came, besides, came, gain, torn
from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Allocation, Placement, Reason
from swarm_iac.model.resources.table import RESOURCES, SIZES, held_of
from swarm_iac.model.service.variants import changed
from swarm_iac.model.stack import Stack
from swarm_iac.solver.explain.facts import irreducible
from swarm_iac.solver.explain.team_shares import called_back, with_shares
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import Snapshot


def moved_for(
    stack: Stack, placement: Placement, workload: str, last: Placement, today: datetime.date | None
) -> tuple[Reason, ...]:
    """One reason for each replica of the workload that ran and is no longer where it was."""
    snapshot = with_shares(snapshot_of(stack, last, today))
    now = placement.by_name()
    causes = []
    for was in snapshot.running.get(workload, ()):
        one = now.get(was.name)
        if (
            one is None
            or one.node != was.node
            or (snapshot.requests[workload].shared and was.cards and {*one.cards} - {*was.cards})
            or (snapshot.requests[workload].profile and one.gpus != was.gpus)
        ):
            causes.append(_cause(snapshot, placement, last, today, was, one))
    return tuple(causes)


def _cause(
    snapshot: Snapshot,
    placement: Placement,
    last: Placement,
    today: datetime.date | None,
    was: Allocation,
    now: Allocation | None,
) -> Reason:
    head = f"{was.name}: {was.node} → {now.node}" if now else f"{was.name}: stopped on {was.node}"
    if now and now.node == was.node:
        names = _on_its_card(snapshot, placement, was)
        if names:
            return _for(snapshot, placement, was, f"{was.name}: another GPU of {was.node}", Came(names))
        text = f"{was.name}: another GPU of {was.node}, which leaves parts of GPUs that fit together"
        return Reason(rule="tidier", text=text, path="solve")
    if left := _closed(snapshot, was, head):
        more = "" if now or left.rule != "node_is_ready" else besides(snapshot.stack, last, placement, was, today)
        return left.model_copy(update={"text": left.text + more})
    return _beside(snapshot, placement, last, today, head, was, now)


def _beside(
    snapshot: Snapshot,
    placement: Placement,
    last: Placement,
    today: datetime.date | None,
    head: str,
    was: Allocation,
    now: Allocation | None,
) -> Reason:
    """Of one that could stay by itself: what is in its way beside all that stands."""
    resized = now is not None and held_of(was) != held_of(now)
    back = now.model_copy(update={"node": was.node}) if now and resized else was
    gang = not now and snapshot.requests[was.workload].gang
    gone = tuple(a for a in snapshot.running[was.workload] if gang and a.name not in placement.by_name())
    found = came(snapshot.stack, last, placement, gone or (back,), today)
    if not now and not gone and (grown := _grown(snapshot, was)):
        found = came(snapshot.stack, last, placement, (grown,), today)  # who came to its node may be in its way in any size
    if why := torn(snapshot.stack, gone, found):
        path = f"workloads.{was.workload}.gang"
        return Reason(rule="gang_is_whole_or_absent", text=f"{head}, because {why}", path=path)
    if found.broken:
        form = changed(last, placement, was.workload) if now else ""
        return _broken(snapshot, placement, head, was, found, form, resized=resized)
    if found.names:
        lent = called_back(snapshot, last, placement, was) if not now else ""
        return _for(snapshot, placement, was, head, found, lent)
    if now and (better := gain(snapshot.stack, placement, was, now)):
        return Reason(rule="tidier", text=f"{head}, which leaves {better}", path="solve")
    request = snapshot.requests[was.workload]
    if not now and request.gang and request.members > len(snapshot.running[was.workload]):
        text = f"{head}, because its gang has {request.members} members now, and not all have a place"
        return Reason(rule="gang_is_whole_or_absent", text=text, path=f"workloads.{was.workload}.gang")
    text = f"{head}, and {was.node} still has capacity for it: the search ended before finding that"
    return Reason(rule="effort", text=text, path="solve.effort")


def _grown(snapshot: Snapshot, was: Allocation) -> Allocation | None:
    """The allocation with as much as a replica asks for now; None where it has that, or asks for other GPUs or cores."""
    size = snapshot.requests[was.workload].size
    sizes = {row.name: row.unit(amount) for row, amount in zip(RESOURCES, size, strict=True) if row in SIZES}
    grown = was.model_copy(update=sizes)
    return grown if held_of(grown) == size != held_of(was) else None


def _broken(
    snapshot: Snapshot, placement: Placement, head: str, was: Allocation, found: Came, form: str, *, resized: bool
) -> Reason:
    """It broke a rule where it ran, regardless of newcomers."""
    if not resized and any(one.rule == "sizes_equal_request" for one in found.broken):
        text = f"{head}, because its new size has no place"
        return Reason(rule="does_not_fit", text=text, path=f"workloads.{was.workload}.each")
    what = form or (f"its new size does not fit {was.node}" if resized else f"it does not fit {was.node} any more")
    path = found.broken[0].path or f"workloads.{was.workload}"
    came_too = f"because of {_newcomers(snapshot, placement, was, found)}" if found.names else ""
    text = BESIDES.join(filter(None, (*found.rules(), came_too)))
    return Reason(rule="does_not_fit", text=f"{head}, because {what}: {text}", path=path)


def _for(snapshot: Snapshot, placement: Placement, was: Allocation, head: str, found: Came, lent: str = "") -> Reason:
    """It left for others."""
    more = f"; it was {lent}" if lent else ""
    text = f"{head}, because of {_newcomers(snapshot, placement, was, found)}{more}"
    return Reason(rule="frees_capacity", text=text, path=f"workloads.{found.names[0]}")


def _newcomers(snapshot: Snapshot, placement: Placement, was: Allocation, found: Came) -> str:
    """Those that came to its node, or else anywhere, of the workloads that it left for."""
    called = {}
    ran = {a.name: a for ones in snapshot.running.values() for a in ones}
    for name in found.names:
        come = [a for a in placement.going() if a.workload == name and _newcomer(snapshot, a, ran.get(a.name))]
        here = [a.name for a in come if a.node == was.node] or [a.name for a in come]
        called[name] = ", ".join(here)
    return found.who(called)


def _newcomer(snapshot: Snapshot, one: Allocation, was: Allocation | None) -> bool:
    if was is None or was.node != one.node or held_of(was) != held_of(one):
        return True
    return snapshot.requests[one.workload].in_pieces and was.gpus != one.gpus


def _state(snapshot: Snapshot, node: str) -> str:
    return snapshot.nodes[node].state if node in snapshot.nodes else ""


def _closed(snapshot: Snapshot, was: Allocation, head: str) -> Reason | None:
    """Its node is gone, or everything has to leave it."""
    node = snapshot.stack.nodes.get(was.node)
    if node is None:
        return Reason(rule="node_left", text=f"{head}, because {was.node} left the stack", path="nodes")
    if node.state in ("drain", "lost"):
        why = f" ({node.reason})" if node.reason else ""
        text = f"{head}, because {was.node} is in state {node.state}{why}"
        return Reason(rule="node_is_ready", text=text, path=f"nodes.{was.node}.state")
    return None


def _on_its_card(snapshot: Snapshot, placement: Placement, was: Allocation) -> tuple[str, ...]:
    """The fewest workloads that came to the card of a part of a GPU, without whom it would still fit there."""
    request = snapshot.requests[was.workload]
    held = {a.name: a.gpus for found in snapshot.running.values() for a in found if a.node == was.node}
    on_card = [a for a in placement.on(was.node) if was.cards[0] in a.cards and a.name != was.name]
    new = sorted({a.workload for a in on_card if held.get(a.name) != a.gpus})

    def in_the_way(kept: list[str]) -> bool:
        if request.profile:
            mine = {(one.index, eighth) for one in was.gpus for eighth in one.slices}
            those = (a for a in on_card if a.workload not in new or a.workload in kept)
            return any((one.index, eighth) in mine for a in those for one in a.gpus for eighth in one.slices)
        others = (snapshot.requests[a.workload].share for a in on_card if a.workload not in new or a.workload in kept)
        return sum(others) + request.share > WHOLE

    return irreducible(new, in_the_way) if in_the_way(new) and not in_the_way([]) else ()
