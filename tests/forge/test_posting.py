"""Is a verdict shown in one comment and one status, on the real forge, whatever others write there?"""

from __future__ import annotations

import pytest

from swarm_iac.cli.merging.posting import Shown, post
from swarm_iac.errors import Refused
from swarm_iac.review.comment import MARKER
from tests.forge.conftest import Lab

pytestmark = pytest.mark.forge


def shown(text: str, *, ok: bool = True, pages: dict[str, str] | None = None) -> Shown:
    return Shown(ok, "1 to start", f"{MARKER} head=x -->\n\n{text}\n", pages or {})


def bodies(lab: Lab, number: int) -> list[tuple[str | None, str]]:
    return [(one.by, one.body) for one in lab.bot.comments(lab.bot.pull(number))]


def test_one_comment_is_edited_and_nobody_elses_is_touched(lab: Lab) -> None:
    """Others may copy our marker: before us, and after."""
    ada, bot = lab.people["ada"], lab.people["bot"].name
    number, head = ada.pull("more", {"a": "1"})
    ada.ask("POST", f"/repos/{lab.repository}/issues/{number}/comments", body=f"{MARKER} head=x -->\nall is fine")
    pull = lab.bot.pull(number)
    for text in ("one", "one", "two"):
        post(lab.bot, pull, lambda _, text=text: shown(text))
    assert [by for by, _ in bodies(lab, number)] == [ada.name, bot]
    assert "all is fine" in bodies(lab, number)[0][1] and "two" in bodies(lab, number)[1][1]
    status = lab.status(head, "swarm")
    assert status and (status.state, status.description) == ("success", "1 to start")


def test_a_head_that_moved_while_it_was_judged_gets_no_verdict(lab: Lab) -> None:
    ada = lab.people["ada"]
    number, head = ada.pull("more", {"a": "1"})
    after = ""

    def judge(_: object) -> Shown:
        nonlocal after
        after = ada.push("more", {"a": "2"})
        return shown("of the former head")

    assert post(lab.bot, lab.bot.pull(number), judge) is None
    assert bodies(lab, number) == [] and lab.status(head, "swarm") is None and lab.status(after, "swarm") is None


def test_one_that_cannot_be_judged_is_not_left_green(lab: Lab) -> None:
    number, head = lab.people["ada"].pull("more", {"a": "1"})
    post(lab.bot, lab.bot.pull(number), lambda _: shown("fine"))

    def judge(_: object) -> Shown:
        raise Refused("stacks/dev.yaml: it has no end")

    with pytest.raises(Refused):
        post(lab.bot, lab.bot.pull(number), judge)
    status = lab.status(head, "swarm")
    assert status and (status.state, status.description) == ("error", "stacks/dev.yaml: it has no end (no verdict)")


def test_the_page_of_each_stack_is_attached_once(lab: Lab) -> None:
    number, _ = lab.people["ada"].pull("more", {"a": "1"})
    for _ in range(2):
        post(lab.bot, lab.bot.pull(number), lambda _: shown("short", pages={"dev": "<p>all</p>", "lab": "<p>all</p>"}))
    ((_, body),) = bodies(lab, number)
    assert body.count("[Page of dev](<") == body.count("[Page of lab](<") == 1
    found = lab.people["bot"].ask("GET", f"/repos/{lab.repository}/issues/{number}/assets")
    assert sorted(one["name"] for one in found) == [f"pull-request-{number}-{stack}.zip" for stack in ("dev", "lab")]
