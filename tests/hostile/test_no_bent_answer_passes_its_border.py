"""No answer of a node, bent from an honest one, ends a command, steers a terminal or changes what others get.

Fails on 9edab55: one node that named tens of thousands of allocations or settings held `swarm plan` for minutes and took a
gigabyte; one that answered with as many values of a wrong type took half of one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac import assets
from swarm_iac.cli.machines import fleet_view as view
from swarm_iac.cli.machines.fleet_status import history_rows
from swarm_iac.converge.outcome import Outcomes
from swarm_iac.model.step import Step, Verb
from swarm_iac.observe.history import _lines, together
from swarm_iac.observe.observe import read
from swarm_iac.reach.answer import decode
from tests.cli.typed import swarm
from tests.hostile.bent import NUMBERS, RAW_JSON, WORDS, as_json, bent, cases, harmless, repository, torn

_SPEC = importlib.util.spec_from_file_location("action_swarm_step", assets.playbooks() / "plugins/action/swarm_step.py")
assert _SPEC and _SPEC.loader
plugin = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(plugin)
TOKENS = tuple(one.text for one in RAW_JSON)
#: A GPU of each node of the fleet, as its driver names it.
MODELS = {"gpu-01": "NVIDIA H100 80GB HBM3", "gpu-02": "NVIDIA H100 80GB HBM3", "gpu-03": "NVIDIA L40S"}


def honest(wanted: Any) -> dict[str, Any]:
    """What a node answers on which everything is as wanted."""
    state = wanted.state.model_dump(mode="json")
    count = wanted.hardware.gpus
    cards = [{"index": n, "pci": f"{n:02}", "uuid": f"u{n}", "model": MODELS[wanted.node], "memory": 80 * 10**9,
              "processes": ["12 ada python"]} for n in range(count)]  # fmt: skip
    return {
        "agent": "", "clock": 0, "error": "", "ledger": {"lineage": "L", "serial": 3, "fleet": "dev"}, "state": state,
        "rollout_failures": {"gpus[0].power_w": {"value": 500, "why": "refused", "serial": 2}},
        "facts": {"hostname": wanted.node, "kernel": "6.1", "cpus": 4, "memory": 1600 * 10**6, "gpus": cards,
                  "numa": {"0": "0-1", "1": "2-3"}, "driver": "550", "disks": {"/dev/vdb": 4 * 10**9},
                  "interfaces": {"eth1": 10**9}, "governors": ["performance"]},
        "health": dict.fromkeys(state["allocations"], "healthy"), "booted": 0,
        "started": dict.fromkeys(state["allocations"], 1_700_000_000), "ends": dict.fromkeys(state["allocations"], "time-limit"),
        "foreign": ["swarm-x.service"],
        "troubles": ["the disk is slow"],
        "unverified": ["gpu 0: gpu_power 500 W cannot be verified (NVML: Unknown Error)"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A fleet repository with a lock, and what each of its nodes answers."""
    folder = repository(tmp_path_factory.mktemp("answers") / "fleet")
    assert swarm("solve", at=folder).code == 0
    with contextlib.chdir(folder):
        found = view.read("dev", offline=True, quiet=True).desired
    return folder, {name: honest(one) for name, one in found.items()}


COMMANDS = (("plan",), ("plan", "--json"), ("plan", "--markdown"), ("status",), ("ps",), ("assert",), ("adopt",))
PARTS = (
    "state",
    "state",
    "state",
    "health",
    "facts",
    "ledger",
    "rollout_failures",
    "started",
    "ends",
    "foreign",
    "troubles",
    "unverified",
    "error",
    "clock",
)


@st.composite
def answered(draw: st.DrawFn, answers: dict[str, Any]) -> tuple[str, bytes, tuple[str, ...]]:
    """A node, what it answers, and a command that asks it."""
    node, words = draw(st.sampled_from(sorted(answers))), draw(st.sampled_from(COMMANDS))
    kind, whole = draw(st.sampled_from(("torn", "whole", "part", "part", "part", "part"))), answers[node]
    if kind == "torn":
        return node, draw(torn(json.dumps(whole, indent=1), TOKENS)), words
    part = draw(st.sampled_from(PARTS))
    if isinstance(whole[part], (str, int)):
        said = st.sampled_from((*WORDS, *NUMBERS)).map(lambda value: {**whole, part: value})
    else:
        said = bent(whole, RAW_JSON) if kind == "whole" else bent(whole[part]).map(lambda value: {**whole, part: value})
    return node, as_json(draw(said)).encode(errors="surrogatepass"), words


def test_no_bent_answer_ends_a_command_or_costs_another_node(
    answers: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, good = answers
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    said: dict[str, bytes] = {}

    def observe(targets: dict[str, str], **_: Any) -> Any:
        return {name: read(name, said.get(name) or json.dumps(good[name]).encode()) for name in targets}

    monkeypatch.setattr("swarm_iac.observe.observe", observe)
    ends = {"readable": 0, "unreadable": 0}

    @given(answered(good))
    @cases(4000, 40)
    def each(case: tuple[str, bytes, tuple[str, ...]]) -> None:
        node, raw, words = case
        said.clear()
        said[node] = raw
        seen = read(node, raw)
        ends["unreadable" if seen.error else "readable"] += 1
        assert len(seen.error) <= 2000 and not any(
            "\n" in words for words in (seen.error, *seen.troubles, *seen.unverified, *seen.foreign)
        )
        harmless(seen.error)
        ended = swarm(*words, at=folder)
        assert ended.code in (0, 1, 3, 4), ended.err
        harmless(ended.err)
        if "--json" in words:
            assert not ended.out or json.loads(ended.out) is not None
        else:
            harmless(ended.out)
        if words == ("status",):
            others = [line for line in ended.out.splitlines() if line.split()[:1] and line.split()[0] in good.keys() - {node}]
            assert len(others) == 2 and all(line.split()[2] == "yes;" for line in others), ended.out

    each()
    assert min(ends.values()) >= 3, ends


@pytest.mark.parametrize("words", [" ", "\n", "\x1b", "a\ngpu-03: all is well", "x" * 100_000])
def test_whatever_a_node_says_is_a_line_of_its_own(
    words: str, answers: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, good = answers
    said = {**good, "gpu-01": {**good["gpu-01"], "error": words, "troubles": [words], "unverified": [words]}}
    monkeypatch.setattr(
        "swarm_iac.observe.observe",
        lambda targets, **_: {name: read(name, json.dumps(said[name]).encode()) for name in targets},
    )
    for command in (("status",), ("plan",), ("assert",), ("adopt",)):
        ended = swarm(*command, at=folder)
        assert ended.code in (0, 1, 4), ended.err
        assert not any(line.startswith("gpu-03: all is well") for line in (ended.out + ended.err).splitlines())


def test_what_a_node_could_not_verify_is_never_called_as_desired(
    answers: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, good = answers
    said = {name: {**each, "unverified": []} for name, each in good.items()}
    monkeypatch.setattr(
        "swarm_iac.observe.observe",
        lambda targets, **_: {name: read(name, json.dumps(said[name]).encode()) for name in targets},
    )
    words = "gpu 0: gpu_power 500 W cannot be verified"
    before = swarm("assert", at=folder)
    said["gpu-01"]["unverified"] = [words]
    after = swarm("assert", at=folder)
    assert words not in before.out and words in after.out and after.code == 1
    assert "gpu_power" in swarm("status", at=folder).out


def test_no_lie_of_one_node_keeps_an_operator_from_looking(
    answers: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that names another command of a service, or another owner, is shown so; the others are shown as ever."""
    folder, good = answers
    said = dict(good)
    monkeypatch.setattr(
        "swarm_iac.observe.observe",
        lambda targets, **_: {name: read(name, json.dumps(said[name]).encode()) for name in targets},
    )
    held = good["gpu-03"]["state"]["allocations"]
    other = {**held["chat-1"], "unit": {**held["chat-1"]["unit"], "command": "x"}}
    said["gpu-03"] = {**good["gpu-03"], "state": {**good["gpu-03"]["state"], "allocations": {**held, "chat-1": other}}}
    for words in (("status",), ("ps",)):
        assert swarm(*words, at=folder).code == 0
    said["gpu-03"] = {**good["gpu-03"], "ledger": {"lineage": "L", "serial": 3, "fleet": "theirs"}}
    ended = swarm("plan", at=folder)
    assert ended.code == 0 and "names fleet theirs" in " ".join(ended.out.split()), ended
    said.update({node: {**one, "ledger": {"lineage": "L", "serial": 3, "fleet": "theirs"}} for node, one in good.items()})
    assert swarm("plan", at=folder).code == 3, "where all say so, the stack file is wrong"


def _many(answers: dict[str, Any]) -> dict[str, Any]:
    """Answers that are within the bound of 4 MiB, and costly to plan with, to show, or to say what is wrong in them."""
    unit, whole = {"user": "ada"}, answers["gpu-02"]
    held = {f"chat-{n}": {"workload": "chat", "unit": unit} for n in range(55_000)}
    wide = {f"x-{n}": {"workload": "x", "unit": unit, "gpus": ["x"] * 9000} for n in range(20)}
    return {
        "allocations": {**whole, "state": {"allocations": held}},
        "fewer allocations": {**whole, "state": {"allocations": dict(list(held.items())[:5000])}},
        "settings": {**whole, "state": {"settings": {"sysctl": {f"a.k{n}": "1" for n in range(200_000)}}}},
        "variables": {**whole, "state": {"allocations": {"x-0": {"workload": "x", "unit": {**unit, "env": dict.fromkeys(map(str, range(150_000)), "v")}}}}},
        "foreign": {**whole, "foreign": ["x"] * 190_000},
        "wrong": {**whole, "foreign": [1] * 190_000},
        "wrong in lists": {**whole, "state": {"allocations": wide}},
        "one text": {**whole, "troubles": ["x y" * 1_000_000]},
    }  # fmt: skip


#: What one node may cost a command, on a machine that others use as well. [s, bytes]
SECONDS, MEMORY = 60.0, 300 << 20


def test_no_answer_names_more_than_a_machine_has(answers: tuple[Path, dict[str, Any]]) -> None:
    for name, said in _many(answers[1]).items():
        seen = read("gpu-02", json.dumps(said).encode())
        assert ("more than" in seen.error or "of its values" in seen.error) or name == "fewer allocations", (name, seen.error)


@pytest.mark.slow
def test_no_large_answer_costs_minutes_or_hundreds_of_megabytes(
    answers: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a process of its own, whose largest size is looked at."""
    folder, good = answers
    for name, said in _many(good).items():
        file = tmp_path / "answers.json"
        file.write_text(json.dumps({**good, "gpu-02": said}))
        code = f"""
import json, re, time
from pathlib import Path
import swarm_iac.observe
from swarm_iac.observe.observe import read
from tests.cli.typed import swarm
said = {{node: json.dumps(one).encode() for node, one in json.load(open({str(file)!r})).items()}}
swarm_iac.observe.observe = lambda targets, **_: {{node: read(node, said[node]) for node in targets}}
began = time.monotonic()
ended = swarm("plan", at=Path({str(folder)!r}))
most = re.search(r"VmHWM:\\s+([0-9]+) kB", open("/proc/self/status").read())
print(ended.code, time.monotonic() - began, int(most[1]) * 1024)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=assets.stacks().parent
        )
        assert done.returncode == 0, (name, done.stderr[-2000:])
        ended, seconds, memory = done.stdout.split()
        assert ended in ("0", "3") and float(seconds) < SECONDS and int(memory) < MEMORY, (name, done.stdout)


TOLD = {
    "id": "a/gpus", "ok": True, "changed": True, "skipped": False, "pending": False, "message": "as wanted", "seconds": 0.5,
    "changes": [{"path": "gpus[0].power_w", "old": 300, "new": 600}],
}  # fmt: skip


@given(
    bent({"changed": True, "outcomes": [TOLD, {**TOLD, "id": "a/settings"}], "msg": "", "diff": {"before": "", "after": ""}})
)
@cases(4000, 100)
def test_no_bent_outcome_ends_a_run_or_speaks_for_another(result: Any) -> None:
    steps = [Step(id=f"{node}/{verb}", node=node, verb=verb) for node in "az" for verb in (Verb.GPUS, Verb.SETTINGS)]
    lines: list[str] = []
    outcomes = Outcomes(steps, lines.append, values=True)
    outcomes.on_event({"event": "runner_on_ok", "event_data": {"host": "a", "res": result}})
    if isinstance(result, dict):  # a module's result is one, whatever the node sent
        clean = plugin.answer(result, [step.id for step in steps[:2]], [], True)
        assert len(json.dumps(clean, default=str)) < 20 << 20
        outcomes.on_event({"event": "runner_on_ok", "event_data": {"host": "a", "res": clean}})
    outcomes.on_event(
        {"event": "runner_on_ok", "event_data": {"host": "z", "res": {"outcomes": [{"id": "z/gpus", "ok": True}]}}}
    )
    found = outcomes.finish(stopped=False, ended="it ended")
    assert found["z/gpus"].ok and found.keys() == {step.id for step in steps}
    assert not found["z/settings"].ok
    harmless("\n".join(lines))
    harmless("".join(one.message for one in found.values()))
    assert all(len(one.message) < 10_000 for one in found.values())


LINE = {
    "t": 1000.5, "fleet": "dev", "lineage": "L", "serial": 3, "who": "ada@here", "commit": "abc+",
    "steps": [{"id": "a/gpus", "ok": True, "changed": True, "seconds": 0.1}, {"id": "a/stop/x-0", "pending": True, "seconds": 5}],
}  # fmt: skip


@given(st.one_of(bent([LINE, LINE], RAW_JSON).map(as_json), torn(json.dumps([LINE, LINE]), TOKENS)))
@cases(4000, 100)
def test_no_bent_audit_ends_the_history(said: str | bytes) -> None:
    raw = said.encode(errors="surrogatepass") if isinstance(said, str) else said
    try:
        lines, bad = _lines("a", decode(raw))
    except ValueError as error:
        assert len(str(error)) < 500
        return
    assert bad >= 0
    runs = together([*lines, *_lines("z", [LINE])[0]])
    assert any("z" in run.nodes for run in runs)
    assert {node for run in runs for node in run.nodes} <= {"a", "z"}
    harmless("".join(cell for row in history_rows(runs) for cell in row))
    json.dumps([vars(run) for run in runs])
