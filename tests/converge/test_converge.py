"""Does every step get a result, in the machine's own words, whatever Ansible does?"""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.converge import converge
from swarm_iac.converge.converge import _Course
from swarm_iac.converge.outcome import Outcomes, words
from swarm_iac.converge.play import inventory, write_inventory
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Plan, Step, StepResult, Verb


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
    found = outcomes.finish(stopped=False, ended="Ansible was killed by a signal before this was done")
    assert (found["a/prepare"].ok, found["a/prepare"].changed) == (True, True)
    assert found["a/gpus"].message == "no such card"
    assert found["b/prepare"].message == "No route to host"
    assert found["c/prepare"].message == "Ansible was killed by a signal before this was done"
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
    found = inventory(tmp_path, steps, desired, Path("/x/ssh config"), {"lineage": "L", "serial": 3}, {"b/stop": 5.04})
    hosts = found["all"]["hosts"]
    assert list(hosts["a"]["swarm_steps"]) == ["settings"]
    assert _carried(hosts["b"]["swarm_steps"]["stop"])["steps"][0]["waited"] == 5.0
    assert hosts["b"]["ansible_port"] == 22
    assert hosts["b"]["ansible_ssh_common_args"].endswith("-F '/x/ssh config'")
    written = json.loads(write_inventory(tmp_path, found).read_text())
    asked = _carried(written["all"]["hosts"]["a"]["swarm_steps"]["settings"])
    assert asked["steps"][0]["want"]["settings"]["sysctl"]["x"] == "{{ 7 }}"
    assert asked["guard"] == {"lineage": "L", "serial": 3, "fleet": "dev"}


def _carried(text: str) -> Any:
    """What only the module decodes."""
    return json.loads(base64.b64decode(text))


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ({"msg": "Task failed: Module failed: it is on fire"}, "it is on fire"),
        ({"module_stderr": "Traceback (most recent call last):\n  x\nValueError: bad"}, "ValueError: bad"),
        (
            {"msg": "Mitogen was disconnected from the remote environment while a call was in-progress. Original error was: x"},
            "the connection was cut while the node was at work on it, or it said too much",
        ),
        (
            {"msg": "builtins.OSError: [Errno 28] No space left on device: '/root/.ansible/tmp/x'\n  File \"<stdin>\", line 4"},
            "/root/.ansible/tmp/x: the disk is full",
        ),
        ({"msg": "Unexpected failure: [Errno 30] Read-only file system"}, "the file system is read-only"),
        (
            {
                "msg": 'builtins.KeyError: \'x\'\n  File "<stdin>", line 4009, in _dispatch_one\n  File "master:/y", line 3, in z'
            },
            "'x'",
        ),
        ({}, "no reason was given"),
    ],
)
def test_words_without_noise(result: dict[str, Any], wanted: str) -> None:
    assert words(result) == wanted


def _course(*steps: Step) -> tuple[_Course, list[str]]:
    lines: list[str] = []
    return _Course(Plan(steps=steps), lines.append), lines


def _ids(steps: list[Step]) -> list[str]:
    return [step.id for step in steps]


def test_a_long_stop_delays_only_who_waits_for_it() -> None:
    course, _ = _course(
        _step("a", Verb.STOP), _step("a", Verb.RELEASE, "a/stop"), _step("b", Verb.STOP),
        _step("b", Verb.SLICE, "b/stop"), _step("c", Verb.SLICE, "a/release"),
    )  # fmt: skip
    go_on = threading.Event()
    assert _ids(course.next(go_on)) == ["a/stop", "a/release", "b/stop", "b/slice"], "what a node does by itself is one run"
    skipped = StepResult(id="a/release", ok=False, skipped=True, message="waits for a/stop, which failed")
    course.take(
        {
            "a/stop": StepResult(id="a/stop", ok=False, pending=True, message="still stopping"),
            "a/release": skipped,
            "b/stop": StepResult(id="b/stop", ok=True),
            "b/slice": StepResult(id="b/slice", ok=True),
        }
    )
    assert _ids(course.next(go_on)) == ["a/stop", "a/release"] and course.done.keys() == {"b/stop", "b/slice"}
    course.take({"a/stop": StepResult(id="a/stop", ok=True), "a/release": StepResult(id="a/release", ok=True)})
    assert _ids(course.next(go_on)) == ["c/slice"]


def test_a_failure_bars_who_waits_for_it_by_name_and_nobody_else() -> None:
    course, lines = _course(_step("a", Verb.STOP), _step("b", Verb.SLICE, "a/stop"), _step("b", Verb.START, "b/slice"))
    course.next(threading.Event())
    course.take({"a/stop": StepResult(id="a/stop", ok=False, message="it does not end")})
    assert course.next(threading.Event()) == []
    assert course.done["b/slice"].message == "waits for a/stop, which failed"
    assert course.done["b/start"].message == "waits for b/slice, which failed"
    assert "b/slice: not done: waits for a/stop, which failed" in lines


def test_an_interrupt_leaves_what_was_begun_to_the_next_run() -> None:
    course, _ = _course(_step("a", Verb.STOP), _step("b", Verb.SLICE, "a/stop"))
    stop = threading.Event()
    course.next(stop)
    course.take({"a/stop": StepResult(id="a/stop", ok=False, pending=True)})
    stop.set()
    assert course.next(stop) == []
    assert course.done["a/stop"].message == "stopped before its end; the next run goes on"
    assert course.done["b/slice"].message == "stopped before this step"
