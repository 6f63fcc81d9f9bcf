"""Does `swarm usage --idle` say who waited, for how long, and no more than a solve of that time bears out?"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.stackfile.locks.companions import read_lock
from tests.cli.typed import swarm
from tests.cli.usage.conftest import STACK, Lab

NB = {"workload": "nb", "user": "bo", "team": "speech"}
TRAIN = {"workload": "train", "user": "ada", "team": "vision"}
TEAMS = "teams: {vision: {users: [ada]}, speech: {users: [bo]}}\n"
LEAST = "vcpus: 0.1, memory: 1 GB"


def stack(*workloads: str, more: str = "") -> str:
    return f"{STACK}{TEAMS}{more}workloads:\n" + "".join(f"  {one}\n" for one in workloads)


def nb(replicas: int, gpus: str = "1") -> str:
    return f"nb: {{user: bo, kind: serve, priority: high, replicas: {replicas}, each: {{gpus: {gpus}, {LEAST}}}, run: {{command: nb}}}}"


def job(name: str, gpus: int, more: str = "") -> str:
    return f"{name}: {{user: ada, {more}each: {{gpus: {gpus}, {LEAST}}}, run: {{command: go}}}}"


def solved(lab: Lab, text: str) -> None:
    """Commit the stack file with its lock, as `swarm up` would have left it."""
    (lab.root / "stacks" / "lab.yaml").write_text(text)
    done = swarm("solve", "--stack", "lab", at=lab.root)
    assert done.code == 0, done.err
    lab.commit(text)


def placed(lab: Lab) -> dict[str, str]:
    """Where each allocation is by the lock."""
    return {one.name: one.node for one in read_lock(lab.root / "stacks" / "lab.lock.yaml").placement.allocations}


def hours(lab: Lab, count: int) -> None:
    """A pass now, and one each hour: what it sees counts until the next one."""
    lab.record()
    for _ in range(count):
        assert lab.record("--gap", "60", after=3600).code == 0


def holds(lab: Lab, *idle: str, node: str = "n1") -> None:
    lab.say(node, *((str(card), 1, 0.0, NB, name) for card, name in enumerate(idle)))


def asked(lab: Lab, *words: str) -> dict[str, Any]:
    done = lab.ask("--idle", "--json", "--below-cpus", "1", *words)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def alone(found: dict[str, Any]) -> dict[str, list[tuple[str, int, int]]]:
    return {one["allocation"]: told(one["kept_waiting"]) for one in found["idle"]}


def told(waited: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(one["workload"], one["gpu_milli"], one["seconds"]) for one in waited]


def test_one_idle_gpu_kept_one_job_waiting(lab: Lab) -> None:
    solved(
        lab,
        stack(
            nb(1),
            job("small", 1),
            job("train", 4),
            more="limits: {cluster: {gpus: 5}}\n",
        ),
    )
    holds(lab, "nb-0")
    hours(lab, 2)
    lab.now += 60
    done = lab.ask("--idle")
    lines = [" ".join(line.split()) for line in done.out.splitlines() if line.strip()]
    assert lines[3:] == [
        "nb-0 bo speech n1 H100 0 % 0 % 0 % 0.10 2.00 5.00 EUR small: 1 GPU, 2 h",
        "(total) 2.00 5.00 EUR small: 1 GPU, 2 h",
    ]
    assert "kept waiting: what `swarm what-if` places without it" in done.err and "(1 of 1 such states tried)" in done.err
    assert lab.ask("--idle", "--csv").out.splitlines()[1].endswith(",small,2.0000000")
    assert "small: 1 GPU, 2 h" in lab.ask("--idle", "--markdown").out


def test_four_together_kept_waiting_what_none_did_alone(lab: Lab) -> None:
    solved(lab, stack(nb(4), job("train", 4), job("pretrain", 4)))
    where = placed(lab)
    (node,) = {where[f"nb-{number}"] for number in range(4)}
    holds(lab, *(f"nb-{number}" for number in range(4)), node=node)
    hours(lab, 2)
    found = asked(lab)
    assert alone(found) == {f"nb-{number}": [] for number in range(4)}
    assert told(found["total"]["kept_waiting"]) in ([("pretrain", 4000, 7200)], [("train", 4000, 7200)])


def test_two_that_were_never_idle_together_kept_nothing_waiting_together(lab: Lab) -> None:
    solved(lab, stack(nb(2), job("pair", 2), more="limits: {cluster: {gpus: 2}}\n"))
    node = placed(lab)["nb-0"]
    for name in ("nb-0", "nb-1"):
        holds(lab, name, node=node)
        lab.record("--gap", "60")
        for _ in range(2):
            assert lab.record("--gap", "60", after=3600).code == 0
        holds(lab, node=node)
        assert lab.record("--gap", "60", after=3600).code == 0
    found = asked(lab)
    assert alone(found) == {"nb-0": [], "nb-1": []} and found["total"]["kept_waiting"] == []


def test_what_a_limit_keeps_out_no_idle_gpu_does(lab: Lab) -> None:
    solved(lab, stack(nb(1), job("train", 4), job("more", 1), more="limits: {user: {gpus: 4}}\n"))
    holds(lab, "nb-0")
    hours(lab, 2)
    found = asked(lab)
    assert alone(found) == {"nb-0": []} and found["total"]["kept_waiting"] == []
    assert found["tried"] == {"states": 1, "pending_states": 1, "missing": []}


def test_where_nothing_is_pending_nothing_is_solved(lab: Lab) -> None:
    solved(lab, stack(nb(1)))
    holds(lab, "nb-0")
    hours(lab, 2)
    done = lab.ask("--idle")
    assert "kept waiting: nothing was pending meanwhile" in done.err and "kept waiting" not in done.out


def test_only_the_time_counts_in_which_it_was_pending(lab: Lab) -> None:
    full = "limits: {cluster: {gpus: 1}}\n"
    solved(lab, stack(nb(1), more=full))
    holds(lab, "nb-0")
    hours(lab, 2)
    solved(lab, stack(nb(1), job("small", 1), more=full))
    hours(lab, 2)  # the first of these passes sees the commit
    solved(lab, stack(nb(1), more=full))
    hours(lab, 1)
    assert alone(asked(lab)) == {"nb-0": [("small", 1000, 2 * 3600)]}
    # The same files again are the same state, whatever their commit.
    solved(lab, stack(nb(1), job("small", 1), more=full))
    hours(lab, 2)
    found = asked(lab)
    assert alone(found) == {"nb-0": [("small", 1000, 3 * 3600)]} and found["tried"]["states"] == 1


def test_a_part_of_a_gang_is_not_taken_away_alone(lab: Lab) -> None:
    gang = f"nb: {{user: bo, kind: train, priority: high, gang: 2, each: {{gpus: 2, {LEAST}}}, run: {{command: nb}}}}"
    solved(lab, stack(gang, job("small", 1), more="limits: {cluster: {gpus: 4}}\n"))
    node = placed(lab)["nb-0"]
    lab.say(node, ("0", 1, 0.0, NB, "nb-0"), ("1", 1, 0.0, NB, "nb-0"))
    hours(lab, 2)
    found = asked(lab)
    assert alone(found) == {"nb-0": []}
    assert [one["because"] for one in found["tried"]["missing"]] == [
        "it is a part of a gang, or of what `needs` asks for, and the rest worked"
    ]
    other = placed(lab)["nb-1"]
    both = [("0", 1, 0.0, NB, "nb-0"), ("1", 1, 0.0, NB, "nb-0"), ("2", 1, 0.0, NB, "nb-1"), ("3", 1, 0.0, NB, "nb-1")]
    lab.say(node, *(both if node == other else both[:2]))
    lab.say(other, *(both if node == other else both[2:]))
    lab.now += 7 * 86400
    hours(lab, 2)
    found = asked(lab, "--since", "2026-11-07")
    assert {"nb-0", "nb-1"} == alone(found).keys() and all(one[:1] == [("small", 1000, 7200)] for one in alone(found).values())


@pytest.mark.parametrize("name", ["a" * 40, "--output=stolen", "HEAD", ""])
def test_a_commit_that_is_not_here_is_said_to_be(lab: Lab, name: str) -> None:
    solved(lab, stack(nb(1), job("small", 1), more="limits: {cluster: {gpus: 1}}\n"))
    holds(lab, "nb-0")
    hours(lab, 2)
    store = sqlite3.connect(lab.root / ".state" / "usage.db")
    store.execute("UPDATE in_force SET commit_name = ?", (name,))
    store.commit()
    store.close()
    done = lab.ask("--idle")
    assert done.code == 0 and "not known of nb-0 for up to 2 h: its commit is not in this clone" in done.err
    assert alone(asked(lab)) == {"nb-0": []} and not list(lab.root.rglob("stolen"))


@pytest.mark.parametrize("budget, tried", [("0.000001", 0), ("60", 1)])
def test_it_ends_when_its_time_is_up_and_says_so(lab: Lab, budget: str, tried: int) -> None:
    solved(lab, stack(nb(1), job("small", 1), more="limits: {cluster: {gpus: 1}}\n"))
    holds(lab, "nb-0")
    hours(lab, 2)
    found = asked(lab, "--seconds", budget)
    assert found["tried"]["states"] == tried
    assert [one["because"] for one in found["tried"]["missing"]] == ([] if tried else ["time was up (--seconds)"])
    assert "tried" not in asked(lab, "--seconds", "0")


def test_a_state_that_nobody_can_solve_is_named_without_our_folders(lab: Lab) -> None:
    solved(lab, stack(nb(1), job("small", 1), more="limits: {cluster: {gpus: 1}}\n"))
    (lab.root / "stacks" / "lab.lock.yaml").write_text("not a lock\n")
    lab.commit((lab.root / "stacks" / "lab.yaml").read_text())
    holds(lab, "nb-0")
    hours(lab, 2)
    done = lab.ask("--idle")
    assert done.code == 0 and "that state cannot be solved: stacks/lab.lock.yaml" in done.err and "/tmp" not in done.err


def test_what_is_live_makes_way_by_itself(lab: Lab) -> None:
    solved(lab, stack(nb(1), job("small", 1), more="limits: {cluster: {gpus: 1}}\n"))
    holds(lab, "nb-0", "nb-5")
    hours(lab, 2)
    found = asked(lab)
    assert alone(found) == {"nb-0": [("small", 1000, 7200)], "nb-5": []}
    assert [one["allocation"] for one in found["tried"]["missing"]] == ["nb-5"]


def test_nothing_of_the_clone_changes(lab: Lab) -> None:
    solved(lab, stack(nb(1), job("small", 1), more="limits: {cluster: {gpus: 1}}\n"))
    holds(lab, "nb-0")
    hours(lab, 2)
    before = _files(lab.root)
    asked(lab)
    assert _files(lab.root) == before
    assert not subprocess.run(["git", "status", "--porcelain"], cwd=lab.root, check=True, capture_output=True).stdout


def _files(root: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in root.rglob("*") if one.is_file() and "usage.db" not in one.name}


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
def test_it_says_what_what_if_says(lab: Lab, seed: int) -> None:
    """Drawn fleets: without the last replica of nb, `swarm what-if` places the same."""
    rng = random.Random(seed)
    size = rng.choice((1, 2))
    text = stack(
        nb(rng.randint(1, 3), str(size)),
        *(job(f"job-{number}", rng.choice((1, 2, 4)), f"priority: {rng.choice(('low', 'normal', 'high'))}, ") for number in range(5)),
        more=f"limits: {{cluster: {{gpus: {rng.randint(6, 8)}}}, user: {{gpus: {rng.randint(6, 8)}}}}}\n",
    )  # fmt: skip
    solved(lab, text)
    where = placed(lab)
    idle = sorted(name for name in where if name.startswith("nb-"))
    if not idle:
        return
    last = idle[-1]
    lab.say(where[last], *((str(card), 1, 0.0, NB, last) for card in range(size)))
    hours(lab, 2)
    found = asked(lab)
    mine = {name for name, _, _ in alone(found)[last]}
    edit = f"workloads.nb.replicas={len(idle) - 1}"
    done = swarm("what-if", edit, "--stack", "lab", "--json", at=lab.root)
    assert done.code == 0, done.err
    changes = json.loads(done.out)["changes"]
    if any(one["after"] == "-" and not one["allocation"].startswith("nb-") for one in changes):
        assert not mine and found["tried"]["missing"][0]["because"] == "others would have had less"
        return
    assert mine == {one["allocation"].rsplit("-", 1)[0] for one in changes if one["before"] == "-"}, text
