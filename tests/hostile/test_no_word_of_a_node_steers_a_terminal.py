"""No word of a node, of a workload or of a stack file steers the operator's terminal, or is kept so in Pulumi's state.

Fails on 3f04825: escapes went through as they came; bytes that are no UTF-8 made a node unreadable.
"""

from __future__ import annotations

import asyncio
import json
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from swarm_iac.cli.machines.shell import Chosen, on_node
from swarm_iac.cli.terminal import screen
from swarm_iac.converge.outcome import Outcomes, words
from swarm_iac.errors import SwarmError
from swarm_iac.model.state import NodeState
from swarm_iac.model.step import Change, Plan, Step, Verb
from swarm_iac.observe import history, observe
from swarm_iac.observe.observe import read
from swarm_iac.plan import rows
from swarm_iac.plan.show.render import Context, text
from swarm_iac.provider.plugin import engine_log
from tests.plan.test_render import scene

#: Clears the screen, sets the clipboard, rewrites the line, turns the order, halves of characters, an 8-bit escape.
STEERS = "\x1b[2J\x1b]52;c;cm0=\x07\rdone\x08\u202egpj.exe\u2066\ud83d\x9b31m\x7f"
_BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(value: Any) -> None:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    assert not _BAD.search(shown), repr(shown)


def test_words_of_an_observation() -> None:
    said = {"error": STEERS, "troubles": [STEERS], "foreign": [STEERS], "health": {"x-0": STEERS}, "agent": STEERS}
    facts = {"hostname": STEERS, "disks": {STEERS: 1}, "interfaces": {STEERS: 1}, "governors": [STEERS]}
    more = {"facts": facts, "rollout_failures": {STEERS: {"value": STEERS, "why": STEERS}}}
    found = read("a", json.dumps({**said, **more}).encode())
    assert found.error and "\\x1b[2J" in found.error
    harmless(found.model_dump(mode="json"))


def test_bytes_that_are_no_text_leave_a_node_readable() -> None:
    assert read("a", b'{"facts": {"hostname": "\xff\xfe"}}').facts.hostname == "\ufffd\ufffd"


def test_words_of_ssh_and_of_an_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ssh"
    fake.write_text("#!/bin/sh\nprintf '\\033[2J\\302\\233 refused \\377\\r\\n' >&2\nexit 255\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    error = observe({"a": "root@a"}, timeout=5)["a"].error
    assert "refused" in error
    harmless(error)
    harmless(history({"a": "root@a"}, timeout=5).dark["a"])


def test_words_of_a_step() -> None:
    lines: list[str] = []
    step = Step(id="a/gpus", node="a", verb=Verb.GPUS)
    outcomes = Outcomes([step], lines.append, values=True)
    told = {"id": "a/gpus", "ok": False, "message": STEERS, "changes": [{"path": STEERS, "old": STEERS, "new": STEERS}]}
    outcomes.on_event({"event": "runner_on_ok", "event_data": {"host": "a", "res": {"outcomes": [told]}}})
    harmless(outcomes.finish(stopped=False, ended="")["a/gpus"].message)
    harmless("\n".join(lines))
    harmless(words({"msg": STEERS}))


def test_values_of_a_workload_in_rows_and_in_a_plan() -> None:
    unit = {"user": "ada", "command": STEERS, "env": {"A": STEERS}}
    state = NodeState.model_validate({"interface": STEERS, "allocations": {"x-0": {"workload": "x", "unit": unit}}})
    harmless(list(rows({"a": state}).values()))
    context, _ = scene()
    step = Step(id="a/start/x-0", node="a", verb=Verb.START, allocation="x-0", why=STEERS,
                changes=(Change(path='allocations["x-0"].unit.command', old=None, new=STEERS),))  # fmt: skip
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        console.print(*text(Plan(steps=(step,), warnings=(STEERS,)), Context(context.stack, context.before, context.after)))
    harmless(capture.get())


def test_what_is_printed_and_what_the_engine_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    screen.say(STEERS)
    screen.show(screen.table("t", ("a",), [(STEERS,)]))
    done = capsys.readouterr()
    harmless(done.out + done.err)
    assert "\\x1b[2J" in done.out and "\\x1b[2J" in done.err

    async def told() -> list[str]:
        log, sent = engine_log.EngineLog("127.0.0.1:1", "urn"), []

        class Stub:
            def __init__(self, channel: object) -> None:
                pass

            async def Log(self, request: Any) -> None:
                sent.append(request.message)

        real = engine_log.engine_pb2_grpc.EngineStub
        engine_log.engine_pb2_grpc.EngineStub = Stub
        try:
            await log.warn(STEERS)
        finally:
            engine_log.engine_pb2_grpc.EngineStub = real
            await log.close()
        return sent

    harmless(asyncio.run(told())[0])


def test_a_refusal_that_quotes_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from swarm_iac.cli import __main__ as command

    def fails() -> None:
        raise SwarmError(STEERS, hint=STEERS)

    monkeypatch.setattr("swarm_iac.cli.application.application", lambda first: fails)
    with pytest.raises(SystemExit):
        command.main()
    harmless(capsys.readouterr().err)


def test_the_journal_of_a_workload(capfd: pytest.CaptureFixture[str]) -> None:
    chosen = Chosen("x-0", "ada", "a", "local", None)
    said = f"import sys; sys.stdout.buffer.write({STEERS.encode(errors='replace') + b'end'!r}); sys.exit(3)"
    assert on_node(chosen, [sys.executable, "-c", said], words=True) == 3
    out = capfd.readouterr().out
    assert out.endswith("end")
    harmless(out)
