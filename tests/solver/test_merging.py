"""Is a relaxation with fewer shapes still one? And does it know more than counting, where labels tell every rack apart?"""

from __future__ import annotations

from collections import Counter
from typing import Any

from swarm_iac.model.placement import Placement
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import NOBODY, beside, finer_bound, level_bounds
from swarm_iac.solver.bounds.merging import merged
from swarm_iac.solver.bounds.relaxation import WIDE, Stand, relaxation
from swarm_iac.solver.columns.problem import Cap, Kind, Problem, Shape
from swarm_iac.solver.columns.whole_fleet import bound_of
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.repair.greedy import ORDERS, greedy
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import by_workload, classify, repair_task
from swarm_iac.solver.snapshot.value import size
from tests.solver.fleets import stack_of
from tests.solver.test_short_ways import drawn


def test_what_is_placed_keeps_every_row_of_the_merged_problem() -> None:
    fewer = caps = 0
    for capacity in drawn(12, 30):
        snapshot = capacity.snapshot
        levels = sorted({request.priority for request in snapshot.requests.values()})
        most, task = possible(snapshot), repair_task(snapshot, classify(snapshot))
        for order in ORDERS[:3]:
            counts = greedy(task, order=order)
            for level in {*levels[:1], *levels[-1:]}:
                problem, groups, nodes, first, stand = beside(snapshot, level, counts, most, NOBODY, size)
                small = merged(problem, nodes, stand)
                fewer += len(small.problem.shapes) < len(problem.shapes)
                assert sorted(name for names in small.nodes for name in names) == sorted(n for names in nodes for n in names)
                priced = bound_of(problem, rounds=4, stop=TimeLimit(left=0.3), first=first)
                caps += len(small.caps(priced.caps))
                relaxed = relaxation(small.problem, groups, small.stand, 0, small.caps(priced.caps))
                assert relaxed is not None
                kind = {request.name: k for k, group in enumerate(groups) for request in group}
                shape = {name: h for h, names in enumerate(small.nodes) for name in names}
                placed = Counter[tuple[int, int]]()
                for (name, node), count in counts.items():
                    if name in kind:
                        placed[kind[name], shape[node]] += count
                assert placed.keys() <= relaxed.y.keys()
                for pair, var in relaxed.y.items():
                    relaxed.model.add(var == placed[pair])
                solver = cp_model.CpSolver()
                assert solver.solve(relaxed.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    assert fewer > 30 and caps > 30


def wide() -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Each rack has a label that somebody asks for, and twice as much is wanted as there are GPUs."""
    nodes = {f"n{i:03}": {"labels": {"rack": f"r{i // 2}"}} for i in range(200)}
    asks = {f"h{i:03}": {"each": {"gpus": 8, "vcpus": 20 + i % 90}, "priority": "high"} for i in range(190)}
    asks |= {f"r{i:03}": {"each": {"gpus": 4, "vcpus": 10 + i}, "place": {"select": {"rack": f"r{i}"}}} for i in range(100)}
    asks |= {f"w{i:03}": {"each": {"gpus": 8, "vcpus": 10 + i}} for i in range(100)}
    return nodes, asks


def test_where_racks_are_told_apart_a_lower_priority_is_bounded_by_what_a_higher_one_leaves() -> None:
    snapshot = snapshot_of(stack_of(*wide()), Placement())
    counts, most = greedy(repair_task(snapshot, classify(snapshot))), possible(snapshot)
    low = min(request.priority for request in snapshot.requests.values())
    mine = [request for request in snapshot.requests.values() if request.priority == low]
    problem = beside(snapshot, low, counts, most, NOBODY, size)[0]
    assert len(problem.kinds) * len(problem.shapes) > WIDE
    found = level_bounds(snapshot, counts, most, "normal", TimeLimit(left=0.5))
    placed = sum(size(request) * by_workload(counts)[request.name] for request in mine)
    counted = sum(size(request) * most[request.name] for request in mine)
    assert placed <= found.own[low] < placed + counted // 100
    replicas = finer_bound(snapshot, low, counts, most, NOBODY, TimeLimit(left=0.5), lambda request: 1, held=True)
    there = sum(by_workload(counts)[request.name] for request in mine)
    assert replicas is not None and there <= replicas < len(mine)


def test_caps_of_merged_shapes_are_added_up_at_the_least_gain() -> None:
    """A node of either shape carries no more than its own cap says, whichever of them it is."""
    kinds = (Kind(1, 9, 1, 1000, ()), Kind(1, 9, 2, 1000, ()))
    problem = Problem(kinds, (Shape(2, 8, (), (0, 1)), Shape(3, 8, (), (0,)), Shape(1, 4, (), (0, 1))), ())
    small = merged(problem, (("a", "b"), ("c", "d", "e"), ("f",)), Stand({(0, 1): 2}))
    assert small.of == (0, 0, 1) and small.nodes == (("a", "b", "c", "d", "e"), ("f",)) and small.stand.on == {(0, 0): 2}
    one, two, other = Cap(0, (3.0, 1.0), 16.0), Cap(1, (1.0, 5.0), 9.0), Cap(2, (2.0, 2.0), 4.0)
    assert small.caps([one, two, other]) == [Cap(0, (1.0, 1.0), 25.0), Cap(1, (2.0, 2.0), 4.0)]
    assert small.caps([one, other]) == [Cap(1, (2.0, 2.0), 4.0)]
