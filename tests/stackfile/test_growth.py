"""Does reading a large stack take longer only in proportion to what it holds?"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.limits import judge
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import loads
from swarm_iac.stackfile.locks import lock
from tests.growth import grows_evenly

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 6, 1)


def text(nodes: str, workloads: str, users: int = 4, more: str = "") -> str:
    """A stack file with these entries."""
    return (
        f"fleet: lab\nteams: {{all: {{users: [{', '.join(f'u{number}' for number in range(users))}]}}}}\n"
        "hardware: {h100: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}\n"
        f"{more}nodes:\n  base: {{hardware: h100, ssh: base}}\n{nodes}workloads:\n{workloads}"
    )


def works(count: int, values: str = "user: u0") -> str:
    """So many workloads; `@` in their values is the number of each."""
    return "".join(f"  w{number}: {{{values.replace('@', str(number))}}}\n" for number in range(count))


def nodes(count: int, values: str) -> str:
    """So many nodes, each an entry of its own."""
    return "".join(f"  n{number}: {{{values}}}\n" for number in range(count))


FILES: dict[str, Callable[[int], str]] = {
    "workloads": lambda count: text("", works(count)),
    "workloads with a former name": lambda count: text("", works(count, "user: u0, renamed_from: old-@")),
    "users without a team": lambda count: text("", works(3 * count, "user: x@")),
    "exceptions": lambda count: text(
        "",
        works(count),
        more=f"limits: {{except: [{', '.join(['{user: u0, gpus: 3, until: 2030-01-01, reason: x}'] * count)}]}}\n",
    ),
    "nodes": lambda count: text(nodes(count, "hardware: h100, ssh: 'root@{name}'"), works(1)),
    "nodes that nobody makes": lambda count: text(nodes(3 * count, "state: cordon"), works(1)),
    "nodes with a wrong address": lambda count: text(nodes(3 * count, "hardware: h100, ssh: 'a b'"), works(1)),
    "ranges": lambda count: text(f"  m-[0001-{count:04}]: {{hardware: h100, ssh: '{{name}}'}}\n", works(1)),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_four_times_as_long_takes_four_times_the_work(kind: str) -> None:
    def prepared(count: int) -> Callable[[], object]:
        content = FILES[kind](count)

        def read() -> object:
            try:
                return loads(content, "lab.yaml", policies=ROOT / "policies", today=TODAY)
            except StackFileError as error:
                return error

        return read

    assert grows_evenly(prepared, 60)


def fleet(count: int) -> tuple[Stack, Placement]:
    """So many nodes, each with a workload of its own on it."""
    content = text(nodes(count, "hardware: h100, ssh: 'root@{name}'"), works(count, "user: u0, each: {vcpus: 2, memory: 1 GB}"))
    stack = loads(content, "lab.yaml", policies=ROOT / "policies", today=TODAY).stack
    allocations = [
        Allocation(name=f"{name}-0", workload=name, index=0, node=f"n{name[1:]}", vcpus=one.each.vcpus, memory=one.each.memory)
        for name, one in stack.workloads.items()
    ]
    return stack, Placement(allocations=tuple(sorted(allocations, key=lambda one: one.name)))


def test_a_lock_four_times_as_long_takes_four_times_the_work() -> None:
    def prepared(count: int) -> Callable[[], object]:
        stack, placement = fleet(count)
        written = lock.dump(lock.make(stack, placement))

        def judged() -> object:
            found = lock.parse(written, "lab.lock.yaml")
            assert found.placement == placement
            assert not lock.validity(found, stack)
            return judge(stack, found.placement, TODAY)

        return judged

    assert grows_evenly(prepared, 60)


def test_the_last_of_many_mistakes_is_told_too() -> None:
    with pytest.raises(StackFileError) as refused:
        loads(text("", works(200, "user: x@")), "lab.yaml", policies=ROOT / "policies", today=TODAY)
    assert len(refused.value.problems) == 200
    assert all(problem.hint for problem in refused.value.problems)
