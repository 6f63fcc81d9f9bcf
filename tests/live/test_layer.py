"""Does the live layer survive kills, clocks, strangers, and two writers?"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Grant, Layer
from swarm_iac.live.overlay import overlay, sentences
from tests.autopilot.fleet import START, TODAY, Flight, fleet


def flown() -> Flight:
    flight = Flight(fleet())
    flight.tick(chat=240)
    return flight


def written(folder: Path) -> tuple[Path, Layer]:
    path = folder / ".state" / "prod.live.json"
    return path, live_file.write(path, flown().layer.model_copy(update={"stack": "prod"}), 0)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path, layer = written(tmp_path)
    assert live_file.read(path, "test", "prod") == layer and layer.generation == 1 and len(layer.grants) == 4


def test_there_is_none_at_first(tmp_path: Path) -> None:
    assert live_file.read(tmp_path / "x.live.json", "test", "x") == Layer(fleet="test", stack="x")


def _spoilt(path: Path, change: Any) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(fleet="other"),
        lambda found: found.update(stack="other"),
        lambda found: found.update(version=2),
        lambda found: found.update(extra=1),
        lambda found: found.update(lease=1e9),
        lambda found: found.update(at=float("nan")),
        lambda found: found.update(by="\x1b[2J"),
        lambda found: found.update(generation=-1),
        lambda found: found.update(unapplied=["../../etc"]),
        lambda found: found["grants"][0].update(reason="<b>\u202e"),
        lambda found: found["grants"][0]["allocation"].update(name="chat-9"),
        lambda found: found["grants"][0]["allocation"].update(node="a b"),
        lambda found: found["grants"][0]["allocation"].update(ended=True),
        lambda found: found["grants"].append(found["grants"][0]),
        lambda found: found["certificate"].update(lock="x"),
        lambda found: found.update(power={"g1": {"state": "gone", "since": 1.0}}),
        lambda found: found.update(power={"g1": {"state": "off", "since": 1.0, "reason": "\x1b[2J"}}),
        lambda found: found.update(power={"g1": {"state": "off", "since": 1e300}}),
        lambda found: found.update(power={"--help": {"state": "off", "since": 1.0}}),
        lambda found: found.update(power={"a b": {"state": "off", "since": 1.0}}),
    ],
)
def test_what_is_no_layer_of_this_stack_is_refused(tmp_path: Path, change: Any) -> None:
    path, _ = written(tmp_path)
    _spoilt(path, change)
    with pytest.raises(Refused) as caught:
        live_file.read(path, "test", "prod")
    assert str(caught.value).isprintable() or "\x1b" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000, b'{"generation": 1' + b"0" * 5000 + b"}"])
def test_what_is_no_document_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "prod.live.json"
    path.write_bytes(raw)
    with pytest.raises(Refused):
        live_file.read(path, "test", "prod")


def test_links_and_folders_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "prod.live.json"
    path.symlink_to("/etc/passwd")
    with pytest.raises(Refused):
        live_file.read(path, "test", "prod")
    path.unlink()
    path.mkdir()
    with pytest.raises(Refused):
        live_file.read(path, "test", "prod")
    for ending in (".log", ".leader", ".writing"):
        target = tmp_path / f"target{ending}"
        target.write_text("mine")
        path.with_suffix(ending).symlink_to(target)
    with pytest.raises(SwarmError):
        live_file.note(path, {"at": 1})
    with pytest.raises(SwarmError), live_file.leading(path):
        pass
    with pytest.raises(SwarmError):
        live_file.write(path, Layer(), 0)
    assert all(each.read_text() == "mine" for each in tmp_path.glob("target*"))


def test_second_writer_of_one_generation_is_refused(tmp_path: Path) -> None:
    path, layer = written(tmp_path)
    live_file.write(path, layer, 1)
    with pytest.raises(Retryable):
        live_file.write(path, layer, 1)
    assert live_file.read(path, "test", "prod").generation == 2


def _leads(path: Path, ready: Any) -> None:
    with live_file.leading(path) as leads:
        ready.put(leads)
        time.sleep(60)


def test_two_at_once_and_a_killed_leader_is_followed_at_once(tmp_path: Path) -> None:
    path = tmp_path / ".state" / "prod.live.json"
    context = multiprocessing.get_context("fork")
    ready = context.Queue()
    process = context.Process(target=_leads, args=(path, ready))
    process.start()
    assert ready.get(timeout=20)
    with live_file.leading(path) as leads:
        assert not leads and str(process.pid) in live_file.leader_of(path)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(20)
    began = time.monotonic()
    with live_file.leading(path) as leads:
        assert leads
    assert time.monotonic() - began < 5


def _writes(path: Path, layer: Layer) -> None:
    before = live_file.read(path, layer.fleet, layer.stack).generation
    while True:
        before = live_file.write(path, layer, before).generation
        live_file.note(path, {"at": time.time(), "generation": before})


def test_killed_anywhere_it_reads_and_goes_on(tmp_path: Path) -> None:
    path, layer = written(tmp_path)
    context = multiprocessing.get_context("fork")
    for turn in range(12):
        process = context.Process(target=_writes, args=(path, layer))
        process.start()
        time.sleep(0.05 + 0.013 * turn)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(20)
        found = live_file.read(path, "test", "prod")
        assert found.grants == layer.grants
        live_file.write(path, found, found.generation)
    log = live_file.decisions(path, 10_000)
    numbers = [one["generation"] for one in log]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) > 12


def test_log_passes_over_a_line_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "prod.live.json"
    live_file.note(path, {"at": 1, "reason": "\x1b[2J"})
    with path.with_suffix(".log").open("ab") as file:
        file.write(b'{"at": 2, "rea')
    live_file.note(path, {"at": 3})
    assert [one["at"] for one in live_file.decisions(path)] == [3, 1]
    assert "\x1b" not in json.dumps(live_file.decisions(path), ensure_ascii=False)


def test_log_is_turned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_file, "LOG_BYTES", 1000)
    path = tmp_path / "prod.live.json"
    for turn in range(200):
        live_file.note(path, {"at": turn})
    assert path.with_suffix(".log").stat().st_size < 2000 and path.with_suffix(".log.1").exists()


def test_lease_ends_and_never_lengthens() -> None:
    layer = flown().layer
    assert layer.left(START) == 600 and layer.left(START + 599) == 1 and layer.left(START - 3600) == 600
    stack, lock = flown().stack, flown().lock
    kept = overlay(stack, lock, layer, now=START + 599, today=TODAY)
    ended = overlay(stack, lock, layer, now=START + 600, today=TODAY)
    assert len(kept.live) == 4 and not kept.recalled
    assert ended.placement == lock and len(ended.recalled) == 4


def test_grant_that_is_guaranteed_by_now_is_not_counted_twice() -> None:
    flight = flown()
    both = overlay(flight.stack, flight.lock, flight.layer, now=START, today=TODAY).placement
    again = overlay(flight.stack, both, flight.layer, now=START, today=TODAY)
    assert again.placement == both and not again.live and not again.recalled


def test_forged_grant_of_devices_that_others_hold_is_called_back() -> None:
    flight = flown()
    owner = flight.lock.allocations[0]
    stolen = flight.layer.grants[0].allocation.model_copy(update={"gpus": owner.gpus, "node": owner.node})
    layer = flight.layer.model_copy(update={"grants": (Grant(allocation=stolen, reason="mine", at=START),)})
    found = overlay(flight.stack, flight.lock, layer, now=START, today=TODAY)
    assert found.placement == flight.lock and stolen.name in found.recalled


def test_plan_says_what_is_live_and_why() -> None:
    flight = flown()
    found = overlay(flight.stack, flight.lock, flight.layer, now=START + 60, today=TODAY)
    lines = sentences(found, flight.layer, START + 60)
    assert len(lines) == 4
    assert all("requests_per_replica 240" in line and "for 540 s more" in line for line in lines)
