"""Do steps that go straight to the node program end as by Ansible, whatever a node answers?"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.converge import converge
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Plan, Step, StepResult, Verb

#: An ssh that notes what it is asked, and answers as the file of the node says; `{}` stands for the ids of the steps.
SSH = """#!/usr/bin/python3
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
node = sys.argv[sys.argv.index("--") + 1]
asked = json.load(sys.stdin)
with (here / f"{node}.asked").open("a") as file:
    file.write(json.dumps([asked, sys.argv[-1]]) + "\\n")
how = json.loads((here / f"{node}.json").read_text())
one = how.get(asked["verb"], {})
if "exit" in one:
    print(one.get("says", ""), file=sys.stderr)
    sys.exit(one["exit"])
if "raw" in one:
    sys.stdout.write(one["raw"] * one.get("times", 1))
    sys.exit()
results = []
for step in asked["steps"]:
    failed = [name for name in step["after"] if name in asked["failed"]]
    base = {"id": step["id"], "ok": not failed, "changed": True, "skipped": bool(failed), "message": "", "changes": []}
    results.append({**base, **one.get("result", {})})
json.dump({"results": results}, sys.stdout)
"""


def step(node: str, verb: Verb, *after: str) -> Step:
    return Step(id=f"{node}/{verb}/chat-2", node=node, verb=verb, allocation="chat-2", after=after)


def chain(node: str) -> tuple[Step, ...]:
    found: list[Step] = []
    for verb in (Verb.SLICE, Verb.START, Verb.HEALTH):
        found.append(step(node, verb, *(one.id for one in found[-1:])))
    return tuple(found)


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str = SSH, **nodes: dict[str, Any]) -> dict[str, StepResult]:
    ssh = folder / "ssh"
    ssh.write_text(script)
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for node, how in nodes.items():
        (folder / f"{node}.json").write_text(json.dumps(how))
    desired = {node: Desired(node=node, address=f"root@{node}", fleet="lab") for node in nodes}
    steps = tuple(one for node in nodes for one in chain(node))
    return converge(Plan(steps=steps), desired, lineage="L", serial=7, run="r", who="ada", directly=True)


def asked(folder: Path, node: str) -> list[Any]:
    return [json.loads(line) for line in (folder / f"{node}.asked").read_text().splitlines()]


def test_a_node_is_asked_for_one_verb_after_the_other_as_by_ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(tmp_path, monkeypatch, a={}, b={})
    assert len(found) == 6 and all(one.ok and one.changed for one in found.values())
    requests = [request for request, _ in asked(tmp_path, "a")]
    assert [one["verb"] for one in requests] == ["slice", "start", "health"]
    assert requests[0]["guard"] == {"fleet": "lab", "lineage": "L", "serial": 7, "run": "r"}
    assert requests[0]["run"] == {"who": "ada", "commit": ""} and requests[0]["check"] is False
    assert requests[1]["steps"][0] | {"waited": 0} == {
        "id": "a/start/chat-2", "allocation": "chat-2", "want": {}, "after": ["a/slice/chat-2"], "waited": 0,
    }  # fmt: skip
    assert asked(tmp_path, "a")[0][1].endswith(" step")


def test_what_waits_for_a_failed_step_is_not_done_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(tmp_path, monkeypatch, a={"slice": {"result": {"ok": False, "message": "no such card"}}}, b={})
    assert found["a/slice/chat-2"].message == "no such card" and found["a/start/chat-2"].skipped
    assert all(found[f"b/{verb}/chat-2"].ok for verb in ("slice", "start", "health"))


def test_a_step_that_is_pending_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = SSH.replace('one = how.get', 'how = {} if len(list(here.glob("*.asked"))) and (here / "again").exists() else how\n'
                         'asked["verb"] == "health" and (here / "again").touch()\none = how.get')  # fmt: skip
    found = run(tmp_path, monkeypatch, script, a={"health": {"result": {"ok": True, "pending": True, "message": "starting"}}})
    assert [request["verb"] for request, _ in asked(tmp_path, "a")] == ["slice", "start", "health", "health"]
    assert all(one.ok and not one.pending for one in found.values())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"exit": 255, "says": "ssh: connect to host a: No route to host"}, "No route to host"),
        ({"exit": 113}, "the node program is not installed there"),
        ({"exit": 2}, "exit status 2"),
        ({"exit": 1, "says": "\x1b[2J\x1b]0;x\x07gone"}, "gone"),
        ({"raw": "hello"}, "is not JSON"),
        ({"raw": ""}, "is not JSON"),
        ({"raw": "[" * 100_000}, "nested too deep"),
        ({"raw": "x" * 1000, "times": 6000}, "larger than"),
        ({"raw": "[]"}, "exit status 0"),
        ({"raw": '{"results": 3}'}, "gave no outcome"),
        ({"raw": '{"results": [{"id": "b/slice/chat-2", "ok": true}]}'}, "gave no outcome"),
        ({"raw": '{"results": [{"id": "a/slice/chat-2", "ok": "yes", "changes": 3}]}'}, "not understood"),
    ],
    ids=range(12),
)
def test_no_answer_passes_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], words: str
) -> None:
    found = run(tmp_path, monkeypatch, a={"slice": how}, b={"start": {"result": {"ok": False, "message": "b itself"}}})
    assert not found["a/slice/chat-2"].ok and words in found["a/slice/chat-2"].message
    assert found["a/slice/chat-2"].message.isprintable()
    assert not found["a/start/chat-2"].ok and not found["a/health/chat-2"].ok
    assert found["b/slice/chat-2"].ok and found["b/start/chat-2"].message == "b itself", "and no node speaks for another"
