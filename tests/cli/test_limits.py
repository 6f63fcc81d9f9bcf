"""Does `swarm limits` show the tree of limits with what is used of each?"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.typed import swarm

STACK = """\
fleet: lab
teams:
  science: {limits: {gpus: 6}}
  research: {users: [ada, bo], parent: science}
  product: {users: [cy]}
limits: {user: {gpus: 16}, team: {memory: 1 TB}}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n[1-2]: {hardware: h, ssh: "root@{name}"}
workloads:
  a: {user: ada, each: {gpus: 4, memory: 10 GB}}
  b: {user: bo, replicas: 2, each: {gpus: 1}}
  c: {user: cy, each: {gpus: 2}}
"""


def told(tmp_path: Path, text: str, *words: str) -> str:
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    ended = swarm("limits", str(file), *words, at=tmp_path)
    assert ended.code == 0, ended.err
    assert not list(tmp_path.glob("*.lock.yaml")), "it writes nothing"
    return ended.out


def test_teams_are_shown_inside_each_other_with_their_users(tmp_path: Path) -> None:
    text = told(tmp_path, STACK)
    order = [
        "cluster lab",
        "  team science",
        "    team research",
        "      user ada",
        "      user bo",
        "  team product",
        "    user cy",
    ]
    found = [next(i for i, line in enumerate(text.splitlines()) if line.startswith(f" {name} ")) for name in order]
    assert found == sorted(found)
    assert re.search(r"team science +6 of 6", text) and re.search(r"user ada +4 of 16", text)


def test_what_was_lowered_below_what_is_held_is_marked(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(STACK)
    assert swarm("solve", str(file), at=tmp_path).code == 0
    file.write_text(STACK.replace("gpus: 6}", "gpus: 5}"))
    ended = swarm("limits", str(file), at=tmp_path)
    assert re.search(r"team science +6 of 5 \(over\)", ended.out), ended.out + ended.err


def test_the_json_has_each_scope_with_what_it_is_inside_of(tmp_path: Path) -> None:
    rows = json.loads(told(tmp_path, STACK, "--json"))
    found = {(one["level"], one["subject"]): one for one in rows}
    assert {name: one["inside"] for (_, name), one in found.items()} == {
        "lab": None, "science": None, "research": "science", "ada": "research", "bo": "research", "product": None, "cy": "product",
    }  # fmt: skip
    science = found["team", "science"]
    assert (science["used"]["gpus"], science["limits"]["gpus"], science["limits"]["memory"]) == (6000, 6000, 10**12)
    assert found["team", "product"]["limits"]["gpus"] is None and found["team", "product"]["used"]["gpus"] == 2000


def test_without_limits_of_teams_what_they_use_is_shown_all_the_same(tmp_path: Path) -> None:
    plain = STACK.replace("science: {limits: {gpus: 6}}", "science: {}").replace(", team: {memory: 1 TB}", "")
    assert {one["subject"]: one["used"]["gpus"] for one in json.loads(told(tmp_path, plain, "--json"))}["science"] == 6000
