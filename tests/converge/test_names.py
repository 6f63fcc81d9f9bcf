"""Does each verb's task come in order, under its own name and limit, in check mode too? With the real Ansible."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm_iac.converge.tasks import WORDS
from swarm_iac.model.step import Step, Verb
from tests.hostile.conftest import Nodes

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("check", [False, True])
def test_every_verb_runs_in_order_under_its_own_name(check: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, tmp_path)
    nodes.program(
        """print(json.dumps({"results": [outcome(one, message=f"{asked['verb']} {asked['check']}") for one in asked["steps"]]}))"""
    )
    verbs = [verb for verb in Verb if verb != Verb.HEALTH]
    found = nodes.converge(*(Step(id=f"a/{verb}", node="a", verb=verb) for verb in verbs), check=check)
    assert [one.message for one in found.values()] == [f"{verb} {check}" for verb in verbs]
    assert [line for line in nodes.lines if line.startswith("a: ")] == [f"a: {WORDS[verb]}" for verb in verbs], "and no other"
