"""Who may replace the live layer that all clones share, and is what the state has judged before it is used?"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from swarm_iac.errors import Refused, Retryable
from swarm_iac.live import checkpoint, sharing
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer, NodePower, Version
from swarm_iac.live.shared import MOST_TEXT, TYPE, Leader, Shared, of_inputs, refusal, successor, superseded
from tests.autopilot.fleet import Flight, fleet

ADA, BO, CY = "a" * 32, "b" * 32, "c" * 32
NOW = 1_800_000_000.0


def version(number: int, writer: str) -> Version:
    return Version(number=number, writer=writer)


def layer(generation: int, base: Version | None = None) -> Layer:
    return Layer(fleet="lab", stack="dev", generation=generation, base=base)


def leader(id: str = ADA, at: float = NOW, watched: float = 0.0) -> Leader:
    return Leader(id=id, who="desk process 7", at=at, lease=600, watched=watched)


def there(number: int, writer: str, *, generation: int = 5, leads: Leader | None = None) -> Shared:
    return Shared(version(number, writer), layer(generation), leads)


@pytest.mark.parametrize(
    ("state", "mine", "gone"),
    [
        (None, layer(9), False),
        (there(4, BO), Layer(), True),
        (there(4, BO), layer(9), True),
        (there(4, BO), layer(9, version(3, ADA)), True),
        (there(4, BO), layer(9, version(4, ADA)), True),
        (there(4, BO), layer(9, version(4, BO)), False),
        (there(4, BO), layer(1, version(5, CY)), False),  # an old state was put back
        (there(4, ADA, generation=9), layer(9), False),
        (there(4, ADA, generation=9), layer(8), True),
    ],
)
def test_a_layer_that_another_clone_replaced_is_never_shared_over_it(state: Shared | None, mine: Layer, gone: bool) -> None:
    assert superseded(state, mine, ADA) is gone


def test_of_two_that_were_made_from_one_version_the_second_is_refused() -> None:
    old = there(4, CY)
    first, second = (successor(old, layer(6, version(4, CY)), who, None) for who in (ADA, BO))
    assert first.version.number == second.version.number == 5 and first.version != second.version
    assert not refusal(old, first, NOW)
    assert "replaced meanwhile: version 5" in refusal(first, second, NOW)
    assert not refusal(first, first, NOW), "the same one again is no change"
    assert not refusal(None, second, NOW)


def test_numbers_go_on_above_what_a_clone_knew_when_an_old_state_is_put_back() -> None:
    assert successor(there(4, BO), layer(9, version(7, ADA)), ADA, None).version == version(8, ADA)


def test_a_lease_that_runs_is_nobody_elses() -> None:
    old = there(4, ADA, leads=leader())

    def by(who: str, leads: Leader | None, now: float = NOW + 1) -> str:
        return refusal(old, successor(old, layer(6, version(4, ADA)), who, leads), now)

    assert "another autopilot leads: desk process 7, until 2027-01-15 08:10:00 UTC" in by(BO, leader(BO))
    assert by(BO, None), "only who has it releases it"
    assert not by(BO, leader()), "an `up` that tells what it powered on leaves it as it is"
    assert not by(ADA, None) and not by(ADA, leader(at=NOW + 300))
    assert not by(BO, leader(BO), NOW + 600), "it has lapsed"
    assert by(BO, leader(BO), NOW - 5000), "a clock that was set back"
    assert not by(BO, leader(BO, watched=600.0), NOW - 5000), "for a whole lease it did not move"
    assert leader().left(NOW - 5000) == 600


def flown() -> Layer:
    flight = Flight(fleet())
    flight.tick(chat=240)
    return flight.layer.model_copy(update={"stack": "dev", "generation": 3})


def test_what_is_written_to_the_state_is_read_back() -> None:
    one = Shared(version(7, ADA), flown(), leader(), version(6, BO))
    assert of_inputs(json.loads(json.dumps(one.inputs()))) == one
    assert of_inputs(replace(one, layer=one.layer.model_copy(update={"base": version(6, BO)})).inputs()) == one, (
        "a file's alone"
    )
    assert all(isinstance(value, str) for value in one.inputs().values())


@pytest.mark.parametrize(
    "change",
    [
        {"version": '{"number": 0, "writer": "' + ADA + '"}'},
        {"version": '{"number": 7, "writer": "../../etc"}'},
        {"leader": '{"id": "' + ADA + '", "who": "\\u001b[2J", "at": 1, "lease": 600}'},
        {"leader": '{"id": "' + ADA + '", "at": 1, "lease": 1e9}'},
        {"leader": '{"id": "' + ADA + '", "at": 1e300, "lease": 60}'},
        {"layer": '{"by": "\\u001b]0;x"}'},
        {"layer": '{"grants": [{"allocation": {}}]}'},
        {"layer": '{"power": {"../n1": {"state": "off", "since": 1}}}'},
        {"layer": "["},
        {"layer": "[" * 100_000},
        {"layer": " " * (MOST_TEXT + 1)},
        {"base": "7"},
        {"version": '{"number": 9007199254740992, "writer": "' + ADA + '"}'},
        {"layer": '{"generation": 9007199254740992}'},
    ],
)  # fmt: skip
def test_what_is_no_layer_is_refused_with_how_it_is_removed(change: dict[str, str]) -> None:
    inputs = Shared(version(7, ADA), flown(), leader()).inputs()
    with pytest.raises(Refused) as refused:
        of_inputs(inputs | change)
    assert f"`pulumi state delete` the resource {TYPE}" in refused.value.hint
    assert refused.value.message.isprintable() and len(refused.value.message) < 500
    with pytest.raises(Refused):
        of_inputs({name: value for name, value in inputs.items() if name not in change})


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with a state in files elsewhere."""
    root = tmp_path / "clone"
    (root / "stacks").mkdir(parents=True)
    (root / "stacks" / "dev.yaml").write_text("fleet: lab\nworkloads: {chat: {scale: {}}}\n")
    (root / "Pulumi.yaml").write_text(f"name: lab\nbackend: {{url: 'file://{tmp_path}/state'}}\n")
    return root


def given(root: Path, one: Shared) -> None:
    folder = root.parent / "state" / ".pulumi" / "stacks" / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"checkpoint": {"latest": {"resources": [{"type": TYPE, "inputs": one.inputs()}]}}})
    (folder / "dev.json").write_text(text)


def test_a_clone_takes_what_is_shared_and_keeps_what_is_its_own(clone: Path) -> None:
    path = clone / ".state" / "dev.live.json"
    me = live_file.identity(path.parent)
    given(clone, Shared(version(7, BO), flown()))
    assert sharing.shared(clone, "dev", "") == Shared(version(7, BO), flown())
    mine = live_file.read(path, "test", "dev")
    assert mine == flown().model_copy(update={"base": version(7, BO)})

    off = {"n9": NodePower(state="off", since=NOW)}
    live_file.write(path, mine.model_copy(update={"power": off}), 3)
    assert sharing.shared(clone, "dev", "") == Shared(version(7, BO), flown()), (
        "one that shares nothing registers what is there"
    )
    fresh = sharing.shared(clone, "dev", sharing.KEEP)
    assert fresh and fresh.version == version(8, me) and fresh.layer.power == off and fresh.base == version(7, BO)
    given(clone, fresh)
    sharing.written(clone, "dev", fresh)
    assert live_file.at(path).base == version(8, me) and live_file.at(path).generation == 4

    given(clone, Shared(version(9, BO), flown(), base=version(8, me)))
    with pytest.raises(Retryable, match="another clone replaced"):
        sharing.shared(clone, "dev", sharing.KEEP)
    assert live_file.at(path).power == off
    sharing.shared(clone, "dev", "")
    assert not live_file.at(path).power


def test_a_writer_in_this_clone_forgets_nothing_of_what_the_state_has(clone: Path) -> None:
    """Between its reading and its writing, an `up` has told what it put there."""
    path = clone / ".state" / "dev.live.json"
    read = live_file.write(path, flown(), 0)
    me = live_file.identity(path.parent)
    sharing.written(clone, "dev", Shared(version(2, me), read))
    sharing.written(clone, "dev", Shared(version(1, me), read))
    live_file.applied(path, read.model_copy(update={"unapplied": ()}))
    assert live_file.write(path, read, 1).base == version(2, me)
    with pytest.raises(Retryable):
        live_file.applied(path, read)


def test_what_the_state_has_is_noted_before_anything_was_decided(clone: Path) -> None:
    path = clone / ".state" / "dev.live.json"
    sharing.written(clone, "dev", Shared(version(1, live_file.identity(path.parent)), Layer(), leader()))
    first = live_file.read(path, "lab", "dev")
    assert (first.fleet, first.stack, first.generation) == ("lab", "dev", 0)
    assert live_file.write(path, first, 0).base == first.base == version(1, live_file.identity(path.parent))
    assert live_file.read(path, "lab", "dev").generation == 1


def test_the_layer_of_another_stack_is_refused(clone: Path) -> None:
    given(clone, Shared(version(7, BO), flown().model_copy(update={"stack": "prod"})))
    with pytest.raises(Refused, match="it is of stack prod"):
        sharing.shared(clone, "dev", "")


def test_other_stacks_read_no_state(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone / "stacks" / "dev.yaml").write_text("fleet: lab\n")
    monkeypatch.setattr(checkpoint, "read", lambda *_: pytest.fail("it is read"))
    assert sharing.shared(clone, "dev", "") is None
    assert sharing.shared(clone, "none", "") is None


def test_a_state_in_the_clone_itself_is_shared_with_nobody(clone: Path) -> None:
    assert checkpoint.shared_by_clones(clone)
    for url, others in (("file://./.state", False), ("s3://fleet", True), ("postgres://db/fleet", True), ("file:///srv", True)):
        (clone / "Pulumi.yaml").write_text(f"name: lab\nbackend: {{url: '{url}'}}\n")
        assert checkpoint.shared_by_clones(clone) is others
    (clone / "Pulumi.yaml").write_text("name: lab\n")
    assert not checkpoint.shared_by_clones(clone)


def test_a_copy_of_a_clone_is_another_one_and_a_work_tree_of_it_is_not(clone: Path, tmp_path: Path) -> None:
    live_file.write(clone / ".state" / "dev.live.json", flown(), 0)
    mine = live_file.identity(clone / ".state")
    assert live_file.identity(clone / ".state") == mine
    copy, tree = tmp_path / "copy", tmp_path / "tree"
    shutil.copytree(clone, copy)
    assert live_file.identity(copy / ".state") != mine
    (tree / ".state").mkdir(parents=True)
    (tree / ".state" / "clone").symlink_to("/etc/hostname")  # as a merge might bring it
    live_file.carry(clone, tree)
    assert live_file.identity(tree / ".state") == mine and not (tree / ".state" / "clone").is_symlink()
    (copy / ".state" / "clone").write_text("x" * 10_000)
    assert len(live_file.identity(copy / ".state")) == 32
    (copy / ".state" / "clone").unlink()
    (copy / ".state" / "clone").symlink_to("/etc/hostname")
    with pytest.raises(Refused, match="is a link"):
        live_file.identity(copy / ".state")


def test_who_read_the_layer_before_another_clones_came_writes_nothing_over_it(clone: Path) -> None:
    """Both clones have counted on from one generation, so the number alone tells nobody."""
    path = clone / ".state" / "dev.live.json"
    live_file.identity(path.parent)
    given(clone, Shared(version(7, BO), layer(3)))
    sharing.shared(clone, "dev", "")
    mine = live_file.write(path, live_file.read(path, "lab", "dev"), 3)
    off = {"n9": NodePower(state="off", since=NOW)}
    given(clone, Shared(version(8, BO), layer(4).model_copy(update={"power": off}), base=version(7, BO)))
    sharing.shared(clone, "dev", "")
    with pytest.raises(Retryable, match="written by another process"):
        live_file.write(path, mine, mine.generation)
    with pytest.raises(Retryable, match="written by another process"):
        live_file.applied(path, mine)
    assert live_file.at(path).power == off


def test_who_may_only_read_a_clone_knows_it(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a service's account, where a person asks for the status."""
    me = live_file.identity(clone / ".state")

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("swarm_iac.live.file.os.open", denied)
    assert live_file.identity(clone / ".state") == me and live_file.has_identity(clone / ".state")


@pytest.mark.parametrize("text", [b"\x1f\x8b\x08\x00" + b"\x00" * 6 + b"\xff" * 20, b"[" * 100_000])
def test_a_state_that_is_bent_ends_no_command_with_a_traceback(clone: Path, text: bytes) -> None:
    given(clone, Shared(version(7, BO), flown()))
    file = clone.parent / "state" / ".pulumi" / "stacks" / "lab" / "dev.json"
    (file.with_name("dev.json.gz") if text[:2] == b"\x1f\x8b" else file).write_bytes(text)
    assert checkpoint.read(clone, "dev", {}) is None


def test_what_cannot_be_read_is_said_without_the_password(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone / "Pulumi.yaml").write_text("name: lab\nbackend: {url: 'postgres://fleet:hunter2@db/fleet'}\n")
    said = b'error: unable to open state database "postgres://fleet:hunter2@db/fleet?password=hunter2&x=1": no such host\n'
    done = subprocess.CompletedProcess([], 255, b"", said)
    monkeypatch.setattr(checkpoint.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(Retryable) as error:
        checkpoint.read(clone, "dev", {})
    assert "postgres://fleet:***@db/fleet?password=***&x=1" in str(error.value) and "hunter2" not in str(error.value)


def test_a_state_in_files_is_found_whatever_settings_its_address_has(clone: Path) -> None:
    """Read as no state at all, it would have no live layer, and the next `up` would take every live replica away."""
    given(clone, Shared(version(7, BO), flown()))
    file = clone / "Pulumi.yaml"
    file.write_text(file.read_text().replace("/state'", "/state?metadata=skip&no_tmp_dir=true'"))
    assert checkpoint.read(clone, "dev", {}) == Shared(version(7, BO), flown())


def test_a_state_that_is_a_pipe_or_a_device_is_not_read(clone: Path) -> None:
    """As a foreign checkout may bring one, by a link."""
    given(clone, Shared(version(7, BO), flown()))
    file = clone.parent / "state" / ".pulumi" / "stacks" / "lab" / "dev.json"
    file.unlink()
    file.symlink_to("/dev/zero")
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4_000_000_000, limit[1]))
    try:
        assert checkpoint.read(clone, "dev", {}) is None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
