"""Is the page of a large fleet small enough for a comment's attachment, and of use in a browser? Figures are printed."""

from __future__ import annotations

import datetime
import time

import pytest

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Observed
from swarm_iac.page import page
from swarm_iac.plan import desired, steps
from swarm_iac.plan.show.render import Context
from swarm_iac.stackfile.load import loads
from tests.page.conftest import Open

#: Replicas of one workload.
_REPLICAS = 5
_COMMAND = "python -m train --config configs/large.yaml --data /data/tokens --resume latest"


def large_text(nodes: int, rack: int) -> str:
    """A stack file of so many nodes of 8 cards in racks of `rack`, and a job for each card."""
    jobs = nodes * 8 // _REPLICAS
    lines = ["fleet: large", "teams:"]
    lines += [f"  team{i}: {{users: [{', '.join(f'u{j}' for j in range(i, jobs, 10))}]}}" for i in range(10)]
    lines += ["limits: {cluster: {gpus: 100000, vcpus: 1000000, memory: 100 PB}}", "hardware:"]
    lines += ["  h100: {gpus: 8 x H100, vcpus: 128, memory: 1 TB, numa: 2, interface: eth1}"]
    lines += ["tuning: {train: {gpu_power: 600 W, tcp: bbr, swappiness: 10}}", "racks:"]
    lines += [f"  r{i}: {{}}" for i in range(nodes // rack)] + ["nodes:"]
    for i in range(nodes // rack):
        names = f"gpu-[{i * rack + 1:04d}-{(i + 1) * rack:04d}]"
        lines.append(f"  {names}: {{hardware: h100, rack: r{i}, tuning: train, ssh: 'root@{{name}}'}}")
    lines.append("workloads:")
    for i in range(jobs):
        each = f"replicas: {_REPLICAS}, each: {{gpus: 1, vcpus: 4, memory: 30 GB}}"
        lines.append(f"  w{i}: {{user: u{i}, kind: batch, {each}, run: {{command: {_COMMAND}}}}}")
    return "\n".join(lines)


def _stack(nodes: int, rack: int) -> Stack:
    return loads(large_text(nodes, rack), "large.yaml", today=datetime.date(2026, 11, 25)).stack


def full(stack: Stack) -> Placement:
    """A job on each card."""
    cards = ((node, card) for node in stack.nodes for card in range(8))
    names = ((name, index) for name in stack.workloads for index in range(_REPLICAS))
    return Placement(allocations=tuple(
        Allocation.model_validate({"name": f"{name}-{index}", "workload": name, "index": index, "node": node, "gpus": [card],
                                   "user": stack.workloads[name].user, "vcpus": 4, "memory": "30 GB"})
        for (name, index), (node, card) in zip(names, cards, strict=True)
    ))  # fmt: skip


@pytest.mark.parametrize(("nodes", "most"), [(40, 200_000), pytest.param(1000, 2_000_000, marks=pytest.mark.slow)])
def test_a_large_fleet_all_new(show: Open, nodes: int, most: int, capsys: pytest.CaptureFixture[str]) -> None:
    stack = _stack(nodes, 20)
    placement = full(stack)
    plan = steps({name: Observed(node=name) for name in stack.nodes}, desired(stack, placement))
    begin = time.monotonic()
    html = page(plan, Context(stack, Placement(), placement))
    made, begin = time.monotonic() - begin, time.monotonic()
    opened = show(html)
    opened.page.locator("#map b").first.wait_for()
    drawn, begin = time.monotonic() - begin, time.monotonic()
    opened.page.get_by_label("Team").select_option("team3")
    assert (
        opened.page.locator("#map b:not(.dim)").count()
        == sum(f"u{i}" in stack.teams["team3"].users for i in range(len(stack.workloads))) * _REPLICAS
    )
    filtered, begin = time.monotonic() - begin, time.monotonic()
    opened.page.get_by_label("Team").select_option("")
    opened.page.locator("th", has_text="what").locator("button").click()
    opened.page.locator("th[aria-sort=ascending]").wait_for()
    ordered = time.monotonic() - begin
    size = len(html.encode())
    with capsys.disabled():
        print(
            f"\n{nodes} nodes, all new: {size / 1e6:.2f} MB; made in {made:.1f} s, opened {drawn:.1f} s, filtered {filtered:.1f} s, "
            f"sorted {ordered:.1f} s"
        )
    assert opened.page.locator("#map .now b").count() == nodes * 8
    assert opened.complaints == []
    assert size < most and max(drawn, filtered, ordered) < 10
