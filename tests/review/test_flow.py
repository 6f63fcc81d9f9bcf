"""A pull request over time: pushes, a rebase, other merges, conflicts; what was approved stays approved, and nothing more."""

from __future__ import annotations

import pytest

from swarm_iac.plan.show.markdown import shown, words
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.review.check import Approval
from swarm_iac.review.effect import Effect
from tests.review.conftest import Make
from tests.review.fleet import DEV, FREE, RIGHTS, Repository

CHAT = "each: {gpus: 1, vcpus: 0.5, memory: 200 MB, cache: 200 MB}"
TIDY = "each: {vcpus: 0.25, memory: 100 MB, scratch: 200 MB}"
PRETRAIN = "each: {gpus: 2 x H100, vcpus: 1, pinned: true, memory: 300 MB"


def grown(memory: int) -> tuple[str, str]:
    """ada's job with other memory: an edit that needs her, if bo makes it."""
    return PRETRAIN, PRETRAIN.replace("300 MB", f"{memory} MB")


def merge(dev: Repository, head: str) -> None:
    """Merge into main, as a forge does."""
    dev.branch("main")
    dev.git("merge", "-q", "--no-ff", "-m", "merge", head)


def approved(dev: Repository, head: str) -> Approval:
    """ada approves what is to be seen now, as a forge keeps it."""
    effect = Effect.model_validate_json(dev.check(head, author="bo").effect.model_dump_json())
    return Approval(who="ada-lovelace", commit=head, effect=effect)


def test_the_same_after_a_rebase_stays_approved(dev: Repository) -> None:
    head = dev.pull_request(grown(280))
    given = approved(dev, head)
    assert dev.check(head, author="bo", approvals=[given]).ok
    merge(dev, dev.pull_request((TIDY, TIDY.replace("100 MB", "90 MB")), branch="other"))
    rebased = dev.pull_request(grown(280))
    verdict = dev.check(rebased, author="bo", approvals=[given])
    assert rebased != head and verdict.ok, verdict.comment
    assert verdict.approved == ("ada-lovelace",) and not verdict.dismissed


def test_a_larger_push_is_quoted_and_dismisses(dev: Repository) -> None:
    given = approved(dev, dev.pull_request(grown(280)))
    verdict = dev.check(dev.pull_request(grown(200)), author="bo", approvals=[given])
    assert not verdict.ok
    assert verdict.dismissed[0].who == "ada-lovelace"
    quoted = "\n".join(verdict.dismissed[0].lines)
    assert "pretrain-0 of ada: 300 MB → 200 MB of memory" in quoted and "workloads.pretrain.each.memory" in quoted
    assert "What it did not cover".lower() in verdict.comment


def test_a_smaller_push_of_others_values_is_another_value(dev: Repository) -> None:
    """What happens to her is less, and the value that she agreed to is not the one that would be written."""
    given = approved(dev, dev.pull_request(grown(200)))
    verdict = dev.check(dev.pull_request(grown(280)), author="bo", approvals=[given])
    assert [line.split(":")[1].strip() for line in verdict.dismissed[0].lines] == ["workloads.pretrain.each.memory"]


BIG = """
  big:
    user: bo
    priority: low
    each: {gpus: %s x H100, vcpus: 0.5, memory: 100 MB}
    run: {command: /bin/true}
"""


def crowded(repository: Make) -> Repository:
    """ada runs on both nodes with H100, and bo's `big` is pending."""
    text = DEV.read_text().replace(
        "pretrain:\n    user: ada\n    kind: train\n    priority: high\n",
        "pretrain:\n    user: ada\n    kind: train\n    replicas: 2\n    place: {spread: node}\n",
    )
    return repository(text + BIG % 8 + FREE)


def test_another_merge_that_makes_it_larger_dismisses(repository: Make) -> None:
    """Nothing is pushed: a workload of cy gets a place meanwhile, and the same change would stop it as well."""
    dev = crowded(repository)
    head = dev.pull_request(
        ("priority: low", "priority: high"), ("{gpus: 8 x H100, vcpus: 0.5", "{gpus: 7 x H100, vcpus: 0.5"), solve=False
    )
    given = approved(dev, head)
    assert given.effect is not None and given.effect.affected() == ("ada",)
    assert dev.check(head, author="bo", approvals=[given]).ok
    more = "\n  more:\n    user: cy\n    replicas: 2\n    each: {gpus: 2 x H100, vcpus: 0.1, memory: 10 MB}\n    place: {spread: node}\n"
    merge(dev, dev.pull_request(("\n  tidy:\n", more + "\n  tidy:\n"), branch="other"))
    verdict = dev.check(head, author="bo", approvals=[given])
    assert "cy" in verdict.effect.affected(), verdict.comment
    assert not verdict.ok and any("more-" in line for one in verdict.dismissed for line in one.lines)


def test_two_fine_alone_and_too_much_together_is_refused_with_why(dev: Repository) -> None:
    (dev.folder / "stacks/dev.proof.yaml").unlink()  # of two, git makes a conflict; see below
    dev.commit()
    extra = "\n  extra:\n    user: bo\n    each: {vcpus: 1, memory: 10 MB}\n    run: {command: /bin/true}\n"
    heads = []
    for name, edit in (("first", (TIDY, TIDY.replace("vcpus: 0.25", "vcpus: 3.5"))), ("second", (RIGHTS, extra + RIGHTS))):
        dev.branch(name)
        dev.edit(*edit)
        dev.solve()
        (dev.folder / "stacks/dev.proof.yaml").unlink()
        heads.append(dev.commit())
        alone = dev.check(heads[-1], author="bo")
        assert alone.ok and not [one for stack in alone.effect.stacks for one in stack.pending], alone.comment
    merge(dev, heads[0])
    verdict = dev.check(heads[1], author="bo")
    assert not verdict.ok
    assert verdict.refused == ("limits.user.vcpus: user bo holds 4.5 vCPUs; the limit is 4 (0.5 over)",)


def test_a_conflict_says_what_resolves_it(dev: Repository) -> None:
    first = dev.pull_request((TIDY, TIDY.replace("100 MB", "90 MB")), branch="first")
    second = dev.pull_request((TIDY, TIDY.replace("100 MB", "80 MB")), branch="second")
    merge(dev, first)
    verdict = dev.check(second, author="bo")
    assert not verdict.ok and not verdict.needs
    assert "stacks/dev.lock.yaml" in verdict.refused[0] and "both sides changed it" in verdict.refused[0]
    assert "git merge main" in verdict.refused[0] and "swarm solve" in verdict.refused[0]


def test_a_conflict_that_names_no_file_is_one(dev: Repository) -> None:
    """git's exit code says so, and its list of files is empty: a folder is split in two, and gets a file meanwhile."""
    for number in range(4):
        dev.write(f"docs/{number}", "".join(f"{number} {line}\n" for line in range(20)))
    dev.commit()
    dev.branch("split")
    (dev.folder / "a").mkdir()
    (dev.folder / "b").mkdir()
    for number in range(4):
        dev.git("mv", f"docs/{number}", "ab"[number // 2])
    head = dev.commit()
    dev.branch("other")
    dev.write("docs/new", "new\n")
    merge(dev, dev.commit())
    verdict = dev.check(head, author="cy")
    assert not verdict.ok and "git cannot merge it" in verdict.refused[0], verdict.comment


def test_a_stale_lock_is_decided_and_shown_or_refused(dev: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    head = dev.pull_request((TIDY, TIDY.replace("100 MB", "90 MB")), solve=False)
    verdict = dev.check(head, author="bo")
    assert verdict.ok and "the lock of dev is stale" in verdict.comment
    assert [one.name for stack in verdict.effect.stacks for one in stack.allocations] == ["tidy-0"]
    monkeypatch.setenv("SWARM_FROZEN", "1")
    frozen = dev.check(head, author="bo")
    assert not frozen.ok and "run `swarm solve" in frozen.refused[0]


def test_a_stack_file_with_mistakes_is_refused_with_their_lines(dev: Repository) -> None:
    head = dev.pull_request((TIDY, TIDY.replace("100 MB", "100 MX")), solve=False)
    verdict = dev.check(head, author="bo")
    line = DEV.read_text()[: DEV.read_text().index(TIDY)].count("\n") + 1
    assert not verdict.ok and verdict.refused[0].startswith(f"stacks/dev.yaml:{line}:"), verdict.refused


def test_only_what_merging_changes_is_judged(dev: Repository) -> None:
    """The branch is old, and what others merged meanwhile is not its own."""
    head = dev.pull_request((TIDY, TIDY.replace("100 MB", "90 MB")), solve=False)
    merge(dev, dev.pull_request((CHAT, CHAT.replace("200 MB, cache", "150 MB, cache")), branch="other"))
    verdict = dev.check(head, author="bo")
    assert verdict.ok, verdict.comment
    assert {one.path for stack in verdict.effect.stacks for one in stack.values} == {"workloads.tidy.each.memory"}


@pytest.mark.parametrize("text", ["see www.example.com", "see WWW.example.com", "$x^2$"])
def test_no_text_becomes_a_link_or_a_formula(text: str) -> None:
    """A bare address is one without `://`, too, and a forge sets a formula between dollar signs."""
    rows = Rows(("value",))
    rows.add(text)
    assert f"| `{text}` |" in shown(Section("Values", rows=rows))
    assert words(text) not in (text, "")
