"""Does the provider replace the live layer only from the version that it was made from, and before anything else is changed?"""

from __future__ import annotations

import json
import time

import pytest

from swarm_iac.live.layer import Layer, NodePower, Version
from swarm_iac.live.shared import Leader, Shared
from tests.provider.conftest import Project, two_nodes

pytestmark = pytest.mark.engine
ADA, BO = "a" * 32, "b" * 32
PROGRAM = """
import json
import pulumi
from swarm_iac.provider.resource import Fleet, LiveLayer

given = json.load(open("given.json"))
live = [LiveLayer("dev", given["live"])] if given["live"] else []
fleet = Fleet("lab", fleet="lab", nodes=given["nodes"], opts=pulumi.ResourceOptions(depends_on=live))
"""


def one(number: int, writer: str, base: Version | None = None, leads: Leader | None = None) -> Shared:
    power = {f"n{number}": NodePower(state="off", since=1.0)}
    return Shared(Version(number=number, writer=writer), Layer(fleet="lab", stack="dev", power=power), leads, base)


def give(project: Project, live: Shared | None, swappiness: int) -> None:
    nodes = two_nodes()
    nodes["n1"]["state"]["settings"]["sysctl"]["vm.swappiness"] = str(swappiness)
    project.give(nodes, live=live.inputs() if live else None)


def there(project: Project) -> int:
    found = project.state()["Live dev"]["inputs"]
    return int(json.loads(found["version"])["number"])


def test_a_layer_made_from_another_version_is_refused_and_no_machine_is_changed(project: Project) -> None:
    (project.folder / "__main__.py").write_text(PROGRAM)
    first = one(1, ADA, leads=Leader(id=ADA, who="desk process 7", at=time.time(), lease=600))
    give(project, first, 1)
    project.up()
    give(project, one(2, BO, Version(number=1, writer=BO), first.leader), 2)
    before = project.machines.read_bytes()
    said = project.up(ok=False)
    assert "the live layer was replaced meanwhile: version 1" in said and "hint: nothing was changed; run it again" in said
    assert there(project) == 1 and project.machines.read_bytes() == before

    give(project, one(2, BO, first.version, Leader(id=BO, at=time.time(), lease=600)), 2)
    assert "another autopilot leads: desk process 7, until 20" in project.up(ok=False)
    assert there(project) == 1 and project.machines.read_bytes() == before

    give(project, one(2, BO, first.version, first.leader), 2)
    assert "version" in project.pulumi("preview", "--diff")
    project.up()
    assert there(project) == 2 and project.machines.read_bytes() != before
    project.pulumi("preview", "--expect-no-changes")


def test_what_is_no_layer_is_refused_in_words(project: Project) -> None:
    (project.folder / "__main__.py").write_text(PROGRAM)
    project.give(two_nodes(), live={**one(1, ADA).inputs(), "layer": '{"by": "\\u001b[2J"}'})
    said = project.up(ok=False)
    assert "the state's live layer is none: by: " in said and "pulumi state delete" in said and "\x1b" not in said


def test_it_goes_when_nothing_scales_any_more_and_with_destroy(project: Project) -> None:
    (project.folder / "__main__.py").write_text(PROGRAM)
    give(project, one(1, ADA), 1)
    project.up()
    give(project, None, 1)
    project.up()
    assert "Live dev" not in project.state() and "Fleet lab" in project.state()
    give(project, one(2, ADA), 1)
    project.up()
    project.pulumi("refresh", "--yes")
    assert there(project) == 2
    project.pulumi("destroy", "--yes")
    assert not project.state()
