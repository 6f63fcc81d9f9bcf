"""Does one step's failure stay its own?"""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

from swarm_node.program import step
from swarm_node.records import ledger

GUARD = {"fleet": "dev", "lineage": "L1", "serial": 1}


def _step(name: str, power: int, *after: str) -> dict[str, Any]:
    return {"id": name, "allocation": "", "want": {"gpus": {"0": {"power_w": power}}}, "after": list(after)}


def test_failure_skips_only_who_waits_for_it(machine: Path, nvml: Any) -> None:
    steps = [_step("a", 900), _step("b", 600), _step("c", 500, "a"), _step("d", 500, "z")]
    answer = step.perform({"verb": "gpus", "steps": steps, "guard": GUARD, "failed": ["z"]}, root=str(machine))
    told = {one["id"]: (one["ok"], one["skipped"], one["message"]) for one in answer["results"]}
    assert told["a"][2].startswith("power_limit 900 W is outside")
    assert told["b"] == (True, False, "")
    assert told["c"] == (False, True, "waits for a, which failed")
    assert told["d"] == (False, True, "waits for z, which failed")
    assert ledger.load(str(machine)).get("gpus", "0") == {"power_w": 600}


def test_steps_of_several_kinds_go_in_one_call_each_with_its_own_verb(machine: Path, nvml: Any) -> None:
    power, unknown = {**_step("a", 600), "verb": "gpus"}, {**_step("b", 500), "verb": "perform"}
    bent = {**_step("c", 500), "verb": ["gpus"]}
    rest = {"id": "d", "allocation": "", "verb": "settings", "want": {"settings": {}}, "after": ["a"]}
    waits = {**_step("e", 500, "b"), "verb": "gpus"}
    steps = [power, unknown, bent, _step("f", 500), rest, waits]
    results = step.perform({"steps": steps, "guard": GUARD}, root=str(machine), apart=True)["results"]
    told = {one["id"]: one["message"] for one in results if not one["ok"]}
    assert told == {
        "b": "'perform' is no kind of step", "c": "\"['gpus']\" is no kind of step", "f": "'None' is no kind of step",
        "e": "waits for b, which failed",
    }  # fmt: skip
    assert ledger.load(str(machine)).get("gpus", "0") == {"power_w": 600}, "nothing else was done"


def test_a_refused_guard_never_touches_a_card(machine: Path, nvml: Any) -> None:
    step.perform({"verb": "gpus", "steps": [_step("a", 600)], "guard": GUARD}, root=str(machine))
    nvml.writes.clear()
    request = {"verb": "gpus", "steps": [_step("b", 500)], "guard": dict(GUARD, lineage="L2")}
    answer = step.perform(request, root=str(machine))
    assert not answer["results"][0]["ok"]
    assert nvml.writes == []


def test_a_gpu_never_has_two_owners(machine: Path) -> None:
    with ledger.opened(check=False, root=str(machine)) as book:
        book.record("allocations", "chat-0", value={"workload": "chat", "gpus": [1, 2]})
    want = {"allocations": {"pretrain-0": {"workload": "pretrain", "gpus": [2, 3], "slice": {}}}}
    request = {"verb": "slice", "steps": [{"id": "x", "allocation": "pretrain-0", "want": want}], "guard": GUARD}
    answer = step.perform(request, root=str(machine))
    assert answer["results"][0]["message"] == "gpu 2 is held by chat-0; it must be released first"


def test_a_gpu_that_a_foreign_process_uses_is_not_taken(machine: Path, nvml: Any) -> None:
    nvml.cards[0]["pids"] = (4321,)
    (machine / "proc/4321").mkdir()
    (machine / "proc/4321/cgroup").write_text("0::/user.slice/user-1000.slice/session-3.scope\n")
    want = {"allocations": {"pretrain-0": {"workload": "pretrain", "gpus": [1], "slice": {}}}}
    request = {"verb": "slice", "steps": [{"id": "x", "allocation": "pretrain-0", "want": want}], "guard": GUARD}
    answer = step.perform(request, root=str(machine))
    assert re.match(r"gpu 1 .* is in use by pid 4321 \(", answer["results"][0]["message"])
    assert ledger.load(str(machine)).get("allocations", "pretrain-0") is None, "nothing was claimed"


def test_a_full_disk_is_told_in_plain_words_and_nothing_is_changed(machine: Path, nvml: Any, monkeypatch: Any) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = step.perform({"verb": "gpus", "steps": [_step("a", 600)], "guard": GUARD}, root=str(machine))
    assert answer["results"][0]["message"] == "the disk is full"
    assert nvml.writes == []


def test_results_are_told_although_the_audit_cannot_be_written(machine: Path, nvml: Any) -> None:
    (machine / "var/lib/swarm/audit.jsonl").mkdir(parents=True)
    answer = step.perform({"verb": "gpus", "steps": [_step("a", 600)], "guard": GUARD}, root=str(machine))
    assert answer["results"][0]["ok"]


def test_only_what_a_roll_out_tried_in_vain_is_remembered_until_it_succeeds(machine: Path, nvml: Any) -> None:
    def tried(watts: int, rollout: bool) -> Any:
        sets = {"gpus[0].power_w": watts}
        one = {**_step("a", watts), "sets": sets, "rollout": rollout}
        step.perform({"verb": "gpus", "steps": [one], "guard": GUARD}, root=str(machine))
        return ledger.load(str(machine)).data["rollout_failures"]

    assert tried(900, rollout=False) == {}, "nobody waits for it"
    found = tried(900, rollout=True)["gpus[0].power_w"]
    assert (found["value"], found["serial"]) == (900, 1) and found["why"].startswith("power_limit 900 W is outside")
    assert tried(600, rollout=False) == {}, "it has been set"
    other = dict(GUARD, lineage="L2")
    step.perform(
        {"verb": "gpus", "steps": [{**_step("a", 900), "sets": {"x": 1}, "rollout": True}], "guard": other}, root=str(machine)
    )
    assert ledger.load(str(machine)).data["rollout_failures"] == {}, "who was refused tried nothing"


def test_a_ledger_of_an_earlier_version_keeps_what_failed(machine: Path) -> None:
    failed = {"gpus[0].power_w": {"value": 1, "why": "no", "serial": 1}}
    path = machine / ledger.LEDGER.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"lineage": "L1", "serial": 1, "fleet": "dev", "setbacks": failed}))
    assert ledger.load(str(machine)).data["rollout_failures"] == failed
    assert "setbacks" not in ledger.load(str(machine)).data


def test_a_card_that_fails_in_a_roll_out_puts_the_settings_of_the_same_run_back(machine: Path, nvml: Any) -> None:
    def asked(verb: str, want: dict[str, Any], serial: int) -> dict[str, Any]:
        one = {"id": verb, "want": want, "sets": {verb: 1}, "rollout": True}
        request = {"verb": verb, "steps": [one], "guard": dict(GUARD, serial=serial)}
        found: dict[str, Any] = step.perform(request, root=str(machine))["results"][0]
        return found

    swappiness = machine / "proc/sys/vm/swappiness"
    asked("settings", {"settings": {"sysctl": {"vm.swappiness": "10"}}}, 1)
    asked("settings", {"settings": {"sysctl": {"vm.swappiness": "20"}}}, 2)
    failed = asked("gpus", {"gpus": {"0": {"power_w": 900}}}, 2)
    assert failed["message"].endswith("; its settings put back too") and swappiness.read_text() == "10"
    assert ledger.load(str(machine)).get("settings") == {"sysctl": {"vm.swappiness": "10"}}
    asked("settings", {"settings": {"sysctl": {"vm.swappiness": "30"}}}, 3)
    asked("gpus", {"gpus": {"0": {"power_w": 900}}}, 4)
    assert swappiness.read_text() == "30", "what an earlier run finished stays"
