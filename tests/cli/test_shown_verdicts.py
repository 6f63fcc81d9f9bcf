"""Is what a forge is shown of a verdict never more than it is? With a forge of our own, on real git repositories."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from swarm_iac.cli.merging import rebased
from swarm_iac.cli.merging.posting import Shown, post
from swarm_iac.cli.merging.verdicts import judged, judged_on
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.forge import ForgeApproval, PullRequest, Status
from swarm_iac.forge.forge import Comment, State
from tests.review.fleet import DEV, RIGHTS, made

BASE = "0123456789abcdef"


@dataclass
class Kept:
    """A forge that keeps what it is told. `coarse`: an error is a failure there, as on GitLab. `full`: it takes no comment."""

    one: PullRequest
    coarse: bool = False
    full: bool = False
    set: list[Status] = field(default_factory=list)
    kind: str = "kept"

    def me(self) -> str:
        return "bot"

    def ref(self, pull: PullRequest) -> str:
        return "refs/heads/change"

    def pull(self, number: int) -> PullRequest:
        return self.one

    def approvals(self, pull: PullRequest) -> tuple[ForgeApproval, ...]:
        return ()

    def comments(self, pull: PullRequest) -> tuple[Comment, ...]:
        if self.full:
            raise Refused("more than 3000 entries")
        return ()

    def comment(self, pull: PullRequest, body: str) -> None:
        pass

    def edit(self, pull: PullRequest, comment: Comment, body: str) -> None:
        pass

    def attach(self, pull: PullRequest, name: str, data: bytes) -> str | None:
        return None

    def open_pulls(self, base: str) -> tuple[PullRequest, ...]:
        return (self.one,)

    def merged_as(self, commit: str) -> PullRequest | None:
        return None

    def statuses(self, commit: str, context: str) -> tuple[Status, ...]:
        return tuple(self.set)

    def set_status(self, commit: str, context: str, state: State, description: str) -> None:
        kept = State.FAILURE if self.coarse and state is State.ERROR else state
        at = datetime.datetime.now(datetime.UTC)
        self.set.append(Status(context=context, state=kept, by="bot", at=at, description=description[:140]))


def pull(head: str) -> PullRequest:
    return PullRequest(number=1, author="bo", base="main", head=head, fork=False, open=True)


@pytest.mark.parametrize("words", ["no base", "x" * (140 - len(f" on {BASE}"))])
def test_an_error_is_no_verdict_where_the_forge_knows_no_errors(words: str) -> None:
    """Its words may be the author's; read as a verdict, they would choose the base that an approval is measured on."""
    forge = Kept(pull("a" * 40), coarse=True)

    def judge(_: object) -> Shown:
        raise SwarmError(f"{words} on {BASE}")

    with pytest.raises(SwarmError):
        post(forge, forge.one, judge)
    assert judged_on(forge.set, "bot", datetime.datetime.now(datetime.UTC)) == ""


def test_a_comment_that_cannot_be_written_leaves_no_green_status() -> None:
    """Whoever fills a pull request with comments would else keep the green one of before."""
    forge = Kept(pull("a" * 40))
    post(forge, forge.one, lambda _: Shown(True, f"fine on {BASE}", "fine"))
    forge.full = True
    with pytest.raises(Refused):
        post(forge, forge.one, lambda _: Shown(False, f"refused on {BASE}", "refused"))
    assert [one.state for one in forge.set] == [State.SUCCESS, State.ERROR]


def test_a_stale_lock_is_not_green_since_its_merge_would_hold_all_others(tmp_path: Path) -> None:
    """`swarm pr apply` decides nothing: it would refuse this one, and with it each that follows."""
    fleet = made(tmp_path / "fleet", DEV.read_text() + RIGHTS)
    fleet.branch("change")
    lock = (fleet.folder / "stacks/dev.lock.yaml").read_text()
    fleet.write("stacks/dev.lock.yaml", lock.replace("user: bo", "user: ada"))
    head = fleet.commit()
    tip = fleet.git("rev-parse", "main")
    fleet.git("remote", "add", "origin", str(fleet.folder))
    shown = judged(fleet.folder, "origin", Kept(pull(head)), "bot", pull(head), tip)
    assert not shown.ok and "swarm solve" in shown.comment, shown.summary


@pytest.mark.parametrize(("most", "many"), [(3, 4), (3, 1)])
def test_a_squashed_pull_request_is_one_commit_however_many_it_had(
    most: int, many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of too many commits ended in a traceback, and held every merge after it."""
    monkeypatch.setattr(rebased, "MOST", most)
    fleet = made(tmp_path / "fleet", DEV.read_text() + RIGHTS)
    tip = fleet.git("rev-parse", "main")
    fleet.branch("change")
    for number in range(many):
        fleet.write("notes.md", f"{number}\n")
        head = fleet.commit()
    fleet.git("checkout", "-q", "main")
    fleet.git("merge", "-q", "--squash", "change")
    squashed, forge = fleet.commit(), Kept(pull(head))
    status = Status(context="swarm", state=State.SUCCESS, by="bot", at=datetime.datetime.now(datetime.UTC), description="fine")
    assert rebased.start(fleet.folder, "origin", forge, pull(head), squashed, status) == tip
