"""Does a command that runs as root around a user's ever see a variable of theirs? Each fails on 3f04825.

There `Environment=` held them, and systemd gives that to ExecStop= and ExecStopPost= as well.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import HOSTILE, TEMPLATES
from tests.node.conftest import GUARD
from tests.node.test_units import systemd_reads

from swarm_node.concerns import units  # isort: skip
from swarm_node.machine import systemd  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.workload import launch, lives  # isort: skip
from swarm_node.machine.run import Context, NodeError  # isort: skip

ATTACK = {
    "PATH": "/home/ada/bin",
    "LD_PRELOAD": "/home/ada/evil.so",
    "BASH_ENV": "/home/ada/evil.sh",
    "ENV": "/home/ada/evil.sh",
    "SERVICE_RESULT": "success",
    "INVOCATION_ID": "forged",
    "MAINPID": "",
    "IFS": "/",
}


def machine(root: Path) -> Any:
    book = ledger.load(str(root), check=False)
    book.guard(**GUARD)
    book.record("allocations", "web-1", value={"workload": "web", "gpus": [1]})
    return Context(book, root=str(root))


def want(command: str = "serve", **env: str) -> dict[str, Any]:
    return {"user": "ada", "command": command, "env": env, "gpus": [1], "restart": False}


def environment(text: str) -> dict[str, str]:
    """What systemd gives to every command of the unit."""
    words = [word for line in text.splitlines() if line.startswith("Environment") for word in systemd_reads(line)]
    return dict(word.split("=", 1) for word in words)


def line_of(text: str, key: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{key}="))


def credential(text: str) -> bytes:
    """Octets of the credential, as systemd 252 reads the line: config_parse_set_credential, cunescape."""
    name, _, value = line_of(text, "SetCredential").partition("=")[2].partition(":")
    assert name == "_env" and "%" not in value
    return re.sub(rb"\\x([0-9a-f]{2})", lambda hit: bytes([int(hit[1], 16)]), value.encode())


def test_no_variable_of_a_users_is_one_of_the_unit(tmp_path: Path) -> None:
    text = units.render(machine(tmp_path), "web-1", want(**ATTACK, HF_TOKEN="secret:hf"))
    assert environment(text).keys() == {
        "SWARM_ALLOCATION",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "SWARM_GPUS",
    }
    assert environment(text)["CUDA_VISIBLE_DEVICES"] == "1"
    assert not any(line.startswith(("EnvironmentFile", "PassEnvironment")) for line in text.splitlines())


@pytest.mark.parametrize(("result", "told"), [("exit-code", "failed"), ("oom-kill", "failed"), ("success", "done")])
def test_root_never_runs_a_program_of_the_users_when_their_job_ends(result: str, told: str, tmp_path: Path) -> None:
    """As systemd runs ExecStopPost=: its own variables first, then those of the unit over them."""
    here, theirs, pwned = machine(tmp_path), tmp_path / "home", tmp_path / "pwned"
    theirs.mkdir()
    for name in ("sync", "sh", "echo", "read"):
        (theirs / name).write_text(f"#!/bin/sh\ntouch {pwned}\n")
        (theirs / name).chmod(0o755)
    attack = {**ATTACK, "PATH": str(theirs), "LD_PRELOAD": "", "SERVICE_RESULT": "timeout"}
    text = units.render(here, "web-1", want(**attack))
    shell, option, script, name, *paths = systemd_reads(line_of(text, "ExecStopPost"))
    below = [str(tmp_path / path[1:]) for path in paths]
    for path in below:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    own = {"PATH": os.environ["PATH"], "SERVICE_RESULT": result, "INVOCATION_ID": "1"}
    subprocess.run([shell, option, script, name, *below], env={**own, **environment(text)}, check=True)
    assert not pwned.exists()
    assert (Path(below[1]).read_text().strip(), lives.end(here, "web-1")) == (result, told)


def test_a_run_that_was_asked_to_stop_is_known_whatever_the_user_says(tmp_path: Path) -> None:
    here = machine(tmp_path)
    text = units.render(here, "web-1", want(**ATTACK))
    asked = tmp_path / lives.ASKED[1:] / "web-1"
    asked.parent.mkdir(parents=True)
    shell, option, script, name, _ = systemd_reads(line_of(text, "ExecStop"))
    own = {"PATH": os.environ["PATH"], "MAINPID": "7", "INVOCATION_ID": "1"}
    subprocess.run([shell, option, script, name, str(asked)], env={**own, **environment(text)}, check=True)
    assert asked.read_text() == "1\n"


def started(text: str, root: Path, secret: bytes = b"") -> dict[str, str]:
    """Run the unit's command as systemd would, with its credentials; what the command sees."""
    folder = root / "credentials"
    folder.mkdir(exist_ok=True)
    (folder / "_env").write_bytes(credential(text))
    (folder / "hf").write_bytes(secret)
    argv = systemd_reads(line_of(text, "ExecStart"))
    own = {"PATH": os.environ["PATH"], "CREDENTIALS_DIRECTORY": str(folder), "HOME": "/home/ada", **environment(text)}
    done = subprocess.run(argv, env=own, capture_output=True, check=True)
    seen = dict(one.split(b"=", 1) for one in done.stdout.split(b"\0") if one)
    assert seen.pop(b"CREDENTIALS_DIRECTORY") == os.fsencode(folder)
    return {name.decode(): value.decode(errors="surrogateescape") for name, value in seen.items()}


PRINT = "/usr/bin/env -0"


def test_a_command_gets_exactly_the_variables_it_asked_for(tmp_path: Path) -> None:
    asked = {
        f"V{number}": word
        for number, word in enumerate([*HOSTILE, *TEMPLATES, "", " ", "a\nb", "=", "a=b", "\n", "%n", "\\x41"])
    }
    odd = {
        "OPTIND": "x",
        "IFS": ":",
        "PPID": "0",
        "UID": "y",
        "PATH": os.environ["PATH"],
        "PYTHONHOME": "/nowhere",
        "LANG": "x",
    }
    text = units.render(machine(tmp_path), "web-1", want(PRINT, **asked, **odd, CUDA_VISIBLE_DEVICES="", HF_TOKEN="secret:hf"))
    seen = started(text, tmp_path, b"hf_1\xff \n\n")
    own = {"SWARM_ALLOCATION": "web-1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": "1", "HOME": "/home/ada",
           "SWARM_GPUS": "1"}  # fmt: skip
    assert seen == {**own, **asked, **odd, "CUDA_VISIBLE_DEVICES": "", "HF_TOKEN": "hf_1\udcff "}


def test_what_starts_a_command_leaves_nothing_of_itself(tmp_path: Path) -> None:
    """Python sets LC_CTYPE and ignores SIGXFSZ; the command has its words, and all signals as systemd gave them."""
    show = shlex.join(["/bin/sh", "-c", "tr '\\n' '\\0' < /proc/self/status; cat /proc/self/cmdline"])
    text = units.render(machine(tmp_path), "web-1", want(show, A="1"))
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "_env").write_bytes(credential(text))
    argv = systemd_reads(line_of(text, "ExecStart"))
    done = subprocess.run(argv, env={"CREDENTIALS_DIRECTORY": str(folder)}, capture_output=True, text=True, check=True)
    ignored = int(re.search(r"SigIgn:\s*([0-9a-f]+)", done.stdout)[1], 16)  # type: ignore[index]
    assert not ignored & 1 << (signal.SIGXFSZ - 1)
    assert "import os" not in done.stdout and "LC_CTYPE" not in done.stdout


def test_no_variable_stands_on_a_command_line(tmp_path: Path) -> None:
    text = units.render(machine(tmp_path), "web-1", want(A="very_plain", HF_TOKEN="secret:hf"))
    for line in text.splitlines():
        assert not (line.startswith("Exec") and ("very_plain" in line or "HF_TOKEN" in line))


@pytest.mark.parametrize("value", ["a\0b", "a\0=PATH=/x"])
def test_a_value_never_becomes_two(value: str, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="NUL"):
        units.render(machine(tmp_path), "web-1", want(A=value))


def found(here: Any, text: str, monkeypatch: pytest.MonkeyPatch, recorded: dict[str, Any], **more: Any) -> Any:
    """What is read back of a unit that somebody hung a file on."""
    shown = {"LoadState": "loaded", "ActiveState": "active", "NeedDaemonReload": "no", "DropInPaths": "/x.d/y.conf"}
    monkeypatch.setattr(systemd, "show", lambda context, unit: shown)
    argv = systemd_reads(line_of(text, "ExecStart"))
    truth = {"User": "ada", "ExecStart": [[argv[0], argv]], "KillSignal": 15, "TimeoutStopUSec": 30_000_000, "Restart": "no",
             "Environment": [f"{name}={value}" for name, value in environment(text).items()],
             "SetCredential": [["_env", list(credential(text))]], **more}  # fmt: skip
    monkeypatch.setattr(systemd, "exactly", lambda context, unit: truth)
    return units.read(here, "web-1", recorded)


def test_variables_changed_by_hand_are_never_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, asked = machine(tmp_path), want("serve  'a b'", A="1", B="secret:hf", CUDA_VISIBLE_DEVICES="7")
    text = units.render(here, "web-1", asked)
    same = found(here, text, monkeypatch, asked)
    assert (same["env"], same["command"]) == (asked["env"], asked["command"])
    changed = found(here, text, monkeypatch, asked, SetCredential=[["_env", list(b"=A=2\0$B=other")]])
    assert changed["env"] == {"A": "2", "B": "secret:other", "CUDA_VISIBLE_DEVICES": "1"}
    preload = [*(f"{name}={value}" for name, value in environment(text).items()), "LD_PRELOAD=/x"]
    assert found(here, text, monkeypatch, asked, Environment=preload)["env"]["LD_PRELOAD"] == "/x"


def test_a_unit_of_an_earlier_version_is_no_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job would be stopped for nothing."""
    here, asked = machine(tmp_path), want("serve  'a b'", A="1", B="secret:hf")
    text = units.render(here, "web-1", asked)
    before = ["/bin/sh", "-euc", 'export B="$(cat …)"; exec "$@"', "swarm", "/usr/bin/env", "--", "serve", "a b"]
    own = [f"{name}={value}" for name, value in environment(text).items()]
    more = {"ExecStart": [["/bin/sh", before]], "Environment": ["A=1", *own], "SetCredential": []}
    same = found(here, text, monkeypatch, asked, **more)
    assert (same["env"], same["command"]) == (asked["env"], asked["command"])
    plain = want("serve  'a b'", A="1")
    more["ExecStart"] = [["/usr/bin/env", before[4:]]]
    same = found(here, units.render(here, "web-1", plain), monkeypatch, plain, **more)
    assert (same["env"], same["command"]) == (plain["env"], plain["command"])


def test_a_unit_of_an_earlier_version_is_never_stopped_with_its_users_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a new version comes to a node its file is written anew, and nothing is restarted; one changed by hand stays."""
    here, asked, ran = machine(tmp_path), want("serve  'a b'", PATH="/home/ada/bin"), []
    monkeypatch.setattr(here, "act", lambda argv, **_: ran.append(argv))
    here.ledger.record("allocations", "web-1", "unit", value={key: asked[key] for key in ("user", "command", "env", "restart")})
    file = tmp_path / systemd.UNITS[1:] / "swarm-web_1.service"
    file.parent.mkdir(parents=True)
    text = units.render(here, "web-1", asked)
    own = [f"{name}={value}" for name, value in environment(text).items()]
    argv = ["/usr/bin/env", "--", "serve", "a b"]
    more = {"ExecStart": [["/usr/bin/env", argv]], "Environment": ["PATH=/home/ada/bin", *own], "SetCredential": []}
    file.write_text("as an earlier version wrote it")
    found(here, text, monkeypatch, asked, **more)
    assert [one["path"] for one in units.renewed(here)] == ["allocations.web-1.unit"]
    assert file.read_text() == text and ran == [["systemctl", "daemon-reload"]]
    assert units.renewed(here) == [] and len(ran) == 1
    file.write_text("as somebody changed it")
    found(here, text, monkeypatch, asked, **{**more, "User": "bo"})
    assert units.renewed(here) == [] and file.read_text() == "as somebody changed it"


def test_the_holder_takes_no_variables(tmp_path: Path) -> None:
    text = units.render(machine(tmp_path), "web-1", want("", A="1"))
    assert systemd_reads(line_of(text, "ExecStart")) == units.HOLDER and "SetCredential" not in text
    assert launch.read(None) == {}
