"""Is what a hook may do, and who may change it, bounded, and does a hook that hangs or lies hold nobody?"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from swarm_iac.cli.power.hooks import HOOKS, Hooks
from swarm_iac.errors import Refused


def write(folder: Path, **scripts: str) -> Path:
    """A folder of hooks; those that are not named do nothing."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in HOOKS:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{scripts.get(name, 'exit 0')}\n")
        path.chmod(0o700)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> tuple[Path, Path]:
    """A folder for hooks, and a fleet repository beside it."""
    (tmp_path / "fleet").mkdir()
    return tmp_path / "hooks", tmp_path / "fleet"


def test_a_hook_gets_the_name_of_the_node_and_nothing_else(outside: tuple[Path, Path]) -> None:
    hooks = Hooks.of(write(outside[0], resume='echo "$# $1 $(pwd)"'), outside[1])
    answer = hooks.run("resume", "gpu-01")
    assert answer.ok and answer.text == "1 gpu-01 /"


@pytest.mark.parametrize(
    "node", ["", "--help", "-h", "a b", "a;reboot", "$(reboot)", "../x", "a/b", "a\nb", "a\x00b", "é", "x" * 300]
)
def test_what_is_no_name_of_a_node_reaches_no_hook(outside: tuple[Path, Path], node: str) -> None:
    mark = outside[0].parent / "ran"
    hooks = Hooks.of(write(outside[0], **dict.fromkeys(HOOKS, f"touch {mark}")), outside[1])
    for hook in HOOKS:
        assert not hooks.run(hook, node).ok
    assert not mark.exists()


def test_hooks_in_the_fleet_repository_are_refused(outside: tuple[Path, Path]) -> None:
    inside = write(outside[1] / "hooks")
    link = outside[1].parent / "link"
    link.symlink_to(inside)
    for folder in (inside, outside[1], link, outside[1] / "x" / ".." / "hooks"):
        with pytest.raises(Refused, match="in the fleet repository"):
            Hooks.of(folder, outside[1])


def test_a_hook_that_is_a_link_into_the_fleet_repository_is_refused(outside: tuple[Path, Path]) -> None:
    inside = write(outside[1] / "hooks")
    folder = write(outside[0])
    (folder / "resume").unlink()
    (folder / "resume").symlink_to(inside / "resume")
    with pytest.raises(Refused, match="into the fleet repository"):
        Hooks.of(folder, outside[1])


def test_hooks_in_another_fleet_repository_are_refused(outside: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "Pulumi.yaml").touch()  # the clone, where this is a work tree of it
    with pytest.raises(Refused, match="in the fleet repository"):
        Hooks.of(write(tmp_path / "other" / "hooks"), outside[1])


@pytest.mark.parametrize("what", ["folder", "resume", "suspend", "check"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_hooks_that_others_may_change_are_refused(outside: tuple[Path, Path], what: str, mode: int) -> None:
    folder = write(outside[0])
    path = folder if what == "folder" else folder / what
    path.chmod(0o700 | mode)
    with pytest.raises(Refused, match="others could change it"):
        Hooks.of(folder, outside[1])


def test_hooks_of_another_user_are_refused(outside: tuple[Path, Path]) -> None:
    if os.geteuid():
        pytest.skip("needs root")
    os.chown(write(outside[0]) / "check", 12345, -1)
    with pytest.raises(Refused, match="others could change it"):
        Hooks.of(outside[0], outside[1])


def test_hooks_that_are_missing_or_no_programs_are_refused(outside: tuple[Path, Path]) -> None:
    with pytest.raises(Refused, match="No such file"):
        Hooks.of(outside[0], outside[1])
    (write(outside[0]) / "check").unlink()
    with pytest.raises(Refused, match="check: No such file"):
        Hooks.of(outside[0], outside[1])
    (outside[0] / "check").mkdir(mode=0o700)
    with pytest.raises(Refused, match="no regular file"):
        Hooks.of(outside[0], outside[1])


def test_a_hook_that_becomes_somebody_elses_is_not_run(outside: tuple[Path, Path]) -> None:
    hooks = Hooks.of(write(outside[0]), outside[1])
    (outside[0] / "resume").chmod(0o777)
    assert not hooks.run("resume", "n1").ok and hooks.run("suspend", "n1").ok


def test_a_hook_that_hangs_is_killed_with_what_it_started(outside: tuple[Path, Path]) -> None:
    mark = outside[0].parent / "late"
    hooks = Hooks.of(write(outside[0], suspend=f"(sleep 2; touch {mark}) & sleep 60"), outside[1], 0.5)
    began = time.monotonic()
    answer = hooks.run("suspend", "n1")
    assert not answer.ok and "no end within 0.5 s" in answer.text and time.monotonic() - began < 2
    time.sleep(2.2)
    assert not mark.exists()


def test_what_outlives_a_hook_holds_nobody(outside: tuple[Path, Path]) -> None:
    hooks = Hooks.of(write(outside[0], resume="sleep 5 & echo begun"), outside[1])
    began = time.monotonic()
    assert hooks.run("resume", "n1").text == "begun" and time.monotonic() - began < 3


def test_what_a_hook_prints_steers_no_terminal_and_fills_nothing(outside: tuple[Path, Path]) -> None:
    hooks = Hooks.of(write(outside[0], check="printf '\\033[2J'; head -c 5000000 /dev/zero | tr '\\0' x"), outside[1])
    answer = hooks.run("check", "n1")
    assert "\x1b" not in answer.text and len(answer.text) < 1000
    assert hooks.is_on("n1")[0] is None


@pytest.mark.parametrize(
    ("script", "on"),
    [
        ("echo on", True),
        ("echo off", False),
        ("echo ON", None),
        ("echo on; exit 1", None),
        ("exit 0", None),
        ("echo on off", None),
    ],
)
def test_only_on_and_off_are_known(outside: tuple[Path, Path], script: str, on: bool | None) -> None:
    assert Hooks.of(write(outside[0], check=script), outside[1]).is_on("n1")[0] is on
