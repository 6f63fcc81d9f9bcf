"""How does a comment look on a real forge, and is any text of a person more than text there?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator

from swarm_iac.cli.merging.posting import Shown, post
from swarm_iac.plan.show.markdown import shown
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.review.comment import MARKER
from tests.browser import browser
from tests.forge.conftest import Lab
from tests.review.test_comment import NASTY

__all__ = ["browser"]

pytestmark = pytest.mark.forge

EXAMPLE = Path(__file__).parents[2] / "examples" / "18-pull-request" / "comment.md"


def seen(lab: Lab, browser: Browser, text: str) -> Locator:
    """The comment as one sees it who is signed in."""
    ada = lab.people["ada"]
    number, _ = ada.pull("more", {"a": "1"})
    post(lab.bot, lab.bot.pull(number), lambda _: Shown(True, "1 to start", text, {}))
    page = browser.new_context(viewport={"width": 1180, "height": 1200}).new_page()
    page.goto(f"{lab.server.root}/user/login")
    page.fill("input[name=user_name]", ada.name)
    page.fill("input[name=password]", ada.account.word)
    page.press("input[name=password]", "Enter")
    page.wait_for_url(lambda url: "login" not in url)
    page.goto(f"{lab.server.root}/{lab.repository}/pulls/{number}")
    return page.locator(".comment-body .render-content", has=page.locator("table"))


def test_the_example_shows_its_tables_and_folds_what_is_long(lab: Lab, browser: Browser) -> None:
    """`SWARM_PICTURES=docs/pictures` keeps the picture. The forge of these tests is built without style sheets."""
    text = EXAMPLE.read_text()
    comment = seen(lab, browser, text)
    assert comment.locator("table").count() == text.count("\n| --- ")
    assert comment.locator("details").count() == text.count("<details>")
    assert comment.get_by_text("Waits for approval", exact=True).is_visible()
    assert comment.get_by_role("cell", name="pretrain-0 of ada stops").is_visible()
    assert not comment.get_by_role("cell", name="python -m finetune").is_visible(), "it is folded"
    assert "swarm-pr" not in comment.inner_text(), "a forge does not show the first line"
    if folder := os.environ.get("SWARM_PICTURES"):
        lines = "table {border-collapse: collapse} td, th {border: 1px solid #ccc; padding: 4px 9px; text-align: left}"
        comment.page.add_style_tag(content=f"{lines} body {{font-family: sans-serif; font-size: 14px}}")
        comment.screenshot(path=f"{folder}/comment.png")


def test_no_text_of_a_person_is_a_link_a_person_or_a_picture_there(lab: Lab, browser: Browser) -> None:
    """What is looked for in other tests by a parser is asked of the forge itself, with names that exist there."""
    table = Rows(("name",))
    for text in (*NASTY, f"@{lab.people['bo'].name}", "#1", f"{lab.repository}#1"):
        table.add(text)
    body = seen(lab, browser, f"{MARKER} head=x -->\n\n{shown(Section('Names', rows=table))}\n")
    assert body.locator("table").count() == 1
    assert body.locator("tbody tr").count() == len(NASTY) + 3
    for what in ("a", "img", "script", "input", "h1", "h2", "blockquote", "li", "del", "em", ".mention", ".emoji"):
        assert body.locator(f"tbody {what}").count() == 0, body.locator(f"tbody {what}").first.inner_html()
