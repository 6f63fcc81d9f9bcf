"""The people of stacks/dev.yaml, on real git repositories: who may do what alone, and who has to agree."""

from __future__ import annotations

from swarm_iac.review.check import Approval
from tests.review.conftest import Make
from tests.review.fleet import DEV, FREE, RIGHTS, Repository


def test_a_change_of_anothers_workload_names_line_owner_and_who_may_approve(dev: Repository) -> None:
    head = dev.pull_request(("each: {gpus: 2 x H100, vcpus: 1,", "each: {gpus: 1 x H100, vcpus: 1,"))
    verdict = dev.check(head, author="bo")
    assert not verdict.ok
    line = next(number for number, text in enumerate(DEV.read_text().splitlines(), 1) if "2 x H100, vcpus" in text)
    told = [one for need in verdict.needs for one in need.lines]
    assert any(one.startswith(f"stacks/dev.yaml:{line}: workloads.pretrain.each.gpus: ") for one in told), told
    assert {need.accounts for need in verdict.needs} == {("ada-lovelace",)}
    assert "ada-lovelace" in verdict.summary


def test_a_change_of_ones_own_workload_needs_nobody(dev: Repository) -> None:
    head = dev.pull_request(("each: {vcpus: 0.25, memory: 100 MB", "each: {vcpus: 0.5, memory: 100 MB"))
    verdict = dev.check(head, author="bo")
    assert (verdict.ok, verdict.needs) == (True, ()), verdict.comment
    assert dev.check(head, author="BO").ok  # forges do not tell these apart
    assert not dev.check(head, author="ada").ok  # whose account is another
    assert not dev.check(head).ok


BIG = """
  big:
    user: bo
    priority: low
    each: {gpus: 8 x H100, vcpus: 0.5, memory: 100 MB}
    run: {command: /bin/true}
"""


def test_a_change_that_stops_another_waits_for_somebody_of_their_team(repository: Make) -> None:
    """One line of bo's own is edited; what it stops is ada's."""
    text = DEV.read_text().replace("pretrain:\n    user: ada\n    kind: train\n    priority: high\n",
                                   "pretrain:\n    user: ada\n    kind: train\n    replicas: 2\n    place: {spread: node}\n")  # fmt: skip
    dev = repository(text + BIG + FREE)
    head = dev.pull_request(("priority: low", "priority: high"))
    verdict = dev.check(head, author="bo")
    stopped = [one for _, one in verdict.effect.harmed() if one.becomes == "stopped"]
    assert {one.user for one in stopped} == {"ada"}, verdict.comment
    assert not verdict.ok
    assert [need.by for need in verdict.needs] == [("ada",)]
    assert stopped[0].name in verdict.comment
    assert verdict.needs[0].accounts == ("ada-lovelace",)
    for who in ("bo", "cy", "ada"):  # the author, somebody else, and a stranger with the name of a user
        given = Approval(who=who, commit=head, effect=verdict.effect)
        assert not dev.check(head, author="bo", approvals=[given]).ok
    hers = Approval(who="Ada-Lovelace", commit=head, effect=verdict.effect)
    assert dev.check(head, author="bo", approvals=[hers]).ok


def test_nobody_takes_over_what_runs_under_another_name_beside_their_own(repository: Make) -> None:
    """bo may edit every workload, yet what ada loses is hers to agree to: two that ran cannot become one unseen."""
    dev = repository(DEV.read_text() + RIGHTS.replace("by: own", "by: [bo]"))
    text = DEV.read_text()
    pretrain = text[text.index("  pretrain:") : text.index("  chat:")]
    head = dev.pull_request((pretrain, ""), ("  tidy:\n", "  tidy:\n    renamed_from: pretrain\n"))
    verdict = dev.check(head, author="bo")
    assert not verdict.ok, verdict.comment
    other = dev.pull_request((pretrain, ""), ("  tidy:\n", "  tidier:\n    renamed_from: pretrain\n"))
    assert ("ada",) in {need.by for need in dev.check(other, author="bo").needs}
