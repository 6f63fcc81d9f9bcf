"""How does a scene look to column generation? Workloads that are alike become a kind, nodes that are alike a shape.

What binds replicas of different nodes is relaxed: members of a gang and what stays within, apart, even or near by rack count
each for itself, and racks that are alike share one budget. So what no mix exceeds, no placement does; and with the budgets
summed the linear program is as strong as with each of them, since racks that are alike may be mixed alike. What else stands
somewhere is already taken from the nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from swarm_iac.solver.columns.problem import Amounts, Kind, Problem, Row, Shape, wanted_rows
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of
from swarm_iac.solver.snapshot.layout import ALL_GPUS, COUNTED, GPUS, NODE, RACK, SUPPLY, UPLINK
from swarm_iac.solver.snapshot.snapshot import CLUSTER, ENDLESS, NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering
from swarm_iac.solver.snapshot.tasks import Pairs
from swarm_iac.solver.snapshot.value import size, worth

#: One GPU of a priority for so many of the next lower one, in a linear program: three levels within two decades.
STEP = 10
#: What a replica without a GPU gains: with no lower priority to hold back a hundredth of a GPU, else so much of one.
WITHOUT, BEFORE_OTHERS = 10, 200


def simple(request: WorkloadRequest) -> bool:
    """Do its replicas stand each for itself, but for what racks and ceilings hold? Columns know no NUMA nodes, nor where MIG
    instances lie: they count them as parts of GPUs, which no less of fit a card.
    """
    several = request.members > 1 and (request.gang or request.together or request.by_rack or request.even or request.near)
    company = request.sought or request.place.prefer_apart or request.place.prefer_with or request.place.only_with
    return not (request.local or request.profile or request.others or company or several)


@dataclass(frozen=True)
class View:
    """A problem, and what its numbers mean: workloads of each kind, nodes of each shape."""

    problem: Problem
    requests: tuple[tuple[str, ...], ...]
    nodes: tuple[tuple[str, ...], ...]


def view(capacity: FreeCapacity, names: list[str]) -> View:
    """The workloads `names` on ready nodes, with what is left of everything in `capacity`."""
    groups, dims, steps = kinds_of(capacity, names)
    least = min((group[0].priority for group in groups), default=0)
    kinds = tuple(
        kind_of(
            group,
            sum(request.members - capacity.counts[request.name].total() for request in group),
            dims,
            steps,
            worth=worth(group[0]),
            value=linear_value(group[0], least),
        )
        for group in groups
    )
    problem, nodes = problem_of(capacity, groups, kinds, dims, steps)
    return View(problem, tuple(tuple(request.name for request in group) for group in groups), nodes)


def linear_value(request: WorkloadRequest, least: int) -> int:
    """What a replica gains: GPUs of a level before those of the next, as far as three decades reach."""
    plain = WITHOUT if request.priority == least else BEFORE_OTHERS
    return int(STEP ** (request.priority - least)) * (size(request) or plain)


def problem_of(
    capacity: FreeCapacity,
    groups: list[list[WorkloadRequest]],
    kinds: tuple[Kind, ...],
    dims: list[int],
    steps: list[int],
    *,
    models: bool = False,
    racks: bool = False,
) -> tuple[Problem, tuple[tuple[str, ...], ...]]:
    """The problem of placing these kinds on ready nodes, and the nodes of each shape.

    `models`: those are of one GPU model. `racks`: they are in one rack, and their GPUs are linked alike.
    """
    requests = [group[0] for group in groups]
    classes = _classes(capacity, requests, apart=racks)
    nodes, shapes = _shapes(capacity, requests, dims, steps, classes, models=models, racks=racks)
    limited = _limited(capacity, [request.name for group in groups for request in group])
    rows = wanted_rows(kinds) + _ceilings(capacity, groups, limited) + _racks(capacity, requests, nodes, classes)
    rows += _models(capacity, requests, nodes)
    return Problem(kinds, shapes, rows), nodes


def _limited(capacity: FreeCapacity, names: Iterable[str]) -> set[str]:
    """Users and teams with a ceiling that may bind."""
    chains = {capacity.snapshot.requests[name].chain for name in names}
    scopes = {scope for chain in chains for scope in chain} - {CLUSTER}
    return {scope for scope in scopes if any(value < ENDLESS // 2 for value in capacity.scopes[scope])}


def kinds_of(
    capacity: FreeCapacity,
    names: list[str],
    *,
    priorities: bool = True,
    apart: Callable[[WorkloadRequest], object] = lambda request: None,
) -> tuple[list[list[WorkloadRequest]], list[int], list[int]]:
    """Workloads that are alike, of one priority or of all; the dimensions that bound them; the step in each of these.

    `apart`: those for which it differs are not alike.
    """
    requests = [capacity.snapshot.requests[name] for name in names]
    limited = _limited(capacity, names)
    by_kind: dict[tuple[object, ...], list[WorkloadRequest]] = {}
    for request in requests:
        alike = (
            -request.priority if priorities else 0, request.need, request.usage, request.share, request.asked,
            tuple([scope for scope in request.chain if scope in limited]), request.per_node, request.power, request.single,
            request.linked, request.models, apart(request),
        )  # fmt: skip
        by_kind.setdefault(alike, []).append(request)
    groups = list(by_kind.values())
    dims = _telling(capacity, [group[0].need for group in groups]) + _supplies(capacity, [group[0] for group in groups])
    return groups, dims, [math.gcd(*(need_of(group[0], i) for group in groups)) for i in dims]


def _supplies(capacity: FreeCapacity, requests: list[WorkloadRequest]) -> list[int]:
    """One dimension for each power limit that GPUs have on nodes with a power budget: beyond those of NODE, by its watts.

    What a replica needs of a budget depends on that limit alone, so among these a kind needs the same on every node.
    """
    hosts = capacity.snapshot.nodes.values()
    found = sorted({len(NODE) + host.power for host in hosts if host.capacity[SUPPLY] < ENDLESS // 2})
    return [dim for dim in found if any(need_of(request, dim) for request in requests)]


def need_of(request: WorkloadRequest, dim: int) -> int:
    """What one replica needs in a dimension of `kinds_of`."""
    if dim < len(NODE):
        return request.need[dim]
    return 0 if request.power is None else request.gpus * max(0, request.power - (dim - len(NODE)))


def free_of(host: NodeCapacity, free: Sequence[int], dim: int) -> int:
    """What a node has free in a dimension of `kinds_of`."""
    if dim < len(NODE):
        return free[dim]
    return free[SUPPLY] if host.power == dim - len(NODE) else ENDLESS


def _telling(capacity: FreeCapacity, needs: list[tuple[int, ...]]) -> list[int]:
    """The dimensions besides GPUs that may bind on some node, and are not implied by another one."""
    used = [i for i in range(len(NODE)) if i != GPUS and any(need[i] for need in needs)]
    capacities = {tuple(free) for free in capacity.free.values()}
    used = [i for i in used if any(free[i] < ENDLESS // 2 for free in capacities)]
    kept: list[int] = []
    for i in used:
        others = [GPUS, *kept]
        implied = any(
            all(need[i] <= need[j] for need in needs) and all(free[i] >= free[j] for free in capacities) for j in others
        )
        if not implied:
            kept.append(i)
    return kept


def kind_of(
    group: list[WorkloadRequest], count: int, dims: list[int], steps: list[int], *, worth: int = 0, value: int = 0
) -> Kind:
    """The kind that a group of workloads is. Of some a node holds only so many each."""
    one = group[0]
    need = tuple(need_of(one, i) // step for i, step in zip(dims, steps, strict=True))
    return Kind(worth, count, one.gpus, one.share, need, most=len(group) * (one.per_node or 0), value=value)


def _classes(capacity: FreeCapacity, requests: list[WorkloadRequest], *, apart: bool) -> dict[str, int]:
    """A number for each rack whose budget may bind; the same for racks with the same budget and the same nodes, or not even for
    those, where they have to stay `apart`.
    """
    wanted = [*(any(request.need[i] for request in requests) for i in UPLINK), any(map(_draws, requests))]
    binding = {
        name: tuple(value if wanted[i] else ENDLESS for i, value in enumerate(values))
        for name, values in capacity.racks.items()
    }
    binding = {name: values for name, values in binding.items() if any(value < ENDLESS // 2 for value in values)}
    if apart:
        return {name: number for number, name in enumerate(binding)}
    inside: dict[str, list[tuple[object, ...]]] = {name: [] for name in binding}
    for host in capacity.snapshot.nodes.values():
        if host.rack in inside and host.state == "ready":
            inside[host.rack].append((capacity.snapshot.alike[host.name], host.power, *capacity.free[host.name]))
    known: dict[object, int] = {}
    return {
        name: known.setdefault((values, tuple(sorted(Counter(inside[name]).items(), key=str))), len(known))
        for name, values in binding.items()
    }


def _draws(request: WorkloadRequest) -> bool:
    return request.power is not None and request.gpus > 0


def _shapes(
    capacity: FreeCapacity,
    requests: list[WorkloadRequest],
    dims: list[int],
    steps: list[int],
    classes: dict[str, int],
    *,
    models: bool,
    racks: bool,
) -> tuple[tuple[tuple[str, ...], ...], tuple[Shape, ...]]:
    fits, limited = suited(capacity.snapshot, requests), {model for request in requests for model, _ in request.models}
    by_shape: dict[tuple[object, ...], list[NodeCapacity]] = {}
    found: list[Shape] = []
    for host in capacity.snapshot.nodes.values():
        if host.state == "ready":
            free = capacity.free[host.name]
            capacities = tuple(max(0, free_of(host, free, i)) // step for i, step in zip(dims, steps, strict=True))
            rack = classes.get(host.rack or "", -1)
            model = host.model if models or host.model in limited else None
            key = (
                max(0, free[GPUS]), capacities, fits(host), rack, host.power if rack >= 0 else 0, model,
                (group_of(host, "rack"), host.links) if racks else None,
            )  # fmt: skip
            if key not in by_shape:
                found.append(Shape(0, max(0, free[GPUS]), capacities, fits(host)))
            by_shape.setdefault(key, []).append(host)
    shapes = tuple(
        Shape(len(alike), one.cards, one.capacity, one.fits) for one, alike in zip(found, by_shape.values(), strict=True)
    )
    return tuple(tuple(host.name for host in alike) for alike in by_shape.values()), shapes


def suited(snapshot: Snapshot, requests: list[WorkloadRequest]) -> Callable[[NodeCapacity], tuple[int, ...]]:
    """Which of the workloads suit a node, its state aside?"""
    table = np.array([hindering(snapshot, request).none_but_state for request in requests], dtype=np.bool_)
    table = table.reshape(len(requests), len(snapshot.nodes))
    known: dict[bytes, tuple[int, ...]] = {}

    def fits(host: NodeCapacity) -> tuple[int, ...]:
        those = table[:, snapshot.rows[host.name]]
        key = those.tobytes()
        if key not in known:
            known[key] = tuple(np.flatnonzero(those).tolist())
        return known[key]

    return fits


def _ceilings(capacity: FreeCapacity, groups: list[list[WorkloadRequest]], limited: set[str]) -> tuple[Row, ...]:
    rows, inside = [], dict[str, list[tuple[int, WorkloadRequest]]]()
    for k, group in enumerate(groups):
        for scope in group[0].chain:
            inside.setdefault(scope, []).append((k, group[0]))
    for i in range(len(COUNTED)):
        for scope in (*sorted(limited), CLUSTER):
            rows.append((capacity.scopes[scope][i], tuple((k, one.usage[i]) for k, one in inside.get(scope, ()))))
    kept = [(limit, tuple((k, use) for k, use in uses if use)) for limit, uses in rows]
    return tuple(Row(max(0, limit), uses) for limit, uses in kept if uses and limit < ENDLESS // 2)


def _racks(
    capacity: FreeCapacity, requests: list[WorkloadRequest], nodes: tuple[tuple[str, ...], ...], classes: dict[str, int]
) -> tuple[Row, ...]:
    """For racks that are alike, and each of RACK:  Σ_{w, n} use_w · x[w,n] ≤ Σ_r budget_r"""
    rows = []
    firsts = [capacity.snapshot.nodes[names[0]] for names in nodes]
    racks: dict[int, list[str]] = {}
    for rack, number in classes.items():
        racks.setdefault(number, []).append(rack)
    shapes: dict[int, list[int]] = {number: [] for number in racks}
    for h, host in enumerate(firsts):
        if host.rack in classes:
            shapes[classes[host.rack]].append(h)
    uses: dict[int, list[Amounts]] = {}  # of each of RACK, by the power of a node: nothing else tells nodes apart here
    for host in firsts:
        if host.power not in uses:
            each = [host.of_rack(request) for request in requests]
            uses[host.power] = [tuple((k, one[i]) for k, one in enumerate(each) if one[i]) for i in range(len(RACK))]
    for number in sorted(racks):
        for i in range(len(RACK)):
            limit = sum(max(0, capacity.racks[rack][i]) for rack in racks[number])
            inside = tuple((h, found) for h in shapes[number] if (found := uses[firsts[h].power][i]))
            if inside and limit < ENDLESS // 2:
                rows.append(Row(limit, (), inside, resource=i))
    return tuple(rows)


def _models(capacity: FreeCapacity, requests: list[WorkloadRequest], nodes: tuple[tuple[str, ...], ...]) -> tuple[Row, ...]:
    """For every limit on a GPU model:  Σ_{w, n with that model} gpus_w · x[w,n] ≤ limit"""
    shapes: dict[str | None, list[int]] = {}
    for h, names in enumerate(nodes):
        shapes.setdefault(capacity.snapshot.nodes[names[0]].model, []).append(h)
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for k, request in enumerate(requests):
        for model, scopes in request.models:
            for _, scope in scopes:
                found.setdefault((model, scope), []).append((k, request.usage[ALL_GPUS]))
    limits = ((model, capacity.scopes[scope][ALL_GPUS], tuple(uses)) for (model, scope), uses in found.items())
    return tuple(
        Row(max(0, limit), (), tuple((h, uses) for h in shapes[model]), one=True)
        for model, limit, uses in limits
        if limit < ENDLESS // 2 and model in shapes
    )


def named(seen: View, capacity: FreeCapacity, counts: dict[str, Counter[int]]) -> Pairs:
    """Replicas of workloads on nodes, from counts of kinds on nodes.

    Kinds are handed out in the order of names; of those of which a node has only so many it gets the ones with the most left.
    """
    left = {
        name: capacity.snapshot.requests[name].members - capacity.counts[name].total()
        for names in seen.requests
        for name in names
    }
    pairs: Pairs = Counter()
    for node in sorted(counts):
        for kind, count in sorted(counts[node].items()):
            names = seen.requests[kind]
            rest, most = count, capacity.snapshot.requests[names[0]].per_node
            for _ in range(count if most is not None else 0):  # one at a time, so that what is left stays even
                open_ = [name for name in names if left[name] and pairs[name, node] < (most or 0)]
                if open_:
                    name = max(open_, key=lambda name: left[name])
                    pairs[name, node] += 1
                    left[name] -= 1
            for name in names if most is None else ():
                take = min(rest, left[name])
                if take:
                    pairs[name, node] += take
                    left[name] -= take
                    rest -= take
                if not rest:
                    break
    return pairs
