"""Does the real Gitea answer what the adapter says that it does?"""

from __future__ import annotations

import secrets
import subprocess

import pytest

from swarm_iac.errors import Refused, Retryable
from swarm_iac.forge.forge import State
from swarm_iac.forge.gitea import Gitea
from tests.forge.conftest import Lab
from tests.forge.server import Person, until

pytestmark = pytest.mark.forge


def test_a_pull_request_is_read_with_its_author_and_head(lab: Lab) -> None:
    ada = lab.people["ada"]
    number, head = ada.pull("more", {"stacks/dev.yaml": "fleet: dev2\n"})
    pull = lab.bot.pull(number)
    assert (pull.author, pull.head, pull.base, pull.open, pull.fork, pull.merged) == (ada.name, head, "main", True, False, None)
    assert lab.bot.open_pulls("main") == (pull,)
    assert lab.bot.open_pulls("other") == ()
    assert lab.bot.me() == lab.people["bot"].name


def test_an_approval_names_the_commit_that_it_was_given_for(lab: Lab) -> None:
    """Also after a push, and as long as nobody takes it back: whether it still counts is decided from the commit."""
    ada, bo = lab.people["ada"], lab.people["bo"]
    number, head = ada.pull("more", {"a": "1"})
    bo.approve(number)
    assert lab.approvals(number) == {bo.name: head}
    after = ada.push("more", {"a": "2"})
    assert after != head
    until("the new head", lambda: lab.bot.pull(number).head == after)
    assert lab.approvals(number) == {bo.name: head}
    bo.ask("POST", f"/repos/{lab.repository}/pulls/{number}/reviews", event="REQUEST_CHANGES", body="no")
    assert lab.approvals(number) == {}
    bo.approve(number)
    assert lab.approvals(number) == {bo.name: after}
    (last,) = (one for one in bo.ask("GET", f"/repos/{lab.repository}/pulls/{number}/reviews") if one["commit_id"] == after
               and one["state"] == "APPROVED")  # fmt: skip
    at = f"/repos/{lab.repository}/pulls/{number}/reviews/{last['id']}/dismissals"
    lab.server.admin.ask("POST", at, message="not yet", priors=True)
    assert lab.approvals(number) == {}


def test_a_comment_is_edited_in_place_and_a_file_lies_beside_it(lab: Lab) -> None:
    number, _ = lab.people["ada"].pull("more", {"a": "1"})
    pull = lab.bot.pull(number)
    lab.bot.comment(pull, "one")
    (first,) = lab.bot.comments(pull)
    assert (first.by, first.body) == (lab.people["bot"].name, "one")
    lab.bot.edit(pull, first, "two")
    assert [one.body for one in lab.bot.comments(pull)] == ["two"]
    assert lab.bot.comments(pull)[0].id == first.id
    where = lab.bot.attach(pull, "plan.html", b"<p>whole</p>")
    assert where and where.startswith(lab.server.root)


def test_a_status_belongs_to_one_commit_and_names_who_set_it(lab: Lab) -> None:
    """A later one under the same name wins, whoever set it: so who set it is part of the answer."""
    ada = lab.people["ada"]
    _, head = ada.pull("more", {"a": "1"})
    lab.bot.set_status(head, "swarm", State.FAILURE, "x" * 500)
    mine = lab.status(head, "swarm")
    assert mine and (mine.state, mine.by) == (State.FAILURE, lab.people["bot"].name)
    ada.ask("POST", f"/repos/{lab.repository}/statuses/{head}", context="swarm", state="success")
    other = lab.status(head, "swarm")
    assert other and (other.state, other.by) == (State.SUCCESS, ada.name)
    assert lab.status(head, "else") is None
    after = ada.push("more", {"a": "2"})
    assert lab.status(after, "swarm") is None


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_a_merge_commit_knows_its_pull_request(lab: Lab, how: str) -> None:
    ada = lab.people["ada"]
    number, head = ada.pull("more", {"a": "1"})
    merged = ada.merge(number, how)
    pull = lab.bot.merged_as(merged)
    assert pull and (pull.number, pull.head, pull.merged, pull.open) == (number, head, merged, False)
    assert how == "rebase" or lab.bot.merged_as(head) is None, "the head itself is no merge"
    first = ada.git("rev-list", "--max-parents=0", "HEAD")
    assert lab.bot.merged_as(first) is None, "a push to the branch is none either"


def test_the_pull_request_of_a_fork_is_one(lab: Lab) -> None:
    eve = lab.people["eve"]
    eve.ask("POST", f"/repos/{lab.repository}/forks", name="lab")
    own = f"{eve.name}/lab"
    until("the fork", lambda: eve.ask("GET", f"/repos/{own}/branches/main"))
    number, head = Person(eve.account, own, lab.at / "fork").pull("evil", {"a": "1"}, into=lab.repository)
    pull = lab.bot.pull(number)
    assert (pull.fork, pull.author, pull.head) == (True, eve.name, head)


def test_the_pull_request_of_a_branch_is_opened_once_and_no_other_of_its_name_is_touched(lab: Lab) -> None:
    """eve reads only: she has a fork with the same branch, and pushed a pull request under its name without any branch."""
    eve, bot = lab.people["eve"], lab.people["bot"]
    branch, own = f"{eve.name}/speed", f"{eve.name}/lab"
    eve.ask("POST", f"/repos/{lab.repository}/forks", name="lab")
    until("the fork", lambda: eve.ask("GET", f"/repos/{own}/branches/main"))
    Person(eve.account, own, lab.at / "fork").pull(branch, {"a": "1"}, into=lab.repository)
    eve.begin("speed")
    eve.git("commit", "-q", "--allow-empty", "-m", "theirs")
    eve.git("push", "-q", "-o", "topic=speed", "origin", "HEAD:refs/for/main")
    theirs = until("both of eve", lambda: lab.bot.open_pulls("main") if len(lab.bot.open_pulls("main")) == 2 else ())

    bot.begin("work")
    head = bot.push(branch, {"stacks/dev.yaml": "fleet: faster\n"})
    assert lab.bot.default_branch() == "main"
    made = lab.bot.propose(branch, "main", "Measured", "one\n")
    assert (made.author, made.head, made.base, made.open, made.fork) == (bot.name, head, "main", True, False)
    for title, body in (("Measured", "one\n"), ("Measured", "two"), ("Again", "two"), ("Again", "")):
        assert lab.bot.propose(branch, "main", title, body) == made
        shown = bot.ask("GET", f"/repos/{lab.repository}/pulls/{made.number}")
        assert (shown["title"], shown["body"]) == (title, body)
    assert lab.bot.open_pulls("main") == (*theirs, made)
    for one in theirs:
        assert bot.ask("GET", f"/repos/{lab.repository}/pulls/{one.number}")["title"] in (branch, "theirs")


def test_a_pull_request_that_a_reader_opened_from_our_branch_stays_theirs(lab: Lab) -> None:
    """Gitea lets anyone who reads open it, and opens no second one: who is its author is part of the answer."""
    eve, bot = lab.people["eve"], lab.people["bot"]
    bot.begin("work")
    head = bot.push("speed", {"a": "1"})
    number = eve.ask("POST", f"/repos/{lab.repository}/pulls", title="theirs", head="speed", base="main")["number"]
    made = lab.bot.propose("speed", "main", "Measured", "one")
    assert (made.number, made.author, made.head, made.fork) == (number, eve.name, head, False)
    assert bot.ask("GET", f"/repos/{lab.repository}/pulls/{number}")["title"] == "Measured"


def test_a_pull_request_of_no_branch_is_refused(lab: Lab) -> None:
    with pytest.raises(Refused, match="404"):
        lab.bot.propose("never-pushed", "main", "Measured", "one")


def test_a_wrong_token_is_refused_without_being_shown(lab: Lab) -> None:
    wrong = secrets.token_hex(20)
    with pytest.raises(Refused) as refused:
        Gitea(lab.server.root, lab.repository, wrong).me()
    assert wrong not in str(refused.value)
    assert "401" in str(refused.value)


def test_a_forge_that_is_away_may_be_asked_later(lab: Lab) -> None:
    number, _ = lab.people["ada"].pull("more", {"a": "1"})
    lab.server.stop()
    try:
        with pytest.raises(Retryable, match="does not answer"):
            lab.bot.pull(number)
    finally:
        lab.server.start()
    assert lab.bot.pull(number).number == number


def test_the_token_is_in_no_process_list(lab: Lab) -> None:
    """It goes from the environment to a header, and nothing else is started."""
    lab.bot.me()
    assert lab.token not in subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout
