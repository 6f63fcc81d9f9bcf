"""Does a lock say exactly what was decided, and notice what has changed since?"""

from __future__ import annotations

import datetime
import shutil
import subprocess
from pathlib import Path

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.model.placement import Allocation, Goal, Placement, Proof, Reason, Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import loads
from swarm_iac.stackfile.locks import fast_reader, finished, lock, proof
from swarm_iac.stackfile.locks.digests import digest_placement
from tests.sized import sizes

ROOT = Path(__file__).parents[2]
DEV = (ROOT / "stacks" / "dev.yaml").read_text()


def stack(*changes: tuple[str, str]) -> Stack:
    text = DEV
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return loads(text, "dev.yaml", policies=ROOT / "policies", today=datetime.date(2026, 6, 1)).stack


def put(of: Stack, workload: str, index: int, node: str, gpus: tuple[int, ...]) -> Allocation:
    request = of.workloads[workload]
    name = f"{workload}-{index}"
    return Allocation(name=name, workload=workload, index=index, node=node, gpus=gpus, **sizes(request))


def placed(of: Stack) -> Placement:
    reason = Reason(rule="memory_fits_node", text="7 of 8 GB are used")
    return Placement(
        allocations=(
            put(of, "chat", 0, "gpu-01", (0,)),
            put(of, "chat", 1, "gpu-03", (0,)),
            put(of, "pretrain", 0, "gpu-02", (0, 1)),
        ),
        unplaced=(Unplaced(workload="tidy", missing=(0,), reasons=(reason,)),),
    )


def test_lock_reads_as_it_was_written() -> None:
    made = lock.make(stack(), placed(stack()))
    text = lock.dump(made)
    assert lock.parse(text, "dev.lock.yaml") == made
    assert lock.dump(lock.parse(text.encode(), "dev.lock.yaml")) == text
    assert lock.validity(made, stack()) == ()
    assert "7 of 8" not in text


@pytest.mark.parametrize(
    ("gpus", "written"),
    [((0, 1), "gpus: [0, 1]\n"), (("3:0.25",), 'gpus: ["3:0.25"]\n'), ((0, "12:0.5"), 'gpus: [0, "12:0.5"]\n'), ((), "")],
)
def test_gpus_stand_in_the_lock_by_number_and_parts_with_their_share(gpus: tuple[int | str, ...], written: str) -> None:
    one = Allocation.model_validate(put(stack(), "chat", 0, "gpu-01", ()).model_dump(mode="json") | {"gpus": gpus})
    made = lock.make(stack(), Placement(allocations=(one,)))
    text = lock.dump(made)
    assert fast_reader.read(text, text[: text.index("allocations:\n") + len("allocations:\n")]) is not None
    assert f"    {written}" in text and ("gpus" in text) == bool(written)
    assert lock.parse(text, "dev.lock.yaml") == made == lock.parse(text + "\n", "dev.lock.yaml")


@pytest.mark.parametrize("gpus", ["[4096]", '["0:1.5"]', '["0:0"]', '["4096:0.5"]', "[true]", "[0.5]", '["0"]', "[-1]"])
def test_what_is_no_gpu_of_a_machine_is_refused_with_its_line(gpus: str) -> None:
    text = lock.dump(lock.make(stack(), Placement(allocations=(put(stack(), "chat", 0, "gpu-01", (0,)),))))
    with pytest.raises(
        StackFileError, match=r"dev\.lock\.yaml:\d+:\d+: allocations\.chat-0\.gpus\[0\]: .* is no GPU of a machine"
    ):
        lock.parse(text.replace("gpus: [0]", f"gpus: {gpus}"), "dev.lock.yaml")


@pytest.mark.parametrize("user", ["ada", "null", "true", "_svc-1", "a_b"])
def test_whose_an_allocation_is_stands_in_the_lock(user: str) -> None:
    one = put(stack(), "chat", 0, "gpu-01", (0,)).model_copy(update={"user": user})
    made = lock.make(stack(), Placement(allocations=(one,)))
    assert lock.parse(lock.dump(made), "dev.lock.yaml") == made
    assert lock.parse(lock.dump(made) + "\n", "dev.lock.yaml") == made, "read as any YAML"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2 x H100, vcpus: 1,", "3 x H100, vcpus: 1,", ["pretrain-0: pretrain or the shape of gpu-02 has changed"]),
        ("vcpus: 0.25", "vcpus: 0.5", ["tidy: it has changed since it found no place"]),
        ("user: cy", "user: bo", ["chat-0: ", "chat-1: "]),
        ("replicas: 2", "replicas: 3", ["chat: nothing is decided about replica 2"]),
        ("replicas: 2", "replicas: 1", ["chat-1: chat has no replica 1"]),
        ("gpus: 4 x L40S", "gpus: 2 x L40S", ["chat-1: chat or the shape of gpu-03 has changed"]),
        ("workloads:\n", "  gpu-[03]: {state: drain}\nworkloads:\n", ["chat-1: gpu-03 is in state drain"]),
        ("workloads:\n", "  gpu-[03]: {state: lost}\nworkloads:\n", ["chat-1: gpu-03 is in state lost"]),
        ("workloads:\n", "  gpu-[03]: {state: cordon}\nworkloads:\n", []),
        ("infinity", "60", []),
        ("priority: high", "priority: low", []),
        ("grace: 5 s", "grace: 50 s", []),
    ],
)
def test_lock_is_stale_where_and_only_where_something_changed(old: str, new: str, said: list[str]) -> None:
    made = lock.make(stack(), placed(stack()))
    found = lock.validity(made, stack((old, new)))
    assert len(found) == len(said)
    assert all(reason.startswith(start) for reason, start in zip(found, said, strict=True))


def test_workload_and_node_that_left_are_named() -> None:
    made = lock.make(stack(), placed(stack()))
    left = stack()
    nodes = {name: node for name, node in left.nodes.items() if name != "gpu-03"}
    workloads = {name: one for name, one in left.workloads.items() if name not in ("pretrain", "tidy")}
    left = left.model_copy(update={"nodes": nodes, "workloads": workloads})
    assert lock.validity(made, left) == (
        "chat-1: the stack has no node gpu-03",
        "pretrain-0: the stack has no workload pretrain",
        "tidy: the stack has no such workload",
    )


def test_branches_that_change_different_allocations_merge(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    base = placed(stack())
    one = (("2 x H100, vcpus: 1,", "3 x H100, vcpus: 1,"),)
    two = (("cache: 200 MB", "cache: 300 MB"),)
    both = stack(*one, *two)
    sides = []
    for changes, name, replaced in ((one, "pretrain-0", (0, 1, 2)), (two, "chat-1", (0,))):
        of = stack(*changes)
        fresh = put(of, *name.rsplit("-", 1)[:1], int(name[-1]), base.by_name()[name].node, replaced)
        olds = [put(of, a.workload, a.index, a.node, a.gpus) if a.name != name else fresh for a in base.allocations]
        sides.append(lock.dump(lock.make(of, base.model_copy(update={"allocations": tuple(olds)}))))
    for name, text in zip(("ours", "base", "theirs"), (sides[0], lock.dump(lock.make(stack(), base)), sides[1]), strict=True):
        (tmp_path / name).write_text(text)
    done = subprocess.run([git, "merge-file", "-p", "ours", "base", "theirs"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert lock.validity(lock.parse(done.stdout, "merged"), both) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("allocations: {a-0: {workload: b}}", "the key 'node' is missing"),
        ("allocations: {a-x: {workload: a, node: n, vcpus: 1, memory: 1 GB, digest: '0123456789ab'}}", "is no replica of a"),
        ("<<<<<<< HEAD\nallocations: {\n=======\n>>>>>>> b\n", "git left a conflict here"),
        ("allocations: {a-0: {workload: a, node: n, vcpus: 1, memory: 1 GB, digest: short}}", "'short' is no digest"),
    ],
)
def test_broken_lock_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(StackFileError, match=r"dev\.lock\.yaml:1") as caught:
        lock.parse(text, "dev.lock.yaml")
    assert said in str(caught.value)


def test_proof_reads_as_it_was_written_and_knows_its_lock() -> None:
    placement = placed(stack())
    made = Proof(
        optimal=True,
        goals=(Goal(name="placed", value=3, bound=4),),
        solver="CP-SAT 9.15",
        parameters={"workers": 1, "log": "no"},
        placement=digest_placement(placement),
        problem=(problem := proof.problem_of(stack(), datetime.date(2026, 6, 1))),
    )
    assert proof.parse(proof.dump(made), "dev.proof.yaml") == made
    assert proof.belongs(made, placement, problem)
    assert not proof.belongs(made, placement.model_copy(update={"allocations": placement.allocations[1:]}), problem)
    assert not proof.belongs(made, placement, problem | {"limits": "0" * 12})


def test_a_workload_under_another_name_keeps_its_lock() -> None:
    of = stack()
    held = lock.make(of, placed(of))
    now = stack(("  chat:\n", "  talk:\n    renamed_from: chat\n"), ("  tidy:\n", "  neat:\n    renamed_from: tidy\n"))
    assert lock.validity(held, now), "its name is unknown there"
    fresh = lock.renamed(held, now)
    assert lock.validity(fresh, now) == ()
    assert [one.name for one in fresh.placement.allocations] == ["pretrain-0", "talk-0", "talk-1"]
    assert fresh.placement.unplaced[0].workload == "neat"
    assert lock.parse(lock.dump(fresh), "x").placement == fresh.placement, "the next lock carries the new names"
    assert lock.renamed(fresh, now) == fresh


def test_how_a_workload_changes_and_is_called_moves_nothing() -> None:
    of = stack()
    now = stack(("    kind: serve\n", "    kind: serve\n    on_update: roll\n    restart: never\n"))
    assert lock.validity(lock.make(of, placed(of)), now) == ()


def test_an_end_is_of_what_ran_and_of_nothing_else() -> None:
    """A job that ended has no other place, size or node to be judged by: only what was run."""
    made = finished.with_ends(lock.make(stack(), placed(stack())), ["pretrain-0"], stack())
    text = lock.dump(made)
    assert lock.parse(text, "dev.lock.yaml") == made and "    ended: true\n" in text
    assert fast_reader.read(text, lock.dump(lock.Lock())) is not None, "and it is read at once"
    assert made.placement.by_name()["pretrain-0"].gpus == ()
    assert lock.validity(made, stack(("memory: 300 MB", "memory: 400 MB"))) == ()
    command, user = (
        ("/bin/sleep infinity}\n    stop", "/bin/true}\n    stop"),
        ("pretrain:\n    user: ada", "pretrain:\n    user: bo"),
    )
    for change in (command, user):
        changed = stack(change)
        assert lock.validity(made, changed) == (f"pretrain-0: {lock.ANOTHER}",)
        assert "pretrain-0" not in finished.of_now(made, changed).by_name()
