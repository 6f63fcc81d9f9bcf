"""What in a stack file is legal and surely not meant? Warnings: nothing is refused for them."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from swarm_iac.errors import Problem
from swarm_iac.model.base import FORMER
from swarm_iac.model.hardware import GPU_MEMORY
from swarm_iac.model.place.groups import Level
from swarm_iac.model.place.taints import ANY
from swarm_iac.model.resources.table import LIMITS, RESOURCES, UNDECLARED
from swarm_iac.model.settings import GIANT_PAGE, HUGE_PAGE
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES, Workload
from swarm_iac.pluralize import pluralize
from swarm_iac.stackfile.checks.feasibility import holds
from swarm_iac.stackfile.reading.messages import nearest
from swarm_iac.stackfile.reading.source import Loaded, Source, Step, join
from swarm_iac.units import Bytes

#: What no machine has: as much is there as `limits` say.
_POOLS = tuple(row for row in RESOURCES if row.capacity is None and not row.itself)
#: What may be used beyond what is guaranteed.
_LENT = tuple(row for row in RESOURCES if row.ceiling)


def doubts(loaded: Loaded, today: datetime.date) -> tuple[Problem, ...]:
    """One warning for each, in the order of the file. `today`: an exception whose last day is before it has expired."""
    stack, source = loaded.stack, loaded.source
    found = [
        *_hardware(stack),
        *_workloads(stack),
        *_instances(stack),
        *_ceilings(stack),
        *_disks(stack),
        *_tolerations(stack),
        *_preferences(stack),
        *_exceptions(stack, today),
        *_past_use(stack, today),
        *_teams(stack),
        *_models(stack),
        *_racks(stack),
        *_power_saving(stack),
    ]
    return tuple(sorted((*(_at(source, *one) for one in found), *_former(source))))


def _former(source: Source) -> Iterator[Problem]:
    """Keys under a name that they had in former versions."""
    data = source.document.root.data
    limits = data.get("limits") or {}
    exceptions = limits.get("except") or ()
    entries: list[tuple[tuple[Step, ...], Any, str]] = [
        *((("workloads", name), one, "renamed_from") for name, one in (data.get("workloads") or {}).items()),
        *((("nodes", name), one, "reason") for name, one in (data.get("nodes") or {}).items()),
        *((("limits", "except", index), one, "reason") for index, one in enumerate(exceptions)),
    ]
    for steps, one, key in entries:
        if isinstance(one, dict) and FORMER[key] in one:
            at = (*steps, FORMER[key])
            message = f"is called `{key}` now; the old name is still read"
            yield Problem(source.document.at(at, key=True), join(at), message, f"write `{key}` in its place")


def _at(source: Source, path: str, message: str, hint: str) -> Problem:
    return Problem(source.place(path), path, message, hint)


def _hardware(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """A model that nobody knows, close to one that everybody knows; with its memory it is meant as it is written. Huge pages
    of which not one is whole.
    """
    asked = {
        shape.gpus.model: name
        for name, one in reversed(stack.workloads.items())
        for shape in stack.hardware.values()
        if one.each.gpus.memory and one.each.gpus.count and one.each.gpus.allows(shape.gpus.model)
    }
    for name, one in stack.hardware.items():
        for key, page in (("hugepages", HUGE_PAGE), ("hugepages_1g", GIANT_PAGE)):
            size = int(getattr(one, key))
            if 0 < size < page:
                whole = f"{page >> 20} MiB" if page < GIANT_PAGE else "1 GiB"
                words = f"{Bytes(size)} is less than one page of {whole}, so none is kept"
                yield f"hardware.{name}.{key}", words, f"write {whole}, or more"
        model = one.gpus.model or ""
        close = get_close_matches(model.upper(), GPU_MEMORY, n=1, cutoff=0.8)
        if model and not one.gpu_memory and (close or model in asked):
            hint = f"write {{count: {one.gpus.count}, model: {model}, memory: …}}"
            hint = f"did you mean {close[0]}? Else {hint}" if close else hint
            words = f"{model} is no GPU model that is known, so nobody knows its memory"
            words += f", and {asked[model]} asks for GPUs of so much" if model in asked else ""
            yield f"hardware.{name}.gpus", words, hint


def _workloads(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """Path, what it does, and what was probably meant."""
    for name, one in stack.workloads.items():
        path = f"workloads.{name}"
        if one.user == "root":
            yield f"{path}.user", "runs as root, which no workload may", "give it an account of its own, in a team"
        if one.kind == "serve" and one.run is None:
            yield path, "is a service without `run`: its place is held, and nothing is started in it", "add `run: {command: …}`"
        if one.replicas.most > one.replicas.least and one.scale is None:
            most = pluralize(one.replicas.least, "replica")
            words = f"has no use for more than {most}: nothing says what their number follows"
            yield (
                f"{path}.replicas",
                words,
                f"add `scale: {{on: requests_per_replica, target: 40}}`, or write {one.replicas.least}",
            )
        if one.hold and one.kind == "serve":
            yield f"{path}.hold", "has no effect on a service, which has no end", "leave `hold` out"
        elif one.hold:
            yield f"{path}.hold", "keeps its GPUs and memory after the job has ended", "leave `hold` out to release them"
        if one.place.numa and not (one.each.gpus.count or one.each.pinned):
            words = "has no effect: it has no GPUs and no pinned cores, so it is bound to no NUMA node"
            yield f"{path}.place.numa", words, "add `pinned: true`, or leave `numa` out"
        if one.place.links and one.each.gpus.count < 2:
            words = "has no effect: a replica of fewer than two GPUs has none to be linked"
            yield f"{path}.place.links", words, "leave `links` out"
        yield from _leaning(stack, path, one)
        for row in _POOLS:
            if row.demand(one) and row.limit and stack.limits.cluster.limit(row.limit.key) is None:
                words = f"asks for {row.amount(row.demand(one))}, and nothing says how many there are"
                yield f"{path}.{row.path(one)}", words, f"add limits.cluster.{row.limit.key}"
        yield from _grouped(stack, path, one)


def _leaning(stack: Stack, path: str, one: Workload) -> Iterator[tuple[str, str, str]]:
    """Whom it is only with stops sooner than it does."""
    for kind, names in one.place.only_with.items():
        for name in names:
            other = stack.workloads.get(name)
            if other and PRIORITIES[other.priority] < PRIORITIES[one.priority]:
                words = f"{name} has priority {other.priority} and stops for others before those that are only with it"
                yield f"{path}.place.only_with.{kind}", words, f"give {name} `priority: {one.priority}`"


def _instances(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """MIG instances that no GPU of its nodes can be cut into."""
    there = [(node.labelled, node.hardware) for node in stack.nodes.values() if node.state != "lost"]
    known: dict[tuple[tuple[str, str], ...], set[str]] = {}  # nodes and workloads are many, and what they select is not
    for name, one in stack.workloads.items():
        asked, select = one.each.gpus, tuple(one.place.select.items())
        if not (asked.profile and asked.count and one.members):
            continue
        if select not in known:
            known[select] = {hardware for labels, hardware in there if one.place.suits(labels)}
        nodes = known[select]
        shapes = {key: stack.hardware[key] for key in sorted(nodes) if asked.allows(stack.hardware[key].gpus.model)}
        cut = {key: shape.model_copy(update={"mig": True}).profiles for key, shape in shapes.items()}
        fit = [key for key, found in cut.items() if asked.profile in found and found[asked.profile].part == asked.part]
        if not shapes or any(shapes[key].mig for key in fit):
            continue
        words = f"no node that it may use has a GPU with MIG instances of {asked.profile}, so it is always pending"
        has = {f"{key} has {', '.join(found)}" for key, found in cut.items() if found and shapes[key].mig}
        hint = f"write `mig: true` in hardware.{fit[0]}" if fit else "; ".join(sorted(has))
        yield f"workloads.{name}.each.gpus", words, hint or "ask for whole GPUs, or for a part of one"


def _grouped(stack: Stack, path: str, one: Workload) -> Iterator[tuple[str, str, str]]:
    """What is said of racks or sites, and means little where there are too few."""
    for group in one.place.groups:
        if group.level == "site" and not any(node.site for node in stack.nodes.values()):
            words = f"{group} counts each rack as a site: no node names its site"
            yield f"{path}.place.{group.of.key}", words, "give the nodes a `site`"
        if group.of.even and len({stack.group_of(name, group.level) for name in stack.nodes}) < 2:
            words = f"{group} compares nothing: all nodes are in one {group.level}"
            yield f"{path}.place.{group.of.key}", words, "leave `balance` out"
        most = (group.each or 0) * _places(stack, group.level, one)
        if 0 < most < one.members:
            apart = f"on different {group.level}s, and {most} can take them"
            several = f"with at most {group.each} on one {group.level}, and {most} fit"
            words = f"{one.members} replicas {apart if group.each == 1 else several}: the rest is always pending"
            yield f"{path}.place.{group.of.key}", words, f"ask for {most}, or leave `{group.of.key}` out"


def _tolerations(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """What is tolerated and nowhere to be found, perhaps since it is misspelt."""
    taints: dict[str, set[str]] = {}
    for node in stack.nodes.values():
        for key, taint in node.taints.items():
            taints.setdefault(key, set()).add(taint.value)
    for name, one in stack.workloads.items():
        for key, value in one.place.tolerate.items():
            values = taints.get(key, set())
            if value not in values and not (values and value == ANY):
                words = f"tolerates {key}: {value}, and no node has {'this taint' if values else f'a taint {key!r}'}"
                hint = nearest(value, values) if values else nearest(key, taints)
                yield f"workloads.{name}.place.tolerate.{key}", words, hint or "delete it"


def _preferences(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """What is preferred and nowhere to be found."""
    values: dict[str, set[str]] = {}
    for node in stack.nodes.values():
        for label, value in node.labelled.items():
            values.setdefault(label, set()).add(value)
    apart = Counter(one.place.prefer_apart for one in stack.workloads.values())
    for name, one in stack.workloads.items():
        if (level := one.place.prefer_apart) and apart[level] < 2:
            words = f"no other workload has `prefer_apart: {level}`, so there is none that it is apart from"
            yield f"workloads.{name}.place.prefer_apart", words, "write it at the others, too"
        for label, value in one.place.prefer.items():
            if value not in values.get(label, ()):
                hint = nearest(value, values[label]) if label in values else nearest(label, values)
                yield (
                    f"workloads.{name}.place.prefer.{label}",
                    f"prefers {label}: {value}, and no node has it",
                    hint or "delete it",
                )


def _ceilings(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """Of a range an upper end that no machine has."""
    shapes = [stack.hardware[name] for name in sorted({node.hardware for node in stack.nodes.values()})]
    largest = {row: max(map(row.capacity.amount, shapes)) for row in _LENT if row.capacity and shapes}
    for name, one in stack.workloads.items():
        for row, most in largest.items():
            if row.ceiling and row.ceiling(one) > max(most, row.demand(one)):
                words = f"may use up to {row.amount(row.ceiling(one))}, and no node has more than {row.text(most)}"
                yield f"workloads.{name}.{row.path(one)}", words, f"write an upper end of at most {row.text(most)}"


def _disks(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """Throughput that is to be guaranteed, of disks of which nobody said what they can do."""
    shapes = {name: stack.hardware[name] for name in sorted({node.hardware for node in stack.nodes.values()})}
    for name, one in stack.workloads.items():
        for row in _LENT:
            if row.ceiling and row.capacity and row.ceiling(one) > row.demand(one):
                silent = [shape for shape, has in shapes.items() if row.capacity.of(has) == UNDECLARED and holds(has, one)]
                if silent:
                    words = f"guarantees no {row.noun} on {silent[0]}: its hardware does not say what its disk can do"
                    hint = f"add hardware.{silent[0]}.{row.capacity.key}"
                    yield f"workloads.{name}.{row.path(one)}", words, hint


def _places(stack: Stack, level: Level, request: Workload) -> int:
    """How many nodes (racks, sites) are not given up, carry the labels that are asked for, and could hold a replica if empty.

    Where there are enough, no more are counted.
    """
    able = {shape for shape, hardware in stack.hardware.items() if holds(hardware, request)}
    found = set()
    for node in stack.nodes.values():
        if node.state == "lost" or node.hardware not in able:
            continue
        if request.place.suits(node.labelled):
            rack = node.rack or f"no rack: {node.name}"
            found.add({"node": node.name, "rack": rack, "site": node.site or f"no site: {rack}"}[level])
            if len(found) >= request.members:
                break
    return len(found)


def _past_use(stack: Stack, today: datetime.date) -> Iterator[tuple[str, str, str]]:
    """Use that is counted up to a day long ago, or to one that is still to come."""
    past = stack.past_use
    if past is None:
        return
    days = (today - past.until).days
    if days < 0:
        yield "past_use.until", "is in the future", "write the day up to which hours were counted"
    elif days * 86400 > 2 * int(past.half_life):
        hint = "count again with `swarm usage --past-use`, or delete it"
        yield "past_use.until", "is more than two half-lives ago", hint


def _exceptions(stack: Stack, today: datetime.date) -> Iterator[tuple[str, str, str]]:
    for index, one in enumerate(stack.limits.exceptions):
        if one.until < today:
            words = f"expired on {one.until}: {one.user or one.team} may add nothing above the common ceiling"
            yield f"limits.except[{index}]", words, "prolong it, or take it out"


def _teams(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """A limit of a team that a team around it keeps it from reaching; a way to share where nothing is shared."""
    if stack.solve.share_by == "dominant_resource":
        if not stack.fair:
            words = "has no effect: no team has a `share` or a `guarantee`"
            yield "solve.share_by", words, "give teams their weights: `teams: {research: {share: 3}, product: {share: 2}}`"
        elif not any(shape.gpus.count for shape in map(stack.hardware_of, stack.nodes)):
            words = "has no effect: what teams hold counts in GPUs, and no node has any"
            yield "solve.share_by", words, "leave it out; priorities and limits decide"
    for name, team in stack.teams.items():
        around = [(one, stack.limits.of_team(one, stack.teams[one])) for one in stack.line_of(name)[1:]]
        for key, limit in team.limits.given().items():
            least = min(((most, one) for one, its in around if (most := its.limit(key)) is not None), default=(limit, name))
            if limit > least[0]:
                words = f"is never reached: team {least[1]}, around it, may have {LIMITS[key].text(least[0])}"
                yield f"teams.{name}.limits.{key}", words, f"lower it, or raise the limit of {least[1]}"


def _models(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """A limit or a speed on a GPU model that no hardware has, perhaps since it is misspelt: it has no effect."""
    models = {hardware.gpus.model for hardware in stack.hardware.values() if hardware.gpus.model}
    limits = stack.limits
    every = [("limits.user", limits.user), ("limits.team", limits.team), ("limits.cluster", limits.cluster)]
    every += [(f"limits.except[{index}]", one) for index, one in enumerate(limits.exceptions)]
    every += [(f"teams.{name}.limits", team.limits) for name, team in stack.teams.items()]
    named = [(f"{path}.gpus_by_model", model) for path, ceiling in every for model in ceiling.gpus_by_model]
    named += [(f"workloads.{name}.speed", model) for name, one in stack.workloads.items() for model in one.speed]
    for path, model in named:
        if model not in models:
            yield f"{path}.{model}", f"no hardware has a GPU {model}", nearest(model, models) or "delete it"


def _racks(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """A GPU without a cap counts nothing, so a budget over such GPUs alone bounds nothing.

    A cap that a workload brings counts where that stands; where all work with GPUs brings one, the nodes need none.
    """
    caps = [one.each.gpu_power is not None for one in stack.workloads.values() if one.each.gpus.count]
    for name, rack in stack.racks.items():
        nodes = [node.name for node in stack.nodes.values() if node.rack == name and stack.hardware_of(node.name).gpus.count]
        capped = (caps and all(caps)) or any(stack.tuning_of(node).gpu_power is not None for node in nodes)
        if rack.power is not None and nodes and not capped:
            what = "only workloads with `gpu_power`" if any(caps) else "nothing"
            words = f"bounds {what}: no GPU of this rack has a cap, and one without counts 0 W"
            yield f"racks.{name}.power", words, "give its nodes a `tuning` with `gpu_power`"
    for name, shape in stack.hardware.items():
        nodes = [node.name for node in stack.nodes.values() if node.hardware == name]
        capped = (caps and all(caps)) or any(stack.tuning_of(node).gpu_power is not None for node in nodes)
        if shape.power is not None and nodes and not (capped and shape.gpus.count):
            words = "bounds nothing: no GPU of these nodes has a cap, and one without counts 0 W"
            yield f"hardware.{name}.power", words, "give its nodes a `tuning` with `gpu_power`"
    for name, tuning in stack.tuning.items():
        inside = [node.rack for node in stack.nodes.values() if node.tuning == name]
        budgets = [stack.racks[rack].power for rack in inside if rack in stack.racks]
        budgets += [stack.hardware_of(node.name).power for node in stack.nodes.values() if node.tuning == name]
        if tuning.gpu_power is not None and tuning.gpu_power.open and inside and not any(budgets):
            words = (
                "is never lowered: none of its nodes has `power`, or is in a rack that has, "
                f"so it is {tuning.gpu_power.most} everywhere"
            )
            yield f"tuning.{name}.gpu_power", words, "give the rack or the hardware a `power`, or write one value"


def _power_saving(stack: Stack) -> Iterator[tuple[str, str, str]]:
    """Nobody is powered off where as many nodes stay on as there are."""
    for name, one in stack.power_saving.items():
        count = sum(node.power_saving == name for node in stack.nodes.values())
        if count <= one.keep:
            names, stays = pluralize(count, "node names", "nodes name"), pluralize(one.keep, "stays", "stay")
            words = f"{names} it, and {stays} powered on: none is ever powered off"
            yield f"power_saving.{name}", words, "lower `keep`, or write `power_saving` at more nodes"
