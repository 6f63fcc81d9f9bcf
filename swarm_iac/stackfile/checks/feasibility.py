"""Could the least of each request ever be met, by the limits of its user and team and by some machine?

Only what can never be met is a mistake in the file. What merely does not fit today is the solver's answer, and so is a
limit that was lowered below what runs: it adds nothing and stops nobody, and the file stays right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from swarm_iac.errors import Problem
from swarm_iac.model.hardware import Hardware, numa_part
from swarm_iac.model.placement import Placement
from swarm_iac.model.resources.row import LimitKey, Resource
from swarm_iac.model.resources.table import LIMITED, LIMITS, RESOURCES
from swarm_iac.model.stack import Ceiling, NodeCeiling, Stack
from swarm_iac.model.workload import Workload
from swarm_iac.stackfile.checks.guarantees import guarantee_problems
from swarm_iac.stackfile.checks.variants import Forms, forms, in_variants
from swarm_iac.stackfile.reading.messages import nearest
from swarm_iac.stackfile.reading.source import Source

#: What one NUMA node has to have for a replica, in the order of `Hardware.parts`.
_NUMA = tuple(row.of_machines for row in RESOURCES if row.name in ("gpus", "cores", "memory"))


@dataclass(frozen=True)
class _Part:
    """What one replica asks for of one limit: of two directions the larger."""

    limit: LimitKey
    row: Resource
    each: int
    key: str


class _Ceilings:
    """The ceilings of users and of the teams around them: many workloads have the same."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.team = {user: name for name, team in stack.teams.items() for user in team.users}
        self.users: dict[str, Ceiling] = {}
        self.teams: dict[str, Ceiling] = {}

    def of_user(self, user: str) -> Ceiling:
        if user not in self.users:
            self.users[user] = self.stack.limits.of_user(user)
        return self.users[user]

    def of_teams(self, user: str) -> Iterator[tuple[str, Ceiling]]:
        """Each team around the user with its ceiling, innermost first."""
        for name in self.stack.line_of(self.team[user]) if user in self.team else ():
            if name not in self.teams:
                self.teams[name] = self.stack.limits.of_team(name, self.stack.teams[name])
            yield name, self.teams[name]


def feasibility_problems(stack: Stack, source: Source, running: Callable[[], Placement]) -> list[Problem]:
    """One problem for each ceiling that a workload's smallest request can never keep. `running` is asked where one is found.

    Of a workload with variants each of them is looked at. With `needs` one way to meet them is enough,
    and where there is none, the cheapest says why.
    """
    tried: list[tuple[list[Problem], Forms]] = []
    ways: dict[str, list[list[Problem]]] = {name: [] for name, one in stack.workloads.items() if one.needs}
    for one, chosen in forms(stack):
        problems = _of_one(one, source, running)
        for name in ways.keys() & chosen.keys():
            mine = [each for each in problems if each.path.startswith(f"workloads.{name}.")]
            ways[name].append(in_variants([(mine, chosen)], one, source))
            problems = [each for each in problems if each not in mine]
        tried.append((problems, chosen))
    found = in_variants(tried, stack, source)
    return found + [each for every in ways.values() if all(every) for each in (every[0] if every else ())]


def _of_one(stack: Stack, source: Source, running: Callable[[], Placement]) -> list[Problem]:
    problems: list[Problem] = []
    shapes = {node.hardware for node in stack.nodes.values()} & set(stack.hardware)
    # An exception counts even when it has expired: expiry stops growth, and the solver tells so; the file stays right.
    whose = _Ceilings(stack)
    for name, workload in stack.workloads.items():
        if workload.replicas.most == 0 and workload.gang is None:
            continue
        parts = _parts(workload)
        problems += _ceilings(stack, source, name, workload, parts, whose, running)
        if stack.limits_models and workload.each.gpus.count:
            problems += _models(stack, source, name, whose, running)
        if stack.nodes:
            problems += _machines(source, name, workload, {shape: stack.hardware[shape] for shape in sorted(shapes)}, parts)
    if stack.workloads and not stack.nodes:
        message = "there are workloads, and no nodes to run them"
        problems.append(Problem(source.place("workloads"), "workloads", message, "list machines under `nodes:`"))
    return problems + guarantee_problems(stack, source)


def _least(workload: Workload) -> int:
    """Replicas without which the workload is of no use. Of a job that ends each is one: some run, and the others after them."""
    ends = workload.kind != "serve" and workload.run is not None and workload.gang is None
    return 1 if ends else max(1, workload.members)


def _parts(workload: Workload) -> tuple[_Part, ...]:
    largest = ((LIMITS[key], max(rows, key=lambda row: row.demand(workload))) for key, rows in LIMITED.items())
    return tuple(_Part(limit, row, row.demand(workload), row.path(workload)) for limit, row in largest)


def _ceilings(
    stack: Stack,
    source: Source,
    name: str,
    workload: Workload,
    parts: Iterable[_Part],
    whose: _Ceilings,
    running: Callable[[], Placement],
) -> list[Problem]:
    """Σ over the least members ≤ the ceilings of the user, of each team around it and of the cluster.

    What stands together ≤ the node's.
    """
    limits = stack.limits
    members = _least(workload)
    together = max(1, workload.members) if workload.place.together == "node" else 1
    levels: tuple[tuple[str, str, NodeCeiling, int], ...] = (
        ("user", f"user {workload.user}", whose.of_user(workload.user), members),
        *(("team", f"team {team}", ceiling, members) for team, ceiling in whose.of_teams(workload.user)),
        ("node", "one node", limits.node, together),
        ("cluster", "the cluster", limits.cluster, members),
    )
    problems: list[Problem] = []
    for part in parts:
        for level, who, ceiling, count in levels:
            most, noun = ceiling.limit(part.limit.key), part.limit
            if most is None or part.each * count <= most:
                continue
            if level != "node" and _lowered(running(), name, part, most):
                continue
            path = f"workloads.{name}.{part.key}"
            total = part.each * count
            asked = f"{count} x {noun.text(part.each)} = " * (count > 1 and not part.row.itself) + noun.amount(total)
            excess = f"{noun.text(total - most)} too {'many' if noun.many else 'much'}"
            message = f"{asked}, and {who} may have {noun.text(most)}: {excess}"
            limit = _limit_path(stack, level, who.partition(" ")[2], noun.key)
            more = f", or add an exception for the {level} under limits.except" if level in ("user", "team") else ""
            more = ", or raise the exception" if "except" in limit else more
            hint = f"the limit is {limit} at {source.place(limit)}; ask for less{more}"
            problems.append(Problem(source.place(path), path, message, hint))
            break
    return problems


def _models(stack: Stack, source: Source, name: str, whose: _Ceilings, running: Callable[[], Placement]) -> Iterator[Problem]:
    """Σ_m ⌊limit_m / gpus⌋ ≥ the least members, over the models m that it may run on: of the user, each team, the cluster."""
    workload = stack.workloads[name]
    shapes = (stack.hardware[shape] for shape in sorted({node.hardware for node in stack.nodes.values()} & {*stack.hardware}))
    models = list(dict.fromkeys(shape.gpus.model for shape in shapes if shape.gpus.count and _same_gpu(workload, shape)))
    part = next(one for one in _parts(workload) if one.limit.key == "gpus")
    members, noun = _least(workload), part.limit
    levels: tuple[tuple[str, str, Ceiling], ...] = (
        ("user", workload.user, whose.of_user(workload.user)),
        *(("team", team, ceiling) for team, ceiling in whose.of_teams(workload.user)),
        ("cluster", "", stack.limits.cluster),
    )
    for level, who, ceiling in levels:
        limits = {model: int(ceiling.gpus_by_model[model]) for model in models if model in ceiling.gpus_by_model}
        if not models or len(limits) < len(models) or sum(most // part.each for most in limits.values()) >= members:
            continue
        if _lowered(running(), name, part, sum(limits.values())):
            continue
        path = f"workloads.{name}.{part.key}"
        asked = f"{members} x {noun.text(part.each)} = " * (members > 1) + noun.amount(part.each * members)
        whom = f"{level} {who}" if who else "the cluster"
        most = " and ".join(f"{noun.text(limit)} on {model}" for model, limit in limits.items())
        limit = _model_path(stack, level, who, next(model for model in models if model))
        hint = f"the limit is {limit} at {source.place(limit)}; ask for less, or for a GPU model that it allows"
        yield Problem(source.place(path), path, f"{asked}, and {whom} may have {most}", hint)
        return


def _model_path(stack: Stack, level: str, subject: str, model: str) -> str:
    for index, one in enumerate(stack.limits.exceptions):
        if {"user": one.user, "team": one.team}.get(level) == subject and model in one.gpus_by_model:
            return f"limits.except[{index}].gpus_by_model.{model}"
    if level == "team" and model in stack.teams[subject].limits.gpus_by_model:
        return f"teams.{subject}.limits.gpus_by_model.{model}"
    return f"limits.{level}.gpus_by_model.{model}"


def _lowered(running: Placement, workload: str, part: _Part, most: int) -> bool:
    """Was the limit lowered, and the request once right? By the lock the workload holds more, or waits since it was stopped."""
    if any(gone.workload == workload for gone in running.unplaced):
        return True
    ones = [one for one in running.allocations if one.workload == workload]
    rows = LIMITED[part.limit.key]
    # What has ended held as much while it ran.
    return sum(part.each if one.ended else max(row.held(one) for row in rows) for one in ones) > most


def _limit_path(stack: Stack, level: str, subject: str, name: str) -> str:
    for index, one in enumerate(stack.limits.exceptions):
        whose = {"user": one.user, "team": one.team}.get(level)
        if whose == subject and one.limit(name) is not None:
            return f"limits.except[{index}].{name}"
    if level == "team" and name in stack.teams[subject].limits.given():
        return f"teams.{subject}.limits.{name}"
    return f"limits.{level}.{name}"


def _together(workload: Workload) -> str:
    """What demands that all replicas are on one node, as the file says it."""
    return " and ".join(str(group) for group in workload.place.groups if group.of.together and group.level == "node")


def _machines(
    source: Source, name: str, workload: Workload, shapes: dict[str, Hardware], parts: Iterable[_Part]
) -> list[Problem]:
    """Some machine's hardware holds one replica (all members, when they stand within one node)."""
    if not shapes:
        return []
    together = max(1, workload.members) if workload.place.together == "node" else 1
    gpus = workload.each.gpus
    base = f"workloads.{name}"
    able = shapes
    if gpus.count and (gpus.model or gpus.memory):
        able = {key: shape for key, shape in shapes.items() if _same_gpu(workload, shape)}
        if not able:
            path = f"{base}.each.gpus"
            models = sorted({shape.gpus.model for shape in shapes.values() if shape.gpus.model and shape.gpus.count})
            asked = " ".join(filter(None, (gpus.model, f"with {gpus.memory}" if gpus.memory else "")))
            unknown = [model for model in (gpus.model or "").split("|") if model and model not in models]
            hint = nearest(unknown[0], models) if unknown else ""
            hint = hint or ("the GPUs of the fleet: " + ", ".join(_gpus_of(shapes)) if models else "no node has GPUs")
            return [Problem(source.place(path), path, f"no node has a GPU {asked}", hint)]
    problems: list[Problem] = []
    of_machines = [(part, part.row.capacity) for part in parts if part.row.capacity]
    for part, there in of_machines:
        most, best = max((there.amount(shape), key) for key, shape in able.items())
        if part.each * together > most:
            path, noun = f"{base}.{part.key}", part.limit
            request = f"{together} x {noun.text(part.each)} = " * (together > 1) + noun.amount(part.each * together)
            fewer = f"ask for at most {noun.text(most // together)}" if most >= together else ""
            fewer = fewer if together == 1 else f"ask for less, or leave {_together(workload)} out"
            if not most:
                fewer = f"say what nodes have of it: hardware.{best}.{there.key}"
            who = "no node" if able is shapes else f"no node with {gpus.model or gpus.memory}"
            message = f"{who} has {request}: the largest, {best}, has {noun.text(most)}"
            problems.append(Problem(source.place(path), path, message, fewer))
    if not problems and workload.place.numa and not any(_on_one(shape, workload) for shape in able.values()):
        path = f"{base}.place.numa"
        problems.append(Problem(source.place(path), path, _too_small(workload, able), "ask for less, or leave `numa` out"))
    if not problems and workload.place.links and not any(_on_links(shape, workload) for shape in able.values()):
        path, largest = f"{base}.place.links", max(size for shape in able.values() for size in (0, *_linked(shape, workload)))
        on = " on one NUMA node" if workload.place.numa else ""
        message = f"no node has {gpus.count} GPUs that NVLink joins{on}: " + (
            f"the largest group has {largest}{on}" if largest else "`links` of their hardware declares none"
        )
        out = "`links` or `numa`" if on else "`links`"
        hint = f"ask for less, or leave {out} out" if largest else "declare `links` in `hardware` (`swarm discover` writes it)"
        problems.append(Problem(source.place(path), path, message, hint))
    if not problems and not any(
        all(p.each * together <= has.amount(shape) for p, has in of_machines) for shape in able.values()
    ):
        asked = ", ".join(p.limit.amount(p.each) for p, _ in of_machines if p.each)
        message = f"no single node has all of {asked}, although each fits on some node"
        problems.append(Problem(source.place(f"{base}.each"), f"{base}.each", message, "ask for less of one of them"))
    return problems


def holds(shape: Hardware, workload: Workload) -> bool:
    """Could an empty machine of this shape hold one replica?"""
    gpus = workload.each.gpus
    suits = not gpus.count or not (gpus.model or gpus.memory) or _same_gpu(workload, shape)
    enough = all(part.each <= there.amount(shape) for part in _parts(workload) if (there := part.row.capacity))
    return suits and enough and _on_one(shape, workload) and _on_links(shape, workload)


def _on_links(shape: Hardware, workload: Workload) -> bool:
    """Has it a group of linked GPUs for a replica that has to be on such?"""
    need = workload.each.gpus.count
    return workload.place.links is None or need < 2 or any(size >= need for size in _linked(shape, workload))


def _linked(shape: Hardware, workload: Workload) -> list[int]:
    """GPUs of each group of linked ones, with `numa: single` on each NUMA node."""
    if workload.place.numa is None:
        return [len(group) for group in shape.nvlink]
    parts = [numa_part(shape.gpus.count, shape.numa, j) for j in range(shape.numa)]
    return [sum(i in part for i in group) for group in shape.nvlink for part in parts]


def _on_one(shape: Hardware, workload: Workload) -> bool:
    """Has one NUMA node of it the GPUs, pinned cores and memory of a replica that has to be on one?"""
    if workload.place.numa is None:
        return True
    need = _of_numa(workload)
    return any(all(each <= free for each, free in zip(need, part, strict=True)) for part in shape.parts)


def _of_numa(workload: Workload) -> tuple[int, int, int]:
    """GPUs, pinned cores and memory; nothing is bound to a NUMA node where there are no GPUs and no pinned cores."""
    each = workload.each
    cores = int(each.vcpus) // 1000 if each.pinned else 0
    return (each.gpus.count, cores, int(each.memory)) if each.gpus.count or cores else (0, 0, 0)


def _too_small(workload: Workload, shapes: dict[str, Hardware]) -> str:
    """What no NUMA node has enough of, and which has most of it."""
    for i, (need, noun) in enumerate(zip(_of_numa(workload), _NUMA, strict=True)):
        most, best = max((max(part[i] for part in shape.parts), key) for key, shape in shapes.items())
        if need > most:
            return f"no NUMA node has {noun.amount(need)}: the largest, of {best}, has {noun.text(most)}"
    return "no NUMA node has all of its GPUs, pinned cores and memory, although each fits on some"


def _same_gpu(workload: Workload, shape: Hardware) -> bool:
    asked = workload.each.gpus
    if not shape.gpus.count or not asked.allows(shape.gpus.model):
        return False
    return asked.memory is None or asked.memory <= shape.gpu_memory


def _gpus_of(shapes: dict[str, Hardware]) -> list[str]:
    return sorted({f"{shape.gpus.model} ({shape.gpu_memory})" for shape in shapes.values() if shape.gpus.model})
