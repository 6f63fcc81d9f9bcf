"""Does `swarm shares` show what teams are due, for people and as data?"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.typed import ROOT, swarm

EXAMPLE = ROOT / "examples" / "13-fair-shares" / "stack.yaml"


def test_the_data_adds_up() -> None:
    """What is due is all there is; what is due of one step is the floor of the next; and each height gives what is exact."""
    found = json.loads(swarm("shares", str(EXAMPLE), "--json", at=ROOT).out)
    assert found["gpus"] == {"H100": 16, "L40S": 8}
    teams = {one["team"]: one for one in found["teams"]}
    assert sum(one["due"] for one in teams.values()) == sum(found["gpus"].values()) * 1000
    first, second = found["steps"]
    assert (first["by"], first["due"]) == ("guarantee", {"speech": 4000, "text": 0, "vision": 0})
    assert {one["team"]: one["has"] for one in second["claims"]} == first["due"]
    assert (second["rounds"][0]["height"], second["rounds"][0]["together"]) == ("5000", 24000)
    assert {name: (one["asks"], one["holds"], one["lent"], one["owed"]) for name, one in teams.items()} == {
        "speech": (4000, 4000, 0, 0),
        "text": (16000, 5000, 0, 0),
        "vision": (16000, 15000, 0, 0),
    }


def test_the_data_adds_up_by_worth(tmp_path: Path) -> None:
    """2.5 for an H100 in halves: 16 x 5 + 8 x 2 = 96 of them, and each amount is a whole number of those."""
    text = (ROOT / "examples" / "21-gpus-that-count-more" / "stack.yaml").read_text()
    file = tmp_path / "stack.yaml"
    file.write_text(text.replace("worth: {H100: 2, L40S: 1}", "worth: {H100: 2.5}"))
    ended = swarm("shares", str(file), "--json", at=tmp_path)
    found = json.loads(ended.out)
    assert (found["worth"], found["one"]) == ({"H100": 2500, "L40S": 1000}, 2)
    teams = {one["team"]: one for one in found["teams"]}
    assert sum(one["due"] for one in teams.values()) == 96_000
    assert {name: (one["due"], one["asks"]) for name, one in teams.items()} == {
        "speech": (8_000, 8_000),  # 4 L40S
        "text": (22_000, 80_000),  # 88 for 3 + 1 shares
        "vision": (66_000, 80_000),
    }
    assert "as they count: 16 x H100 at 2.5 + 8 x L40S at 1 = 48" in swarm("shares", str(file), at=tmp_path).out


def test_what_is_held_counts_by_worth() -> None:
    """7 replicas of 2 H100 are 28; 2 H100 and 4 L40S are 8; and nobody who waits is told otherwise."""
    stack = ROOT / "examples" / "21-gpus-that-count-more" / "stack.yaml"
    found = {one["team"]: one for one in json.loads(swarm("shares", str(stack), "--json", at=ROOT).out)["teams"]}
    assert {name: (one["holds"], one["lent"], one["owed"]) for name, one in found.items()} == {
        "speech": (4000, 0, 0),
        "text": (8000, 0, 1000),
        "vision": (28000, 1000, 0),
    }
    told = swarm("why", "sweep", "--from", str(stack), at=ROOT).out
    assert "team text holds 8 GPUs by `worth` and is due 9" in " ".join(told.split())


def test_past_use_can_be_checked_with_a_pencil(tmp_path: Path) -> None:
    """900 of 1000 GPU-hours at half of the shares count 1 / (1 + 0.9 / 0.5) = 0.357, 100 of them 1 / (1 + 0.1 / 0.5) = 0.833."""
    text = (ROOT / "examples" / "27-past-use-counts" / "stack.yaml").read_text()
    file = tmp_path / "stack.yaml"
    file.write_text(text)
    told = " ".join(swarm("shares", str(file), at=tmp_path).out.split())
    assert "vision: share 1 counts 0.357, since it used 900 of 1000 GPU-hours" in told
    assert "speech: share 1 counts 0.833, since it used 100 of 1000 GPU-hours" in told
    found = json.loads(swarm("shares", str(file), "--json", at=tmp_path).out)
    assert (found["weights_in"], found["used"]) == (1000, {"vision": 900, "speech": 100})
    assert {one["team"]: (one["share"], one["due"], one["holds"]) for one in found["teams"]} == {
        "vision": (1, 5000, 5000),
        "speech": (1, 11000, 11000),
    }


def test_without_shares_it_says_how_to_begin(tmp_path: Path) -> None:
    file = tmp_path / "stack.yaml"
    text = (
        EXAMPLE.read_text().replace(", share: 3", "").replace(", share: 2, guarantee: {gpus: 4}", "").replace(", share: 1", "")
    )
    file.write_text(text)
    ended = swarm("shares", str(file), at=tmp_path)
    assert ended.code != 0 and "no team has a share or a guarantee" in ended.err and "share: 3" in ended.err


def test_where_nothing_was_used_no_sum_of_nothing_is_shown(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "27-past-use-counts" / "stack.yaml").read_text()
    file = tmp_path / "stack.yaml"
    file.write_text(re.sub(r"hours: \{[^}]*\}", "hours: {}", text))
    assert file.read_text() != text
    told = " ".join(swarm("shares", str(file), at=tmp_path).out.split())
    assert "vision: share 1 counts 1: `past_use` records no GPU-hours of these teams" in told and "0 of 0" not in told


def test_what_limits_allow_is_said_beside_what_a_team_asks_for(tmp_path: Path) -> None:
    """20 within the limit of 14 of the team around two; of one of them 12, of which its user may have 9."""
    file = tmp_path / "stack.yaml"
    file.write_text(
        """\
fleet: lab
teams:
  science: {limits: {gpus: 14}, share: 2}
  vision: {users: [ada], parent: science}
  speech: {users: [bo], parent: science}
  product: {users: [cy], share: 1}
limits: {except: [{user: ada, gpus: 9, until: 2099-01-01, reason: x}]}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 512 GB}}
nodes: {"g-[1-3]": {hardware: h, ssh: "root@{name}"}}
workloads:
  v: {user: ada, replicas: 6, each: {gpus: 1}}
  w: {user: ada, replicas: 6, each: {gpus: 1}}
  s: {user: bo, replicas: 8, each: {gpus: 1}}
  p: {user: cy, replicas: 4, each: {gpus: 1}}
"""
    )
    told = [" ".join(line.split()) for line in swarm("shares", str(file), at=tmp_path).out.splitlines()]
    assert "science: share 2, asks for 20 (limits allow 14)" in told
    assert any("product 4 (all that it asks for) + science 14 (all that limits allow it)" in line for line in told), told
    found = {one["team"]: one for one in json.loads(swarm("shares", str(file), "--json", at=tmp_path).out)["teams"]}
    assert {name: (one["asks"], one["allowed"], one["due"]) for name, one in found.items()} == {
        "science": (20_000, 14_000, 14_000),
        "vision": (12_000, 9_000, 7_000),
        "speech": (8_000, 8_000, 7_000),
        "product": (4_000, 4_000, 4_000),
    }


def test_the_data_adds_up_by_dominant_resource() -> None:
    """What each replica counts follows from what it takes, and what teams hold is the sum of that."""
    stack = ROOT / "examples" / "33-shares-by-dominant-resource" / "stack.yaml"
    found = json.loads(swarm("shares", str(stack), "--json", at=ROOT).out)
    assert {name: (one["resource"], one["counts"]) for name, one in found["dominant"].items()} == {
        "index": ("memory", 2000),
        "tokenize": ("vcpus", 500),
    }
    assert all(one["counts"] * one["of"] == 16_000 * one["takes"] for one in found["dominant"].values())
    teams = {one["team"]: one for one in found["teams"]}
    assert {name: (one["asks"], one["due"], one["holds"]) for name, one in teams.items()} == {
        "data": (20_000, 12_000, 2 * 2000 + 16 * 500),
        "vision": (16_000, 12_000, 12 * 1000),
    }
