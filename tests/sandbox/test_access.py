"""Are the ways into a node made right, and sockets' names kept short?"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from swarm_iac.sandbox import DEFAULT_NODES, Sandbox, SandboxError, access
from swarm_iac.sandbox.places import Places


def test_a_seed_holds_the_node_and_nobody_elses_key(tmp_path: Path) -> None:
    places = Places(tmp_path / "box")
    places.make()
    access.prepare(places, DEFAULT_NODES, 2400)
    with tarfile.open(fileobj=io.BytesIO(access.seed(places, DEFAULT_NODES[1], DEFAULT_NODES))) as tar:
        host = tar.extractfile("etc/hostname")
        assert host is not None
        assert host.read() == b"gpu-02\n"
        assert tar.getmember("etc/ssh/ssh_host_ed25519_key").mode == 0o600
    assert places.known_hosts.read_text().count("[127.0.0.1]:240") == 3
    assert "StrictHostKeyChecking yes" in places.ssh_config.read_text()
    assert "Port 2402" in places.ssh_config.read_text()


def test_keys_stay_from_one_run_to_the_next(tmp_path: Path) -> None:
    places = Places(tmp_path / "box")
    places.make()
    access.prepare(places, DEFAULT_NODES, 2400)
    first = places.known_hosts.read_text()
    access.prepare(places, DEFAULT_NODES, 2400)
    assert places.known_hosts.read_text() == first


def test_a_sockets_name_never_grows_too_long(tmp_path: Path) -> None:
    deep = Places(tmp_path / ("d" * 120))
    assert len(str(deep.sockets / "c-65535")) + 17 < 108


def test_an_unknown_node_is_told_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"gpu-09[\s\S]*gpu-01"):
        Sandbox(tmp_path).ssh_command("gpu-09")
