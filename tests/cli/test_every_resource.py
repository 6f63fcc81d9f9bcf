"""Is each row of the table of resources known from the stack file to the answers? A row that is new is tried here by itself.

Two workloads of one user ask for two of it each, and the user may have three.
"""

from __future__ import annotations

import datetime
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac.limits import judge
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.row import Resource
from swarm_iac.model.resources.table import LIMITED, LIMITS
from swarm_iac.stackfile import loads
from swarm_iac.stackfile.locks import lock
from tests.cli.typed import Ended, swarm
from tests.sized import sizes
from tests.solver.fleets import ONE, asking, limiting, with_all

SHAPE = {"gpus": "4 x H100", "vcpus": 64, "memory": "900 GB", "nvme": "900 GB", "nic": "100 Gbit/s"}


def written(key: str, first: int = 2, second: int = 2, **limits: Any) -> str:
    """The stack file."""
    row = LIMITED[key][0]
    node = {"hardware": "h", "ssh": "root@{name}"}
    return yaml.safe_dump({
        "fleet": "lab",
        "teams": {"research": {"users": ["ada"]}},
        "limits": limits or {"user": limiting(key, 3), "cluster": limiting(key, 9)},
        "hardware": with_all({"h": SHAPE}),
        "nodes": {"gpu-[01-02]": node},
        "workloads": {name: asking({"user": "ada"}, row, n) for name, n in (("first", first), ("second", second))},
    })  # fmt: skip


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A repository with the stack, decided."""
    key = request.node.callspec.params["key"]
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "dev.yaml").write_text(written(key))
    ended = swarm("solve", at=tmp_path, width=200)
    assert ended.code == 0, ended.err
    (tmp_path / "solved.txt").write_text(ended.out)
    return tmp_path


def asked(*words: str, at: Path) -> Any:
    ended: Ended = swarm(*words, "--json", at=at)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def amounts(row: Resource, count: int) -> str:
    """So many of ONE, as people read it."""
    return row.text(count * ONE[row.unit])


#: Replicas, of which each is one, are in test_limits.py.
every_limit = pytest.mark.parametrize("key", [key for key, rows in LIMITED.items() if not rows[0].itself])


@every_limit
def test_more_than_a_user_may_ever_have_is_a_mistake(key: str, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(written(key, second=4))
    ended = swarm("validate", "lab.yaml", at=tmp_path)
    most, excess = (LIMITS[key].text(n * ONE[LIMITS[key].unit]) for n in (3, 1))
    assert ended.code == 2 and f"user ada may have {most}: {excess} too" in ended.err
    assert re.search(rf"workloads\.second\.{re.escape(LIMITED[key][0].key)}: .*", ended.err)


@pytest.mark.parametrize("key", [key for key, rows in LIMITED.items() if rows[0].capacity])
def test_more_than_any_machine_has_is_a_mistake(key: str, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(written(key, second=1000, node={}))
    ended = swarm("validate", "lab.yaml", at=tmp_path)
    assert ended.code == 2 and "the largest, h, has " in ended.err and "workloads.second" in ended.err


@every_limit
def test_what_is_beyond_a_limit_waits_and_says_why(key: str, fleet: Path) -> None:
    row, limit = LIMITED[key][0], LIMITS[key]
    text = (fleet / "stacks" / "dev.lock.yaml").read_text()
    found = lock.parse(text, "dev.lock.yaml").placement
    assert ([one.name for one in found.allocations], [one.workload for one in found.unplaced]) == (["first-0"], ["second"])
    assert row.held(found.allocations[0]) == 2 * ONE[row.unit]
    assert row.pieces or f"    {row.name}: {amounts(row, 2)}\n" in text
    assert row.pieces or lock.parse(text.replace("\n\n", "\n# a comment\n\n"), "x").placement == found, "as YAML, too"
    head = re.search(r"^ *allocation .*$", (fleet / "solved.txt").read_text(), re.MULTILINE)
    assert head and f" {row.title}" in head[0]
    why = asked("why", "second", at=fleet)
    (reason, *_) = why["reasons"]
    assert (reason["rule"], reason["path"]) == ("user_stays_under_limits", f"limits.user.{key}")
    assert reason["text"].endswith(f"user ada has {limit.text(ONE[limit.unit])} left of {limit.text(3 * ONE[limit.unit])}")
    assert asked("why", "first", at=fleet)["placed"] == 1


@every_limit
def test_a_fix_is_told_and_helps(key: str, fleet: Path) -> None:
    told = swarm("why", "second", at=fleet).out
    raised = LIMITS[key].text(4 * ONE[LIMITS[key].unit])
    command = next(line.strip() for line in told.splitlines() if "swarm what-if" in line and f"limits.user.{key}=" in line)
    edit = shlex.split(command[command.index("swarm what-if") :].split("  ")[0])[2]
    assert edit == f"limits.user.{key}={raised}"
    found = asked("what-if", edit, at=fleet)
    assert [one["allocation"] for one in found["changes"] if one["note"].startswith("new")] == ["second-0"]
    (user,) = [one for one in found["limits"] if (one["level"], one["resource"]) == ("user", key)]
    assert (user["used"], user["before"]) == (4 * ONE[LIMITS[key].unit], 2 * ONE[LIMITS[key].unit])
    assert user["ceiling"] == 4 * ONE[LIMITS[key].unit] and user["ceiling_before"] == 3 * ONE[LIMITS[key].unit]


@every_limit
def test_a_plan_shows_what_is_used_of_it(key: str, fleet: Path) -> None:
    shown = swarm("plan", "--offline", "stacks/dev.yaml", at=fleet, width=160).out
    used, most = (LIMITS[key].text(n * ONE[LIMITS[key].unit]) for n in (2, 9))
    assert re.search(rf"cluster lab +{key} +\S+( \S+)? +{used} +{most}", shown), shown


@every_limit
@pytest.mark.parametrize("level", ["user", "node", "cluster"])
def test_a_placement_beyond_a_limit_is_refused_apart_from_the_solver(key: str, level: str) -> None:
    stack = loads(written(key, **{level: limiting(key, 3)}), "lab.yaml", today=datetime.date(2026, 6, 1)).stack
    ones = tuple(
        Allocation(
            name=f"{name}-0", workload=name, index=0, node="gpu-01", **sizes(request),
            **({"gpus": ((0, 1), (2, 3))[name == "second"]} if key == "gpus" else {}),
        )
        for name, request in stack.workloads.items()
    )  # fmt: skip
    rule = {"user": "users_stay_under_limit", "node": "nodes_stay_under_limit", "cluster": "cluster_stays_under_limit"}[level]
    (found,) = judge(stack, Placement(allocations=ones))
    assert (found.rule, found.path) == (rule, f"limits.{level}.{key}")
    limit = LIMITS[key]
    assert f"{limit.amount(4 * ONE[limit.unit])}; the limit is {limit.text(3 * ONE[limit.unit])}" in found.text


POOLS = [key for key, rows in LIMITED.items() if not rows[0].capacity and not rows[0].itself]


@pytest.mark.parametrize("key", POOLS)
def test_a_rebalance_shows_what_is_used_of_a_pool(key: str, tmp_path: Path) -> None:
    """Two small ones run on two nodes; one move lets the large one run, which takes the rest of the pool."""
    row, unit = LIMITED[key][0], LIMITS[key]
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    small = asking({"user": "ada", "replicas": 2, "place": {"spread": "node"}, "each": {"gpus": 1}}, row, 1)
    stack: dict[str, Any] = yaml.safe_load(written(key)) | {"solve": {"moves": 0}, "workloads": {"small": small}}
    stack["limits"] = {"cluster": limiting(key, 9)}
    file = tmp_path / "stacks" / "dev.yaml"
    file.write_text(yaml.safe_dump(stack))
    assert swarm("solve", at=tmp_path).code == 0
    large = asking({"user": "ada", "each": {"gpus": 4}}, row, 3)
    file.write_text(yaml.safe_dump(stack | {"workloads": {"small": small | {"place": {}}, "large": large}}))
    assert swarm("solve", at=tmp_path).code == 0
    shown = swarm("rebalance", at=tmp_path, width=160)
    used = [unit.text(n * ONE[unit.unit]) for n in (2, 5, 9)]
    assert f" {key} " in shown.out and f"{used[0]} of {used[2]}" in shown.out and f"{used[1]} of {used[2]}" in shown.out
    assert [one["used"] for one in asked("rebalance", at=tmp_path)][-1] == {key: 5 * ONE[unit.unit]}


@pytest.mark.parametrize("key", POOLS)
def test_a_pool_without_a_size_is_doubted(key: str, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(written(key, user=limiting(key, 9)))
    told = swarm("validate", "lab.yaml", at=tmp_path)
    assert told.code == 0 and f"limits.cluster.{key}" in told.out + told.err
