"""Which ceilings can never bind? What everything that is wanted could take at most, summed, and compared.

A ceiling that nothing can reach is left out of the model: users without one are alike, and so are racks.

    Σ_w members_w · usage_w ≤ limit                                   users and the cluster, for each resource
    min( Σ_w top_{w,r} · use_w , Σ_{n∈r} most_n ) ≤ budget            racks; top: replicas that the rack's nodes could hold
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from swarm_iac.solver.snapshot.layout import COUNTED, GPUS, POWER, RACK, UPLINK
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Ask, Bin, Scene
from swarm_iac.solver.snapshot.suitability import suits_but_state


def without_slack(scene: Scene) -> Scene:
    """The same scene, in which every ceiling that cannot bind is ENDLESS."""
    used: dict[str, list[int]] = {user: [0] * len(COUNTED) for user in scene.users}
    for ask in scene.asks.values():
        for i, use in enumerate(ask.usage):
            used[ask.user][i] += use * ask.members
    everyone = [sum(each[i] for each in used.values()) for i in range(len(COUNTED))]
    return replace(
        scene,
        users={user: _binding(limits, used[user]) for user, limits in scene.users.items()},
        cluster=_binding(scene.cluster, everyone),
        racks=_racks(scene),
    )


def _binding(limits: tuple[int, ...], used: list[int]) -> tuple[int, ...]:
    return tuple(ENDLESS if use <= limit else limit for limit, use in zip(limits, used, strict=True))


def _racks(scene: Scene) -> dict[str, tuple[int, ...]]:
    """The same racks; those with nodes that are alike are counted once."""
    inside: dict[str, list[Bin]] = {name: [] for name in scene.racks}
    for bin_ in scene.bins.values():
        if bin_.rack in inside:
            inside[bin_.rack].append(bin_)
    known: dict[tuple[tuple[tuple[int, int], int], ...], tuple[int, ...]] = {}
    found = {}
    for name, bins in inside.items():
        if all(budget >= ENDLESS for budget in scene.racks[name]):
            found[name] = scene.racks[name]
            continue
        nodes = Counter((scene.alike[bin_.name], bin_.power) for bin_ in bins)
        key = tuple(sorted(nodes.items()))
        if key not in known:
            firsts = {(scene.alike[bin_.name], bin_.power): bin_ for bin_ in reversed(bins)}
            known[key] = _most(scene, [(firsts[one], count) for one, count in nodes.items()])
        found[name] = _binding(scene.racks[name], list(known[key]))
    return found


def _most(scene: Scene, nodes: list[tuple[Bin, int]]) -> tuple[int, ...]:
    """What the nodes of a rack could take of it at most, in the order of RACK."""
    wanted = [0] * len(RACK)
    steepest = [0] * len(nodes)  # the most watts that one GPU of the node could add
    for ask in scene.asks.values():
        uses = [ask.need[i] for i in UPLINK]
        if not any(uses) and not (ask.gpus and ask.power is not None):
            continue
        left, worst = ask.members, 0
        for i, (bin_, count) in enumerate(nodes):
            if suits_but_state(ask, bin_) and (top := _top(ask, bin_)):
                left -= min(left, top * count)  # on whichever of them it draws the most, also where others could hold all
                watts = bin_.power_of(ask)
                worst = max(worst, watts)
                if ask.gpus:
                    steepest[i] = max(steepest[i], watts // ask.gpus)
        held = ask.members - left
        for i, use in enumerate((*uses, worst)):
            wanted[i] += use * held
    cards = sum(bin_.room[GPUS] * count * steepest[i] for i, (bin_, count) in enumerate(nodes))
    nics = [sum(bin_.room[i] * count for bin_, count in nodes) for i in UPLINK]
    return (*map(min, wanted[:POWER], nics), wanted[POWER] if _shared(scene) else min(wanted[POWER], cards))


def _shared(scene: Scene) -> bool:
    """Are parts of GPUs wanted with power of their own? Each counts its whole card then."""
    return any(ask.shared and ask.power is not None for ask in scene.asks.values())


def _top(ask: Ask, bin_: Bin) -> int:
    """Replicas that the empty node could hold."""
    fit = 1 if ask.spread else ask.members
    for need, room in zip(ask.need, bin_.room, strict=True):
        if need:
            fit = min(fit, room // need)
    return fit
