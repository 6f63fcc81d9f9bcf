"""No file that a checkout brings makes ssh run a command on the operator's machine.

Fails on 3f04825: `.sandbox/ssh_config` was used wherever it lay, with any ProxyCommand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm_iac.cli import engine
from swarm_iac.errors import Refused
from swarm_iac.sandbox import DEFAULT_NODES, access
from swarm_iac.sandbox.places import Places


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SWARM_SSH_CONFIG", raising=False)
    monkeypatch.setattr(access, "_key", lambda path: path.with_name(path.name + ".pub").write_text("ssh-ed25519 AAAA x\n"))
    (tmp_path / ".sandbox").mkdir()
    return tmp_path


def sandbox(checkout: Path) -> Path:
    places = Places(checkout / ".sandbox")
    places.make()
    access.prepare(places, DEFAULT_NODES, 2200)
    return places.ssh_config


def test_what_the_sandbox_wrote_is_used(checkout: Path) -> None:
    written = sandbox(checkout)
    assert engine.options(checkout).ssh_config == written


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "  ProxyCommand touch /pwned\n",
        lambda text: "Host *\n  ProxyCommand touch /pwned\n" + text,
        lambda text: text.replace("  Port 2201\n", "  Port 2201\n  ProxyCommand touch /pwned\n"),
        lambda text: text.replace("  Port 2201\n", "  Port 2201\n  KnownHostsCommand touch /pwned\n"),
        lambda text: text.replace("127.0.0.1", "evil.example"),
        lambda text: text.replace("StrictHostKeyChecking yes", "StrictHostKeyChecking no"),
        lambda text: 'Match exec "touch /pwned"\n' + text,
        lambda text: "Include other\n" + text,
        lambda text: text.replace(".sandbox/keys", ".sandbox/other"),
        lambda text: "",
    ],
)
def test_anything_else_is_refused_by_name(change: object, checkout: Path) -> None:
    file = sandbox(checkout)
    assert callable(change)
    file.write_text(change(file.read_text()))
    with pytest.raises(Refused, match="was not written by `swarm sandbox`"):
        engine.reaching(checkout)


def test_a_link_to_another_file_is_refused(checkout: Path, tmp_path: Path) -> None:
    file = sandbox(checkout)
    file.rename(tmp_path / "other")
    file.symlink_to(tmp_path / "other")
    with pytest.raises(Refused):
        engine.reaching(checkout)


def test_what_an_operator_names_is_used(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox(checkout).write_text("Host *\n")
    monkeypatch.setenv("SWARM_SSH_CONFIG", "/own/config")
    assert engine.reaching(checkout)["SWARM_SSH_CONFIG"] == "/own/config"
