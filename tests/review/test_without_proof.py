"""A repository that keeps no proofs: nothing conflicts in them, and no reason, figure or refusal is lost."""

from __future__ import annotations

import subprocess

import pytest

from tests.review.conftest import Make
from tests.review.fleet import Repository

FLEET = """fleet: dev
teams: {research: {users: [ada, bo]}}
limits: {cluster: {gpus: 100, vcpus: 1000, memory: 10 TB}, user: {gpus: 2, vcpus: 100, memory: 1 TB}}
hardware:
  h100: {gpus: 8 x H100, vcpus: 128, memory: 1 TB}
nodes:
  gpu-01: {hardware: h100, ssh: "root@{name}"}
workloads:
  first: {user: ada, each: {gpus: 1, vcpus: 1, memory: 1 GB}}
  # Lines between them, as in a real file:
  # else git takes neighbours for one change.

  second: {user: bo, each: {gpus: 1, vcpus: 1, memory: 1 GB}}
rights:
  owners:
    - {paths: ["workloads.*"], by: own}
    - {paths: [rights, limits], by: [ada]}
"""
MORE = "  waits: {user: ada, priority: low, each: {gpus: 2, vcpus: 1, memory: 1 GB}}\n"
WAITS = FLEET.replace("rights:\n", f"{MORE}rights:\n")
FIRST = ("ada, each: {gpus: 1, vcpus: 1,", "ada, each: {gpus: 1, vcpus: 2,")
SECOND = ("bo, each: {gpus: 1, vcpus: 1,", "bo, each: {gpus: 1, vcpus: 3,")


def without(fleet: Repository) -> Repository:
    """The same, with the proof left out of git."""
    fleet.write(".gitignore", "stacks/*.proof.yaml\n")
    fleet.git("rm", "-q", "--cached", "stacks/dev.proof.yaml")
    fleet.commit()
    return fleet


def of_two(fleet: Repository) -> None:
    """The first of two pull requests is merged, and the second is checked on that."""
    one, two = (fleet.pull_request(edit, branch=name) for edit, name in ((FIRST, "one"), (SECOND, "two")))
    assert fleet.check(two, author="bo").ok
    fleet.git("merge", "-q", "--no-edit", one)
    verdict = fleet.check(two, author="bo")
    assert verdict.ok, verdict.comment
    assert "dev: optimal by" in verdict.comment and "proof file of the head" not in verdict.comment
    fleet.git("merge", "-q", "--no-edit", two)


def test_two_solved_pull_requests_merge_on_a_forge_that_runs_no_driver(repository: Make) -> None:
    of_two(without(repository(FLEET)))


def test_with_the_proof_in_git_they_conflict(repository: Make) -> None:
    """Why it is left out: this is all that keeps them apart."""
    fleet = repository(FLEET)
    one, two = (fleet.pull_request(edit, branch=name) for edit, name in ((FIRST, "one"), (SECOND, "two")))
    assert "as the proof file of the head says" in fleet.check(two, author="bo").comment
    fleet.git("merge", "-q", "--no-edit", one)
    verdict = fleet.check(two, author="bo")
    assert not verdict.ok and "stacks/dev.proof.yaml: both sides changed it" in verdict.refused[0]
    with pytest.raises(subprocess.CalledProcessError):
        fleet.git("merge", "-q", "--no-edit", two)


def test_what_is_pending_keeps_its_reason(repository: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_FROZEN", "1")
    fleet = without(repository(FLEET))
    verdict = fleet.check(fleet.pull_request(("rights:\n", f"{MORE}rights:\n")), author="ada")
    assert verdict.ok, verdict.comment
    (pending,) = verdict.effect.stacks[0].pending
    assert (pending.workload, pending.user, pending.missing) == ("waits", "ada", 1) and "user" in pending.why and pending.fix


def test_a_lock_that_passes_over_what_waits_is_refused(repository: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a proof in git it would be stale, since what that was decided from has changed."""
    monkeypatch.setenv("SWARM_FROZEN", "1")
    fleet = without(repository(WAITS))
    more = ("user: {gpus: 2,", "user: {gpus: 4,")
    verdict = fleet.check(fleet.pull_request(more, solve=False), author="ada")
    assert not verdict.ok and "the lock of dev leaves waits pending, and they fit" in verdict.refused[0]
    monkeypatch.delenv("SWARM_FROZEN")
    solved = fleet.pull_request(more, branch="solved")
    monkeypatch.setenv("SWARM_FROZEN", "1")
    assert fleet.check(solved, author="ada").ok
