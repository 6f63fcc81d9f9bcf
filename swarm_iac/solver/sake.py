"""For whose sake did a running allocation leave its node?

Put back where it stood, beside all that stands now, it would be in somebody's way: the fewest newcomers without whom it
would fit are those it moved for.
"""

from __future__ import annotations

import datetime

from swarm_iac.model.placement import Allocation, Placement, Reason
from swarm_iac.model.stack import Stack
from swarm_iac.solver.explain import room_of, without
from swarm_iac.solver.facts import irreducible
from swarm_iac.solver.scene import WHOLE, Scene, scene_of
from swarm_iac.solver.task import Settled, settle


def moved_for(
    stack: Stack, placement: Placement, workload: str, last: Placement, today: datetime.date | None
) -> tuple[Reason, ...]:
    """One reason for each replica of the workload that ran and is no longer where it was."""
    scene = scene_of(stack, last, today)
    settled = settle(scene)
    now = placement.by_name()
    told = []
    for was in scene.running.get(workload, ()):
        one = now.get(was.name)
        if one is None or one.node != was.node or (scene.asks[workload].shared and one.gpus != was.gpus):
            told.append(_told(scene, settled, placement, was, one))
    return tuple(told)


def _told(scene: Scene, settled: Settled, placement: Placement, was: Allocation, now: Allocation | None) -> Reason:
    head = f"{was.name}: {was.node} → {now.node}" if now else f"{was.name}: stopped on {was.node}"
    if now and now.node == was.node:
        head = f"{was.name}: another GPU of {was.node}"
    if was.name not in settled.stay:
        return _forced(scene, was, head)
    names = _newcomers(scene, placement, was, now)
    if not names:
        same = now is not None and now.node == was.node
        gain = "parts of GPUs that fit together" if same else "fewer nodes in use or GPUs that fit better"
        return Reason(rule="tidier", text=f"{head}, which leaves {gain}", path="solve")
    parts = []
    ran = {a.name: (a.node, a.gpus if scene.asks[a.workload].shared else ()) for found in scene.running.values() for a in found}
    for name in names:
        here = (a for a in placement.on(was.node) if a.workload == name)
        standing = [a.name for a in here if ran.get(a.name) != (a.node, a.gpus if scene.asks[name].shared else ())]
        left = sorted({a.node for a in scene.running.get(name, ()) if a.name in standing and a.name not in settled.stay})
        states = [f"{node}: {scene.stack.nodes[node].state}" for node in left if node in scene.bins]
        forced = f", which had to leave ({'; '.join(states)})" if states else ""
        parts.append(", ".join(standing) + forced)
    text = f"{head}, for the sake of {' and '.join(parts)}"
    return Reason(rule="makes_room", text=text, path=f"workloads.{names[0]}")


def _forced(scene: Scene, was: Allocation, head: str) -> Reason:
    node = scene.stack.nodes.get(was.node)
    if node is None:
        return Reason(rule="node_left", text=f"{head}, because {was.node} left the stack", path="nodes")
    if node.state in ("drain", "lost"):
        why = f" ({node.why})" if node.why else ""
        text = f"{head}, because {was.node} is in state {node.state}{why}"
        return Reason(rule="node_is_ready", text=text, path=f"nodes.{was.node}.state")
    text = f"{head}, because what it asks for now does not fit {was.node} any more"
    return Reason(rule="does_not_fit", text=text, path=f"workloads.{was.workload}.each")


def _newcomers(scene: Scene, placement: Placement, was: Allocation, now: Allocation | None) -> tuple[str, ...]:
    """The fewest workloads among those that came to its old node, without whom it would still fit there.

    Of a part of a GPU that stays on its node: among those that came to its old card.
    """
    here = {a.name for found in scene.running.values() for a in found if a.node == was.node}
    rest = placement.model_copy(update={"allocations": tuple(a for a in placement.allocations if a.name != was.name)})
    ask, bin_ = scene.asks[was.workload], scene.bins[was.node]
    if now and now.node == was.node:
        held = {a.name: a.gpus for found in scene.running.values() for a in found}
        on_card = [a for a in rest.on(was.node) if was.gpus[0] in a.gpus]
        came = sorted({a.workload for a in on_card if held.get(a.name) != a.gpus})

        def in_the_way(kept: list[str]) -> bool:
            others = (scene.asks[a.workload].share for a in on_card if a.workload not in came or a.workload in kept)
            return sum(others) + ask.share > WHOLE
    else:
        came = sorted({a.workload for a in placement.on(was.node) if a.name not in here and a.workload != was.workload})
        room = room_of(scene, rest)

        def in_the_way(kept: list[str]) -> bool:
            return without(room, set(came) - set(kept)).most(ask, bin_) <= 0

    return irreducible(came, in_the_way) if in_the_way(came) and not in_the_way([]) else ()
