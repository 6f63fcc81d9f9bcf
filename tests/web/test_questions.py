"""Is a question that hangs ended, an answer kept for its files alone, and what a command says understood?"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import time
from pathlib import Path

import pytest

from swarm_iac.web import questions, views
from swarm_iac.web.application import _templates
from swarm_iac.web.live import Live
from swarm_iac.web.past import _blocks, _changes
from swarm_iac.web.questions import WAITING, CommandAnswer, Questions, run, understood
from tests.cli.typed import ROOT, swarm


def test_what_a_command_says_is_understood() -> None:
    assert understood(b'{"a": 1}', b"", 4).document == {"a": 1}
    wrong = b'{"error": {"message": "no", "hint": "try"}}'
    assert understood(wrong, b"", 1) == CommandAnswer(error="no", hint="try")
    assert understood(b"", b"a\nlast \xff", 1).error.startswith("last")
    assert "time" in understood(b"", b"", -9).error


def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hangs.py").write_text(
        "import signal, subprocess, sys, pathlib, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(2, 1); time.sleep(60)'])\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    monkeypatch.setattr(questions, "GRACE", 0.5)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    begin = time.monotonic()
    answer = asyncio.run(run(tmp_path, (), 2.0, "hangs"))
    assert time.monotonic() - begin < 20 and answer.document is None and answer.error
    child = Path("/proc") / (tmp_path / "child").read_text() / "stat"
    time.sleep(0.3)
    assert not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"


def test_an_answer_is_kept_for_its_version_and_no_more_wait_than_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    async def answers(root: Path, words: tuple[str, ...], patience: float) -> CommandAnswer:
        asked.append(words)
        return CommandAnswer(document=list(words))

    monkeypatch.setattr(questions, "run", answers)

    async def used() -> None:
        told = 0

        def tell() -> None:
            nonlocal told
            told += 1

        found = Questions(tmp_path, tell)
        assert found.ask(1, "why", "a") is None and found.ask(1, "why", "a") is None
        working = asyncio.create_task(found.work())
        await asyncio.sleep(0.05)
        assert found.ask(1, "why", "a") == CommandAnswer(document=["why", "a"])
        assert asked == [("why", "a")] and told == 1
        working.cancel()
        found.forget(2)
        assert found.ask(2, "why", "a") is None
        for i in range(WAITING - 1):
            assert found.ask(2, "why", str(i)) is None
        full = found.ask(2, "why", "one more")
        assert full is not None and "too many" in full.error

    asyncio.run(used())


def test_an_event_is_sent_at_once_and_after_each_change() -> None:
    async def listened() -> list[bytes]:
        live, found = Live(), []
        stream = live.events("ada", beat=0.05)
        found += [await anext(stream), await anext(stream)]
        live.publish()
        found += [await anext(stream), await anext(stream)]
        assert live._open["ada"] == 1
        await stream.aclose()
        assert not live._open
        return found

    assert asyncio.run(listened()) == [
        b"retry: 1000\n",
        b"event: changed\ndata: 0\n\n",
        b"event: changed\ndata: 1\n\n",
        b": \n\n",
    ]


def test_history_is_read_from_a_lock_as_it_is_written() -> None:
    before = _blocks("allocations:\n\n  a-0:\n    workload: a\n    node: n1\n    gpus: [0]\n\n  ab-0:\n    node: n9\n", "a")
    after = _blocks("allocations:\n\n  a-0:\n    node: n2\n    gpus: [1]\n\n  a-1:\n    node: n1\n    ended: true\n", "a")
    assert before == {"a-0": "n1, GPUs [0]"}
    assert [*_changes(before, after)] == ["a-0: n1, GPUs [0] → n2, GPUs [1]", "a-1: on n1, finished"]
    assert [*_changes(after, {})] == ["a-0: removed from n2, GPUs [1]", "a-1: removed from n1, finished"]


def test_runs_are_listed_whatever_a_node_says_of_its_time() -> None:
    run = {"serial": 3, "who": "", "commit": "abc", "began": 0.0, "nodes": ["n1", "n2", "n3", "n4"]}
    rows = [*views.runs([run, {**run, "began": 1e300}])]
    assert rows[0] == ("3", "1970-01-01 00:00:00", "-", "abc", "n1, n2, n3 and 1 more")
    assert rows[1][1] == "?"


def test_no_file_of_the_repository_is_run_as_a_module(lab: Path, tmp_path: Path) -> None:
    """A merge may bring files of any name: `json.py`, or a package that is called as ours is."""
    folder = tmp_path / "fleet"
    shutil.copytree(lab, folder)
    (folder / "swarm_iac").mkdir()
    for name in ("swarm_iac/__init__.py", "json.py", "typer.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'run')!r}, 'w').close()\n")
    for module, words in (("swarm_iac.cli", ("shares", "dev", "--json")), ("swarm_iac.web.judging", (str(folder), "dev"))):
        found = asyncio.run(run(folder, words, 60, module))
        assert found.document and not found.error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("example", ["13-fair-shares", "21-gpus-that-count-more", "33-shares-by-dominant-resource"])
def test_shares_on_screen_are_those_that_the_command_prints(example: str, tmp_path: Path) -> None:
    """Each figure of its table, whatever GPUs count as."""
    text = (ROOT / "examples" / example / "stack.yaml").read_text()
    stack = str(tmp_path / "stack.yaml")
    Path(stack).write_text(text.replace("worth: {H100: 2, L40S: 1}", "worth: {H100: 1.5}"))
    answer = CommandAnswer(document=json.loads(swarm("shares", stack, "--json", at=ROOT).out))
    template = _templates().get_template("shares.html")
    page = "".join(template.blocks["content"](template.new_context({"answer": answer, "awaited": str})))
    on_screen = [re.sub("<[^>]*>", " ", row).split() for row in page.split("<tr>")[2:]]
    printed = [row.split() for row in swarm("shares", stack, at=ROOT).out.partition("───\n")[2].splitlines() if row.strip()]
    assert len(printed) > 1 and [["-" if cell == "0" else cell for cell in row] for row in on_screen] == printed
    assert ("dominant resource" in page) == ("dominant" in example)
