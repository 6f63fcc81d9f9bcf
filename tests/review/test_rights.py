"""Whose a change is, however it is written."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.review.check import Verdict
from swarm_iac.stackfile import loads
from tests.review.conftest import Make
from tests.review.fleet import DEV, RIGHTS, Repository


def paths(verdict: Verdict, user: str) -> set[str]:
    """Paths that change and need this user's approval."""
    return {one.path for stack in verdict.effect.stacks for one in stack.values if one.by == (user,)}


def changed(verdict: Verdict) -> set[str]:
    """All paths that change."""
    return {one.path for stack in verdict.effect.stacks for one in stack.values}


def test_a_range_that_is_split_changes_only_the_node_that_differs(dev: Repository) -> None:
    entry = 'gpu-[01-02]: {hardware: h100, rack: r1, site: lab, tuning: train, ssh: "root@{name}"}'
    other = "\n  ".join(entry.replace("[01-02]", number) for number in ("01", "02"))
    same = dev.check(dev.pull_request((entry, other)), author="bo")
    assert (same.ok, changed(same)) == (True, set())
    one = other.replace("gpu-02: {hardware: h100, rack: r1, site: lab", "gpu-02: {hardware: h100, rack: r1, site: elsewhere")
    assert paths(dev.check(dev.pull_request((entry, one)), author="bo"), "cy") == {"nodes.gpu-02.site"}


def test_an_alias_carries_a_change_to_whose_value_it_is(repository: Make) -> None:
    text = DEV.read_text().replace("each: {vcpus: 0.25, memory: 100 MB, scratch: 200 MB}", "each: *size")
    text = text.replace(
        "each: {gpus: 1, vcpus: 0.5, memory: 200 MB, cache: 200 MB}", "each: &size {vcpus: 0.25, memory: 100 MB}"
    )
    dev = repository(text + RIGHTS)
    verdict = dev.check(
        dev.pull_request(("&size {vcpus: 0.25, memory: 100 MB}", "&size {vcpus: 0.25, memory: 90 MB}")), author="cy"
    )
    assert changed(verdict) == {"workloads.chat.each.memory", "workloads.tidy.each.memory"}
    assert {one.path for stack in verdict.effect.stacks for one in stack.values if "bo" in one.by} == {
        "workloads.tidy.each.memory"
    }


@pytest.mark.parametrize(("author", "asked"), [("ada-lovelace", {"bo"}), ("bo", {"ada"}), ("cy", {"ada", "bo"})])
def test_a_workload_that_is_handed_over_needs_both(dev: Repository, author: str, asked: set[str]) -> None:
    verdict = dev.check(dev.pull_request(("pretrain:\n    user: ada", "pretrain:\n    user: bo")), author=author)
    groups = [one.by for stack in verdict.effect.stacks for one in stack.values if one.path == "workloads.pretrain.user"]
    assert len(groups) == len(asked) and all(any(user in by for by in groups) for user in asked), groups
    assert not verdict.ok
    taken = {(one.user, one.becomes) for stack in verdict.effect.stacks for one in stack.allocations}
    assert {("ada", "stopped"), ("bo", "started")} <= taken


def test_a_renamed_workload_is_still_its_users(dev: Repository) -> None:
    head = dev.pull_request(("  pretrain:\n    user: ada", "  mine:\n    renamed_from: pretrain\n    user: bo"))
    verdict = dev.check(head, author="bo")
    # hers is the workload, and its high priority would be new for bo
    assert not verdict.ok and {need.by for need in verdict.needs} == {("ada",), ("cy",)}
    assert {(one.user, one.becomes) for _, one in verdict.effect.harmed()} == {("ada", "stopped")}


def test_a_new_workload_is_for_its_own_user(dev: Repository) -> None:
    new = "\n  extra:\n    user: %s\n    each: {vcpus: 0.1, memory: 10 MB}\n    run: {command: /bin/true}\n"
    assert dev.check(dev.pull_request((RIGHTS, new % "bo" + RIGHTS)), author="bo").ok
    other = dev.check(dev.pull_request((RIGHTS, new % "ada" + RIGHTS)), author="bo")
    assert not other.ok and {need.by for need in other.needs} == {("ada",)}


def test_who_deletes_anothers_workload_needs_them(dev: Repository) -> None:
    text = DEV.read_text()
    tidy = text[text.index("\n  tidy:") :]
    verdict = dev.check(dev.pull_request((tidy, "\n")), author="ada-lovelace")
    assert {need.by for need in verdict.needs} == {("bo",)}
    assert dev.check(dev.pull_request((tidy, "\n")), author="bo").ok


def test_membership_of_a_team_is_that_of_the_base(dev: Repository) -> None:
    """cy joins ada's team to approve for her, or takes her out of it."""
    head = dev.pull_request(("users: [ada, bo]", "users: [ada, bo, cy]"), ("users: [cy]", "users: []"),
                            ("each: {gpus: 2 x H100, vcpus: 1,", "each: {gpus: 1 x H100, vcpus: 1,"))  # fmt: skip
    verdict = dev.check(head, author="bo")
    asked = {need.by for need in verdict.needs}
    assert asked == {("ada",), ("cy",)}  # of the workload, and of teams


def test_what_no_rule_names_is_for_those_of_the_rights(dev: Repository) -> None:
    verdict = dev.check(dev.pull_request(("fleet: dev", "fleet: other")), author="bo")
    assert paths(verdict, "cy") == {"fleet"}
    verdict = dev.check(dev.pull_request(("racks:\n", "prices: {H100: 1.00 EUR/h}\n\nracks:\n")), author="bo")
    assert paths(verdict, "cy") == {"prices.H100"}
    assert dev.check(dev.pull_request(("racks:\n", "prices: {H100: 1.00 EUR/h}\n\nracks:\n")), author="cy").ok


def test_a_stack_file_more_or_less_needs_the_owner_of_the_others(dev: Repository) -> None:
    dev.branch("change")
    dev.write("stacks/second.yaml", DEV.read_text().replace("fleet: dev", "fleet: second"))
    verdict = dev.check(dev.commit(), author="bo")
    assert [need.lines for need in verdict.needs if need.by == ("cy",)] == [("stacks/second.yaml",)]
    dev.branch("change")
    (dev.folder / "stacks/dev.yaml").unlink()
    verdict = dev.check(dev.commit(), author="bo")
    assert "fleet" in paths(verdict, "cy") and "workloads.chat.user" in changed(verdict)
    assert not verdict.ok


def test_without_rights_everyone_may_and_it_is_said(repository: Make) -> None:
    dev = repository(DEV.read_text())
    verdict = dev.check(dev.pull_request(("each: {gpus: 2 x H100, vcpus: 1,", "each: {gpus: 1 x H100, vcpus: 1,")), author="bo")
    assert verdict.ok
    assert "dev has no 'rights': everyone who can merge may change everything" in verdict.comment
    assert verdict.effect.affected() == ("ada",)


def test_an_account_that_only_looks_alike_is_nobodys(dev: Repository) -> None:
    head = dev.pull_request(("each: {vcpus: 0.25, memory: 100 MB", "each: {vcpus: 0.5, memory: 100 MB"))
    for login in ("bо", "bo ", "ⅽy", "", "bo\n", "@bo"):
        assert not dev.check(head, author=login).ok, login


RULES = [
    ("owners: [{paths: [nodes], by: [cy]}]", "no rule says who may change `rights`"),
    ("owners: [{paths: [rights], by: [dana]}]", "there is no user 'dana'"),
    ("owners: [{paths: [rights], by: [team resarch]}]", "there is no team 'resarch'"),
    ("owners: [{paths: [rights], by: [cy]}, {paths: [nods], by: [cy]}]", "a stack file has no section 'nods'"),
    ("owners: [{paths: [rights], by: [cy]}, {by: [cy]}]", "the rule names nothing"),
    ("owners: [{paths: [rights], by: [cy]}, {paths: [nodes], by: own}]", "only workloads have a user of their own"),
    ("owners: [{paths: [rights], by: own}]", "no rule says who may change `rights`"),
    ("owners: [{paths: [rights], by: [cy]}]\n  accounts: {ada: BO}", "ada and bo both have the account bo"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "message"), RULES)
def test_mistakes_in_rights_have_a_line_and_a_hint(section: str, message: str) -> None:
    text = DEV.read_text()
    with pytest.raises(StackFileError) as caught:
        loads(f"{text}\nrights:\n  {section}\n", "dev.yaml", today=datetime.date.today())
    found = [one for one in caught.value.problems if message in one.message]
    assert found and found[0].hint and found[0].place.line > text.count("\n")


def test_rights_are_no_part_of_what_is_solved() -> None:
    """A lock and its proof stay as they are where only rights change."""
    today, file = datetime.date.today(), str(Path("dev.yaml"))
    plain, with_rights = loads(DEV.read_text(), file, today=today), loads(DEV.read_text() + RIGHTS, file, today=today)
    assert plain.stack == with_rights.stack
    assert (plain.rights, with_rights.rights is None) == (None, False)
