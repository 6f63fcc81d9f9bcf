"""Does the role take every verb, in the order that the vocabulary gives, and is each read by its own name?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from swarm_iac import assets
from swarm_iac.converge.play import inventory
from swarm_iac.converge.tasks import VERB_OF, WORDS
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Step, Verb


def _load(*path: str) -> Any:
    return yaml.safe_load(assets.playbooks().joinpath(*path).read_text(encoding="utf-8"))


def test_order_is_that_of_the_vocabulary() -> None:
    tasks = _load("converge.yml")[0]["tasks"][: len(Verb)]
    assert [task["vars"]["swarm_verb"] for task in tasks] == [verb.value for verb in Verb]
    for verb, task in zip(Verb, tasks, strict=True):
        assert task["ansible.builtin.import_role"] == {"name": "step"}
        assert (task["when"], task["name"]) == (f"'{verb}' in swarm_steps", f"Verb {verb}")
        assert task["vars"]["swarm_own_steps"] == f"{{{{ swarm_steps.{verb} }}}}"


def test_every_verb_has_a_name_of_its_own() -> None:
    assert list(WORDS) == list(Verb) and set(VERB_OF.values()) == set(Verb)


def test_role() -> None:
    (task,) = _load("roles", "step", "tasks", "main.yml")
    options = _load("roles", "step", "meta", "argument_specs.yml")["argument_specs"]["main"]["options"]
    assert all("description" in option for option in options.values())
    assert options["swarm_verb"]["choices"] == [verb.value for verb in Verb]
    # Ansible refuses a role's argument that its specification does not name, or that is of another type.
    types = {"str": str, "path": str, "dict": dict}
    for verb in Verb:
        step = Step(id="a/x", node="a", verb=verb)
        desired = {"a": Desired(node="a", address="local", fleet="dev")}
        found = inventory(Path("/tmp"), [step], desired, None, {"lineage": "L", "serial": 1}, {})["all"]
        own = {"swarm_verb": verb.value, "swarm_own_steps": found["hosts"]["a"]["swarm_steps"][verb.value]}
        given = {**found["vars"], **found["hosts"]["a"], **own}
        assert all(isinstance(given[name], types[option["type"]]) for name, option in options.items())
        assert given["swarm_limits"][verb.value] > 0 and given["swarm_words"][verb.value]
    used = {*task["swarm_step"].values(), task["when"], task["name"], task["timeout"]}
    assert all(any(name in text for text in used) for name in options), "what a role asks for, it uses"
