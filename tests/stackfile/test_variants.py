"""Are variants read, refused where they are no choice, locked, and decided again when something could change them?"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from swarm_iac.cli.decisions.merge import decided as merged_of
from swarm_iac.cli.decisions.merge_versions import Versions
from swarm_iac.decision import Decision, decide, keep, request, resolve, running
from swarm_iac.errors import StackFileError, StaleLock
from swarm_iac.model.placement import Placement
from swarm_iac.model.service.variants import at
from swarm_iac.plan.show import variants
from swarm_iac.solver import solve_declared
from swarm_iac.stackfile.load import loads
from swarm_iac.stackfile.locks import lock
from swarm_iac.stackfile.locks.digests import Decided
from swarm_iac.stackfile.locks.finished import of_now, with_ends
from swarm_iac.stackfile.locks.merge import merge
from tests.cli.typed import swarm

TODAY = datetime.date(2026, 6, 1)
FLEET = """\
fleet: lab
teams:
  t: {users: [ada, bo]}
hardware:
  h: {gpus: 4 x H100, vcpus: 64, memory: 1 TB, nvme: 1 TB}
nodes:
  n1: {hardware: h, ssh: "root@n1"}
workloads:
  chat:
    user: ada
    kind: serve
    on_update: roll
    each: {vcpus: 8, memory: 64 GB}
    run: {command: serve --model m, env: {DTYPE: bf16, MODE: fast}}
    variants:
      bf16: {each: {gpus: 2}}
      int8: {worth: 0.95, each: {gpus: 1, memory: 40 GB}, run: {env: {DTYPE: int8}}}
  b: {user: bo, kind: train, each: {gpus: 3}, run: {command: x}}
"""
ALONE = FLEET.replace("  b: {user: bo, kind: train, each: {gpus: 3}, run: {command: x}}\n", "")


def decided(root: Path, text: str, frozen: bool = False) -> Decision:
    (root / "stacks").mkdir(exist_ok=True)
    (root / "stacks" / "lab.yaml").write_text(text)
    return decide(root, "lab", today=TODAY, frozen=frozen)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(tmp_path, FLEET))
    return tmp_path


def chosen(decision: Decision) -> dict[str, str]:
    return {one.workload: one.variant for one in decision.placement.lighter}


def test_a_variant_changes_what_it_says_and_nothing_else() -> None:
    stack = loads(FLEET, "stacks/lab.yaml", today=TODAY).stack
    int8 = at(stack.workloads["chat"], "int8")
    assert (int8.each.gpus.count, str(int8.each.memory), int(int8.each.vcpus)) == (1, "40 GB", 8000)
    assert int8.run and int8.run.env == {"DTYPE": "int8", "MODE": "fast"} and int8.run.command == "serve --model m"
    assert not int8.variants and int8.on_update == "roll"


def test_what_runs_on_the_nodes_is_the_variant(root: Path) -> None:
    decision = decided(root, FLEET)
    assert chosen(decision) == {"chat": "int8"}
    state = request(decision, TODAY).nodes()["n1"].state.allocations["chat-0"]
    assert state.unit and state.unit.env["DTYPE"] == "int8" and state.unit.env["MODE"] == "fast" and len(state.gpus) == 1


def test_the_lock_has_it_and_holds_until_something_matters(root: Path) -> None:
    text = (root / "stacks" / "lab.lock.yaml").read_text()
    assert "lighter:\n\n  chat: {variant: int8, digest: " in text
    found = lock.parse(text, "lab.lock.yaml")
    assert lock.dump(found) == text
    assert not decided(root, FLEET, frozen=True).stale
    assert decided(root, FLEET).declared is not None
    for old, new, why in (
        ("worth: 0.95", "worth: 0.9", "its variants have changed"),
        ("bf16: {each: {gpus: 2}}", "bf16: {each: {gpus: 1}}", "its variants have changed"),
        ("int8: {worth", "fp8: {worth", "its variants have changed"),
        ("b: {user: bo, kind: train, each: {gpus: 3}", "b: {user: bo, kind: train, each: {gpus: 2}", ""),
    ):
        with pytest.raises(StaleLock) as caught:
            decided(root, FLEET.replace(old, new), frozen=True)
        assert why in str(caught.value)
    with pytest.raises(StaleLock, match="chat runs in a lighter variant, and nodes changed"):
        decided(root, FLEET.replace('ssh: "root@n1"}', 'ssh: "root@n1"}\n  n2: {hardware: h, ssh: "root@n2"}'), frozen=True)


def test_it_returns_when_it_fits_and_the_plan_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decision = decided(root, ALONE)
    assert not decision.placement.lighter and decision.placement.by_name()["chat-0"].gpu_milli == 2000
    monkeypatch.chdir(root)
    out = swarm("plan", "lab", "--offline", "--json", at=root).out
    assert json.loads(out)["variants"] == [
        {"workload": "chat", "before": "int8", "after": "bf16", "because": "it is preferred, and fits"}
    ]


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        pytest.param("      bf16: {each: {gpus: 2}}\n", "", [], id="its own is preferred now"),
        pytest.param("int8: {worth: 0.95, each: {gpus: 1,", "fp8: {worth: 0.95, each: {gpus: 1,", [("int8", "fp8")], id="gone"),
        pytest.param("{gpus: 2}}\n      int8: ", "{gpus: 0.5}}\n      fp8: ", [("int8", "bf16")], id="gone, and another fits"),
    ],
)
def test_a_plan_says_what_it_runs_in_after_variants_were_written_anew(
    root: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, rows: list[tuple[str, str]]
) -> None:
    text = FLEET.replace(old, new)
    text = text if new else text.replace("  b: {user", "      nf4: {worth: 0.5, each: {gpus: 0.5}}\n  b: {user")
    decided(root, text)
    monkeypatch.chdir(root)
    found = json.loads(swarm("plan", "lab", "--offline", "--json", at=root).out)["variants"]
    assert [(one["before"], one["after"]) for one in found] == rows


def test_what_a_lock_of_a_variant_says_is_kept_by_solve_and_rebalance(root: Path) -> None:
    now = running(root, "lab", today=TODAY)
    assert now.stack.workloads["chat"].each.gpus.count == 1 and chosen(now) == {"chat": "int8"}
    again = resolve(root, "lab", today=TODAY)
    assert again.placement.allocations == decided(root, FLEET).placement.allocations


def test_every_change_that_is_offered_lets_it_run_in_its_first_variant(root: Path) -> None:
    """A higher priority alone does not: what runs is not stopped for a preferred variant."""
    stack = ("--from", str(root / "stacks" / "lab.yaml"))
    fixes = json.loads(swarm("why", "chat", "--json", *stack, at=root).out)["fixes"]
    assert fixes
    for fix in fixes:
        edits = [one["edit"] for one in fix["edits"]]
        variants = json.loads(swarm("what-if", *edits, "--json", *stack, at=root).out)["variants"]
        assert [(one["workload"], one["after"]) for one in variants if one["after"] != "bf16"] == [], edits


def test_why_is_kept_with_the_proof(root: Path) -> None:
    decision = decided(root, FLEET)
    (one,) = decision.placement.lighter
    assert one.instead_of == ("bf16",) and {reason.rule for reason in one.reasons} >= {"lighter_places_more", "gpus_fit_node"}


def test_a_finished_job_stays_finished_in_its_variant() -> None:
    text = FLEET.replace("kind: serve\n    on_update: roll", "kind: batch")
    stack = loads(text, "stacks/lab.yaml", today=TODAY).stack
    now, found = solve_declared(stack, Placement(), today=TODAY)
    done = with_ends(lock.make(now, found.placement, stack), ["chat-0"], stack)
    assert [one.ended for one in of_now(done, stack).allocations if one.workload == "chat"] == [True]
    other = loads(text.replace("DTYPE: int8", "DTYPE: fp8"), "stacks/lab.yaml", today=TODAY).stack
    assert not [one for one in of_now(done, other).allocations if one.workload == "chat"]


def test_two_branches_merge_their_variants(root: Path) -> None:
    full = lock.parse((root / "stacks" / "lab.lock.yaml").read_text(), "x")
    none = lock.Lock()
    assert merge(none, full, none).lock.placement.lighter == full.placement.lighter
    assert merge(full, full, full).lock.lighter_digests == full.lighter_digests
    assert lock.dump(merge(none, none, full).lock) == lock.dump(full)


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        ("worth: 0.95", "worth: 1.5", "workloads.chat.variants.int8.worth", "more than bf16 before it"),
        ("worth: 0.95", "worth: 0", "workloads.chat.variants.int8.worth", "more than 0"),
        ("worth: 0.95", "worth: 1000.001", "workloads.chat.variants.int8.worth", "at most 1000"),
        ("worth: 0.95", "worth: 0.95, gang: 2, replicas: 2", "workloads.chat.variants.int8.replicas", "a gang has no replicas"),
        ("      bf16: {each: {gpus: 2}}\n", "", "workloads.chat.variants", "is the only variant"),
        ("      bf16: {", "".join(f"      x{i}: {{}}\n" for i in range(8)) + "      bf16: {", "workloads.chat.variants", "more than 8"),
        ("gpus: 1, memory", "gpus: 9, memory", "workloads.chat.variants.int8.each.gpus", "no node has 9 GPUs"),
        ("gpus: 1, memory: 40 GB", "gpus: 1, memory: 4 TB", "workloads.chat.variants.int8.each.memory", "4 TB"),
        ("run: {env: {DTYPE: int8}}", "run: {env: {SWARM_X: a}}", "workloads.chat.variants.int8.run.env.SWARM_X", "SWARM_X"),
        ("run: {env: {DTYPE: int8}}", "run: {env: {__ansible_x: a}}", "workloads.chat.variants.int8.run.env", "Ansible"),
        ("run: {env: {DTYPE: int8}}", "run: {command: 'a \"b'}", "workloads.chat.variants.int8.run.command", "split into words"),
        ("run: {env: {DTYPE: int8}}", "run: {comand: a}", "workloads.chat.variants.int8.run.comand", "comand"),
        ("int8: {worth", "In T8: {worth", "workloads.chat.variants.In T8", ""),
        ("int8: {worth", '"a\\e[31m": {worth', "workloads.chat.variants", ""),
        ("    on_update: roll\n", "    on_update: roll\n    lighter_for: high\n", "workloads.chat.lighter_for", "above its own"),
        ("b: {user: bo,", "b: {user: bo, on_variant: now,", "workloads.b.on_variant", "no use without variants"),
        ("b: {user: bo,", "b: {user: bo, lighter_for: low,", "workloads.b.lighter_for", "no use without variants"),
        ("gpus: 1, memory: 40 GB", "gpus: 1, pinned: true, vcpus: 1.5", "workloads.chat.variants.int8.each.vcpus", "whole"),
    ],
)  # fmt: skip
def test_what_is_no_choice_is_refused_at_its_line(old: str, new: str, path: str, message: str) -> None:
    assert old in FLEET
    with pytest.raises(StackFileError) as caught:
        loads(FLEET.replace(old, new, 1), "stacks/lab.yaml", today=TODAY)
    problems = caught.value.problems
    assert any(one.path.startswith(path) and message in one.message for one in problems), problems
    assert all(line.isprintable() for one in problems for line in one.message.splitlines())


def test_a_lock_that_names_a_variant_that_there_is_not_is_stale(root: Path) -> None:
    file = root / "stacks" / "lab.lock.yaml"
    file.write_text(file.read_text().replace("variant: int8", "variant: nope"))
    with pytest.raises(StaleLock, match="its variants have changed"):
        decided(root, FLEET, frozen=True)
    file.write_text(file.read_text().replace("variant: nope", 'variant: "a/../b"'))
    with pytest.raises(StackFileError):
        decided(root, FLEET, frozen=True)


def test_a_lock_that_calls_the_first_variant_a_lighter_one_is_stale(root: Path) -> None:
    """Written by hand, and with a proof to match it would stand: `solve` lists nothing of the kind."""
    keep(decided(root, ALONE))
    file = root / "stacks" / "lab.lock.yaml"
    stack = loads(ALONE, "stacks/lab.yaml", today=TODAY).stack
    digest = Decided(stack).variants("chat")
    file.write_text(f'{file.read_text()}\nlighter:\n  chat: {{variant: bf16, digest: "{digest}"}}\n')
    with pytest.raises(StaleLock, match="its variants have changed"):
        decided(root, ALONE, frozen=True)
    told = swarm("why", "chat", "--from", str(root / "stacks" / "lab.yaml"), at=root)
    assert told.code == 0 and "1 placed" in told.out


def test_a_stack_without_variants_says_nothing_of_them(root: Path) -> None:
    plain = FLEET[: FLEET.index("    variants:")] + FLEET[FLEET.index("  b: {user") :]
    decision = decided(root, plain)
    assert decision.declared is None
    text = lock.dump(lock.make(decision.stack, decision.placement))
    assert "lighter" not in text and "variant" not in decision.placement.model_dump_json()
    assert "variant" not in decision.stack.model_dump_json()


def problems(text: str) -> list[str]:
    with pytest.raises(StackFileError) as caught:
        loads(text, "stacks/lab.yaml", today=TODAY)
    return [f"{one.path}: {one.message}" for one in caught.value.problems]


def test_what_is_wrong_with_the_workload_itself_is_said_once() -> None:
    assert problems(FLEET.replace("each: {vcpus: 8,", "each: {vcpus: 0.5, pinned: true,")) == [
        "workloads.chat.each.vcpus: pinned CPUs are whole, and 0.5 is not"
    ]
    assert problems(FLEET.replace("each: {vcpus: 8,", "each: {vcpus: 65,")) == [
        "workloads.chat.each.vcpus: 65 vCPUs, and user ada may have 64: 1 too many",
        "workloads.chat.each.vcpus: no node has 65 vCPUs: the largest, h, has 64",
    ]


def test_what_is_wrong_in_some_variants_names_them() -> None:
    pinned = FLEET.replace("each: {vcpus: 8,", "each: {vcpus: 0.5,").replace(
        "{each: {gpus: 2}}", "{each: {gpus: 2, pinned: true}}"
    )
    assert problems(pinned) == ["workloads.chat.each.vcpus: pinned CPUs are whole, and 0.5 is not (in variant bf16)"]


def test_after_a_merge_what_ran_is_what_the_first_branch_has(root: Path) -> None:
    """On one branch chat has two GPUs, on the other one a job takes three of four, and chat is lighter."""

    def locked(text: str) -> bytes:
        decided_now = decided(root, text)
        return lock.dump(lock.make(decided_now.stack, decided_now.placement, decided_now.declared)).encode()

    (root / "stacks" / "lab.lock.yaml").unlink()
    base = locked(ALONE)
    found = merged_of(root, Versions("lab", base, base, locked(FLEET), FLEET.encode(), None, theirs_first=False), TODAY)
    rows = [row[:3] for row in variants.rows(found.ran, found.decision.placement)]
    assert rows == [("chat", "bf16", "int8")]


#: A job in the first of its variants, with room for another one on the second machine.
TUNE = """\
fleet: lab
teams:
  t: {users: [ada]}
hardware:
  h: {gpus: 4 x H100, vcpus: 64, memory: 1 TB}
  a: {gpus: 4 x A100, vcpus: 64, memory: 1 TB}
nodes:
  a1: {hardware: a, ssh: "root@a1"}
  h1: {hardware: h, ssh: "root@h1"}
workloads:
  tune:
    user: ada
    kind: train
    each: {gpus: 1 x H100, vcpus: 8, memory: 64 GB}
    run: {command: tune}
    variants:
      bf16: {}
      int8: {worth: 0.95, each: {gpus: 1 x A100}}
"""


@pytest.mark.parametrize("more", ["fp8: {each: {gpus: 1 x A100}}", "fp8: {each: {gpus: 2 x H100}}", "fp8: {each: {vcpus: 16}}"])
def test_what_runs_keeps_its_variant_where_another_one_is_written_before_it(tmp_path: Path, more: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(tmp_path, TUNE))
    ran = decided(tmp_path, TUNE).placement.allocations
    after = decided(tmp_path, TUNE.replace("      bf16: {}\n", f"      {more}\n      bf16: {{}}\n"))
    assert after.placement.allocations == ran
    assert chosen(after) == {"tune": "bf16"}
    assert [row[:3] for row in variants.rows(after.last, after.placement)] == [("tune", "bf16", "bf16")]
    keep(after)
    assert chosen(decided(tmp_path, after.files.stack.read_text())) == {"tune": "bf16"}


def test_an_edit_of_the_first_variant_is_no_other_variant(tmp_path: Path) -> None:
    """It asks for more now, and gets it; that a lighter one asks for what it had says nothing."""
    text = TUNE.replace("int8: {worth: 0.95, each: {gpus: 1 x A100}}", "small: {worth: 0.95}").replace(
        "bf16: {}", "bf16: {each: {gpus: 2 x H100}}"
    )
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(tmp_path, text))
    after = decided(tmp_path, text.replace("bf16: {each: {gpus: 2 x H100}}", "bf16: {each: {gpus: 3 x H100}}"))
    assert not chosen(after) and [len(a.gpus) for a in after.placement.allocations] == [3]
