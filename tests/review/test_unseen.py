"""What harms nobody's allocation at once, and still takes something: another machine under a name, a priority, a new fleet."""

from __future__ import annotations

import pytest

from swarm_iac.review.check import Approval
from tests.review.conftest import Make
from tests.review.fleet import DEV, FREE, RIGHTS, Repository

NODES = 'gpu-[01-02]: {hardware: h100, rack: r1, site: lab, tuning: train, ssh: "root@{name}"}'
TIDY = "each: {vcpus: 0.25, memory: 100 MB, scratch: 200 MB}"


@pytest.mark.parametrize("ssh", ["root@elsewhere", "other@{name}", "root@{name}:2222"])
def test_who_changes_where_a_name_leads_needs_all_that_run_there(dev: Repository, ssh: str) -> None:
    """cy owns the nodes, and ada's job runs on one of them: she agrees to another machine, or it stays."""
    other = "\n  ".join(NODES.replace("[01-02]", number) for number in ("01", "02"))
    other = other.replace("root@{name}", ssh, 1) if '"root@{name}"' in other else other
    head = dev.pull_request((NODES, other), solve=False)
    verdict = dev.check(head, author="cy")
    assert not verdict.ok
    harmed = {(one.user, one.becomes, one.before, one.after) for _, one in verdict.effect.harmed()}
    assert harmed == {(user, "moved", "gpu-01", "gpu-01") for user in ("ada", "cy")}, verdict.comment
    assert [need.by for need in verdict.needs] == [("ada", "bo")]
    new = ssh.replace("{name}", "gpu-01")
    assert any(f"ssh: root@gpu-01 → {new}" in line for line in verdict.needs[0].lines)
    assert f"`root@gpu-01` | `{new}`" in verdict.comment, "the table of addresses"
    assert {one.by for stack in dev.check(head, author="bo").effect.stacks for one in stack.values} == {("cy",)}
    given = Approval(who="ada-lovelace", commit=head, effect=verdict.effect)
    assert dev.check(head, author="cy", approvals=[given]).ok


def test_who_agreed_to_one_machine_did_not_agree_to_another(dev: Repository) -> None:
    one = dev.pull_request((NODES, NODES.replace("{name}", "{name}.a")), solve=False)
    given = Approval(who="ada-lovelace", commit=one, effect=dev.check(one, author="cy").effect)
    assert dev.check(one, author="cy", approvals=[given]).ok
    two = dev.pull_request((NODES, NODES.replace("{name}", "{name}.b")), solve=False)
    verdict = dev.check(two, author="cy", approvals=[given])
    assert not verdict.ok and any("gpu-01: readdressed to root@gpu-01.b" in line for line in verdict.dismissed[0].lines)


RAISES = {
    "raised": ("  tidy:\n", "  tidy:\n    priority: high\n"),
    "new": ("\nrights:", "\n  extra: {user: bo, priority: high, each: {vcpus: 0.1, memory: 10 MB}}\nrights:"),
    "renamed": ("  tidy:\n", "  tidier:\n    renamed_from: tidy\n    priority: high\n"),
}


@pytest.mark.parametrize("how", RAISES)
def test_a_priority_that_rises_needs_the_owner_of_the_limits(dev: Repository, how: str) -> None:
    """There is room for all, so nothing stops: it is seen all the same."""
    head = dev.pull_request(RAISES[how], solve=False)
    verdict = dev.check(head, author="bo")
    assert not verdict.effect.affected() and not verdict.ok, verdict.comment
    assert [need.by for need in verdict.needs] == [("cy",)]
    assert "Priorities that rise" in verdict.comment and "| bo | normal | high |" in verdict.comment
    given = Approval(who="cy", commit=head, effect=verdict.effect)
    assert dev.check(head, author="bo", approvals=[given]).ok
    lower = dev.pull_request((TIDY, TIDY.replace("100 MB", "90 MB")), solve=False, branch="other")
    early = Approval(who="cy", commit=lower, effect=dev.check(lower, author="bo").effect)
    assert not dev.check(head, author="bo", approvals=[early]).ok


def test_from_low_to_none_is_higher_and_from_high_to_none_is_lower(repository: Make) -> None:
    dev = repository(DEV.read_text().replace("  tidy:\n", "  tidy:\n    priority: low\n") + RIGHTS)
    assert not dev.check(dev.pull_request(("    priority: low\n", ""), solve=False), author="bo").ok
    assert dev.check(dev.pull_request(("    priority: high\n", ""), solve=False), author="ada-lovelace").ok


def test_a_rule_that_names_priorities_decides(repository: Make) -> None:
    dev = repository(DEV.read_text() + FREE)
    verdict = dev.check(dev.pull_request(RAISES["raised"], solve=False), author="bo")
    assert verdict.ok and "Priorities that rise" in verdict.comment, "and it is shown"


def test_another_name_of_the_fleet_is_refused(dev: Repository) -> None:
    """Every node would refuse it, and with it whatever is merged later."""
    verdict = dev.check(dev.pull_request(("fleet: dev", "fleet: other"), solve=False), author="cy")
    assert not verdict.ok and not verdict.needs
    assert "fleet: dev → other: the nodes belong to the fleet dev" in verdict.refused[0]
