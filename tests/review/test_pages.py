"""The page of a verdict has what the comment says, with every row, and no text of a person is markup there."""

from __future__ import annotations

import html
from html.parser import HTMLParser

from tests.review.conftest import Make
from tests.review.fleet import DEV, RIGHTS, Repository
from tests.review.test_unseen import NODES


class _Cells(HTMLParser):
    """The texts of all cells, and which elements there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.kinds: set[str] = set()
        self.within = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.kinds.add(tag)
        self.within = tag == "td"
        if self.within:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.within = False

    def handle_data(self, data: str) -> None:
        if self.within:
            self.cells[-1] += data


def test_a_page_says_who_loses_and_who_has_to_approve(dev: Repository) -> None:
    verdict = dev.check(dev.pull_request((NODES, NODES.replace("{name}", "{name}.b")), solve=False), author="cy")
    page = verdict.pages["dev"]
    assert "Waits for approval" in page and "Who has to approve" in page and "Nodes that lead elsewhere" in page
    cells = {cell.strip() for cell in _Cells(page).cells}
    assert cells >= {"ada-lovelace or bo", "root@gpu-01.b", "root@gpu-02.b"}
    assert "pages" not in verdict.model_dump(), "it is large, and no part of what a machine reads"


def test_values_that_are_alike_are_one_row_and_all_are_there(repository: Make) -> None:
    dev = repository(DEV.read_text() + RIGHTS)
    more = "".join(f'  more-{i:02d}: {{hardware: h100, site: lab, tuning: train, ssh: "root@{{name}}"}}\n' for i in range(30))
    page = dev.check(dev.pull_request(("nodes:\n", f"nodes:\n{more}")), author="cy").pages["dev"]
    cells = [cell.strip() for cell in _Cells(page).cells]
    assert cells.count("nodes.more-[00-29].hardware") == 1
    assert {f"nodes.more-{i:02d}.ssh" for i in range(30)} <= {*cells}


def test_no_text_of_a_pull_request_is_markup(dev: Repository) -> None:
    evil = "</td></table><script>alert(1)</script><img src=x onerror=alert(1)>"
    head = dev.pull_request((NODES, NODES.replace(", ssh", f", reason: '{evil}', ssh")), solve=False)
    plain, page = dev.check(dev.pull_request(solve=False), author="bo"), dev.check(head, author="cy").pages["dev"]
    assert evil not in page and html.escape(evil, quote=False) in page.replace("&#39;", "'")
    assert not plain.pages and "img" not in _Cells(page).kinds
    assert page.count("<script") == 1 and page.count("</script") == 1


def test_what_is_refused_is_said(dev: Repository) -> None:
    verdict = dev.check(dev.pull_request(("fleet: dev", "fleet: other"), solve=False), author="cy")
    assert "Why it is refused" in verdict.pages["dev"] and "the nodes belong to the fleet dev" in verdict.pages["dev"]
