"""Does a limit that is lowered below what runs stop nobody, block what would be added, and say so?"""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from swarm_iac.decision import Decision, decide, keep, stood
from swarm_iac.errors import Refused, StackFileError
from swarm_iac.model.state import Observed
from swarm_iac.plan import desired
from swarm_iac.plan.guards import refuse_unseen
from tests.cli.typed import swarm

TODAY = datetime.date(2026, 6, 1)
FLEET = """\
fleet: lab
teams:
  t: {users: [ada, bo]}
limits:
  user: {gpus: 16, memory: 2 TB}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n[1-3]: {hardware: h, ssh: "root@{name}"}
workloads:
  a: {user: ada, kind: train, each: {gpus: 8}, run: {command: x}}
  b: {user: ada, kind: train, replicas: 2, each: {gpus: 2}, run: {command: x}}
  c: {user: bo, kind: train, each: {gpus: 1}, run: {command: x}}
"""
LOWERED = ("user: {gpus: 16", "user: {gpus: 6")


def edited(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def decided(root: Path, text: str, frozen: bool = False) -> Decision:
    (root / "stacks").mkdir(exist_ok=True)
    (root / "stacks" / "lab.yaml").write_text(text)
    return decide(root, "lab", today=TODAY, frozen=frozen)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(tmp_path, FLEET))
    return tmp_path


def names(decision: Decision) -> set[str]:
    return set(decision.placement.by_name())


@pytest.mark.parametrize("limit", [LOWERED, ("limits:\n", "limits:\n  cluster: {gpus: 5}\n")])
def test_the_file_stays_valid_and_everything_runs_on(root: Path, limit: tuple[str, str]) -> None:
    """`a` alone is above it. The same lock goes on to hold, in CI as well."""
    now = decided(root, edited(FLEET, limit), frozen=True)
    assert now.stale == () and names(now) == {"a-0", "b-0", "b-1", "c-0"}


def test_a_wish_above_a_limit_that_does_not_run_is_a_mistake_still(root: Path) -> None:
    with pytest.raises(StackFileError, match=r"workloads\.d\.each.gpus: 8 GPUs, and user bo may have 6: 2 too many"):
        decided(root, edited(FLEET, LOWERED) + "  d: {user: bo, each: {gpus: 8}}\n")


def test_what_was_stopped_above_it_waits_and_the_file_stays_valid(root: Path) -> None:
    """A higher priority takes the place of `a`, which may not come back while its user holds too much."""
    comes = "  h: {user: bo, priority: high, gang: 3, each: {gpus: 8}}\n"
    limits = (
        ("user: {gpus: 16", "user: {gpus: 6"),
        ("  user: {gpus: 6", "  except: [{user: bo, gpus: 30, until: 2027-01-01, reason: x}]\n  user: {gpus: 6"),
    )
    text = edited(FLEET, *limits) + comes
    keep(decided(root, text))
    assert "h-0" in names(decided(root, text)) and "a-0" not in names(decided(root, text))
    assert decided(root, text).stale == ()


def test_nothing_is_added_and_that_is_said(root: Path) -> None:
    """Of what counts under the limit; the user's other work, and others' work, is placed."""
    more = edited(FLEET, LOWERED, ("replicas: 2", "replicas: 3"), ("c: {user: bo", "d: {user: ada}\n  c: {user: bo"))
    now = decided(root, more)
    assert names(now) == {"a-0", "b-0", "b-1", "c-0", "d-0"}
    (gone,) = now.placement.unplaced
    text = "user ada holds 12 GPUs and may have 6: running replicas stay; no new ones are admitted"
    assert [(one.text, one.path) for one in gone.reasons] == [(text, "limits.user.gpus")]
    assert gone.code == "UserLimit"
    plan = swarm("plan", "--offline", "-s", "lab", at=root).out
    assert text in plan
    assert any(line.split() == ["user", "ada", "gpus", "12", "12", "6"] for line in plan.splitlines()), plan


def test_no_size_grows(root: Path) -> None:
    now = decided(root, edited(FLEET, LOWERED, ("replicas: 2, each: {gpus: 2}", "replicas: 2, each: {gpus: 3}")))
    assert names(now) == {"a-0", "b-0", "b-1", "c-0"}
    assert [(one.workload, one.keeps) for one in now.placement.growing] == [("b", "2 GPUs")]


def test_what_shrinks_below_it_makes_room_again(root: Path) -> None:
    less = edited(
        FLEET, LOWERED, ("a: {user: ada, kind: train, each: {gpus: 8}", "a: {user: ada, kind: train, each: {gpus: 1}")
    )
    now = decided(root, less + "  e: {user: ada, each: {gpus: 1}}\n")
    assert names(now) == {"a-0", "b-0", "b-1", "c-0", "e-0"} and not now.placement.unplaced


def test_who_leaves_a_node_stands_above_it_elsewhere(root: Path) -> None:
    node = decided(root, FLEET).placement.by_name()["a-0"].node
    now = decided(root, edited(FLEET, LOWERED, ("workloads:", f"  {node}: {{state: drain}}\nworkloads:")))
    assert names(now) == {"a-0", "b-0", "b-1", "c-0"} and now.placement.by_name()["a-0"].node != node


def test_a_limit_that_was_lowered_and_a_lock_that_was_edited(root: Path) -> None:
    """Whoever writes the lock says what runs; only what the machines show as well may stand above a limit."""
    now = decided(root, edited(FLEET, LOWERED))
    ran = {name: one.node for name, one in stood(now, TODAY).items()}
    assert ran == {name: now.placement.by_name()[name].node for name in ("a-0", "b-0", "b-1")}
    goal, nodes = desired(now.stack, now.placement), ("n1", "n2", "n3")
    refused = pytest.raises(Refused, match="a-0, b-0, b-1: the lock file says that it runs, and the machines do not show it")
    with refused:
        refuse_unseen(ran, {node: Observed(node=node) for node in nodes}, goal, ())
    shown = {node: Observed(node=node, state=goal[node].state) for node in nodes}
    refuse_unseen(ran, shown, goal, ())
    refuse_unseen(ran, {node: Observed(node=node, error="no answer") for node in nodes}, goal, ())
    other = decided(root, edited(FLEET, LOWERED).replace("user: ada", "user: bo"))
    with refused:  # it runs, and for somebody else
        refuse_unseen(ran, shown, desired(other.stack, other.placement), ())
    assert stood(decided(root, FLEET), TODAY) == {}
    assert stood(decided(root, FLEET[: FLEET.index("  c: {user: bo")]), TODAY) == {}, "a workload is gone"


def test_another_users_job_counts_as_new(root: Path) -> None:
    """To start under one name and be given to another who has no more: a way past a limit, if what ran could stay."""
    given = edited(FLEET, ("a: {user: ada", "a: {user: bo"), ("user: {gpus: 16", "user: {gpus: 8"))
    now = decided(root, given)
    assert names(now) == {"b-0", "b-1", "c-0"}, "bo has one of 8 GPUs already, and a asks for 8"
    fits = decided(root, edited(FLEET, ("a: {user: ada", "a: {user: bo")))
    was, one = fits.last.by_name()["a-0"], fits.placement.by_name()["a-0"]
    assert (one.node, one.gpus, one.user) == (was.node, was.gpus, "bo"), "where it fits it starts anew where it stands"
    states = f"  {was.node}: {{state: cordon, reason: fan}}\nworkloads:\n"
    cordoned = edited(FLEET, ("a: {user: ada", "a: {user: bo"), ("workloads:\n", states))
    assert decided(root, cordoned).placement.by_name()["a-0"].node != was.node, "to a cordoned node nothing new comes"
