"""Does every step get a result, in the machine's own words, whatever Ansible does?"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.converge import converge
from swarm_iac.converge.outcome import Outcomes, words
from swarm_iac.converge.play import inventory, write_inventory
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Plan, Step, Verb


def _step(node: str, verb: Verb, *after: str, want: dict[str, Any] | None = None) -> Step:
    return Step(id=f"{node}/{verb}", node=node, verb=verb, after=after, want=want or {})


def _told(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "ok": True, "changed": False, "skipped": False, "message": "", "changes": [], **more}


def _event(kind: str, host: str, result: dict[str, Any]) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task_action": "swarm_step", "res": result}}


def test_every_step_has_a_result() -> None:
    lines: list[str] = []
    steps = [_step("a", Verb.PREPARE), _step("a", Verb.GPUS), _step("b", Verb.PREPARE), _step("c", Verb.PREPARE)]
    outcomes = Outcomes(steps, lines.append)
    outcomes.on_event(_event("runner_on_ok", "a", {"outcomes": [_told("a/prepare", changed=True)]}))
    outcomes.on_event(_event("runner_on_ok", "a", {"outcomes": [_told("a/gpus", ok=False, message="no such card")]}))
    outcomes.on_event(_event("runner_on_unreachable", "b", {"msg": "Failed to connect to the host via ssh: No route to host"}))
    found = outcomes.finish(stopped=False, ended="failed")
    assert (found["a/prepare"].ok, found["a/prepare"].changed) == (True, True)
    assert found["a/gpus"].message == "no such card"
    assert found["b/prepare"].message == "No route to host"
    assert found["c/prepare"].message == "Ansible ended without doing it: failed"
    assert "a/gpus: failed: no such card" in lines


def test_stop_never_begins_a_step() -> None:
    stop = threading.Event()
    stop.set()
    plan = Plan(steps=(_step("a", Verb.PREPARE),))
    desired = {"a": Desired(node="a", address="local", fleet="dev")}
    found = converge(plan, desired, lineage="L", serial=1, stop=stop)
    assert (found["a/prepare"].skipped, found["a/prepare"].message) == (True, "stopped before this step")


def test_no_steps_need_no_ansible() -> None:
    assert converge(Plan(), {}, lineage="L", serial=1) == {}


def test_inventory_carries_each_host_its_own_steps(tmp_path: Path) -> None:
    steps = [_step("a", Verb.SETTINGS, want={"settings": {"sysctl": {"x": "{{ 7 }}"}}}), _step("b", Verb.STOP)]
    desired = {name: Desired(node=name, address=f"root@{name}:22", fleet="dev") for name in "ab"}
    found = inventory(tmp_path, steps, desired, Path("/x/ssh config"), {"lineage": "L", "serial": 3})
    hosts = found["all"]["hosts"]
    assert list(hosts["a"]["swarm_steps"]) == ["settings"]
    assert hosts["b"]["ansible_port"] == 22
    assert hosts["b"]["ansible_ssh_common_args"].endswith("-F '/x/ssh config'")
    written = json.loads(write_inventory(tmp_path, found).read_text())
    want = written["all"]["hosts"]["a"]["swarm_steps"]["settings"][0]["want"]
    assert want["settings"]["sysctl"]["x"] == {"__ansible_unsafe": "{{ 7 }}"}


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ({"msg": "Task failed: Module failed: it is on fire"}, "it is on fire"),
        ({"module_stderr": "Traceback (most recent call last):\n  x\nValueError: bad"}, "ValueError: bad"),
        ({}, "no reason was given"),
    ],
)
def test_words_without_noise(result: dict[str, Any], wanted: str) -> None:
    assert words(result) == wanted
