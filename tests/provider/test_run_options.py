"""Is the environment read at the edge of a run alone, and does every option come from its variable?"""

from __future__ import annotations

import ast
import asyncio
from dataclasses import fields
from pathlib import Path

import pytest
from pulumi.runtime.proto import provider_pb2 as pb

from swarm_iac.provider.operations.machines import RealMachines
from swarm_iac.provider.operations.servicer import Servicer
from swarm_iac.provider.plugin.serve import Busy
from swarm_iac.provider.plugin.wire import to_struct
from swarm_iac.run_options import VARIABLES, RunOptions

PROVIDER = Path(__file__).resolve().parents[2] / "swarm_iac" / "provider"
#: Modules that may touch the environment, and why.
ALLOWED = {
    "__main__.py": "the provider's edge: its process starts here",
    "policy.py": "the policy pack's edge: its process starts here",
    "plugin/lazy_imports.py": "tells gRPC, in the only way that it takes, to leave forked children alone; reads nothing",
}
SET = {
    "SWARM_SSH_CONFIG": "/own/config", "SWARM_NODE_TIMEOUT": "90", "SWARM_OFFLINE": "1", "SWARM_FROZEN": "true",
    "SWARM_RETRY": "1", "SWARM_ONLY": "gpu-03,research", "SWARM_ALLOW_STOP": "12", "SWARM_ADOPT": "0b0c", "SWARM_WHO": "ada@desk",
    "SWARM_IN_HAND": "/tmp/flight", "SWARM_SUMMARY": "/tmp/summary", "PULUMI_SKIP_CHECKPOINTS": "true", "XDG_STATE_HOME": "/own/state",
    "SWARM_LIVE_LAYER": "/own/live", "SWARM_SHARE_LAYER": "keep",
}  # fmt: skip


def touching(folder: Path) -> set[str]:
    """Modules that name the environment or ask for a home folder."""
    names = {"environ", "environb", "getenv", "putenv", "expanduser", "expandvars", "home"}
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = node.attr if isinstance(node, ast.Attribute) else ""
            imported = {each.name for each in node.names} if isinstance(node, ast.ImportFrom) and node.module == "os" else set()
            owner = node.value.id if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""
            if (named in names and owner in ("os", "path", "Path")) or imported & names:
                found.add(path.relative_to(folder).as_posix())
    return found


def test_the_provider_reads_its_environment_at_its_edge_alone() -> None:
    assert touching(PROVIDER) == ALLOWED.keys()


def test_a_module_that_reads_it_is_found(tmp_path: Path) -> None:
    for number, line in enumerate(
        ("import os\nos.environ['X']", "from os import getenv", "from pathlib import Path\nPath.home()")
    ):
        (tmp_path / f"m{number}.py").write_text(line)
    assert touching(tmp_path) == {"m0.py", "m1.py", "m2.py"}


def test_every_option_comes_from_its_variable() -> None:
    names = {each.name for each in fields(RunOptions)} - {"mistakes"}
    assert VARIABLES.keys() == names and set(VARIABLES.values()) == SET.keys()
    unset, given = RunOptions.of({}), RunOptions.of(SET)
    assert {name for name in names if getattr(unset, name) == getattr(given, name)} == set()
    for name in names:
        alone = RunOptions.of({VARIABLES[name]: SET[VARIABLES[name]]})
        assert {other for other in names if getattr(alone, other) != getattr(unset, other)} == {name}
    assert RunOptions.of(dict.fromkeys(SET, "")) == unset and given.mistakes == ()
    assert RunOptions.of({"SWARM_OFFLINE": "0", "SWARM_NODE_TIMEOUT": "soon"}) == unset


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "²"])
def test_a_number_that_is_none_allows_nothing_and_is_told(text: str) -> None:
    options = RunOptions.of({"SWARM_ALLOW_STOP": text})
    assert options.allow_stop == 0
    assert options.mistakes and f"SWARM_ALLOW_STOP is {text!r} and not a number" in options.mistakes[0]


def test_a_change_with_a_number_that_is_none_is_refused_by_name() -> None:
    options = RunOptions.of({"SWARM_ALLOW_STOP": "many"})
    request = pb.CheckRequest(urn="urn:pulumi:dev::lab::swarm:index:Fleet::lab", news=to_struct({"fleet": "lab"}))
    answer = asyncio.run(Servicer(RealMachines(options), Busy(), options).Check(request, None))
    assert [each.reason.split("\n")[0] for each in answer.failures] == ["SWARM_ALLOW_STOP is 'many' and not a number"]
