"""Does a good file give the stack it describes, and can every value's line be named?"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.stackfile import Loaded, load, loads, schema
from swarm_iac.stackfile.load import SWITCHES
from swarm_iac.stackfile.reading.ranges import expand

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 6, 1)
SMALL = """fleet: lab
teams: {a: {users: [ada]}}
limits:
  user: {gpus: 4}
  except: [{user: ada, memory: 600 GB, until: 2026-05-01, reason: paper}]
tuning: {t: {sysctl: {net.core.somaxconn: 1024}}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nvme: 2 TB, nic: 10 Gbit/s}}
racks:
nodes:
  n-[1-3]: {hardware: h, ssh: "root@{name}.lab", labels: {disk: fast}}
  n-[2,3]: {tuning: t}
  n-2:
    state: drain
    labels: {on: "no"}
workloads: {}
"""


def loaded(text: str) -> Loaded:
    return loads(text, "lab.yaml", policies=ROOT / "policies", today=TODAY)


def test_later_entries_refine_earlier_ones() -> None:
    nodes = loaded(SMALL).stack.nodes
    assert [node.ssh for node in nodes.values()] == ["root@n-1.lab", "root@n-2.lab", "root@n-3.lab"]
    assert [node.state for node in nodes.values()] == ["ready", "drain", "ready"]
    assert [node.tuning for node in nodes.values()] == [None, "t", "t"]
    assert nodes["n-2"].labels == {"disk": "fast", "on": "no"}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("nodes.n-1.hardware", "lab.yaml:10:23"),
        ("nodes.n-3.tuning", "lab.yaml:11:21"),
        ("nodes.n-2.state", "lab.yaml:13:12"),
        ("nodes.n-2.labels.on", "lab.yaml:14:18"),
        ("nodes.n-2.labels.disk", "lab.yaml:10:65"),
        ("nodes.n-1.rack", "lab.yaml:10:3"),
        ("nodes.n-[2,3].tuning", "lab.yaml:11:21"),
        ("limits.user.gpus", "lab.yaml:4:16"),
        ("limits.user.vcpus", "policies/limits.yaml:2:25"),
        ("limits.except[0].memory", "lab.yaml:5:32"),
        ("tuning.t.sysctl.net.core.somaxconn", "lab.yaml:6:43"),
        ("hardware.h.gpus", "lab.yaml:7:22"),
        ("nothing.of.this", "lab.yaml:1:1"),
    ],
)
def test_every_value_has_a_place(path: str, place: str) -> None:
    assert str(loaded(SMALL).source.place(path)).replace(f"{ROOT}/", "") == place


def test_limits_of_the_stack_replace_the_defaults_value_by_value() -> None:
    limits = loaded(SMALL).stack.limits
    assert tuple(map(str, (limits.user.gpus, limits.user.vcpus, limits.node.gpus))) == ("4", "64", "32")
    assert str(limits.of_user("ada").memory) == "600 GB"
    assert str(limits.of_user("ada", TODAY).memory) == "512 GB"


def test_words_are_those_of_yaml_1_2() -> None:
    text = SMALL.replace('"no"', "no").replace("disk: fast", "disk: off")
    assert loaded(text).stack.nodes["n-2"].labels == {"disk": "off", "on": "no"}


def test_aliases_are_written_out() -> None:
    shape = "{gpus: 8 x H100, vcpus: 64, memory: 1 TB, nvme: 2 TB, nic: 10 Gbit/s}"
    text = SMALL.replace(f"hardware: {{h: {shape}}}", f"hardware:\n  h: &h {shape}\n  k: *h")
    result = loaded(text)
    assert result.stack.hardware["k"] == result.stack.hardware["h"]
    assert result.source.place("hardware.k").line == 9


def test_expired_exception_leaves_the_file_right() -> None:
    text = SMALL.replace("workloads: {}", "workloads: {one: {user: ada, each: {memory: 550 GB}}}")
    assert "one" in loaded(text).stack.workloads


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu", ["gpu"]),
        ("gpu-[08-11]", ["gpu-08", "gpu-09", "gpu-10", "gpu-11"]),
        ("gpu-[01,03,05-06]", ["gpu-01", "gpu-03", "gpu-05", "gpu-06"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_ranges(pattern: str, names: list[str]) -> None:
    assert list(expand(pattern)) == names


@pytest.mark.parametrize("pattern", ["a[", "a]", "a[]", "a[1-]", "a[2-1]", "a[x]", "a[1,1]", "a[[1]]", "a[1-99999999]"])
def test_ranges_that_are_none(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"it |its |\["):
        expand(pattern)


def test_stacks_of_this_repository_load() -> None:
    for path in sorted((ROOT / "stacks").glob("*.yaml")):
        if not path.name.endswith((".lock.yaml", ".proof.yaml", ".candidate.yaml")):
            stack = load(path, today=TODAY).stack
            assert stack.nodes and stack.workloads
            assert path.read_text().startswith("# yaml-language-server: $schema=../swarm_iac/stackfile/stack.schema.json\n")


def test_schema_file_is_up_to_date() -> None:
    """Write it anew with: python -m swarm_iac.stackfile.reading.shape > swarm_iac/stackfile/stack.schema.json"""
    file = ROOT / "swarm_iac" / "stackfile" / "stack.schema.json"
    assert json.loads(file.read_text()) == schema()


def test_every_switch_of_the_schema_can_be_written() -> None:
    found = {
        key
        for one in schema()["$defs"].values()
        for key, value in one.get("properties", {}).items()
        if "boolean" in [each.get("type") for each in value.get("anyOf", [value])]
    }
    assert found == set(SWITCHES)


def test_every_field_of_the_schema_is_described() -> None:
    bare: list[str] = []

    def walk(part: Any, path: str) -> None:
        if isinstance(part, dict):
            for name, value in part.get("properties", {}).items():
                if not value.get("description"):
                    bare.append(f"{path}.{name}")
            for key, value in part.items():
                walk(value, f"{path}.{key}")
        elif isinstance(part, list):
            for item in part:
                walk(item, path)

    walk(schema(), "")
    assert not bare
