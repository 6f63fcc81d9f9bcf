"""Does `swarm autopilot` decide what it may, show it, and leave alone what is not its own?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swarm_iac.cli.application import application
from swarm_iac.cli.machines import autopilot_loop as loop
from swarm_iac.errors import Retryable, StackFileError
from swarm_iac.live import file as live_file

STACK = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes: {n1: {hardware: h, ssh: root@n1.invalid}}
workloads:
  chat:
    user: ada
    kind: serve
    replicas: 2..6
    scale: {on: requests_per_replica, target: 40}
    each: {gpus: 1}
    run: {command: serve}
"""


def swarm(root: Path, *words: str, code: int = 0) -> str:
    before = Path.cwd()
    os.chdir(root)
    try:
        found = CliRunner().invoke(application(), list(words))
    finally:
        os.chdir(before)
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == code, found.output
    return found.stdout if "--json" in words else found.output


@pytest.fixture
def fleet(root: Path) -> Path:
    (root / "stacks" / "lab.yaml").write_text(STACK)
    swarm(root, "solve", "--stack", "lab")
    (root / "Pulumi.lab.yaml").write_text("")  # as the engine leaves it behind
    (root / "load.json").write_text('{"chat": 240}')
    return root


def pilot(root: Path) -> loop.Autopilot:
    return loop.Autopilot(root, "lab", loop.of_source(root, str(root / "load.json")), lambda text: None)


def granted(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Decided and written, as if the machines had it: what `up` does is for tests on machines."""
    monkeypatch.setattr(loop.Autopilot, "_apply", lambda self, layer, stack: None)
    monkeypatch.chdir(root)
    one = pilot(root)
    one.once()
    layer = live_file.read(one.path, "lab", "lab")
    live_file.write(one.path, layer.model_copy(update={"unapplied": ()}), layer.generation)
    return one.path


def test_dry_run_decides_and_writes_nothing(fleet: Path) -> None:
    before = sorted(fleet.rglob("*"))
    text = swarm(fleet, "autopilot", "lab", "--once", "--dry-run", "--metrics", "load.json")
    assert "chat: 2 → 6: requests_per_replica 240, target 40 per replica" in text
    found = json.loads(swarm(fleet, "autopilot", "lab", "--once", "-n", "--json", "--metrics", "load.json"))
    assert found["decided"][0]["after"] == 6 and found["nodes"] == ["n1"]
    assert sorted(fleet.rglob("*")) == before


def test_plan_shows_live_replicas_as_live_and_not_as_drift(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    granted(fleet, monkeypatch)
    text = swarm(fleet, "plan", "lab", "--offline")
    assert "live: chat-2 on n1: requests_per_replica 240" in text
    found = json.loads(swarm(fleet, "plan", "lab", "--offline", "--json"))
    assert not [step for step in found["steps"] if step["verb"] == "stop"], "up keeps what is live"
    assert found["steps"] == []
    rows = swarm(fleet, "ps", "lab", "--offline")
    assert rows.count("live") == 4 and rows.count("chat-") == 6
    shown = json.loads(swarm(fleet, "ps", "lab", "--offline", "--json"))
    assert [one["name"] for one in shown if "live" in one] == ["chat-2", "chat-3", "chat-4", "chat-5"]


def test_up_calls_back_what_a_new_range_or_guarantee_leaves_no_capacity_for(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted(fleet, monkeypatch)
    (fleet / "stacks" / "lab.yaml").write_text(STACK.replace("2..6", "2..3"))
    text = swarm(fleet, "plan", "lab", "--offline")
    assert "live: chat-3 is called back: chat has at most 3 replicas" in text
    (fleet / "stacks" / "lab.yaml").write_text(STACK + "  job: {user: ada, each: {gpus: 6}}\n")
    text = swarm(fleet, "plan", "lab", "--offline")
    assert "is called back: what is guaranteed needs its capacity" in text and "job-0" in text
    found = json.loads(swarm(fleet, "plan", "lab", "--offline", "--json"))
    stops = {step["allocation"] for step in found["steps"] if step["verb"] == "stop"}
    assert stops == {"chat-2", "chat-3", "chat-4", "chat-5"}, "and nobody else is"


def test_why_says_what_is_guaranteed_and_what_is_live(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "range: 2 replicas are guaranteed, up to 6 follow requests_per_replica 40; {} live now"
    assert line.format(0) in swarm(fleet, "why", "chat", "--stack", "lab")
    granted(fleet, monkeypatch)
    assert line.format(4) in swarm(fleet, "why", "chat", "--stack", "lab")


def test_nodes_that_left_the_stack_are_not_waited_for(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = granted(fleet, monkeypatch)
    monkeypatch.undo()
    monkeypatch.chdir(fleet)
    layer = live_file.read(path, "lab", "lab")
    gone = live_file.write(path, layer.model_copy(update={"unapplied": ("n9",), "stopping": 3}), layer.generation)
    one = pilot(fleet)
    one._apply(gone, one._decision().stack)
    layer = live_file.read(path, "lab", "lab")
    assert not layer.unapplied and not layer.stopping


def test_layer_is_no_part_of_the_lock(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = (fleet / "stacks" / "lab.lock.yaml").read_text()
    granted(fleet, monkeypatch)
    swarm(fleet, "solve", "--stack", "lab")
    assert (fleet / "stacks" / "lab.lock.yaml").read_text() == lock


def test_history_shows_decisions(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = granted(fleet, monkeypatch)
    with path.with_suffix(".log").open("a") as file:
        file.write('{"at": 1e300, "measured": "x", "workload": "\\u001b[2J"}\n[1]\n{"at')
    text = swarm(fleet, "history", "lab", "--decisions")
    assert "2 → 6" in text and "requests_per_replica 240" in text and "\x1b" not in text
    assert len(json.loads(swarm(fleet, "history", "lab", "--decisions", "--json"))) == 2


def test_stale_lock_is_left_to_a_person(fleet: Path) -> None:
    (fleet / "stacks" / "lab.yaml").write_text(STACK.replace("gpus: 1", "gpus: 2"))
    with pytest.raises(Exception, match="stale"):
        swarm(fleet, "autopilot", "lab", "--once", "--dry-run", "--metrics", "load.json")


def test_before_the_first_up_it_does_nothing(fleet: Path) -> None:
    (fleet / "Pulumi.lab.yaml").unlink()
    (fleet / "Pulumi.yaml").write_text("name: lab\nbackend: {url: file://.state}\n")
    with pytest.raises(Exception, match="nothing was ever applied"):
        swarm(fleet, "autopilot", "lab", "--once", "--dry-run")


def test_without_a_prometheus_requests_are_not_measured(fleet: Path) -> None:
    text = swarm(fleet, "autopilot", "lab", "--once", "--dry-run")
    assert "chat: 2 → 2: no change without a measurement: nodes do not measure requests_per_replica" in text


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", '{"chat": "240"}', '{"chat": 1e999}', '{"chat": -1}', '{"chat": true}', "[" * 100_000]
)
def test_what_is_no_measurement_changes_nothing(fleet: Path, text: str) -> None:
    (fleet / "load.json").write_text(text)
    try:
        assert "chat: 2 → 2: no change" in swarm(fleet, "autopilot", "lab", "--once", "-n", "--metrics", "load.json")
    except Exception as error:
        assert "JSON" in str(error) or "mapping" in str(error)


@pytest.mark.parametrize("text", ["http://", "https:///x", "http:\n//a"])
def test_what_is_no_address_is_refused(fleet: Path, text: str) -> None:
    with pytest.raises(Exception, match="address of a Prometheus"):
        swarm(fleet, "autopilot", "lab", "--once", "-n", "--metrics", text)


def test_second_autopilot_waits_and_a_killed_one_is_followed(fleet: Path) -> None:
    """Real processes. The load is as it is to be, so that there is nothing for `up` to do."""
    (fleet / "load.json").write_text('{"chat": 80}')
    words = [sys.executable, "-m", "swarm_iac.cli", "autopilot", "lab", "--metrics", "load.json", "--interval", "1"]
    processes = [subprocess.Popen([*words, "--json"], cwd=fleet, stdout=subprocess.PIPE, text=True)]
    try:
        assert processes[0].stdout is not None
        assert processes[0].stdout.readline().strip().startswith("{")
        with pytest.raises(Retryable, match="another autopilot leads"):
            loop.once(pilot(fleet), lambda outcome: None)
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait(20)
        began = time.monotonic()
        processes.append(subprocess.Popen([*words, "--json"], cwd=fleet, stdout=subprocess.PIPE, text=True))
        assert processes[1].stdout is not None
        assert processes[1].stdout.readline().strip().startswith("{")
        assert time.monotonic() - began < 30
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def dry_run(fleet: Path) -> Iterator[subprocess.Popen[str]]:
    """An autopilot that has decided once, and changes nothing."""
    words = [sys.executable, "-m", "swarm_iac.cli", "autopilot", "lab", "--metrics", "load.json", "--dry-run", "--json"]
    with subprocess.Popen(words, cwd=fleet, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_dry_run_keeps_nobody_from_leading(fleet: Path) -> None:
    with dry_run(fleet), live_file.leading(pilot(fleet).path) as leads:
        assert leads


def test_terminated_it_ends_by_itself(fleet: Path) -> None:
    with dry_run(fleet) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


VARIED = STACK.replace("each: {gpus: 1}", "each: {vcpus: 1}\n    variants: {bf16: {each: {gpus: 2}}, int8: {each: {gpus: 1}}}")
TRAIN = "  train: {user: ada, kind: train, each: {gpus: %d}, run: {command: train}}\n"


@pytest.mark.parametrize(("taken", "variant", "gpus", "live"), [(3, "bf16", 2, 0), (5, "int8", 1, 1)])
def test_live_replicas_run_in_the_variant_of_the_lock_and_in_no_other(
    root: Path, taken: int, variant: str, gpus: int, live: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first case one card is free, in which int8 would fit: then one service would answer in two precisions."""
    (root / "stacks" / "lab.yaml").write_text(VARIED + TRAIN % taken)
    swarm(root, "solve", "--stack", "lab")
    (root / "Pulumi.lab.yaml").write_text("")
    (root / "load.json").write_text('{"chat": 240}')
    text = (root / "stacks" / "lab.lock.yaml").read_text()
    assert ("int8" in text) == (variant == "int8")
    monkeypatch.setattr(loop.Autopilot, "_apply", lambda self, layer, stack: None)
    one = pilot(root)
    decided = one.once().decided[0]
    grants = live_file.read(one.path, "lab", "lab").grants
    assert [len(grant.allocation.gpus) for grant in grants] == [gpus] * live
    assert decided.after == 2 + live and "find no place: nothing is moved for them" in decided.reason
    assert (root / "stacks" / "lab.lock.yaml").read_text() == text


def test_a_stack_that_is_mistyped_is_refused_at_once_and_not_waited_for(fleet: Path) -> None:
    with pytest.raises(StackFileError, match="there is no such stack") as raised:
        swarm(fleet, "autopilot", "lap", "--dry-run")
    assert "the stacks here: lab" in str(raised.value)
