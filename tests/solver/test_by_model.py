"""Do limits on GPUs of single models hold, do they steer where work runs, and is it said what they leave?"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm_iac.limits import above, judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.provider import spec
from swarm_iac.reconcile import Request
from swarm_iac.solver import Scale, solve, why
from swarm_iac.solver.snapshot.binding_limits import without_slack
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, as_small, check_change, check_exact, check_fill, still

SHAPES: dict[str, Any] = {
    "h100": {"gpus": "2 x H100", "vcpus": 8, "memory": "16 GB"},
    "a100": {"gpus": "3 x A100", "vcpus": 8, "memory": "16 GB"},
    "bare": {"gpus": 2, "vcpus": 8, "memory": "16 GB"},
}
EACH = {"vcpus": 1, "memory": "1 GB"}


@st.composite
def works(draw: st.DrawFn) -> dict[str, Any]:
    """One small workload, on any GPUs, on those of one model, or on either."""
    gpus = draw(st.sampled_from([1, 1, 2, "1 x H100", "1 x H100|A100", "2 x A100|H100", 0.5, "0.5 x A100", 0]))
    one: dict[str, Any] = {
        "user": draw(st.sampled_from(["ada", "bo"])),
        "priority": draw(st.sampled_from(["low", "normal", "high"])),
        "each": EACH | {"gpus": gpus},
    }
    one["gang" if draw(st.integers(0, 3)) == 0 else "replicas"] = draw(st.sampled_from([1, 2, 3]))
    place = draw(st.sampled_from([{}, {}, {}, {"within": "rack"}, {"spread": "node"}, {"per_rack": 1}]))
    return one | ({"place": place} if place else {})


#: So many fleets are drawn for each check.
MANY = 15
#: A limit on single models, or none.
by_model = st.fixed_dictionaries(
    {}, optional={"H100": st.sampled_from([0, 0.5, 1, 2, 3]), "A100": st.sampled_from([0, 1, 2.5, 4])}
)


@st.composite
def limits(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {"gpus_by_model": most} if (most := draw(by_model)) else {}
    return found | ({"gpus": draw(st.sampled_from([2, 4]))} if draw(st.integers(0, 3)) == 0 else {})


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Stack, Stack]:
    """The stack of before, and the one to solve: with other states, other limits and one other workload."""
    shapes = draw(st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=3))
    nodes = {f"n{i}": {"hardware": shape, "rack": draw(st.sampled_from(["r1", "r2"]))} for i, shape in enumerate(shapes)}
    ones = {f"w{i}": one for i, one in enumerate(draw(st.lists(works(), min_size=1, max_size=3)))}

    def rest() -> dict[str, Any]:
        mine = {"a": {"users": ["ada"], "parent": "lab"}, "b": {"users": ["bo"], "parent": "lab"}, "lab": {}}
        mine = {name: team | {"limits": draw(limits())} for name, team in mine.items()}
        levels = {"user": draw(limits()), "team": draw(limits()), "cluster": draw(limits())}
        return {"hardware": SHAPES, "limits": levels, "solve": {"moves": moves}, "teams": mine if teams else {}}

    teams, moves = draw(st.booleans()), draw(st.sampled_from([0, 1, 4]))
    first = rest()
    before = stack_of(nodes, ones, **first)
    state = st.sampled_from(["ready", "ready", "ready", "cordon", "drain"])
    after = {name: node | {"state": draw(state)} for name, node in nodes.items()}
    return before, stack_of(after, ones | {"w0": draw(works())}, **(rest() if draw(st.booleans()) else first))


CHECKS: dict[str, Any] = {
    "exact": check_exact,
    "fill": lambda before, now: check_fill(as_large, before),
    "large": partial(check_change, as_large),
    "without time": partial(check_change, as_small),
}


@pytest.mark.parametrize("name", CHECKS)
def test_every_path_is_as_good_as_trying_everything(name: str) -> None:
    quiet = settings(max_examples=MANY, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

    @quiet
    @given(fleets())
    def on_random_fleets(pair: tuple[Stack, Stack]) -> None:
        CHECKS[name](*pair)

    on_random_fleets()


NODES: dict[str, Any] = {"a": {"hardware": "h100"}, "b": {"hardware": "h100"}, "c": {"hardware": "l40s"}}
#: ada may have 8 H100 and 2 L40S.
LIMITS: dict[str, Any] = {"user": {"gpus_by_model": {"H100": 8, "L40S": 2}}}


def lab(jobs: dict[str, Any], last: Placement = Placement(), **rest: Any) -> tuple[Stack, Placement]:
    stack = stack_of(NODES, jobs, **({"limits": LIMITS} | rest))
    found = solve(stack, last).placement
    assert judge(stack, found, **still(found, last)) == ()
    return stack, found


def on(placement: Placement) -> Counter[str]:
    return Counter(NODES[one.node]["hardware"] for one in placement.going() for _ in one.gpus)


@pytest.mark.parametrize("scale", [Scale(), Scale(pairs=0, nodes=0)])
def test_the_limit_steers_the_choice_of_the_model(scale: Scale) -> None:
    """Ten single GPUs: eight of H100 and two of L40S, although there are four L40S, which are smaller and would come first."""
    stack = stack_of(NODES, {"w": {"replicas": 12, "each": {"gpus": 1}}}, limits=LIMITS)
    found = solve(stack, scale=scale).placement
    assert judge(stack, found) == () and on(found) == {"h100": 8, "l40s": 2}
    assert len(found.unplaced[0].missing) == 2


def test_a_part_of_a_gpu_counts_as_much_as_it_is() -> None:
    works = {"w": {"replicas": 9, "each": {"gpus": {"count": 1, "share": 0.3, "model": "L40S"}}}}
    assert len(lab(works)[1].allocations) == 6, "2 L40S are 6 parts of 0.3, and a seventh would be 2.1"


def test_the_reason_says_what_is_left_of_the_model_and_which_other_would_be_allowed() -> None:
    jobs = {"one": {"priority": "high", "each": {"gpus": "8 x H100"}}, "w": {"each": {"gpus": "2 x H100"}}}
    stack, found = lab(jobs)
    (gone,) = found.unplaced
    assert gone.code == "UserLimit"
    assert [(one.text, one.path) for one in gone.reasons] == [
        ("needs H100, which the nodes that would do have not", "workloads.w.each.gpus"),
        (
            "needs 2 GPUs; user ada has 0 left of 8 on H100; 2 x L40S would be allowed",
            "limits.user.gpus_by_model.H100",
        ),
    ]
    fixes = {str(fix.edits[0]) for fix in why(stack, found, "w").fixes}
    assert {"limits.user.gpus_by_model.H100=10", "workloads.w.each.gpus=2 x H100|L40S"} <= fixes


def test_of_two_models_both_limits_are_named() -> None:
    jobs = {
        "one": {"priority": "high", "each": {"gpus": "8 x H100"}},
        "two": {"priority": "high", "each": {"gpus": "1 x L40S"}},
        "w": {"each": {"gpus": "2 x H100|L40S"}},
    }
    (gone,) = lab(jobs)[1].unplaced
    assert gone.reasons[0].text == "needs 2 GPUs; user ada has 0 left of 8 on H100 and 1 left of 2 on L40S"


def test_a_lowered_limit_stops_nobody_and_admits_nobody_on_the_model() -> None:
    """What runs stays, what is new goes to the other model, and one more of what runs as well."""
    jobs = {"w": {"replicas": 4, "each": {"gpus": "2 x H100|L40S"}, "place": {"per_node": 3}}}
    before = lab(jobs, limits={"user": {"gpus_by_model": {"L40S": 0}}})[1]
    assert on(before) == {"h100": 8}
    lower = {"user": {"gpus_by_model": {"H100": 2, "L40S": 4}}}
    more = jobs | {"w": jobs["w"] | {"replicas": 6}, "x": {"each": {"gpus": 1}}}
    _, found = lab(more, before, limits=lower)
    assert {one.name for one in before.allocations} <= {one.name for one in found.allocations}
    assert on(found) == {"h100": 8, "l40s": 4}
    (reason,) = (one for one in found.unplaced[0].reasons if one.path.startswith("limits"))
    assert found.unplaced[0].workload == "x" and "on H100" in reason.text


def test_what_runs_over_the_limit_may_move_to_another_node_of_the_model() -> None:
    jobs = {"w": {"each": {"gpus": "8 x H100"}}}
    before = lab(jobs)[1]
    nodes = {name: node | ({"state": "drain"} if name == before.allocations[0].node else {}) for name, node in NODES.items()}
    stack = stack_of(nodes, jobs, limits={"user": {"gpus_by_model": {"H100": 2}}})
    found = solve(stack, before).placement
    assert len(found.allocations) == 1 and judge(stack, found, **still(found, before)) == ()


def test_a_request_says_where_what_is_above_a_limit_ran_and_only_that_may_stay() -> None:
    """What the provider reads is judged as the decision was; without where it ran, it is refused."""
    jobs = {"w": {"replicas": 2, "each": {"gpus": "4 x H100"}}}
    before = lab(jobs)[1]
    stack, found = lab(jobs, before, limits={"user": {"gpus_by_model": {"H100": 2}}})
    was = still(found, before)
    assert above(stack, found) == was["held"].keys(), "so its request names where these ran"
    stood = {stack.runs_as(one): one.node for one in before.allocations}
    asked = Request(stack, found, kept=was["kept"], held=was["held"], stood=stood)
    read = spec.unpack_request(spec.pack_request(asked))
    assert judge(read.stack, read.placement, kept=read.kept, held=read.held, ran=read.ran()) == ()
    assert [one.rule for one in judge(read.stack, read.placement, kept=read.kept, held=read.held)] == [
        "gpus_stay_under_limit_of_model"
    ]


def test_a_limit_that_cannot_bind_is_left_out() -> None:
    stack = stack_of(NODES, {"w": {"replicas": 2, "each": {"gpus": 4}}}, limits=LIMITS)
    snapshot = without_slack(snapshot_of(stack, Placement()))
    assert [model for model, _ in snapshot.requests["w"].models] == ["L40S"]


def test_who_names_no_model_is_no_part_of_it_where_no_limit_names_one() -> None:
    snapshot = snapshot_of(stack_of(NODES, {"w": {"replicas": 2, "each": {"gpus": 4}}}), Placement())
    assert not snapshot.models and snapshot.requests["w"].models == ()


def test_a_node_without_gpus_is_not_said_to_lack_a_model() -> None:
    """The limit keeps it off the H100s; the other node has no GPU of any model."""
    jobs = {"one": {"priority": "high", "each": {"gpus": "4 x H100"}}, "w": {"each": {"gpus": "2 x H100"}}}
    nodes = {"a": {"hardware": "h100"}, "b": {"hardware": "cpu"}}
    limits = LIMITS | {"user": {"gpus_by_model": {"H100": 4}}}
    (gone,) = solve(stack_of(nodes, jobs, limits=limits)).placement.unplaced
    assert [one.text for one in gone.reasons if not one.besides] == [
        "needs H100, and 1 of 2 nodes has no GPUs", "needs 2 GPUs; user ada has 0 left of 4 on H100",
    ]  # fmt: skip
    (gone,) = solve(stack_of(nodes | {"c": {"hardware": "l40s"}}, jobs, limits=limits)).placement.unplaced
    assert gone.reasons[0].text == "needs H100, which the nodes that would do have not"
