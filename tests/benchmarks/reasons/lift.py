"""What would the stack be without one cause? Edits of the model, each giving up one thing that a reason names."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any

from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.mig import MODELS, part_of
from swarm_iac.model.hardware import Gpus, Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Ceiling, Guarantee, Node, Stack
from swarm_iac.model.workload import Replicas, Workload
from swarm_iac.units import BitsPerSecond, Bytes, Cpus, GpuCount, Watts

FOR_EVER = datetime.date(9999, 1, 1)
_HARDWARE = {
    "vcpus_fit_node": "vcpus", "cores_fit_node": "vcpus", "memory_fits_node": "memory", "storage_fits_node": "nvme",
    "egress_fits_nic": "nic", "ingress_fits_nic": "nic",
}  # fmt: skip
_PLACE = {
    "selector_matches": {"select": {}},
    "spread_keeps_apart": {"spread": None},
    "within_keeps_together": {"within": None},
    "per_node_holds": {"per_node": None},
    "per_rack_holds": {"per_rack": None},
    "per_site_holds": {"per_site": None},
    "balance_holds_skew": {"balance": None},
    "apart_keeps_away": {"apart": None},
    "away_from_keeps_off": {"away_from": {}},
    "company_is_near": {"only_with": {}},
    "single_fits_numa_node": {"numa": None},
    "numa_node_suffices": {"numa": None},
}
_GPUS = {"gpu_model_matches": "model", "gpu_memory_suffices": "memory"}
_RACK = {"egress_fits_uplink": "uplink", "ingress_fits_uplink": "uplink", "power_stays_under_rack_budget": "power"}


def lifted(stack: Stack, name: str, rule: str, path: str) -> Stack | None:
    """The stack in which a rule is no obstacle for a workload; None where that means nothing. `path`: as the reason has it."""
    return (
        _machines(stack, name, rule)
        or _ceilings(stack, name, rule, path)
        or _request(stack, name, rule)
        or _effort(stack, rule)
    )


def _machines(stack: Stack, name: str, rule: str) -> Stack | None:
    request = stack.workloads[name]
    if rule == "gpus_fit_node":
        return _roomier(stack, "gpus", request.each.gpus.count * request.members)
    if rule in _HARDWARE:
        return _roomier(stack, _HARDWARE[rule], 1000 * 10**15)
    if rule == "links_carry_gangs":
        return stack.model_copy(update={"sites": {}})
    if rule == "guarantee":
        teams = {key: team.model_copy(update={"guarantee": Guarantee()}) for key, team in stack.teams.items()}
        return stack.model_copy(update={"teams": teams})
    if rule in _RACK:
        racks = {key: rack.model_copy(update={_RACK[rule]: None}) for key, rack in stack.racks.items()}
        return stack.model_copy(update={"racks": racks})
    return opened(stack, stack.nodes) if rule == "node_is_ready" else None


def _ceilings(stack: Stack, name: str, rule: str, path: str) -> Stack | None:
    if rule == "node_stays_under_limits":
        return _limits(stack, node=_open(stack.limits.node, path))
    if rule == "cluster_stays_under_limits":
        return _limits(stack, cluster=_open(stack.limits.cluster, path))
    if rule == "team_stays_under_limits":
        own = path.split(".")[1:2] if path.startswith("teams.") else stack.teams_of(stack.workloads[name].user)
        return _team(stack, tuple(own), path)
    return _user(stack, stack.workloads[name].user, path) if rule == "user_stays_under_limits" else None


def _request(stack: Stack, name: str, rule: str) -> Stack | None:
    request = stack.workloads[name]
    if rule == "taints_are_tolerated":
        return stack.model_copy(
            update={"nodes": {key: node.model_copy(update={"taints": {}}) for key, node in stack.nodes.items()}}
        )
    if rule == "away_from_keeps_off":
        for other, one in stack.workloads.items():
            if name in {each for names in one.place.away_from.values() for each in names}:
                stack = with_workload(stack, other, {"place": one.place.model_copy(update={"away_from": {}})})
    if rule in _PLACE:
        return with_workload(stack, name, {"place": request.place.model_copy(update=_PLACE[rule])})
    if rule in _GPUS:
        gpus = request.each.gpus
        gpus = gpus.model_copy(update={_GPUS[rule]: _having(gpus) if gpus.profile and _GPUS[rule] == "model" else None})
        return with_workload(stack, name, {"each": request.each.model_copy(update={"gpus": gpus})})
    if rule == "mig_profile_exists":
        return with_workload(stack, name, {"each": request.each.model_copy(update={"gpus": _uncut(request.each.gpus)})})
    if rule == "gang_is_whole_or_absent":
        members = request.gang or request.members
        return with_workload(stack, name, {"gang": None, "replicas": Replicas(least=members, most=members)})
    return with_workload(stack, name, {"priority": "high"}) if rule == "equals_are_not_stopped" else None


def _having(gpus: Gpus) -> str:
    """All models that have a MIG profile as large: an instance without a model is one of any of their cards."""
    return "|".join(model for model in sorted(MODELS) if part_of(model, gpus.profile) == gpus.part)


def _uncut(gpus: Gpus) -> Gpus:
    """As much of GPUs that nobody has to cut for it: a part of one, or whole ones."""
    count, rest = divmod(gpus.milli, WHOLE)
    model = None if gpus.model == _having(gpus) else gpus.model
    share = WHOLE if count else rest
    return gpus.model_copy(
        update={"profile": "", "model": model, "count": count + bool(count and rest) or 1, "share": GpuCount(share)}
    )


def _effort(stack: Stack, rule: str) -> Stack | None:
    update: dict[str, dict[str, Any]] = {"moves_stay_in_budget": {"moves": 10**6}, "effort": {"effort": "thorough"}}
    return stack.model_copy(update={"solve": stack.solve.model_copy(update=update[rule])}) if rule in update else None


#: What a sentence of `limits` is about, and the rule that is given up for it; the last word is that of a ceiling.
_SENTENCES = {
    r"of vCPUs placed on": "vcpus_fit_node", r"pins CPU|is pinned by": "cores_fit_node", r"of memory placed on": "memory_fits_node",
    r"of storage placed on": "storage_fits_node", r"of bandwidth (?:in|out) placed on": "egress_fits_nic",
    r"holds GPU|is held by": "gpus_fit_node", r"its uplink carries": "egress_fits_uplink",
    r"and the link carries": "links_carry_gangs", r"its budget is": "power_stays_under_rack_budget", r"asks for GPUs of": "gpu_memory_suffices",
    r"asks for \S+: ": "selector_matches", r"asks for \S+, and": "gpu_model_matches", r"to be spread": "spread_keeps_apart",
    r"does not tolerate|whose taint": "taints_are_tolerated", r"it is to be on one": "single_fits_numa_node", r"to stay within one": "within_keeps_together",
    r"may have \d+ on one node": "per_node_holds",
    r"may have \d+ in one rack": "per_rack_holds", r"may have \d+ in one site": "per_site_holds",
    r"both are to be apart": "apart_keeps_away", r"it is to be away from": "away_from_keeps_off",
    r"with which it is to be": "company_is_near", r"node \S+ carries": "node_stays_under_limits",
    r"team \S+ holds": "team_stays_under_limits",
    r"the cluster carries": "cluster_stays_under_limits", r"user \S+ holds": "user_stays_under_limits",
}  # fmt: skip


def given_up(stack: Stack, name: str, sentence: str) -> Stack | None:
    """The stack without the rule that a sentence of `limits` is about."""
    rule = next((rule for pattern, rule in _SENTENCES.items() if re.search(pattern, sentence)), "")
    what = next((key for key in ("gpus", "vcpus", "memory", "storage", "bandwidth") if key in sentence.lower()), "")
    return lifted(stack, name, rule, f"limits.{what}")


def with_workload(stack: Stack, name: str, update: dict[str, Any]) -> Stack:
    """The stack with a workload changed."""
    return put_workload(stack, name, stack.workloads[name].model_copy(update=update))


def put_workload(stack: Stack, name: str, workload: Workload) -> Stack:
    """The stack with this in place of a workload."""
    return stack.model_copy(update={"workloads": {**stack.workloads, name: workload}})


def opened(stack: Stack, names: Iterable[str]) -> Stack:
    """The stack with these nodes ready."""
    ready = {name: stack.nodes[name].model_copy(update={"state": "ready", "drain_by": None}) for name in names}
    return stack.model_copy(update={"nodes": {**stack.nodes, **ready}})


def with_node(stack: Stack, node: Node, hardware: Hardware) -> Stack:
    """The stack with a node that it has no more."""
    shape = f"{node.hardware}-of-{node.name}"
    node = node.model_copy(update={"hardware": shape, "state": "ready", "tuning": None})
    if node.rack not in stack.racks:
        node = node.model_copy(update={"rack": None})
    nodes, shapes = {**stack.nodes, node.name: node}, {**stack.hardware, shape: hardware}
    return stack.model_copy(update={"nodes": nodes, "hardware": shapes})


def _roomier(stack: Stack, what: str, more: int) -> Stack:
    """Every machine has more of one thing. GPUs that are added draw no power that their rack has not got."""
    shapes, racks = {}, dict(stack.racks)
    for name, one in stack.hardware.items():
        if what == "gpus":
            update: dict[str, Any] = {"gpus": one.gpus.model_copy(update={"count": one.gpus.count + more})}
        else:
            unit = {"vcpus": Cpus, "memory": Bytes, "nvme": Bytes, "nic": BitsPerSecond}[what]
            update = {what: unit(int(getattr(one, what)) + (2_000_000 if what == "vcpus" else more))}
        shapes[name] = one.model_copy(update=update)
    if what == "gpus":
        for name, node in stack.nodes.items():
            rack = racks.get(node.rack or "")
            cap = stack.tuning_of(name).gpu_power
            if rack is not None and rack.power is not None and cap is not None and node.state != "lost":
                racks[str(node.rack)] = rack.model_copy(update={"power": Watts(int(rack.power) + int(cap) * more)})
    return stack.model_copy(update={"hardware": shapes, "racks": racks})


#: Within the path of a limit on one GPU model; all of them are lifted at once, as the rule is about each.
_BY_MODEL = ".gpus_by_model."


def _open(ceiling: Ceiling, path: str) -> Ceiling:
    return ceiling.model_copy(update={"gpus_by_model": {}} if _BY_MODEL in path else {path.rpartition(".")[2]: None})


def _limits(stack: Stack, **update: Any) -> Stack:
    return stack.model_copy(update={"limits": stack.limits.model_copy(update=update)})


def _team(stack: Stack, chain: tuple[str, ...], path: str) -> Stack:
    """No ceiling for these teams, and the same for all others; where it is said that an exception has ended, it goes on."""
    key = path.rpartition(".")[2]
    if _BY_MODEL in path:
        nothing = {"gpus_by_model": {}}
        ones = tuple(one.model_copy(update=nothing) if one.team in chain else one for one in stack.limits.exceptions)
        every = stack.limits.team.gpus_by_model
        teams = {
            name: team.model_copy(
                update={
                    "limits": team.limits.model_copy(
                        update=nothing if name in chain else {"gpus_by_model": {**every, **team.limits.gpus_by_model}}
                    )
                }
            )
            for name, team in stack.teams.items()
        }
        return _limits(stack.model_copy(update={"teams": teams}), team=_open(stack.limits.team, path), exceptions=ones)
    if key == "except":
        on = {"until": FOR_EVER}
        ones = tuple(one.model_copy(update=on) if one.team in chain else one for one in stack.limits.exceptions)
        return _limits(stack, exceptions=ones)
    ones = tuple(one.model_copy(update={key: None}) if one.team in chain else one for one in stack.limits.exceptions)
    every = getattr(stack.limits.team, key)
    teams = {}
    for name, team in stack.teams.items():
        own = getattr(team.limits, key)
        value = None if name in chain else every if own is None else own
        teams[name] = team.model_copy(update={"limits": team.limits.model_copy(update={key: value})})
    return _limits(stack.model_copy(update={"teams": teams}), team=_open(stack.limits.team, path), exceptions=ones)


def _user(stack: Stack, user: str, path: str) -> Stack:
    """No ceiling for the user; where it is said that an exception has ended, that goes on instead."""
    key = path.rpartition(".")[2]
    update: dict[str, Any] = {"until": FOR_EVER} if key == "except" else {key: None}
    update = {"gpus_by_model": {}} if _BY_MODEL in path else update
    ones = tuple(one.model_copy(update=update) if one.user == user else one for one in stack.limits.exceptions)
    ceiling = stack.limits.user if key == "except" else _open(stack.limits.user, path)
    return _limits(stack, user=ceiling, exceptions=ones)


def only(stack: Stack, standing: set[str], last: Placement, whole: str = "") -> tuple[Stack, Placement, dict[str, str]]:
    """The stack that asks for just the allocations `standing`, from `last`, and the new name of each; `whole`: as it is.

    Replicas are numbered anew without holes, since a stack says how many and not which.
    """
    kept: dict[str, list[int]] = {}
    for name in standing:
        workload, _, index = name.rpartition("-")
        kept.setdefault(workload, []).append(int(index))
    workloads, names = {}, {}
    for name, request in stack.workloads.items():
        if name == whole or (request.gang is not None and len(kept.get(name, ())) == request.gang):
            workloads[name] = request
            names |= {f"{name}-{i}": f"{name}-{i}" for i in range(request.members)}
        elif name in kept and request.gang is None:
            indices = sorted(kept[name])
            count = len(indices)
            workloads[name] = request.model_copy(update={"replicas": Replicas(least=count, most=count)})
            names |= {f"{name}-{i}": f"{name}-{new}" for new, i in enumerate(indices)}
    ran = tuple(_renamed(one, names[one.name]) for one in last.allocations if one.name in names)
    return stack.model_copy(update={"workloads": workloads}), Placement(allocations=ran), names


def _renamed(one: Allocation, name: str) -> Allocation:
    return one.model_copy(update={"name": name, "index": int(name.rpartition("-")[2])})
