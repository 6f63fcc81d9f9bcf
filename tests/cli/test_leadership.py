"""Does an autopilot lead only while its lease is certain, whatever clocks, the state and other runs do?"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from swarm_iac.cli import engine, live_sharing
from swarm_iac.cli.application import application
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.live_sharing import Leadership
from swarm_iac.cli.machines import autopilot_loop as loop
from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.live import file as live_file
from swarm_iac.live import sharing
from swarm_iac.live.layer import Layer, NodePower, Version
from swarm_iac.live.shared import Leader, Shared, refusal
from swarm_iac.run_options import VARIABLES

BO = "b" * 32


class State:
    """What the state has, as the program and the provider would write it. `wall`, `steady`: clocks [s]."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.there: Shared | None = None
        self.wall, self.steady = 1_800_000_000.0, 1000.0
        self.pushes: list[str] = []
        self.said: list[str] = []
        self.locked = self.away = False
        (root / "stacks").mkdir()
        (root / "stacks" / "dev.yaml").write_text("scale")
        (root / "Pulumi.yaml").write_text("name: lab\nbackend: {url: 's3://fleet'}\n")
        monkeypatch.setattr(live_sharing, "_steady", lambda: self.steady)
        monkeypatch.setattr(live_sharing.time, "time", lambda: self.wall)
        monkeypatch.setattr(live_sharing, "read", self.read)
        monkeypatch.setattr("swarm_iac.live.checkpoint.read", lambda *_: self.there)
        monkeypatch.setattr(engine, "pulumi", self.up)

    def read(self, root: Path, name: str) -> Shared | None:
        if self.away:
            raise Retryable("the state cannot be read")
        return self.there

    def up(self, root: Path, name: str, words: list[str], *_: Any, more: dict[str, str], **__: Any) -> Any:
        assert words[-2:] == ["--target", "**Live**"] and more["SWARM_OFFLINE"] == "1"
        if self.locked:
            raise Retryable("stack dev is being changed by cy@desk")
        share = more[VARIABLES["share"]]
        self.pushes.append(share)
        fresh = sharing.shared(root, name, share)
        assert fresh
        if why := refusal(self.there, fresh, self.wall):
            return subprocess.CompletedProcess([], 1, f"x\n  error: {why}\nerror: update failed")
        self.there = fresh
        sharing.written(root, name, fresh)
        return subprocess.CompletedProcess([], 0, "")

    def lead(self, lease: float = 600.0, **more: Any) -> Leadership:
        return Leadership(self.root, "dev", self.said.append, lease, **more)

    def other(self, **more: Any) -> Leader:
        """Another clone takes it."""
        number = self.there.version.number + 1 if self.there else 1
        values = {"id": BO, "who": "attic process 9", "at": self.wall, "lease": 600.0} | more
        leader = Leader.model_validate(values)
        self.there = Shared(Version(number=number, writer=BO), Layer(fleet="lab", stack="dev", generation=number), leader)
        return leader

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    @property
    def path(self) -> Path:
        return self.root / ".state" / "dev.live.json"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    return State(tmp_path, monkeypatch)


def test_the_lease_is_taken_once_and_renewed_after_half_of_it(state: State) -> None:
    one = state.lead()
    for _ in range(3):
        one.begin()
        one.settle()
        state.passes(5)
    assert len(state.pushes) == 1 and state.there and state.there.leader and state.there.leader.lease == 600
    live_file.write(state.path, live_file.read(state.path, "lab", "dev"), 0)
    one.settle()
    assert len(state.pushes) == 2, "what was decided is told at once"
    one.settle()
    state.passes(295)
    one.settle()
    assert len(state.pushes) == 2
    state.passes(10)
    assert one.due
    one.settle()
    assert len(state.pushes) == 3 and state.there.leader.at == state.wall


def test_who_cannot_renew_it_decides_nothing_well_before_it_ends(state: State) -> None:
    one = state.lead()
    one.begin()
    state.locked = True
    state.passes(400)
    one.begin()
    one.settle()
    one.settle()
    assert state.said == ["shared later: stack dev is being changed by cy@desk"], "once"
    state.passes(79)
    one.begin()
    state.passes(2)
    with pytest.raises(Retryable, match="stack dev is being changed by cy@desk"):
        one.begin()
    assert state.there and state.there.leader and state.there.leader.left(state.wall) > 100, "nobody else leads yet"
    with pytest.raises(Retryable):
        one.begin()
    state.locked = False
    one.begin()
    assert state.there.leader.at == state.wall


def test_an_up_that_took_long_renewed_it_when_it_began(state: State) -> None:
    one = state.lead()
    one.begin()
    one.variables()
    state.passes(500)
    one.pushed(0)
    one.begin()
    assert len(state.pushes) == 2, "it is nearly over"


def test_a_state_that_cannot_be_read_for_a_while_ends_no_lease(state: State) -> None:
    one = state.lead()
    one.begin()
    state.away = True
    state.passes(60)
    one.begin()
    other = state.lead()
    with pytest.raises(Retryable, match="cannot be read"):
        other.begin()


def test_who_was_overtaken_takes_what_the_other_wrote_and_waits(state: State) -> None:
    one = state.lead()
    one.begin()
    state.passes(40)
    state.other()
    with pytest.raises(Retryable, match="another autopilot leads: attic process 9, until"):
        one.begin()
    assert live_file.at(state.path).generation == 2
    assert len(state.pushes) == 1
    state.passes(601)
    one.begin()
    assert state.there and state.there.leader and state.there.leader.id != BO, "it has lapsed"


def test_an_old_export_that_is_imported_replaces_nothing_and_is_put_right(state: State) -> None:
    one = state.lead()
    one.begin()
    old = state.there
    for number in range(3):
        live_file.write(state.path, live_file.read(state.path, "lab", "dev"), number)
        one.settle()
    assert state.there and old and state.there.version.number == 4
    state.there = old
    state.passes(31)
    one.begin()
    assert live_file.at(state.path).generation == 3
    one.settle()
    assert state.there.layer.generation == 3 and state.there.version.number == 5, "above all that any clone knows"


def test_one_between_two_readings_of_the_state_is_refused_by_the_state_itself(state: State) -> None:
    one = state.lead()
    one.begin()
    state.passes(5)
    state.other()
    one.begin()
    live_file.write(state.path, live_file.read(state.path, "lab", "dev"), 0)
    before = state.there
    with pytest.raises(Retryable, match="another clone replaced"):
        one.tell()
    assert state.there == before
    with pytest.raises(Retryable, match="another autopilot leads"):
        one.confirm()


def test_a_clock_that_is_wrong_delays_by_one_lease_and_no_longer(state: State) -> None:
    """Whether it was set forward there, or back here."""
    state.other(at=state.wall + 5000)
    one = state.lead()
    for _ in range(3):
        with pytest.raises(Retryable, match="another autopilot leads"):
            one.begin()
        state.passes(199)
    state.passes(4)
    one.begin()
    assert state.there and state.there.leader and state.there.leader.id != BO


def test_one_that_renews_under_a_wrong_clock_is_left_alone(state: State) -> None:
    one = state.lead()
    for _ in range(6):
        state.other(at=state.wall + 5000)
        with pytest.raises(Retryable, match="another autopilot leads"):
            one.begin()
        state.passes(200)


def test_it_is_released_at_the_end_and_one_of_a_single_decision_takes_none(state: State) -> None:
    one = state.lead()
    one.begin()
    one.end()
    one.end()
    assert state.pushes[1:] == ["release"] and state.there and state.there.leader is None
    single = state.lead(leads=False)
    single.begin()
    single.settle()
    single.end()
    assert len(state.pushes) == 2 and single.variables() == {"SWARM_SHARE_LAYER": "keep"}
    state.other()
    with pytest.raises(Retryable, match="another autopilot leads"):
        state.lead(leads=False).begin()


def test_a_foreign_checkout_names_no_backend_that_is_asked(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is changed by commands of this clone is; what a checkout brings under that name proves nothing."""
    state.other()
    asked: list[Path] = []
    monkeypatch.setattr(live_sharing, "_FRESH", 0.0)
    monkeypatch.setattr(live_sharing, "read", lambda root, name: asked.append(root) or state.there)
    folder = state.root / ".state"
    folder.mkdir()
    for brought in (None, b"", b"\xff" * 300, b"c" * 32 + b" 1\n", (f"{'c' * 32} {folder.stat().st_ino}\n").encode()):
        if brought is not None:
            (folder / "clone").write_bytes(brought)
        live_sharing.fetch(state.root, "dev", print)
    assert not asked and not state.path.exists()
    live_sharing.fetch(state.root, "dev", print, changing=True)
    assert asked and live_file.at(state.path).grants == () and live_file.at(state.path).generation == 1
    live_sharing.fetch(state.root, "dev", print)
    assert len(asked) == 2


def test_who_cannot_decide_takes_no_lease(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a clone with the files of now can lead."""
    one = loop.Autopilot(state.root, "dev", lambda stack: {}, state.said.append, leadership=state.lead())
    with pytest.raises(SwarmError):  # its stack file is none
        one.once()
    assert not state.pushes


def test_who_cannot_use_what_is_live_renews_no_lease(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would keep others from leading for ever, and decide nothing itself. A fleet was renamed here, for instance."""
    decided = SimpleNamespace(stack=SimpleNamespace(fleet="renamed"))
    monkeypatch.setattr(loop.Autopilot, "_decision", lambda self: decided)
    live_file.write(state.path, Layer(fleet="lab", stack="dev"), 0)
    one = loop.Autopilot(state.root, "dev", lambda stack: {}, state.said.append, leadership=state.lead())
    for _ in range(3):
        with pytest.raises(Refused, match="is of stack dev of fleet lab"):
            one.once()
        state.passes(600)
    assert not state.pushes


def test_a_state_of_one_clone_alone_costs_nothing(state: State) -> None:
    (state.root / "Pulumi.yaml").write_text("name: lab\nbackend: {url: 'file://./.state'}\n")
    one = state.lead()
    one.begin()
    live_file.write(state.path, Layer(fleet="lab", stack="dev"), 0)
    one.settle()
    one.end()
    assert not state.pushes and not one.due


def test_what_another_clone_told_meanwhile_is_not_taken_for_what_was_written_here(state: State) -> None:
    """A colleague's `up`, which has powered a node on, counts the generation on as this autopilot does."""
    one = state.lead()
    one.begin()
    live_file.write(state.path, live_file.read(state.path, "lab", "dev"), 0)
    before = state.there
    assert before and before.leader
    told = Layer(fleet="lab", stack="dev", generation=1, power={"n1": NodePower(state="resuming", since=state.wall)})
    state.there = Shared(Version(number=2, writer=BO), told, before.leader, base=before.version)
    with pytest.raises(Retryable, match="another clone replaced"):
        one.confirm()
    assert live_file.at(state.path).power == told.power


def test_an_up_leaves_out_no_node_that_it_has_just_powered_on(state: State) -> None:
    off = {"n1": NodePower(state="off", since=state.wall)}
    lead = state.other()
    assert state.there
    state.there = Shared(state.there.version, state.there.layer.model_copy(update={"power": off}), lead)
    live_sharing.fetch(state.root, "dev", print, changing=True)
    assert live_sharing.of_up(state.root, "dev") == {}
    live_file.update(state.path, "lab", "dev", lambda layer: layer.model_copy(update={"power": {}}))
    assert live_sharing.of_up(state.root, "dev") == {"SWARM_SHARE_LAYER": "keep"}
    version = state.there.version
    state.there = Shared(Version(number=version.number + 1, writer=BO), state.there.layer, lead, base=version)
    with pytest.raises(Retryable, match="with n1 asleep"):
        live_sharing.of_up(state.root, "dev")


def test_a_clone_that_may_not_be_written_says_so_and_nothing_ends(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    state.other()

    def denied(*_: Any) -> bool:
        raise SwarmError(".state/dev.live.writing: Permission denied")

    monkeypatch.setattr("swarm_iac.live.checkpoint.taken", denied)
    live_sharing.fetch(state.root, "dev", state.said.append, changing=True)
    assert state.said == ["what is live is as last known here: .state/dev.live.writing: Permission denied"]


@pytest.mark.parametrize("words", ["plan --offline", "status --offline", "ps --offline", "why a --offline", "solve --offline"])
def test_a_command_that_is_offline_asks_no_backend(words: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(deciding, "fetch", lambda *_, **__: asked.append(words))
    monkeypatch.chdir(root)
    command, *more = words.split()
    stack = ["--stack", "lab"] if command == "why" else ["lab"]
    found = CliRunner().invoke(application(), [command, *more, *stack])
    assert found.exit_code == 0, found.output
    assert not asked
