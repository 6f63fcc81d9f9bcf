"""No file that a command writes is half written, goes through a name that others know, or says what a machine made up.

Fails on 3f04825: lock and candidate went through NAME.new, without fsync, also where a link stood there; names of disks and
interfaces stood in the stack file that `discover` writes as they came.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac.cli.machines import discover
from swarm_iac.errors import SwarmError
from swarm_iac.model.gpus.links import Links
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.state import Facts, GpuFacts, Observed
from swarm_iac.stackfile.locks import atomic_write

EVIL = "sdb, vcpus: 999}\nworkloads: {x: {user: root"


def test_a_link_under_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (tmp_path / "dev.lock.yaml.new").symlink_to(victim)
    assert atomic_write.write_whole(tmp_path / "dev.lock.yaml", "ours\n")
    assert victim.read_text() == "theirs" and (tmp_path / "dev.lock.yaml").read_text() == "ours\n"
    assert not (tmp_path / "dev.lock.yaml").is_symlink()


def test_what_is_written_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("sync"), sync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda one, to: (order.append("replace"), replace(one, to))[1])
    atomic_write.write_whole(tmp_path / "dev.lock.yaml", "a\n")
    assert order == ["sync", "replace", "sync"]


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dev.lock.yaml"
    path.write_text("old\n")
    path.chmod(0o640)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(SwarmError, match="No space left"):
        patch.setattr(os, "fsync", full)
        atomic_write.write_whole(path, "new\n")
    assert path.read_text() == "old\n" and [one.name for one in tmp_path.iterdir()] == [path.name]
    atomic_write.write_whole(path, "new\n")
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_cannot_be_written_is_said_once_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "file" / "x.json", "File exists")):
        with pytest.raises(SwarmError) as raised:
            atomic_write.write_whole(path, "new\n")
        first, hint = str(raised.value).splitlines()
        assert first == f"{path}: cannot be written: {why}" and hint.startswith("  hint: the file is as it was")


def test_what_a_machine_says_adds_no_key_to_a_stack_file(monkeypatch: pytest.MonkeyPatch) -> None:
    card = GpuFacts(index=0, pci="0", uuid="u", model="} evil: {\n- x", memory=10**10)
    facts = Facts(cpus=8, memory=10**10, gpus=(card,), disks={f"/dev/{EVIL}": 10**12}, interfaces={EVIL: 10**9})
    monkeypatch.setattr("swarm_iac.observe.observe", lambda *_, **__: {"gpu-01": Observed(node="gpu-01", facts=facts)})
    text, failures = discover.found(['gpu-01=root@x"}, evil: {a: "b'])
    found = yaml.safe_load(text)
    assert not failures and found.keys() == {"hardware", "nodes"}
    (shape,) = found["hardware"].values()
    assert shape.keys() == {"gpus", "vcpus", "memory", "nvme", "disk", "nic", "interface"}
    assert (shape["vcpus"], shape["disk"], shape["interface"]) == (8, f"/dev/{EVIL}", EVIL)
    assert found["nodes"]["gpu-01"].keys() == {"hardware", "ssh"}


@pytest.mark.parametrize(
    ("peers", "text"),
    [
        (((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)), "links: {nvlink: all}"),
        (((1,), (0,), (3,), (2,)), "links: {nvlink: [[0, 1], [2, 3]]}"),
        (((1, 3), (0,), (), (2, 4000)), "links: {nvlink: [[0, 1]]}"),
        ((None, None, None, None), ""),
    ],
    ids=["switch", "bridges", "what one side alone says", "unknown"],
)
def test_links_are_written_as_both_ends_say(monkeypatch: pytest.MonkeyPatch, peers: Any, text: str) -> None:
    rows = [
        {"index": i, "pci": "", "uuid": "", "model": "H100", "memory": 80 * 10**9, "nvlink": own} for i, own in enumerate(peers)
    ]
    facts = Facts(cpus=8, memory=10**10, gpus=tuple(map(GpuFacts.model_validate, rows)))
    monkeypatch.setattr("swarm_iac.observe.observe", lambda *_, **__: {"gpu-01": Observed(node="gpu-01", facts=facts)})
    (shape,) = yaml.safe_load(discover.found(["gpu-01=root@n"])[0])["hardware"].values()
    assert Hardware.model_validate(shape).links == Links.model_validate(yaml.safe_load(text)["links"] if text else {})


def test_what_an_honest_machine_says_stands_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts(cpus=8, memory=10**10, disks={"/dev/nvme0n1": 10**12}, interfaces={"eth1": 10**9})
    monkeypatch.setattr("swarm_iac.observe.observe", lambda *_, **__: {"gpu-01": Observed(node="gpu-01", facts=facts)})
    text, _ = discover.found(["gpu-01=root@n"])
    assert "disk: /dev/nvme0n1" in text and "interface: eth1" in text and '  gpu-01: {hardware: cpu-1, ssh: "root@n"}' in text
