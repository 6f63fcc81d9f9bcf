"""No node reads a file of the controller, sets a variable, or changes what is done to another node.

Fails on 3f04825: `ansible_facts` of a node became variables, so the next verb's lookup sent it any file that it named.
The other two tests hold there too; they keep what a module returns from ever meaning more.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from swarm_iac import assets
from swarm_iac.model.step import Step, StepResult, Verb
from tests.hostile.conftest import Nodes

pytestmark = pytest.mark.engine

#: A module that keeps what it is sent. What the nodes in `bad` answer stands there, or is added to what is honest.
MODULE = """
import base64, json, sys
sent = json.load(open(sys.argv[1]))
steps = sent["steps"] if isinstance(sent["steps"], list) else json.loads(base64.b64decode(sent["steps"]))["steps"]
with open({seen!r} + "." + steps[0]["id"].replace("/", "-"), "w") as file:
    json.dump(sent, file)
outcomes = [{{"id": one["id"], "ok": True, "changed": False, "skipped": False, "message": "", "changes": []}} for one in steps]
with open({bad!r}) as file:
    bad = json.load(file).get(steps[0]["id"].split("/")[0], {{}})
if isinstance(bad, str):
    sys.stdout.write(bad)
else:
    print(json.dumps(dict({{"changed": False, "outcomes": outcomes}}, **bad)))
"""


def run(folder: Path, nodes: Nodes, bad: dict[str, Any]) -> dict[str, StepResult]:
    """Two verbs on each node in `bad`, and on the honest node `z`, which must never notice."""
    (folder / "bad").write_text(json.dumps(bad))
    nodes.module(folder, MODULE.format(seen=str(folder / "seen"), bad=str(folder / "bad")))
    verbs = (Verb.SETTINGS, Verb.GPUS)
    found = nodes.converge(*(Step(id=f"{node}/{verb}", node=node, verb=verb) for node in (*bad, "z") for verb in verbs))
    assert found["z/settings"].ok and found["z/gpus"].ok, (found, nodes.lines)
    assert sent(folder, "z-gpus")["digest"] == "0000hostile0000" and sent(folder, "z-gpus")["failed"] == []
    return found


def sent(folder: Path, step: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"seen.{step}").read_text())
    return found


def test_a_node_never_gets_a_file_that_it_names(tmp_path: Path, nodes: Nodes) -> None:
    secret = tmp_path / "id_ed25519"
    secret.write_text("the operator's own key")
    facts = {"swarm_archive": str(secret), "swarm_digest": "x", "swarm_stop": "/nowhere"}
    found = run(tmp_path, nodes, {"a": {"ansible_facts": facts}})
    after = sent(tmp_path, "a-gpus")
    assert "operator's own key" not in json.dumps(after), "the node got a file of the controller"
    assert after["archive"] == sent(tmp_path, "z-gpus")["archive"] and base64.b64decode(after["archive"])[:2] == b"PK"
    assert all(result.ok for result in found.values()), found


def test_a_node_never_changes_what_is_done_to_another(tmp_path: Path, nodes: Nodes) -> None:
    other = {"host_name": "z", "groups": ["x"], "host_vars": {"swarm_digest": "stolen", "swarm_steps": {}}}
    bad: dict[str, Any] = {
        "a-host": {"add_host": other},
        "a-group": {"add_group": "x", "add_host": other},
        "a-many": {"results": [{"add_host": other}]},
        "a-facts": {"ansible_facts": {"swarm_failed": ["z/gpus", "z/settings"]}},
        "a-stats": {"ansible_stats": {"data": {"x": 1}, "per_host": True}},
        "a-own": {"warnings": ["x"] * 1000, "_ansible_no_log": True, "_ansible_delegated_vars": {}},
        "a-diff": {"diff": {"before": "[" * 900, "after": 7}, "outcomes": [{"id": "z/gpus", "ok": False}]},
    }
    run(tmp_path, nodes, bad)


def test_an_answer_never_ends_the_run_for_others(tmp_path: Path, nodes: Nodes) -> None:
    bad = {
        "a-deep": '{"outcomes": ' + "[" * 900 + "]" * 900 + "}",
        "a-deeper": '{"outcomes": ' + "[" * 90000 + "]" * 90000 + "}",
        "a-wide": '{"outcomes": [' + "0," * 300_000 + "0]}",
        "a-long": '{"outcomes": ["' + "x" * (6 << 20) + '"]}',
        "a-infinite": '{"outcomes": 1e999}',
        "a-object": '{"failed": true, "msg": {"a": 1}}',
        "a-words": '{"failed": true, "msg": "' + "y" * (6 << 20) + '"}',
        "a-list": "[]",
        "a-null": "null",
        "a-text": "nothing at all",
        "a-none": "",
        "a-surrogate": '{"outcomes": [{"id": "a-surrogate/settings", "ok": true, "message": "\\ud800"}]}',
    }
    found = run(tmp_path, nodes, bad)
    for node in bad.keys() - {"a-surrogate"}:
        assert not found[f"{node}/gpus"].ok and 0 < len(found[f"{node}/gpus"].message) < 1000, found[f"{node}/gpus"]


def test_no_task_reads_a_file_by_a_name_that_is_not_ours() -> None:
    for path in assets.playbooks().rglob("*.yml"):
        text = path.read_text()
        assert "lookup(" not in text and "query(" not in text, path
