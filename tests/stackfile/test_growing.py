"""Does a job run on while there is no room for it to grow, is that said, and does it grow once there is?"""

from __future__ import annotations

import datetime
import json
import random
import re
from pathlib import Path

import pytest

from swarm_iac.cli.decisions import why_text
from swarm_iac.cli.terminal.progress import Following
from swarm_iac.decision import Decision, decide, keep, running
from swarm_iac.errors import StackFileError, StaleLock
from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.solver import solve_keeping
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.stackfile import load
from tests.cli.typed import swarm

TODAY = datetime.date(2026, 6, 1)
FLEET = """\
fleet: lab
teams:
  t: {users: [ada, bo]}
limits:
  user: {gpus: 12, memory: 2 TB}
  except:
    - {user: ada, gpus: 14, until: 2026-06-03, reason: thesis}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nvme: 1 TB}
nodes:
  n1: {hardware: h, ssh: "root@n1"}
  n2: {hardware: h, ssh: "root@n2", state: cordon, reason: fans}
workloads:
  a: {user: ada, kind: train, each: {gpus: 2, memory: 100 GB, scratch: 100 GB}, run: {command: x}}
  b: {user: bo, kind: train, each: {gpus: 6, memory: 100 GB, scratch: 100 GB}, run: {command: x}}
"""


def decided(root: Path, text: str, today: datetime.date = TODAY, frozen: bool = False) -> Decision:
    (root / "stacks").mkdir(exist_ok=True)
    (root / "stacks" / "lab.yaml").write_text(text)
    return decide(root, "lab", today=today, frozen=frozen)


def edited(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(tmp_path, FLEET))
    return tmp_path


GROWS = [
    (("a: {user: ada, kind: train, each: {gpus: 2", "a: {user: ada, kind: train, each: {gpus: 3"), "2 GPUs", "3 GPUs"),
    (("memory: 100 GB", "memory: 950 GB"), "100 GB of memory", "950 GB of memory"),
    (("scratch: 100 GB", "scratch: 1 TB"), "100 GB of storage", "1 TB of storage"),
]


@pytest.mark.parametrize(("edit", "keeps", "wants"), GROWS, ids=[wants for _, _, wants in GROWS])
def test_it_keeps_what_it_has(root: Path, edit: tuple[str, str], keeps: str, wants: str) -> None:
    text = edited(FLEET, edit)
    now = decided(root, text)
    before = now.last.by_name()["a-0"]
    assert now.placement.by_name()["a-0"] == before, "the same node, devices and size"
    (growing,) = now.placement.growing
    assert (growing.workload, growing.keeps, growing.wants) == ("a", keeps, wants)
    assert growing.reasons and not now.placement.unplaced
    assert not judge(now.stack, now.placement, TODAY)

    keep(now)
    again = decided(root, text, frozen=True)
    assert again.stale == () and again.proof is not None, "once decided it stands"
    assert again.placement.by_name()["a-0"] == before
    assert [(one.keeps, one.wants) for one in again.placement.growing] == [(keeps, wants)]


def test_whether_it_can_grow_is_asked_once(root: Path) -> None:
    """Each answer takes seconds on a full fleet: in its new size, and in the one that it has, and none of them again."""
    phases: list[str] = []
    now = decided(root, edited(FLEET, GROWS[0][0]))
    solve_keeping(now.written, now.last, today=TODAY, watch=Watch(phase=phases.append))
    assert phases.count("reading the fleet") == 2


def test_what_asks_for_less_gives_it_back_while_it_waits_for_the_rest(root: Path) -> None:
    now = decided(root, edited(FLEET, ("each: {gpus: 2, memory: 100 GB, scratch: 100 GB}", "each: {gpus: 1, vcpus: 64}")))
    (growing,) = now.placement.growing
    assert (growing.keeps, growing.wants) == ("1 vCPU", "64 vCPUs")
    found = now.placement.by_name()["a-0"]
    assert (len(found.gpus), str(found.vcpus), str(found.memory), int(found.storage)) == (1, "1", "1 GB", 0)


def test_a_lock_gives_nobody_more_than_the_stack_file_says(root: Path) -> None:
    """Whoever edits lock and proof by hand may claim that something larger runs, and waits to grow."""
    keep(decided(root, edited(FLEET, GROWS[0][0])))
    file = root / "stacks" / "lab.lock.yaml"
    for old, new in (("memory: 100 GB", "memory: 300 GB"), ("vcpus: 1", "vcpus: 9"), ("storage: 100 GB", "storage: 200 GB")):
        text = file.read_text()
        file.write_text(edited(text, (old, new)))
        with pytest.raises(StaleLock):
            decided(root, edited(FLEET, GROWS[0][0]), frozen=True)
        found = decided(root, edited(FLEET, GROWS[0][0])).placement.by_name()["a-0"]
        assert (str(found.vcpus), str(found.memory), str(found.storage)) == ("1", "100 GB", "100 GB")
        file.write_text(text)


def test_it_grows_once_there_is_room(root: Path) -> None:
    larger = edited(FLEET, GROWS[0][0])
    keep(decided(root, larger))
    room = edited(larger, ("each: {gpus: 6", "each: {gpus: 5"))
    with pytest.raises(StaleLock):
        decided(root, room, frozen=True)
    now = decided(root, room)
    assert len(now.placement.by_name()["a-0"].gpus) == 3
    assert now.placement.growing == () and now.declared is None


def test_it_grows_at_once_where_those_that_lost_their_places_left_it_room(tmp_path: Path) -> None:
    """In its new size it competes with what has to leave its node; that stops then, and no second solve is needed."""
    text = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nvme: 1 TB}}
nodes:
  n[1-2]: {hardware: h, ssh: "root@{name}"}
workloads:
  four: {user: ada, priority: high, each: {gpus: 4, vcpus: 8, memory: 9 GB}, replicas: 3}
  two: {user: ada, each: {gpus: 2, vcpus: 8, memory: 9 GB}}
  one: {user: ada, priority: high, each: {gpus: 1, vcpus: 8, memory: 9 GB}}
"""
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(tmp_path, text))
    node = {one.name: one.node for one in decided(tmp_path, text).placement.allocations}
    assert node["two-0"] == node["one-0"], "the other node has two of four GPUs"
    other = "n1" if node["one-0"] == "n2" else "n2"
    grows = ("gpus: 1, vcpus: 8", "gpus: 1, vcpus: 16")
    found = decided(tmp_path, edited(text, grows, ("workloads:", f"  {other}: {{state: drain}}\nworkloads:")))
    assert not found.placement.growing and found.placement.by_name()["one-0"].vcpus == 16000
    assert {one.workload for one in found.placement.unplaced} == {"four"}


def test_what_it_waits_for_comes_in_another_way(root: Path) -> None:
    """A node is taken back: nothing of the wish changed, and still it is decided again."""
    larger = edited(FLEET, GROWS[0][0])
    keep(decided(root, larger))
    ready = edited(larger, (", state: cordon, reason: fans", ""))
    with pytest.raises(StaleLock, match="a waits to grow, and nodes changed since that was decided"):
        decided(root, ready, frozen=True)
    now = decided(root, ready)
    assert (now.placement.by_name()["a-0"].node, now.placement.growing) == ("n2", ())


def test_a_wish_that_is_taken_back(root: Path) -> None:
    keep(decided(root, edited(FLEET, GROWS[0][0])))
    now = decided(root, FLEET)
    assert now.stale == ("a: its request has changed since it could not grow",)
    assert now.placement == now.last.model_copy(update={"growing": ()})


def test_it_moves_off_a_node_that_is_drained_in_its_old_size(root: Path) -> None:
    waits = edited(FLEET, GROWS[1][0])
    keep(decided(root, waits))
    drained = edited(waits, ('"root@n1"}', '"root@n1", state: drain}'), (", state: cordon, reason: fans", ""))
    now = decided(root, drained)
    assert {one.name: (one.node, str(one.memory)) for one in now.placement.allocations} == {
        "a-0": ("n2", "100 GB"),
        "b-0": ("n2", "100 GB"),
    }
    assert [one.workload for one in now.placement.growing] == ["a"]


def test_a_gang_keeps_its_members_until_all_of_it_has_room(root: Path) -> None:
    """Half a gang is never started, and a whole one is not ended for wanting to be larger."""
    gang = edited(
        FLEET, ("a: {user: ada, kind: train, each: {gpus: 2,", "a: {user: ada, kind: train, gang: 2, each: {gpus: 1,")
    )
    keep(decided(root, gang))
    larger = edited(gang, ("gang: 2", "gang: 4"))
    now = decided(root, larger)
    assert now.placement.allocations == now.last.allocations
    assert [(one.keeps, one.wants) for one in now.placement.growing] == [("2 members", "4 members")]
    keep(now)
    assert decided(root, larger, frozen=True).stale == ()
    ready = decided(root, edited(larger, (", state: cordon, reason: fans", "")))
    assert len([one for one in ready.placement.allocations if one.workload == "a"]) == 4 and not ready.placement.growing


def test_of_a_service_that_cannot_grow_a_part_may_lose_its_place(root: Path) -> None:
    """A higher priority takes one of two: the other runs on in its old size."""
    two = edited(
        FLEET, ("a: {user: ada, kind: train, each: {gpus: 2,", "a: {user: ada, kind: serve, replicas: 2, each: {gpus: 1,")
    )
    keep(decided(root, two))
    urgent = "workloads:\n  c: {user: bo, priority: high, each: {gpus: 1}, run: {command: x}}\n"
    now = decided(root, edited(two, ("replicas: 2, each: {gpus: 1,", "replicas: 2, each: {gpus: 4,"), ("workloads:\n", urgent)))
    assert [len(one.gpus) for one in now.placement.allocations if one.workload == "a"] == [1]
    assert [one.workload for one in now.placement.growing] == ["a"] == [one.workload for one in now.placement.unplaced]
    assert not judge(now.stack, now.placement, TODAY)
    keep(now)
    assert decided(root, now.files.stack.read_text(), frozen=True).stale == ()


def test_who_wants_it_to_stop_says_so(root: Path) -> None:
    now = decided(root, edited(FLEET, GROWS[0][0], ("a: {user: ada,", "a: {user: ada, on_grow: stop,")))
    assert [one.workload for one in now.placement.unplaced] == ["a"]


def test_what_becomes_of_it_counts_only_while_something_waits(root: Path) -> None:
    """Of what runs as it is asked for `on_grow` decides nothing; of what waits, and of what a preview would stop, it does."""
    stops = ("a: {user: ada,", "a: {user: ada, on_grow: stop,")
    same = decided(root, edited(FLEET, stops), frozen=True)
    assert same.stale == () and same.proof is not None
    larger = edited(FLEET, GROWS[0][0])
    assert [one.workload for one in decided(root, edited(larger, stops)).placement.unplaced] == ["a"], "the candidate stops it"
    now = decided(root, larger)
    assert not now.placement.unplaced and [one.workload for one in now.placement.growing] == ["a"]
    keep(now)
    with pytest.raises(StaleLock, match="a: its request has changed since it could not grow"):
        decided(root, edited(larger, stops), frozen=True)
    other = edited(larger, ("b: {user: bo,", "b: {user: bo, on_grow: stop,"))
    assert decided(root, other, frozen=True).stale == (), "what waits is another one"


def test_a_higher_priority_takes_its_place_as_any_other(root: Path) -> None:
    urgent = "workloads:\n  c: {user: bo, priority: high, each: {gpus: 2}, run: {command: x}}\n"
    now = decided(root, edited(FLEET, GROWS[0][0], ("workloads:\n", urgent)))
    assert "c-0" in now.placement.by_name() and "a-0" not in now.placement.by_name()
    assert now.placement.growing == () and [one.workload for one in now.placement.unplaced] == ["a"]
    assert now.stack.workloads["a"].each.gpus.count == 3, "it asks for what is written"


def test_an_exception_that_ends_blocks_growth_only(tmp_path: Path) -> None:
    two = edited(
        FLEET,
        ("scratch: 100 GB}", "scratch: 100 GB}, replicas: 2"),
        ("b: {user: bo", "b: {user: ada"),
        ("gpus: 6,", "gpus: 2,"),
    )
    wide = edited(two, ("gpus: 2, memory", "gpus: 5, memory"), (", state: cordon, reason: fans", ""))
    keep(decided(tmp_path, wide))
    now = decided(tmp_path, edited(wide, ("gpus: 5, memory", "gpus: 6, memory")), datetime.date(2026, 7, 1))
    assert {one.name for one in now.placement.allocations} == {"a-0", "a-1", "b-0"}
    assert [one.keeps for one in now.placement.growing] == ["5 GPUs"]


def test_every_command_says_it(root: Path) -> None:
    keep(decided(root, edited(FLEET, GROWS[0][0])))
    plan = swarm("plan", "--offline", "-s", "lab", at=root).out
    assert "What keeps its size until it can grow" in plan and "lab: nothing to change, 1 pending" in plan
    assert "What stops" not in plan
    waits = swarm("ps", "-s", "lab", "--pending", at=root)
    assert "a-0" in waits.out and "waits to grow: swarm why a" in waits.out and "b-0" not in waits.out
    (found,) = json.loads(swarm("ps", "-s", "lab", "--pending", "--json", at=root).out)
    assert (found["name"], found["waits_to_grow"]["keeps"], found["waits_to_grow"]["wants"]) == ("a-0", "2 GPUs", "3 GPUs")
    assert "a keeps 2 GPUs until there is capacity for 3 GPUs; see: swarm why a" in swarm("assert", "lab", at=root).err
    solved = swarm("solve", "-s", "lab", at=root).out
    assert "keeps its size until there is capacity" in solved
    why = swarm("why", "a", "-s", "lab", at=root).out
    assert "a: runs with 2 GPUs until there is capacity for 3 GPUs" in why
    assert "Why it cannot grow" in why and "most that is free is 2 on n1" in why
    assert "swarm what-if" in why
    assert "stopped on" not in why and "What left its node" not in why, "it runs on"


def test_a_what_if_says_what_would_wait_to_grow(root: Path) -> None:
    told = swarm("what-if", "workloads.a.each.gpus=3", "-s", "lab", "--detailed-exitcode", at=root)
    assert told.code == 0 and re.search(r"\n a +2 GPUs +3 GPUs +nothing new may go to n2", told.out)
    assert told.out.endswith("lab: nothing to change, 1 pending\n")
    keep(decided(root, edited(FLEET, GROWS[0][0])))
    back = swarm("what-if", "workloads.a.each.gpus=2", "-s", "lab", "--detailed-exitcode", at=root)
    assert back.code == 0 and back.out.endswith("lab: nothing to change\n"), "it waits no more"


def test_why_tells_changes_that_let_it_grow(root: Path) -> None:
    now = decided(root, edited(FLEET, GROWS[0][0]))
    _, answer = why_text.explain(now, "a", TODAY, Following())
    assert answer.fixes and not answer.placed


def test_a_rebalance_leaves_it_waiting(root: Path) -> None:
    today = datetime.date.today()  # the command's own
    keep(decided(root, edited(FLEET, GROWS[0][0]), today))
    now = running(root, "lab", today=today)
    assert now.stack.workloads["a"].each.gpus.count == 2 and now.written.workloads["a"].each.gpus.count == 3
    assert swarm("rebalance", "--moves", "1", "-s", "lab", at=root).code == 0
    again = decided(root, edited(FLEET, GROWS[0][0]), today)
    assert again.stale == () and [one.workload for one in again.placement.growing] == ["a"]


def test_a_lock_that_lets_nobody_grow_is_refused(root: Path) -> None:
    lock = root / "stacks" / "lab.lock.yaml"
    lock.write_text(lock.read_text() + '\ngrowing:\n\n  zz: {digest: "000000000000"}\n')
    with pytest.raises(StackFileError, match="zz runs nowhere"):
        decided(root, FLEET)


@pytest.mark.parametrize("seed", range(40))
def test_no_job_that_fits_at_its_size_ends_for_its_own_growth(seed: int, tmp_path: Path) -> None:
    """On random fleets: everybody of one priority grows at random, and nothing that ran is without a place."""
    rng = random.Random(seed)
    nodes = rng.randint(1, 5)

    def text(sizes: list[tuple[int, int, int, str]]) -> str:
        works = "".join(
            f"  w{i}: {{user: ada, {how}: {count}, each: {{gpus: {gpus}, memory: {memory} GB}}, run: {{command: x}}}}\n"
            for i, (count, gpus, memory, how) in enumerate(sizes)
        )
        return (
            "fleet: lab\nteams: {t: {users: [ada]}}\nlimits: {user: {gpus: 900, vcpus: 900, memory: 90 TB}}\n"
            f"hardware: {{h: {{gpus: 8 x H100, vcpus: 64, memory: 500 GB}}}}\nnodes: {{'n[1-{nodes}]': {{hardware: h, ssh: 'root@{{name}}'}}}}\n"
            f"workloads:\n{works}solve: {{effort: quick, moves: {rng.choice((0, 2, 9))}}}\n"
        )

    file = tmp_path / "lab.yaml"
    sizes = [
        (rng.randint(1, 3), rng.randint(0, 4), rng.choice((20, 60, 150)), rng.choice(("replicas", "replicas", "gang")))
        for _ in range(rng.randint(2, 8))
    ]
    file.write_text(text(sizes))
    first = load(file, today=TODAY).stack
    before = solve_keeping(first, Placement(), today=TODAY)[1].placement
    grown = [
        (count + rng.choice((0, 0, 1)), gpus + rng.choice((0, 1, 3)), int(memory * rng.choice((1, 1, 2))), how)
        for count, gpus, memory, how in sizes
    ]
    file.write_text(text(grown))
    written = load(file, today=TODAY).stack
    stack, solution = solve_keeping(written, before, today=TODAY)
    now = solution.placement
    assert before.by_name().keys() <= now.by_name().keys()
    assert not judge(stack, now, TODAY)
    for one in now.growing:
        assert one.reasons and one.keeps != one.wants
