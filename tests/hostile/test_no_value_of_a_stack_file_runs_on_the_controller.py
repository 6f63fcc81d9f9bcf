"""No value of a stack file is evaluated on the operator's machine, also not through a key that is Ansible's own.

Fails on 3f04825: the command of the lookup ran there, as whoever ran `up`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from swarm_iac.model.step import Step, Verb
from swarm_iac.model.workload import Run
from swarm_iac.reach.address import parse
from tests.hostile.conftest import Nodes

pytestmark = pytest.mark.engine

ECHO = """
with open({file!r}, "w") as file:
    json.dump(asked["steps"], file)
print(json.dumps({{"results": [outcome(one) for one in asked["steps"]]}}))
"""


@pytest.mark.parametrize("key", ["__ansible_unsafe", "__ansible_vault", "__ansible_type", "PLAIN"])
def test_an_environment_never_runs_a_command_here(key: str, tmp_path: Path, nodes: Nodes) -> None:
    ran = tmp_path / "ran"
    seen = tmp_path / "seen.json"
    nodes.program(ECHO.format(file=str(seen)))
    env = {key: f"{{{{ lookup('ansible.builtin.pipe', 'touch {ran}') }}}}", "OTHER": "{{ 7 * 7 }}"}
    want: dict[str, Any] = {"allocations": {"x-0": {"unit": {"user": "ada", "env": env}}}}
    step = Step(id="a/start/x-0", node="a", verb=Verb.START, allocation="x-0", want=want)
    found = nodes.converge(step)
    assert not ran.exists(), "a command of a stack file ran on the controller"
    assert found[step.id].ok, found
    assert json.loads(seen.read_text())[0]["want"] == want, "the node gets every value as it was written"


@pytest.mark.parametrize("name", ["__ansible_unsafe", "__ansible_vault", "__ANSIBLE_X"])
def test_a_name_of_ansibles_own_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name} is no variable of a workload"):
        Run(command="true", env={name: "x"})


@pytest.mark.parametrize(
    "address", ["{{ x }}@h", "root@{{ x }}", "root@h h", "a%n@h", "root@h\n", "x;y@h", "$(id)@h", "a\x1b@h"]
)
def test_an_address_holds_nothing_that_anyone_reads_as_code(address: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        parse(address)
