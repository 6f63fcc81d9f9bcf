"""What may an operator who is not root have run as root? The program that lies there, and nothing that they bring or name.

tests/e2e/test_least_privilege.py has the real sudo. On 9edab55 the node set any kernel setting to any text that was asked of
it by hand: with `kernel.core_pattern` a program that root runs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swarm_iac import assets
from swarm_iac.reach import ask
from tests.node.conftest import GUARD

from swarm_node.program import step  # isort: skip

REPOSITORY = Path(__file__).parents[2]


def rule() -> tuple[str, re.Pattern[str]]:
    """Command and words of the rule in the documentation."""
    text = (REPOSITORY / "docs" / "operations.md").read_text()
    (found,) = re.findall(r"^ {4}ops ALL=\(root\) NOPASSWD: (/\S+) (\^.*\$)$", text, re.MULTILINE)
    return found[0], re.compile(found[1])


@pytest.mark.parametrize("question", ["observe 10", "observe 7.5", "claim", "history 200"])
@pytest.mark.parametrize("program", ["", "current"])
def test_the_documented_rule_allows_what_is_asked(question: str, program: str) -> None:
    command, words = rule()
    line = ask.installed("ops@n", None, question, program)[-1]
    asked = line.partition("exec $s ")[2]
    assert asked.startswith(f"{command} ") and words.fullmatch(asked.removeprefix(f"{command} "))
    assert f"{command} -I -S " in ask.sent("ops@n", None, question, 7)[-1]
    assert not words.fullmatch('-I -S "$t" claim')


@pytest.mark.parametrize(
    "words",
    ["-c x", "-I -S /tmp/x step", "-I -S /usr/local/lib/swarm/../../../tmp/0123456789abcdef step", "-I -S /usr/local/lib/swarm/current boot",
     "-I -S /usr/local/lib/swarm/current install", "-I -S /usr/local/lib/swarm/current step x", "-S /usr/local/lib/swarm/current step"],
)  # fmt: skip
def test_it_allows_nothing_else(words: str) -> None:
    assert not rule()[1].fullmatch(words)


def test_a_step_is_run_with_the_words_of_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = assets.playbooks() / "library" / "swarm_step.py"
    spec = importlib.util.spec_from_file_location("swarm_step_of_ours", place)
    assert spec and spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    command, words = rule()
    assert module.python() == ["sudo", "-n", "--", command]
    assert words.fullmatch("-I -S /usr/local/lib/swarm/0123456789abcdef step")


def test_root_needs_no_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's line, as root and as somebody else."""
    (tmp_path / "home" / "0123456789abcdef").mkdir(parents=True)
    monkeypatch.setattr(ask, "HOME", str(tmp_path / "home"))
    for uid, told in ((0, "python"), (1000, "sudo -n --")):
        for name, script in {"id": f"echo {uid}", "sudo": 'echo "sudo $*"'}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        words = ask.installed("local", None, "observe 1", "0123456789abcdef")
        done = subprocess.run(words, capture_output=True, text=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
        assert told in done.stdout + done.stderr
        assert ("sudo" in done.stdout) == (uid != 0)


@pytest.mark.parametrize(
    ("key", "value"),
    [("kernel.core_pattern", "|/tmp/x"), ("kernel.modprobe", "/tmp/x"), ("kernel.hotplug", "../x"), ("vm.swappiness", "1\n2;"),
     ("../../tmp/x", "1"), ("kernel", "1"), ("/etc/passwd", "1"), ("vm.swappiness\n", "1")],
)  # fmt: skip
def test_no_kernel_setting_is_a_program_or_a_path(tmp_path: Path, key: str, value: str) -> None:
    for name in ("kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "vm/swappiness"):
        (tmp_path / "proc/sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/sys" / name).write_text("core")
    one = {"id": "n/settings", "want": {"settings": {"sysctl": {key: value}}}}
    (told,) = step.perform({"verb": "settings", "steps": [one], "guard": GUARD}, root=str(tmp_path))["results"]
    assert not told["ok"] and ("is no sysctl" in told["message"] or "is no value that is set here" in told["message"]), told
    assert {path.read_text() for path in (tmp_path / "proc/sys").rglob("*") if path.is_file()} == {"core"}
