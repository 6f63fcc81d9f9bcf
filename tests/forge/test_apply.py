"""Is each merge applied exactly once, in order, and only as it was approved? With a real forge, git and state."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli.merging import approved, record, repository
from swarm_iac.cli.merging.applying import APPLIED
from swarm_iac.cli.merging.record import MergeRecord
from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.forge.forge import State
from tests.forge.conftest import Lab
from tests.forge.merging import STACK, Operated, operated, row, solve

pytestmark = pytest.mark.forge

MEMORY = ("memory: 300 MB", "memory: 320 MB")
SCRATCH = ("scratch: 200 MB", "scratch: 240 MB")


@pytest.fixture
def fleet(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Operated:
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    return operated(lab)


def recorded(fleet: Operated) -> str:
    return str(record.read(fleet.clone, "dev", fleet.said.append))


def test_two_merges_within_a_second_are_applied_once_each_and_in_order(fleet: Operated) -> None:
    """Also where the job of the second begins first, and the job of the first comes later, or twice."""
    first = fleet.merged("ada", "memory", *MEMORY)
    second = fleet.merged("bo", "scratch", *SCRATCH)
    assert fleet.merges().apply(second) == (first, second)
    assert fleet.machines.ups == [first, second]
    assert fleet.merges().apply(first) == ()
    assert fleet.merges().apply(second) == ()
    assert fleet.machines.ups == [first, second]
    assert recorded(fleet) == f"{second} applied"
    for commit in (first, second):
        shown = fleet.lab.status(commit, APPLIED)
        assert shown and shown.state is State.SUCCESS


def test_a_run_that_another_machine_overtook_applies_nothing_older(fleet: Operated) -> None:
    """The lock of a run is one of its machine; while this one plans, a run elsewhere applies this merge and the next."""
    first = fleet.merged("ada", "memory", *MEMORY)
    second = fleet.merged("bo", "scratch", *SCRATCH)
    merges = fleet.merges()

    def overtaken(tree: Path, words: Sequence[str], *more: Any) -> subprocess.CompletedProcess[str]:
        record.write(fleet.clone, "dev", MergeRecord(second, whole=True), fleet.said.append)
        return fleet.machines.swarm(tree, words, *more)

    with pytest.raises(Retryable, match="another run"):
        replace(merges, swarm=overtaken).apply(first)
    assert fleet.machines.ups == [] and recorded(fleet) == f"{second} applied"


@pytest.mark.slow
def test_a_killed_run_is_resumed_by_the_next_and_by_nobody_else_again(fleet: Operated) -> None:
    commit = fleet.merged("ada", "memory", *MEMORY)
    fleet.machines.status = -9
    with pytest.raises(SwarmError, match="not wholly applied"):
        fleet.merges().apply(commit)
    assert recorded(fleet) == f"{commit} begun"
    fleet.machines.status = 0
    assert fleet.merges().apply(commit) == (commit,)
    assert fleet.merges().apply(commit) == ()
    assert fleet.machines.ups == [commit, commit]


@pytest.mark.slow
def test_a_forge_that_goes_away_during_apply_neither_undoes_nor_repeats_it(fleet: Operated) -> None:
    commit = fleet.merged("ada", "memory", *MEMORY)
    merges, fleet.machines.then = fleet.merges(), fleet.lab.server.stop
    try:
        assert merges.apply(commit) == (commit,)
    finally:
        fleet.lab.server.start()
    assert "the forge does not show it yet" in fleet.said[-1]
    assert recorded(fleet) == f"{commit} applied"
    assert fleet.lab.status(commit, APPLIED) is None
    assert fleet.merges().apply(commit) == ()
    shown = fleet.lab.status(commit, APPLIED)
    assert shown and shown.state is State.SUCCESS, "the next run shows it"
    assert fleet.machines.ups == [commit]


@pytest.mark.slow
def test_a_forge_that_is_away_before_apply_leaves_all_as_it_is(fleet: Operated) -> None:
    commit = fleet.merged("ada", "memory", *MEMORY)
    merges = fleet.merges()
    fleet.lab.server.stop()
    try:
        with pytest.raises(Retryable):
            merges.apply(commit)
    finally:
        fleet.lab.server.start()
    assert fleet.machines.ups == []
    assert "begun" not in recorded(fleet)


def test_machines_that_drifted_where_the_plan_acts_are_refused_with_the_row(fleet: Operated) -> None:
    commit = fleet.merged("ada", "memory", *MEMORY)
    fleet.machines.drift = (row("gpu-01", "settings.swappiness", "60", "10"),)
    with pytest.raises(Refused, match=r"gpu-01: settings\.swappiness: 60 → 10: not part of what was approved"):
        fleet.merges().apply(commit)
    assert fleet.machines.ups == [] and "begun" not in recorded(fleet)
    fleet.machines.drift = (row("gpu-02", "settings.swappiness", "60", "10"),)
    assert fleet.merges().apply(commit) == (commit,)
    assert fleet.machines.only == ["gpu-01"], "what differs elsewhere is nobody's approval"


def test_a_status_that_our_account_did_not_set_for_this_head_counts_for_nothing(fleet: Operated) -> None:
    number, head = fleet.change("ada", "memory", *MEMORY)
    bo = fleet.lab.people["bo"]
    bo.ask("POST", f"/repos/{fleet.lab.repository}/statuses/{head}", context="swarm", state="success")
    commit = fleet.lab.people["ada"].merge(number)
    with pytest.raises(Refused, match=f"was set by {bo.name}"):
        fleet.merges().apply(commit)
    assert fleet.machines.ups == []
    fleet.lab.bot.set_status(head, "swarm", State.FAILURE, "ada may not")
    with pytest.raises(Refused, match="failure: ada may not"):
        fleet.merges().apply(commit)
    fleet.lab.bot.set_status(head, "swarm", State.SUCCESS, "checked")
    assert fleet.merges().apply(commit) == (commit,)


@pytest.mark.slow
def test_what_was_pushed_after_the_check_is_not_applied(fleet: Operated) -> None:
    """The status belongs to one commit: a later head has none, whatever the forge let through."""
    number, _ = fleet.change("ada", "memory", *MEMORY)
    after = fleet.lab.people["ada"].push("memory", {"more.txt": "x"})
    commit = fleet.lab.people["ada"].merge(number)
    with pytest.raises(Refused, match=f"nobody checked its head {after[:12]}"):
        fleet.merges().apply(commit)
    assert fleet.machines.ups == []


@pytest.mark.slow
def test_what_the_merge_really_does_is_judged_again(fleet: Operated) -> None:
    commit = fleet.merged("ada", "memory", *MEMORY)
    fleet.verdict = "cy has not approved"
    with pytest.raises(Refused, match="cy has not approved"):
        fleet.merges().apply(commit)
    assert fleet.machines.ups == []


@pytest.mark.slow
def test_a_push_without_a_pull_request_is_applied_by_nobody(fleet: Operated) -> None:
    ada = fleet.lab.people["ada"]
    ada.begin("main")
    words = ada.push("main", {"NOTES.md": "words"})
    assert fleet.merges().apply(words) == (words,), "it changes nothing that acts on machines"
    assert fleet.machines.ups == []
    ada.begin("main")
    direct = ada.push("main", {"stacks/other.yaml": "fleet: dev\n"})
    with pytest.raises(Refused, match=r"made by no pull request, and it changes stacks/other\.yaml"):
        fleet.merges().apply(direct)
    assert fleet.merges(since=direct).apply(direct) == ()


@pytest.mark.slow
def test_a_branch_that_was_rewritten_is_refused(fleet: Operated) -> None:
    first = fleet.merged("ada", "memory", *MEMORY)
    fleet.merges().apply(first)
    ada = fleet.lab.people["ada"]
    ada.git("fetch", "-q", "origin")
    ada.git("checkout", "-q", "-B", "main", "origin/main~1")
    other = ada.push("main", {"x.md": "x"}, "--force")
    with pytest.raises(Refused, match="does not come after"):
        fleet.merges().apply(other)


@pytest.mark.slow
def test_nothing_that_changes_machines_has_the_forges_token(fleet: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_FORGE_TOKEN", fleet.lab.token)
    commit = fleet.merged("ada", "memory", *MEMORY)
    fleet.merges().apply(commit)
    assert fleet.lab.token not in fleet.machines.seen.values()
    assert fleet.machines.seen["SWARM_WHO"] == f"{fleet.lab.people['ada'].name} (pull request 1)"


def of_two_commits(fleet: Operated, *, between: bool) -> tuple[int, str]:
    """A pull request of two commits, judged on main as it was then; `between`: another one is merged before it is."""
    ada = fleet.lab.people["ada"]
    ada.begin("two")
    on = ada.git("rev-parse", "HEAD")
    for old, new in (MEMORY, SCRATCH):
        (ada.at / STACK).write_text((ada.at / STACK).read_text().replace(old, new))
        solve(ada.at)
        head = ada.push("two", {})
    number, head = ada.opened("two", {"notes.md": "why"})
    if between:
        fleet.merged("bo", "words", "users: [ada, bo]", "users: [bo, ada]")
    fleet.lab.bot.set_status(head, "swarm", State.SUCCESS, f"fine on {on[:16]}")
    return number, head


@pytest.mark.parametrize("between", [pytest.param(False, id="as it is"), pytest.param(True, id="rebased")])
def test_a_rebased_pull_request_of_several_commits_is_applied_once(fleet: Operated, between: bool) -> None:
    begin = fleet.machines.now
    number, head = of_two_commits(fleet, between=between)
    last = fleet.lab.people["ada"].merge(number, "rebase")
    assert (last == head) is not between
    judged: list[tuple[str, str]] = []
    merges = replace(fleet.merges(), judge=lambda before, commit, _: judged.append((before, commit)) or "")
    done = merges.apply(last)
    chain = repository.between(fleet.clone, begin, last)
    assert len(chain) == (4 if between else 3)
    first = chain[0] if between else begin
    assert done == ((first, last) if between else (last,)) and fleet.machines.ups == list(done)
    assert judged[-1] == (first, last), "all of it is judged at once"
    assert fleet.merges().apply(last) == () and recorded(fleet) == f"{last} applied"


@pytest.mark.parametrize("how", ["rebase", "squash"])
def test_a_push_before_a_rebased_one_is_no_part_of_it(fleet: Operated, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Squashed, the pull request and two pushes are as many commits as it had."""
    number, _ = of_two_commits(fleet, between=False)
    bo = fleet.lab.people["bo"]
    bo.begin("main")
    for text in ("x: 1\n", "x: 2\n"):
        direct = bo.push("main", {"policies/mine.yaml": text})
    last = fleet.lab.people["ada"].merge(number, how)
    with pytest.raises(Refused, match=r"made by no pull request, and it changes policies/mine\.yaml"):
        fleet.merges().apply(last)
    with monkeypatch.context() as bent:  # as if a status had changed between two looks
        bent.setattr(approved, "part_of", lambda *_: last)
        with pytest.raises(Refused, match="commits before it belong to no pull request"):
            fleet.merges().apply(last)
    assert fleet.machines.ups == []
    assert fleet.merges(since=direct).apply(last) == (last,), "and what is rebased onto it goes on, once that is settled"


@pytest.mark.slow
def test_a_killed_run_of_a_rebased_one_is_resumed_with_all_of_it(fleet: Operated) -> None:
    number, _ = of_two_commits(fleet, between=True)
    last = fleet.lab.people["ada"].merge(number, "rebase")
    merges = fleet.merges()
    before = repository.last(fleet.clone, last, 4)[0]
    merges.apply(before)
    fleet.machines.status = -9
    with pytest.raises(SwarmError, match="not wholly applied"):
        fleet.merges().apply(last)
    assert recorded(fleet) == f"{last} begun"
    fleet.machines.status = 0
    assert fleet.merges().apply(last) == (last,)
    assert fleet.machines.ups == [before, last, last]


def test_one_that_is_never_applied_is_skipped_by_name_and_judged_with_the_next(fleet: Operated) -> None:
    begin = fleet.machines.now
    bad = fleet.merged("ada", "memory", *MEMORY)
    back = fleet.merged("bo", "back", *reversed(MEMORY))
    judged: list[tuple[str, str]] = []

    def judge(before: str, commit: str, _: object) -> str:
        judged.append((before, commit))
        return "cy has not approved" if commit == bad else ""

    with pytest.raises(Refused, match="cy has not approved"):
        replace(fleet.merges(), judge=judge).apply(back)
    for skip in ((bad, ""), ("", "why"), (begin, "it was applied")):
        with pytest.raises(Refused):
            replace(fleet.merges(), judge=judge, skip=skip).apply(back)
    skipping = replace(fleet.merges(), judge=judge, skip=(bad[:12], "nobody wants it, @everyone"))
    assert skipping.apply(bad) == () and recorded(fleet) == f"{begin} applied skipping {bad}"
    shown = fleet.lab.status(bad, APPLIED)
    assert shown and shown.state is State.FAILURE and "nobody wants it" in shown.description
    (comment,) = (one.body for one in fleet.lab.bot.comments(fleet.lab.bot.pull(1)))
    assert "`skipped by " in comment and "@everyone`" in comment, "it is shown as text"
    fleet.machines.status = -9
    judged.clear()
    with pytest.raises(SwarmError, match="not wholly applied"):
        replace(fleet.merges(), judge=judge).apply(back)
    assert judged == [(begin, back)] and recorded(fleet) == f"{back} begun after {begin}"
    fleet.machines.status = 0
    assert fleet.merges().apply(back) == (back,)
    assert recorded(fleet) == f"{back} applied" and fleet.machines.now == back
    assert fleet.merges().apply(bad) == ()
    shown = fleet.lab.status(bad, APPLIED)
    assert shown and shown.state is State.FAILURE, "that it was skipped is not written over"


def test_one_that_was_begun_can_be_skipped(fleet: Operated) -> None:
    begin = fleet.machines.now
    bad = fleet.merged("ada", "memory", *MEMORY)
    fleet.machines.status = 1
    with pytest.raises(SwarmError, match="not wholly applied"):
        fleet.merges().apply(bad)
    fleet.machines.status = 0
    assert replace(fleet.merges(), skip=(bad, "its node is gone")).apply(bad) == ()
    assert recorded(fleet) == f"{begin} applied skipping {bad}" and "was begun: swarm plan shows" in fleet.said[-2]
