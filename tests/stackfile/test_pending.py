"""Is what found no place decided again as soon as there could be one, and only then?"""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from swarm_iac.decision import Decision, decide, keep
from swarm_iac.errors import StackFileError, StaleLock

TODAY = datetime.date(2026, 6, 1)
#: `b` waits: for the limit, the node that is cordoned, and the moves that it may cost. `a` and `c` hold all else.
FLEET = """\
fleet: quota
teams:
  t: {users: [ada, bo]}
limits:
  user: {gpus: 10}
  except:
    - {user: bo, gpus: 12, until: 2026-06-03, reason: thesis}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n1: {hardware: h, ssh: "root@n1"}
  n2: {hardware: h, ssh: "root@n2"}
  n3: {hardware: h, ssh: "root@n3", state: cordon, reason: fans}
workloads:
  a: {user: ada, each: {gpus: 6}, run: {command: x}}
  b: {user: ada, each: {gpus: 6}, run: {command: x}}
solve: {moves: 0}
"""


def decided(root: Path, text: str, today: datetime.date = TODAY, frozen: bool = False) -> Decision:
    (root / "stacks").mkdir(exist_ok=True)
    (root / "stacks" / "quota.yaml").write_text(text)
    return decide(root, "quota", today=today, frozen=frozen)


def edited(old: str, new: str) -> str:
    assert old in FLEET
    return FLEET.replace(old, new, 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    keep(decided(tmp_path, "".join(line for line in FLEET.splitlines(keepends=True) if not line.startswith("  b:"))))
    first = decided(tmp_path, FLEET)
    assert [one.workload for one in first.placement.unplaced] == ["b"]
    keep(first)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "said", "placed"),
    [
        ("user: {gpus: 10}", "user: {gpus: 16}", "limits", True),
        ("user: bo, gpus: 12", "user: ada, gpus: 12", "limits", True),
        ("  t: {users: [ada, bo]}", "  t: {users: [ada, bo], limits: {gpus: 16}}", "limits", False),
        (", state: cordon, reason: fans", "", "nodes", False),
        ("  n3: {", '  n4: {hardware: h, ssh: "root@n4"}\n  n3: {', "nodes", False),
        ("moves: 0", "moves: 4", "solve", False),
        ("moves: 0", "moves: 0, effort: thorough", "solve", False),
        ("b: {user: ada,", "b: {user: ada, priority: high,", "workloads", True),
        ("b: {user: ada,", "b: {user: bo,", "it has changed", True),
        ("a: {user: ada, each: {gpus: 6}", "a: {user: ada, each: {gpus: 2}", "a or the shape of", True),
    ],
)
def test_a_change_that_could_matter(root: Path, old: str, new: str, said: str, placed: bool) -> None:
    """It is decided again, frozen mode refuses, and everything that had a place keeps it (a stop for `high` aside)."""
    text = edited(old, new)
    with pytest.raises(StaleLock, match=said):
        decided(root, text, frozen=True)
    now = decided(root, text)
    assert said in now.stale[0]
    assert ("b-0" in now.placement.by_name()) is placed
    if "priority" not in new:
        assert now.placement.by_name()["a-0"].node == now.last.by_name()["a-0"].node
    assert now.proof is not None
    keep(now)
    assert decided(root, text).stale == (), "once decided it stands"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reason: fans", "reason: power supply"),
        ("command: x", "command: y"),
        ("a: {user: ada,", "a: {user: ada, on_grow: stop,"),
        ("b: {user: ada,", "b: {user: ada, on_grow: stop,"),
        ("reason: thesis", "reason: paper"),
        ("root@n1", "root@n1.lab"),
    ],
)
def test_a_change_that_could_not(root: Path, old: str, new: str) -> None:
    now = decided(root, edited(old, new), frozen=True)
    assert now.stale == ()
    assert now.proof is not None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("{power: 20 kW}", "{power: 30 kW}", "racks.r1.power (20 kW → 30 kW)"),
        ("{}", "{uplink: 10 Gbit/s}", "racks.r1.uplink (none → 10 Gbit/s)"),
        ("{uplink: 10 Gbit/s, power: 20 kW}", "{power: 25 kW}",
         "racks.r1.power (20 kW → 25 kW) and racks.r1.uplink (10 Gbit/s → none)"),
    ],
)  # fmt: skip
def test_a_change_of_a_rack_is_named(root: Path, before: str, after: str, said: str) -> None:
    """Not as a change of nodes: whoever reads it looks at the rack, and at the key."""
    racks = edited("nodes:\n", f"racks:\n  r1: {before}\nnodes:\n").replace("{hardware: h, ssh", "{hardware: h, rack: r1, ssh")
    keep(decided(root, racks))
    assert decided(root, racks).stale == ()
    now = decided(root, racks.replace(f"r1: {before}", f"r1: {after}"))
    assert now.stale == (f"b has no place, and {said} changed since that was decided",)


def test_the_day_on_which_an_exception_ends(root: Path) -> None:
    """What its user may have has changed, though nobody touched the file."""
    assert decided(root, FLEET, datetime.date(2026, 6, 3)).stale == ()
    assert "limits changed" in decided(root, FLEET, datetime.date(2026, 6, 4)).stale[0]


def test_a_proof_is_not_shown_for_another_problem(root: Path) -> None:
    """Nothing waits, a node comes: what runs stays where it is, and is no longer called proven."""
    fits = edited("user: {gpus: 10}", "user: {gpus: 16}")
    keep(decided(root, fits))
    assert decided(root, fits).proof is not None
    more = decided(root, fits.replace("  n3: {", '  n4: {hardware: h, ssh: "root@n4"}\n  n3: {'))
    assert more.stale == ()
    assert more.proof is None


def test_without_its_proof(root: Path) -> None:
    """A repository may keep none: frozen, the lock is taken as it is; else what waits is decided again."""
    (root / "stacks" / "quota.proof.yaml").unlink()
    held = decided(root, FLEET, frozen=True)
    assert [one.workload for one in held.placement.waiting()] == ["b"] and held.proof is None
    assert decided(root, FLEET).stale == ("b has no place, and no proof says from what that was decided",)


def test_with_a_proof_that_does_not_say_from_what(root: Path) -> None:
    """One of an earlier version, or of one of two branches that were merged."""
    file = root / "stacks" / "quota.proof.yaml"
    file.write_text(re.sub(r'placement: ".*"', 'placement: "0"', file.read_text()))
    with pytest.raises(StaleLock, match="b has no place, and no proof says from what that was decided"):
        decided(root, FLEET, frozen=True)


SWEEP = """\
fleet: quota
teams:
  t: {users: [ada]}
limits:
  user: {gpus: 3}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n1: {hardware: h, ssh: "root@n1"}
workloads:
  sweep: {user: ada, KIND, each: {gpus: 1}, run: {command: x}}
"""


def test_a_job_may_have_more_replicas_than_may_run_at_a_time(tmp_path: Path) -> None:
    placement = decided(tmp_path, SWEEP.replace("KIND", "kind: batch, replicas: 40")).placement
    assert len(placement.allocations) == 3
    assert [(one.workload, len(one.missing)) for one in placement.unplaced] == [("sweep", 37)]
    assert "user ada has 0 left of 3" in str(placement.unplaced[0].reasons)


@pytest.mark.parametrize("kind", ["kind: serve, replicas: 4", "kind: train, gang: 4"])
def test_what_is_of_no_use_in_part_may_not(tmp_path: Path, kind: str) -> None:
    with pytest.raises(StackFileError, match="4 x 1 = 4 GPUs, and user ada may have 3: 1 too many"):
        decided(tmp_path, SWEEP.replace("KIND", kind))
