"""Is a GPU whose file was opened to everybody ever taken for closed? Fails on 3f04825."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.model.state import Desired, LedgerHead, NodeState, Observed
from swarm_iac.plan import rows, steps
from tests.node.conftest import GUARD

from swarm_node.concerns import devices  # isort: skip
from swarm_node.machine import systemd  # isort: skip
from swarm_node.program import observe  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.machine.run import Context  # isort: skip

SHOWN = {"DevicePolicy": "closed", "DeviceAllow": "/dev/nvidia0 rw"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "dev").mkdir()
    try:
        os.mknod(tmp_path / "dev/nvidia0", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes device files")
    (tmp_path / "sys/fs/cgroup/swarm.slice/swarm-web_0.slice").mkdir(parents=True)
    monkeypatch.setattr(grp, "getgrnam", lambda name: grp.struct_group((name, "x", 0, [])))
    monkeypatch.setattr(systemd, "show", lambda context, unit: SHOWN)
    book = ledger.load(str(tmp_path), check=False)
    book.guard(**GUARD)
    book.record("allocations", "web-0", value={"workload": "web", "gpus": [0], "slice": {"cpu_weight": 100}})
    context = Context(book, root=str(tmp_path))
    monkeypatch.setattr(context, "act", lambda argv, **_: "")
    return context


def seen(here: Any) -> Any:
    wrong: list[str] = []
    found = observe._state(here, wrong)["allocations"]["web-0"]
    assert len(wrong) == 0, wrong
    return found["slice"].get("gpus_open")


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o661])
def test_a_file_that_was_widened_is_never_unseen(mode: int, here: Any) -> None:
    devices.protect(here)
    assert seen(here) is None
    Path(here.path("/dev/nvidia0")).chmod(mode)
    assert seen(here) is True
    devices.protect(here)
    assert seen(here) is None


def test_a_file_that_was_given_to_a_user_is_never_unseen(here: Any) -> None:
    devices.protect(here)
    os.chown(here.path("/dev/nvidia0"), 1001, -1)
    assert seen(here) is True
    os.chown(here.path("/dev/nvidia0"), 0, 1001)
    assert seen(here) is True


def test_closing_it_again_never_disturbs_what_runs() -> None:
    unit = {"user": "ada", "command": "serve", "active": True}

    def state(**more: Any) -> NodeState:
        one = {"workload": "web", "gpus": (0,), "slice": more, "unit": unit}
        return NodeState.model_validate({"allocations": {"web-0": one}})

    head = LedgerHead(lineage="l", serial=1, fleet="f")
    found = Observed(node="n1", ledger=head, agent="new", state=state(gpus_open=True), health={"web-0": "healthy"})
    wanted = Desired(node="n1", address="local", fleet="f", state=state())
    plan = steps({"n1": found}, {"n1": wanted}, agent="new")
    assert [step.id for step in plan.steps] == ["n1/slice/web-0"]
    assert [one.path for one in plan.steps[0].changes] == ['allocations["web-0"].slice.gpus_open']
    assert rows({"n1": found})["Allocation", "web-0"]["gpuFiles"] == "open to all accounts"
