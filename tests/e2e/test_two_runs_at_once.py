"""Two operators with copies of one state type `swarm up` at the same moment: does exactly one of them act, on any machine?

Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import NODES, Fleet
from tests.e2e.test_operators import Clone

pytestmark = pytest.mark.e2e

UP = ("up", "--yes", "--skip-preview")
VALUES = {"ana@desk": "31", "bo@lap": "32"}


def serial(fleet: Fleet, node: str) -> int:
    found: int = json.loads(fleet.node(node, "cat /var/lib/swarm/ledger.json"))["serial"]
    return found


def test_exactly_one_of_two_runs_that_begin_together_acts_on_any_machine(fleet: Fleet, tmp_path: Path) -> None:
    fleet.swarm(*UP).ok()  # another test may have given everything back
    before = max(serial(fleet, node) for node in NODES)
    clones = {}
    for who, value in VALUES.items():
        # With its state: that is what a backup, a copied folder or a backend without a lock amounts to.
        shutil.copytree(fleet.root, tmp_path / who, ignore=shutil.ignore_patterns(".sandbox"), symlinks=True)
        clones[who] = Clone(tmp_path / who, fleet.sandbox)
        stack = clones[who].stack
        stack.write_text(re.sub(r"swappiness: \d+", f"swappiness: {value}", stack.read_text()))  # other tests leave their own
    reach = {"SWARM_SSH_CONFIG": str(fleet.sandbox.ssh_config), "SWARM_NODE_TIMEOUT": "90"}
    runs = {who: clone.begin(*UP, SWARM_WHO=who, **reach) for who, clone in clones.items()}
    done = {who: run.end() for who, run in runs.items()}

    won = [who for who, each in done.items() if each.status == 0]
    assert len(won) == 1, {who: each.text[-2000:] for who, each in done.items()}
    (lost,) = done.keys() - set(won)
    assert f"{won[0]} is changing this fleet" in done[lost].text or "another run with the same serial" in done[lost].text
    assert "nothing was changed" in done[lost].text
    for node in NODES:
        lines = [json.loads(line) for line in fleet.node(node, "cat /var/lib/swarm/audit.jsonl").splitlines()]
        assert lost not in {line["who"] for line in lines}, "the loser did nothing, anywhere"
        assert {line["who"] for line in lines if line["serial"] > before} <= {won[0]}
        assert "claim" not in fleet.node(node, "ls /run/swarm").split(), "its claims are gone with it"
    for node in ("gpu-01", "gpu-02"):
        assert fleet.node(node, "cat /proc/sys/vm/swappiness") == VALUES[won[0]]

    fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()
