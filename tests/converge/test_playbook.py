"""Is there a complete role for every verb, in the order that the vocabulary gives?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac import assets
from swarm_iac.converge.play import inventory
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Step, Verb


def _load(*path: str) -> Any:
    return yaml.safe_load(assets.playbooks().joinpath(*path).read_text(encoding="utf-8"))


def test_order_is_that_of_the_vocabulary() -> None:
    imported = [task["ansible.builtin.import_role"]["name"] for task in _load("converge.yml")[0]["tasks"][: len(Verb)]]
    assert imported == [verb.value for verb in Verb]


@pytest.mark.parametrize("verb", list(Verb))
def test_role(verb: Verb) -> None:
    (task,) = _load("roles", verb, "tasks", "main.yml")
    assert task["swarm_step"]["verb"] == verb
    options = _load("roles", verb, "meta", "argument_specs.yml")["argument_specs"]["main"]["options"]
    assert all("description" in option for option in options.values())
    # Ansible refuses a role's argument that its specification does not name, or that is of another type.
    step = Step(id="a/x", node="a", verb=verb)
    desired = {"a": Desired(node="a", address="local", fleet="dev")}
    host = inventory(Path("/tmp"), [step], desired, None, {"lineage": "L", "serial": 1}, {})["all"]["hosts"]["a"]
    assert options["swarm_own_steps"]["type"] == "str" and isinstance(host["swarm_steps"][verb.value], str)
    given = {*task["swarm_step"].values(), task["when"]}
    assert all(any(name in text for text in given) for name in options), "what a role asks for, it uses"
