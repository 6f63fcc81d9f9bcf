"""Are both paths as good as trying everything? Tiny random fleets with all rules mixed, each placement enumerated.

Every row of the table of resources is asked for, and limited at each level.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm_iac.model.resources.table import LIMITED, RESOURCES
from swarm_iac.model.stack import Stack
from tests.solver.fleets import PLACES, asking, limiting, stack_of, with_all
from tests.solver.oracle import as_large, as_small, check_change, check_exact, check_fill

HARDWARE: dict[str, dict[str, Any]] = with_all(
    {
        "small": {"gpus": "2 x L40S", "vcpus": 4, "memory": "8 GB", "nvme": "7 GB", "nic": "10 Gbit/s", "numa": 2},
        "large": {"gpus": "4 x H100", "vcpus": 8, "memory": "16 GB", "nvme": "9 GB", "nic": "10 Gbit/s", "numa": 2}
        | {"links": {"nvlink": [[0, 1, 2]]}},
        "cpu": {"vcpus": 4, "memory": "8 GB", "nvme": "7 GB", "nic": "10 Gbit/s"},
    }
)
#: What each workload asks for in ways of its own; of all other rows some ask for a few of ONE.
OWN = {"gpus", "vcpus", "cores", "memory", "replicas"}


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """One small workload."""
    parts = [{"count": 1, "share": share / 1000} for share in (300, 500, 700)]
    gpus = draw(st.sampled_from([0, 1, 2, 3, "1 x H100", "2 x H100", *parts]))
    request: dict[str, Any] = {
        "user": draw(st.sampled_from(["ada", "bo"])),
        "priority": draw(st.sampled_from(["low", "normal", "high"])),
        "each": {
            "gpus": gpus,
            "vcpus": draw(st.sampled_from([1, 2, 3, "1..3", "2..9"])),
            "memory": draw(st.sampled_from(["1 GB", "5 GB", "1..9 GB"])),
            "pinned": draw(st.booleans()),
        },
    }
    request["gang" if draw(st.booleans()) else "replicas"] = draw(st.sampled_from([1, 2]))
    where = draw(st.sampled_from([{}, {}, *PLACES]))
    if draw(st.integers(0, 4)) == 0:
        where = where | {"numa": "single"}
    if draw(st.integers(0, 4)) == 0 and not isinstance(gpus, dict):
        where = where | {"links": "required"}
    if draw(st.integers(0, 3)) == 0:
        where = where | {"tolerate": {"for": draw(st.sampled_from(["a", "*"]))}}
    for row in (row for row in RESOURCES if row.name not in OWN):
        request = asking(request, row, count) if (count := draw(st.sampled_from([0, 0, 2, 4]))) else request
    if draw(st.integers(0, 3)) == 0:
        where = where | {"away_from": {draw(st.sampled_from(["node", "rack"])): [draw(st.sampled_from(["w0", "w1"]))]}}
    if draw(st.integers(0, 3)) == 0 and not isinstance(gpus, dict):
        request["movable"] = False
    return request | ({"place": where} if where else {})


#: MIG profiles of an H100.
SIZES = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb"]
#: A limit on one thing, or on none.
limits = st.one_of(st.just({}), st.builds(limiting, st.sampled_from(sorted(LIMITED)), st.sampled_from([3, 5])))


@st.composite
def teams(draw: st.DrawFn) -> dict[str, Any]:
    """None, or ada and bo in two teams, perhaps inside a third one; some have a limit on one thing."""
    if not draw(st.booleans()):
        return {}
    names = {"a": {"users": ["ada"]}, "b": {"users": ["bo"]}, "lab": {}}
    parent = draw(st.sampled_from([{}, {"parent": "lab"}]))
    return {
        name: team | ({} if name == "lab" else parent) | ({"limits": most} if (most := draw(limits)) else {})
        for name, team in names.items()
    }


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Stack, Stack]:
    """The stack of before, and the one to solve: the same with other states and one other workload."""
    shapes = draw(st.lists(st.sampled_from(sorted(HARDWARE)), min_size=1, max_size=3))
    nodes = {f"n{i}": {"hardware": shape, "rack": draw(st.sampled_from(["r1", "r2"]))} for i, shape in enumerate(shapes)}
    sites = {rack: draw(st.sampled_from([{}, {"site": "s"}])) for rack in ("r1", "r2")}
    nodes = {name: node | sites[node["rack"]] for name, node in nodes.items()}
    works = {f"w{i}": request for i, request in enumerate(draw(st.lists(requests(), min_size=1, max_size=3)))}
    rest: dict[str, Any] = {
        "hardware": HARDWARE,
        "racks": {"r1": {"uplink": "8 Gbit/s"}, "r2": {}},
        "limits": {"user": draw(limits), "node": {"gpus": 3} | draw(limits), "cluster": draw(limits)},
        "teams": draw(teams()),
        "solve": {"moves": draw(st.sampled_from([0, 1, 4]))},
    }
    before = stack_of(nodes, works, **rest)
    state = st.sampled_from(["ready", "ready", "ready", "cordon", "drain"])
    taints = st.sampled_from([{}, {}, {}, {"taints": {"for": "a"}}])
    states = {name: node | {"state": draw(state)} | draw(taints) for name, node in nodes.items()}
    now = stack_of(states, works | {"w0": draw(requests())}, **rest)
    return before, now


@st.composite
def fleets_of_parts(draw: st.DrawFn) -> tuple[Stack, Stack]:
    """Parts of GPUs beside whole ones on few cards, of which some go and others come: who has to change his card?"""
    shares = st.sampled_from([300, 400, 500, 600, 700])
    whole = {"count": 1}

    def request() -> dict[str, Any]:
        gpus = draw(st.one_of(shares.map(lambda share: whole | {"share": share / 1000}), st.just(whole)))
        each = {"gpus": gpus, "vcpus": 0.5, "memory": "500 MB"}
        return {
            "replicas": draw(st.sampled_from([1, 1, 2])),
            "priority": draw(st.sampled_from(["low", "normal"])),
            "each": each,
        }

    nodes = {f"n{i}": {"hardware": "small"} for i in range(draw(st.sampled_from([1, 2])))}
    works = {f"w{i}": request() for i in range(4)}
    rest: dict[str, Any] = {"hardware": HARDWARE, "solve": {"moves": draw(st.sampled_from([0, 1, 4]))}}
    goes, comes = draw(st.sampled_from([0, 1, 2])), {f"new{i}": request() for i in range(draw(st.sampled_from([1, 2])))}
    return stack_of(nodes, works, **rest), stack_of(nodes, dict(list(works.items())[goes:]) | comes, **rest)


@st.composite
def fleets_of_instances(draw: st.DrawFn) -> tuple[Stack, Stack]:
    """MIG instances beside whole GPUs and parts of some on few cards, of which some go and others come: who is in whose way?"""
    model, profiles = draw(st.sampled_from([("A30", ["1g.6gb", "2g.12gb", "4g.24gb"]), ("H100", SIZES), ("H100", SIZES)]))

    def request() -> dict[str, Any]:
        gpus = draw(st.sampled_from([*(f"1 x {model}/{name}" for name in profiles), f"2 x {model}/{profiles[0]}", 1, "0.5"]))
        return {
            "replicas": draw(st.sampled_from([1, 1, 2])),
            "priority": draw(st.sampled_from(["low", "normal"])),
            "each": {"gpus": gpus, "vcpus": 0.1, "memory": "100 MB"},
        }

    shape = {"gpus": f"{draw(st.sampled_from([1, 2]))} x {model}", "vcpus": 8, "memory": "8 GB"}
    shapes = {"cut": shape | {"mig": True}, "uncut": shape}
    nodes = {
        f"n{i}": {"hardware": draw(st.sampled_from(["cut", "cut", "uncut"]))} for i in range(draw(st.sampled_from([1, 2])))
    }
    works = {f"w{i}": request() for i in range(3)}
    rest: dict[str, Any] = {"hardware": shapes, "solve": {"moves": draw(st.sampled_from([0, 1, 4]))}}
    goes, comes = draw(st.sampled_from([0, 1, 2])), {f"new{i}": request() for i in range(draw(st.sampled_from([1, 2])))}
    return stack_of(nodes, works, **rest), stack_of(nodes, dict(list(works.items())[goes:]) | comes, **rest)


#: What is checked, how many fleets it is checked on, and how many by `make test-full`.
CHECKS: dict[str, tuple[Callable[[Stack, Stack], None], st.SearchStrategy[tuple[Stack, Stack]], int, int]] = {
    "exact_path_equals_enumeration": (check_exact, fleets(), 200, 3000),
    "large_path_is_feasible_and_within_its_bound": (lambda before, now: check_fill(as_large, before), fleets(), 100, 2000),
    "large_path_never_moves_fewer_than_is_proven": (partial(check_change, as_large), fleets(), 100, 2000),
    "exact_path_equals_enumeration_with_parts": (check_exact, fleets_of_parts(), 60, 1000),
    "large_path_never_moves_fewer_than_is_proven_with_parts": (partial(check_change, as_large), fleets_of_parts(), 60, 1000),
    "one_model_without_time_is_within_its_bound": (lambda before, now: check_fill(as_small, before), fleets(), 60, 1000),
    "one_model_without_time_never_moves_fewer_than_is_proven": (partial(check_change, as_small), fleets(), 60, 2000),
    "exact_path_equals_enumeration_with_instances": (check_exact, fleets_of_instances(), 40, 2000),
    "large_path_is_within_its_bound_with_instances": (
        lambda before, now: check_fill(as_large, before),
        fleets_of_instances(),
        40,
        2000,
    ),
    "large_path_never_moves_fewer_than_is_proven_with_instances": (
        partial(check_change, as_large),
        fleets_of_instances(),
        40,
        2000,
    ),
    "one_model_without_time_with_instances": (partial(check_change, as_small), fleets_of_instances(), 40, 2000),
    "one_model_without_time_with_parts": (partial(check_change, as_small), fleets_of_parts(), 60, 1000),
}


def _tried(name: str, many: int) -> None:
    check, drawn, *counts = CHECKS[name]
    suppressed = list(HealthCheck)
    quiet = settings(max_examples=counts[many], deadline=None, derandomize=True, suppress_health_check=suppressed)

    @quiet
    @given(drawn)
    def on_random_fleets(pair: tuple[Stack, Stack]) -> None:
        check(*pair)

    on_random_fleets()


@pytest.mark.parametrize("name", CHECKS)
def test_every_placement_tried(name: str) -> None:
    _tried(name, False)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_every_placement_tried_on_thousands(name: str) -> None:
    _tried(name, True)
