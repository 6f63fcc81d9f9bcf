"""Does a workload ever run as root, by whatever name, or as an account of the system? Each fails on 3f04825."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import GUARD

from swarm_node.concerns import accounts, directories, units  # isort: skip
from swarm_node.machine import systemd  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.machine.run import Context, NodeError  # isort: skip

GROUPS = {0: "root", 6: "disk", 27: "sudo", 42: "shadow", 50: "staff", 100: "users", 992: "kvm", 998: "docker", 1001: "ada"}


def machine(root: Path) -> Any:
    book = ledger.load(str(root), check=False)
    book.guard(**GUARD)
    return Context(book, root=str(root))


def known(monkeypatch: pytest.MonkeyPatch, *groups: int, uid: int = 1001, gid: int = 1001) -> None:
    """Make `ada` an account of this machine."""
    entry = pwd.struct_passwd(("ada", "x", uid, gid, "", "/home/ada", "/bin/bash"))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: entry)
    monkeypatch.setattr(os, "getgrouplist", lambda name, primary: [primary, *groups])
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((GROUPS[number], "x", number, [])))


@pytest.mark.parametrize("group", [998, 6, 27, 42, 50, 0])
def test_who_is_root_by_another_name_is_never_given_a_workload(
    group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, 100, group)
    with pytest.raises(NodeError, match=f"ada is in the group {GROUPS[group]}, and .*; take it out of there"):
        accounts.account(machine(tmp_path), "ada")


def test_the_primary_group_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, gid=998)
    with pytest.raises(NodeError, match="ada is in the group docker, and it starts containers as root"):
        accounts.account(machine(tmp_path), "ada")


@pytest.mark.parametrize("uid", [1, 33, 999, 65534])
def test_an_account_of_the_system_is_never_given_a_workload(uid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, uid=uid)
    with pytest.raises(NodeError, match=rf"ada \(uid {uid}\) is an account of the system"):
        accounts.account(machine(tmp_path), "ada")


def test_the_machine_says_where_people_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/login.defs").write_text("# UID_MIN 1\nUID_MIN\t\t\t 5000\nSYS_UID_MIN 100\n")
    known(monkeypatch, uid=4999)
    with pytest.raises(NodeError, match="from uid 5000 on"):
        accounts.account(machine(tmp_path), "ada")
    known(monkeypatch, 100, 992, uid=5000)
    accounts.account(machine(tmp_path), "ada")


@pytest.mark.parametrize("concern", ["unit", "directory"])
def test_nothing_is_made_for_such_an_account(concern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, 998)
    here = machine(tmp_path)
    monkeypatch.setattr(systemd, "show", lambda context, unit: {})
    monkeypatch.setattr(directories, "mounted", lambda context: "/dev/vdb")
    monkeypatch.setattr(here, "act", lambda argv, **_: pytest.fail(f"{argv} ran"))
    with pytest.raises(NodeError, match="docker"):
        if concern == "unit":
            units.apply(here, "web-1", {"user": "ada", "command": "serve"})
        else:
            directories.apply(here, "web-1", {"scratch": {"quota": 10**6, "owner": "ada"}})
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"ledger.json"}
