"""What is answered when a solver fails? Each status that CP-SAT and MathOpt know, for every call and for each call in turn.

Tiny fleets, so that each answer is judged by `limits`, and each bound against every placement there is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from ortools.math_opt.python import mathopt

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.backend.linear import Linear
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, check_change, check_fill
from tests.solver.test_oracle import HARDWARE

pytestmark = pytest.mark.engine

#: What a CP-SAT solve may end with besides an answer; an exception is what its wrapper may raise.
STATUSES = (
    cp_model.UNKNOWN,
    cp_model.INFEASIBLE,
    cp_model.MODEL_INVALID,
    RuntimeError("no answer"),
    IndexError("absl::btree_map::at"),
)
#: Likewise of MathOpt; AttributeError is what its wrapper raised where GLOP ended abnormally.
REASONS = (
    *(one for one in mathopt.TerminationReason if one is not mathopt.TerminationReason.OPTIMAL),
    AttributeError("canonical_code"),
)
#: So many calls fail in turn.
CALLS = 6 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 3


def requested(level: str, gpus: Any, replicas: int = 2, **rest: Any) -> dict[str, Any]:
    """A workload of one vCPU a replica."""
    return {"priority": level, "replicas": replicas, "each": {"gpus": gpus, "vcpus": 1, "memory": "1 GB"}} | rest


def fleet(more: dict[str, Any]) -> Stack:
    """Three levels and parts of GPUs on two nodes, and what is new."""
    nodes = {"n0": {"hardware": "large", "rack": "r1"}, "n1": {"hardware": "small", "rack": "r2"}}
    works = {
        "a": requested("high", 2, 1),
        "b": requested("normal", {"count": 1, "share": 0.5}),
        "c": requested("low", 1, network={"egress": "3 Gbit/s"}),
    }
    racks: dict[str, Any] = {"r1": {"uplink": "4 Gbit/s"}, "r2": {}}
    return stack_of(nodes, works | more, hardware=HARDWARE, racks=racks, solve={"moves": 2})


def before() -> Stack:
    """All of it fits."""
    return fleet({})


def after() -> Stack:
    """More than fits: a high one that needs room made for it, and a gang."""
    return fleet({"d": requested("high", 3, 1), "e": {"gang": 2, "each": {"gpus": 1, "vcpus": 1, "memory": "1 GB"}}})


class Failing:
    """Takes the place of a solve: from call `first` on, `times` of them fail, after the real one was made."""

    def __init__(self, inner: Callable[..., Any], answer: Any, first: int, times: int) -> None:
        self.inner, self.answer, self.first, self.times = inner, answer, first, times
        self.calls = 0

    def __call__(self, *arguments: Any, **rest: Any) -> Any:
        self.calls += 1
        found = self.inner(*arguments, **rest)
        if not self.first <= self.calls < self.first + self.times:
            return found
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, mathopt.TerminationReason):
            ended = dataclasses.replace(found.termination, reason=self.answer)
            return dataclasses.replace(found, termination=ended, solutions=[])
        return self.answer


@contextmanager
def failing(answer: Any, first: int, times: int) -> Iterator[list[Failing]]:
    """CP-SAT, or every engine of MathOpt, fails so."""
    wrapped: list[Failing] = []

    def wrap(owner: Any, name: str) -> Any:
        one = Failing(getattr(owner, name), answer, first, times)
        wrapped.append(one)

        def method(*arguments: Any, **rest: Any) -> Any:
            return one(*arguments, **rest)

        return mock.patch.object(owner, name, method)

    if answer in STATUSES:
        with wrap(cp_model.CpSolver, "solve"):
            yield wrapped
    else:
        with wrap(mathopt.IncrementalSolver, "solve"), wrap(mathopt, "solve"):
            yield wrapped


def small(stack: Stack, last: Placement = Placement()) -> Solution:
    """As a user asks."""
    return solve(stack, last)


PATHS = {"small": small, "large": as_large}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("answer", [*STATUSES, *REASONS], ids=lambda one: getattr(one, "name", None) or str(one))
def test_every_solve_that_fails_leaves_an_answer_whose_bounds_hold(path: str, answer: Any) -> None:
    with failing(answer, 1, 10**9) as wrapped:
        check_fill(PATHS[path], after())
        check_change(PATHS[path], before(), after())
    if path == "large" or answer in STATUSES:
        assert sum(one.calls for one in wrapped), "nothing was asked, so nothing failed"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("answer", [cp_model.UNKNOWN, cp_model.INFEASIBLE, REASONS[0], REASONS[-1]], ids=str)
@pytest.mark.parametrize("call", range(1, CALLS + 1))
def test_any_one_solve_that_fails_leaves_an_answer_whose_bounds_hold(path: str, answer: Any, call: int) -> None:
    with failing(answer, call, 1):
        check_fill(PATHS[path], after())
        check_change(PATHS[path], before(), after())


@pytest.mark.parametrize("failing_calls", [1, 10**9], ids=["one call", "all"])
def test_engines_of_linear_programs_that_failed_stand_in_the_proof(failing_calls: int) -> None:
    with failing(mathopt.TerminationReason.IMPRECISE, 1, failing_calls):
        told = str(as_large(after()).proof.parameters["failed_linear"])
    assert "GLOP: imprecise" in told and "GLOP from nothing: imprecise" in told
    assert ("HiGHS" in told) == (failing_calls > 1), told
    assert "failed_linear" not in as_large(after()).proof.parameters


@pytest.mark.parametrize("engine", ["_again", "_from_nothing", "_other"])
def test_each_engine_solves_a_linear_program(engine: str) -> None:
    """max 2a + 3b where a + 2b <= 4"""
    program = Linear("one", maximize=True)
    row = program.row(most=4.0)
    for cost, use in ((2.0, 1.0), (3.0, 2.0)):
        program.variable(cost, {row: use})
    names = {"_again", "_from_nothing", "_other"} - {engine}
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(mock.patch.object(program, name, side_effect=RuntimeError("no answer")))
        found = program.solve()
    assert found is not None, program.failures
    assert (found.value, found.values, found.prices) == (8.0, (4.0, 0.0), (2.0,))


@pytest.mark.rescue
def test_a_mistake_of_ours_costs_the_search_and_is_told() -> None:
    """Whatever is raised on the way, what runs stays, what fits is placed, and the proof says that there was no search."""
    last = solve(before()).placement
    with mock.patch.object(sys.modules["swarm_iac.solver.decide.small"], "attempt", side_effect=KeyError("r8")):
        solution = solve(after(), last)
    assert judge(after(), solution.placement) == ()
    assert not solution.proof.optimal
    assert str(solution.proof.parameters["failed"]).startswith("KeyError at ")
    assert {a.name for a in last.allocations} <= {a.name for a in solution.placement.allocations}
