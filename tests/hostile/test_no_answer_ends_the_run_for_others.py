"""No answer of one node, to a question or to a step, ends the run for the others: that node is unreadable, and no more.

Fails on 3f04825: a deep answer, a huge number or a list of 3,000,000,000 CPUs ended `up` with a traceback or took all
memory, an outcome with a wrong type ended Ansible's run, and an answer of any size was kept whole.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.converge.outcome import Outcomes
from swarm_iac.model.step import Step, Verb
from swarm_iac.observe import history, observe
from tests.hostile.conftest import Nodes

pytestmark = pytest.mark.engine

UNIT = '"unit": {"user": "ada"}'
#: Each makes its node unreadable.
BAD = {
    "empty": "",
    "words": "hello",
    "deep": "[" * 100_000,
    "deep-object": '{"state":' * 20_000 + "1" + "}" * 20_000,
    "deep-error": '{"error": ' + "[" * 500 + "]" * 500 + "}",
    "list": "[]",
    "null": "null",
    "number": "7",
    "nan": '{"facts": {"memory": NaN}}',
    "infinite": '{"facts": {"memory": 1e999}}',
    "huge": '{"facts": {"memory": 1' + "0" * 400 + "}}",
    "huger": '{"facts": {"memory": 1' + "0" * 9000 + "}}",
    "clock": '{"clock": 1' + "0" * 400 + "}",
    "clock-list": '{"clock": [1]}',
    "troubles": '{"troubles": 7, "clock": 5}',
    "cpus-text": '{"state": {"allocations": {"x-0": {"workload": "x", "slice": {"cpus": "x"}, ' + UNIT + "}}}}",
    "cpus-many": '{"state": {"allocations": {"x-0": {"workload": "x", "slice": {"cpus": "0-3000000000"}, ' + UNIT + "}}}}",
    "cpus-again": '{"state": {"allocations": {"x-0": {"workload": "x", "slice": {"cpus": "'
    + "0-9999," * 99
    + '0"}, '
    + UNIT
    + "}}}}",
    "cpus-back": '{"state": {"allocations": {"x-0": {"workload": "x", "slice": {"mems": "9-1"}, ' + UNIT + "}}}}",
    "facts-cpus": '{"facts": {"cpus": 3000000000}}',
    "gpu": '{"state": {"gpus": {"-7": {}}}}',
    "serial": '{"ledger": {"lineage": "L", "fleet": "dev", "serial": 1' + "0" * 18 + "}}",
    "booted": '{"booted": 99999999999999}',
    "many": '{"foreign": [' + '"",' * 600_000 + '""]}',
    "large": '{"agent": "' + "x" * (5 << 20) + '"}',
    "type": '{"health": "x"}',
    "other": '{"nobody": "knows"}',
}
#: Odd, and within bounds: read as any other.
ODD = {"half": '{"facts": {"hostname": "\\ud800 \\ud83d\\ude00"}}', "bytes": '{"facts": {"hostname": "a\\u0000"}}'}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Targets, each answering with the file of its name."""
    for name, text in {**BAD, **ODD, "z": '{"facts": {"hostname": "z", "cpus": 8}}'}.items():
        (tmp_path / name).write_text(text)
    script = f"""#!/bin/sh
for word; do host=$word; [ "$before" = -- ] && break; before=$word; done
case $host in
  flood) exec yes x;;
  flood-err) exec yes x >&2;;
  *) exec cat {tmp_path}/"$host";;
esac
"""
    fake = tmp_path / "ssh"
    fake.write_text(script)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return {name: f"root@{name}" for name in (*BAD, *ODD, "z", "flood", "flood-err")}


def test_an_observation_is_of_one_node_alone(asked: dict[str, str]) -> None:
    found = observe(asked, timeout=60)
    assert found["z"].error == "" and found["z"].facts.cpus == 8
    told = {name: found[name].error for name in (*BAD, "flood", "flood-err")}
    assert all(0 < len(error) <= 600 for error in told.values()), told
    assert "larger than 4 MiB" in told["flood"] and "too deep" in told["deep"]
    assert "a number that is none of a machine's" in told["huge"] and "a number that is none" in told["infinite"]
    assert {found[name].error for name in ODD} == {""}
    json.dumps(found["half"].facts.hostname, ensure_ascii=False).encode()


def test_a_history_is_of_one_node_alone(asked: dict[str, str]) -> None:
    dark = history(asked, timeout=60).dark
    assert {"deep", "deep-object", "nan", "infinite", "huge", "large", "flood", "words"} <= dark.keys()


#: Memory that the reading of all of them may take beside Python itself. [bytes]
ROOM = 400 << 20


def test_a_flood_never_takes_the_controllers_memory(asked: dict[str, str]) -> None:
    """A node that answers without end is cut off, so what it costs is bounded."""
    code = f"""
import resource
from swarm_iac.observe import observe
import swarm_iac.reach.node_program as program
program.agent_digest()
before = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (before + {ROOM}, resource.RLIM_INFINITY))
found = observe({{f"flood-{{n}}": "root@flood" for n in range(4)}} | {{"z": "root@z"}}, timeout=30)
print(found["z"].facts.hostname, [len(one.error) < 600 for one in found.values()])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, env=dict(os.environ))
    assert done.stdout == "z [True, True, True, True, True]\n", done.stderr


@pytest.mark.parametrize(
    "said",
    [
        {"ok": "yes"},
        {"ok": True, "changed": 7},
        {"ok": True, "message": ["x"]},
        {"ok": True, "message": None},
        {"ok": True, "seconds": "long"},
        {"ok": True, "seconds": -1},
        {"ok": True, "changes": {"a": 1}},
        {"ok": True, "changes": [{"old": 1}]},
        {"ok": True, "changes": ["x"]},
        {},
    ],
)
def test_an_outcome_of_a_wrong_type_is_a_failure_of_its_step(said: dict[str, Any]) -> None:
    steps = [Step(id=f"{node}/gpus", node=node, verb=Verb.GPUS) for node in "az"]
    outcomes = Outcomes(steps, lambda line: None, values=True)
    for host, told in {"a": {"id": "a/gpus", **said}, "z": {"id": "z/gpus", "ok": True}}.items():
        outcomes.on_event({"event": "runner_on_ok", "event_data": {"host": host, "res": {"outcomes": [told]}}})
    found = outcomes.finish(stopped=False, ended="it ended")
    assert not found["a/gpus"].ok and "is not understood" in found["a/gpus"].message
    assert found["z/gpus"].ok


@pytest.mark.parametrize("res", [[], "x", 7, {"outcomes": [7, None, ["a"]]}, {"msg": {"x": 1}}, {"outcomes": [{"id": ["a"]}]}])
def test_an_event_of_any_shape_is_of_its_host_alone(res: Any) -> None:
    step = Step(id="a/gpus", node="a", verb=Verb.GPUS)
    outcomes = Outcomes([step], lambda line: None)
    outcomes.on_event({"event": "runner_on_failed", "event_data": {"host": "a", "res": res}})
    assert not outcomes.finish(stopped=False, ended="it ended")["a/gpus"].ok


def test_a_node_program_that_lies_about_types_ends_no_run(nodes: Nodes) -> None:
    nodes.program("""
node = asked["steps"][0]["id"].split("/")[0]
more = {"a": {"ok": "yes"}, "b": {"message": 7}, "c": {"seconds": "x"}, "d": {"changes": [{"path": 1}]}}.get(node, {})
print(json.dumps({"results": [outcome(one, **more) for one in asked["steps"]]}))
""")
    found = nodes.converge(*(Step(id=f"{node}/gpus", node=node, verb=Verb.GPUS) for node in "abcdz"))
    assert {name: result.ok for name, result in found.items()} == {"z/gpus": True} | {f"{node}/gpus": False for node in "abcd"}


def test_a_node_that_says_too_much_at_once_is_cut_off_before_it_is_in_memory(nodes: Nodes) -> None:
    """Fails on 9edab55: Mitogen takes messages of 4 GiB, and one of 64 MiB made a run take 415 MiB."""
    nodes.program("""
many = (64 << 20) * (asked["steps"][0]["id"] == "a/gpus")
print(json.dumps({"results": [outcome(one, message="x" * many) for one in asked["steps"]]}))
""")
    found = nodes.converge(*(Step(id=f"{node}/gpus", node=node, verb=Verb.GPUS) for node in "az"))
    assert found["z/gpus"].ok and not found["a/gpus"].ok
    assert "it said too much" in found["a/gpus"].message
