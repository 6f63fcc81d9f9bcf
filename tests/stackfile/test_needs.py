"""Is a workload with `needs` read, refused where its speeds mean nothing, edited and locked?"""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from swarm_iac.decision import decide, keep, suppose
from swarm_iac.errors import StackFileError
from swarm_iac.stackfile import Loaded
from swarm_iac.stackfile.editing.overrides import edited, parse
from swarm_iac.stackfile.load import loads
from tests.cli.typed import ROOT, swarm

TODAY = datetime.date(2026, 6, 1)
STACK = """\
fleet: lab
teams:
  t: {users: [ada, bo]}
hardware:
  h: {gpus: 4 x H100, vcpus: 64, memory: 1 TB, nvme: 1 TB}
  a: {gpus: 8 x A100, vcpus: 64, memory: 1 TB, nvme: 1 TB}
prices: {H100: 3 EUR/h, A100: 1.50 EUR/h}
nodes:
  h1: {hardware: h, ssh: "root@h1"}
  a1: {hardware: a, ssh: "root@a1"}
workloads:
  chat:
    user: ada
    kind: serve
    needs: 100 kTok/s
    speed: {H100: 25 kTok/s, A100: 15 kTok/s}
    each: {gpus: 1}
    run: {command: serve}
  b: {user: bo, kind: train, each: {gpus: 6 x A100}, run: {command: x}}
"""


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        ("    speed: {H100: 25 kTok/s, A100: 15 kTok/s}\n", "", "workloads.chat.needs", "nobody knows how fast"),
        ("    needs: 100 kTok/s\n", "", "workloads.chat.speed", "no use without `needs`"),
        ("A100: 15 kTok/s", "A100: 15 req/s", "workloads.chat.speed.A100", "and `needs` is in Tok/s"),
        ("A100: 15 kTok/s", "A100: 0.6", "workloads.chat.speed.A100", "a number alone"),
        ("A100: 15 kTok/s", "A100: 0 kTok/s", "workloads.chat.speed.A100", "above 0"),
        ("A100: 15 kTok/s", "A100: 0.01 Tok/s", "workloads.chat.speed.A100", "more than 100,000"),
        (
            "{H100: 25 kTok/s,",
            f"{{{', '.join(f'M{i}: 1 kTok/s' for i in range(16))},",
            "workloads.chat.speed",
            "17 models are more than 16",
        ),
        ("needs: 100 kTok/s", "needs: fast", "workloads.chat.needs", "is no rate"),
        ("needs: 100 kTok/s", "needs: true", "workloads.chat.needs", ""),
        ("needs: 100 kTok/s", "needs: 100 kTok/s\n    replicas: 2", "workloads.chat.replicas", "decides how many"),
        ("needs: 100 kTok/s", "needs: 100 kTok/s\n    gang: 2", "workloads.chat.gang", "decides how many"),
        ("needs: 100 kTok/s", "needs: 100 kTok/s\n    variants: {x: {}, y: {}}", "workloads.chat.variants", "decides how many"),
        ("each: {gpus: 1}", "each: {vcpus: 1}", "workloads.chat.needs", "it has no GPUs"),
        ("each: {gpus: 1}", "each: {gpus: 1 x A100}", "workloads.chat.speed.H100", "does not run on H100"),
        ("{H100: 25 kTok/s, A100: 15 kTok/s}", "{B200: 50 kTok/s}", "workloads.chat.speed", "no node has a GPU B200"),
        ("each: {gpus: 1}", "each: {gpus: 9}", "workloads.chat.each.gpus", "A100"),
    ],
)
def test_what_means_nothing_is_refused_at_its_line(old: str, new: str, path: str, message: str) -> None:
    assert old in STACK
    with pytest.raises(StackFileError) as caught:
        loads(STACK.replace(old, new, 1), "stacks/lab.yaml", today=TODAY)
    assert any(one.path == path and message in one.message for one in caught.value.problems), caught.value.problems


def test_one_way_that_could_ever_run_is_enough() -> None:
    stack = loads(STACK.replace("each: {gpus: 1}", "each: {gpus: 3}"), "stacks/lab.yaml", today=TODAY).stack
    assert "a100" in stack.workloads["chat"].variants, "7 x 3 GPUs are more than its user may have, and 4 x 3 H100 are not"


def test_it_is_locked_and_an_edit_of_what_it_needs_counts_again(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "lab.yaml").write_text(STACK)
    decision = decide(tmp_path, "lab", today=TODAY)
    keep(decision)
    assert "  chat: {variant: h100, digest: " in (tmp_path / "stacks" / "lab.lock.yaml").read_text()
    again = decide(tmp_path, "lab", today=TODAY, frozen=True)
    assert not again.stale and len([one for one in again.placement.allocations if one.workload == "chat"]) == 4

    for text, count in (("workloads.chat.needs=50 kTok/s", 2), ("workloads.chat.speed.H100=100 kTok/s", 1)):
        then = suppose(again, edited(Loaded(again.written, again.source), parse(text)), today=TODAY)
        ones = [one for one in then.placement.allocations if one.workload == "chat"]
        assert len(ones) == count or {one.node for one in ones} == {"a1"}
    gone = edited(Loaded(again.written, again.source), (*parse("workloads.chat.needs="), *parse("workloads.chat.speed=")))
    assert not gone.stack.workloads["chat"].variants, "nothing derived is left"


def test_why_says_how_much_is_done_and_a_fix_is_an_edit_of_the_file() -> None:
    out = swarm("why", "chat", "--from", "examples/26-needs/stack.yaml", at=ROOT).out
    assert "does 100 kTok/s of the 100 kTok/s that it needs: 4 on H100 at 25 kTok/s" in out
    assert "workloads.chat.needs=30 kTok/s" in out and "variants.a100.replicas" not in out


def test_another_price_moves_nothing_of_what_changes_its_variant_only_at_a_start(tmp_path: Path) -> None:
    """`needs` prefers the cheapest model: with other prices that is another one, and what runs is on the one of before."""
    text = STACK.replace("each: {gpus: 1}", "each: {gpus: 1}\n    on_variant: restart").replace(
        "gpus: 6 x A100", "gpus: 1 x A100"
    )
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    file = tmp_path / "stacks" / "lab.yaml"
    file.write_text(text)
    keep(ran := decide(tmp_path, "lab", today=TODAY))
    assert {a.node for a in ran.placement.allocations if a.workload == "chat"} == {"a1"}
    file.write_text(text.replace("A100: 1.50 EUR/h", "A100: 6 EUR/h"))
    after = decide(tmp_path, "lab", today=TODAY)
    assert after.placement.allocations == ran.placement.allocations
