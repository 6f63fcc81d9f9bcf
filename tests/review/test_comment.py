"""A comment is text whatever people wrote, small whatever changes, and begins with what matters."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from swarm_iac.plan.show.markdown import shown
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.review.approvals import Dismissed
from swarm_iac.review.comment import MARKER, MOST, Review, comment
from swarm_iac.review.effect import (
    AllocationEffect,
    ChangedFile,
    ChangedValue,
    Effect,
    NearLimit,
    NodeEffect,
    PendingWorkload,
    RaisedPriority,
    StackEffect,
)
from swarm_iac.review.judgement import Need
from tests.review.conftest import Make

#: What people write where they may write anything, and what a forge makes of it outside of code.
NASTY = (
    "@everyone", "@org/team", "fixes #1", "GH-1", "org/repo#1", "!1", "%1", '%"mile stone"', "~bug", "&1", "$1", ":tada:", ":100:",
    "<img src=x onerror=alert(1)>", "<!-- -->", "-->", "</details>", "<br>", "![x](https://x.invalid/p.png)", "[x](http://x.invalid)",
    "https://x.invalid", "www.x.invalid", "mailto:a@x.invalid", "a@x.invalid", "**bold**", "_em_", "~~gone~~", "`code`", "``", "`",
    "```\nfence\n```", "|", "\\|", "\\\\|", "a \\| b | c", "\n\n# title\n\n", "- list", "+ list", "1. list", "    indented", "\ttab",
    "> quote", "===", "---", "***", "\\", "&#64;x", "&commat;x", "[ref]: http://x.invalid", "[^1]", "x\r\ny", "\u202e", "\x1b[2J",
    "$$x$$", "/merge", "x\n/approve", "x\n:-:", "- [ ] task", "\u2028# x", "{{ x }}", "",
)  # fmt: skip
TEXT = st.lists(st.sampled_from(NASTY) | st.text(max_size=8), min_size=1, max_size=4).map(" ".join) | st.sampled_from(NASTY)
LINES = st.lists(TEXT, max_size=3).map(tuple)
STACK = st.builds(
    StackEffect, stack=st.just("dev"),
    allocations=st.lists(st.builds(AllocationEffect, name=TEXT, user=TEXT, team=TEXT, before=TEXT, after=TEXT, why=TEXT,
                                   becomes=st.sampled_from(("stopped", "moved", "started"))), max_size=2).map(tuple),
    nodes=st.lists(st.builds(NodeEffect, name=TEXT, becomes=st.just("readdressed"), old=TEXT, new=TEXT), max_size=1).map(tuple),
    values=st.lists(st.builds(ChangedValue, path=TEXT, old=TEXT, new=TEXT, place=TEXT), max_size=2).map(tuple),
    near=st.lists(st.builds(NearLimit, subject=TEXT, resource=TEXT, used=TEXT, ceiling=TEXT, percent=st.just(95)),
                  max_size=1).map(tuple),
    pending=st.lists(st.builds(PendingWorkload, workload=TEXT, user=TEXT, missing=st.just(1), why=TEXT, fix=TEXT),
                     max_size=1).map(tuple),
    priorities=st.lists(st.builds(RaisedPriority, workload=TEXT, user=TEXT, old=TEXT, new=TEXT), max_size=1).map(tuple),
)  # fmt: skip
REVIEWS = st.builds(
    Review, head=st.just("a" * 40), base=st.just("b" * 40),
    effect=st.builds(Effect, stacks=st.lists(STACK, max_size=2).map(tuple),
                     files=st.lists(st.builds(ChangedFile, name=TEXT, by=LINES), max_size=2).map(tuple)),
    refused=LINES,
    needs=st.lists(st.builds(Need, by=LINES, accounts=LINES, why=TEXT, lines=LINES), max_size=2).map(tuple),
    dismissed=st.lists(st.builds(Dismissed, who=TEXT, commit=st.just("c" * 40), lines=LINES), max_size=1).map(tuple),
    approved=LINES, notes=LINES, consequences=st.just(()),
)  # fmt: skip
#: What our own text is made of, and nothing else may be.
OURS = {"inline", "text", "softbreak", "hardbreak", "code_inline", "html_inline", "html_block", "paragraph_open", "paragraph_close",
        "heading_open", "heading_close", "strong_open", "strong_close", "bullet_list_open", "bullet_list_close", "list_item_open",
        "list_item_close", "table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close",
        "th_open", "th_close", "td_open", "td_close"}  # fmt: skip
HTML = re.compile(r"<br>|<details><summary>[\w ,:]+</summary>|</details>|<!-- swarm-pr( \w+=[0-9a-f]{16,40}){3} -->")
#: What a forge finds in rendered text, behind an escape as well.
FOUND = re.compile(r"(?<!\w)@\w|\w@\w|#\d|!\d|(?<!\w)[~%&$][\w\"]|GH-\d|://|www\.|mailto:|:[\w+-]+:|\$\$")


def tokens(text: str) -> Iterator[Token]:
    for one in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        yield one
        yield from one.children or ()


def harmless(text: str, *, lists: bool = True) -> None:
    """Only what we write ourselves is markup, and no text is what a forge looks for."""
    for one in tokens(text):
        assert one.type in OURS, (one.type, one.content, text)
        if one.type in ("html_inline", "html_block"):
            assert HTML.sub("", one.content).strip() == "", (one.content, text)
        if one.type == "text":
            assert not FOUND.search(one.content), (one.content, text)
        if one.type == "heading_open":
            assert one.tag == "h3", text
        assert lists or "list" not in one.type, text
    assert not re.search(r"^\s*/", text, re.MULTILINE), ("GitLab would obey a line that begins with a slash", text)
    rows = [one for one in text.split("\n") if one.startswith("| ")]
    parsed = [one.type for one in tokens(text)]
    assert parsed.count("tr_open") + parsed.count("table_open") == len(rows), "every row is one of a table"


@settings(max_examples=400, deadline=None)
@given(REVIEWS)
def test_no_text_of_a_person_is_markup_a_link_a_person_an_issue_or_a_picture(review: Review) -> None:
    text = comment(review)
    harmless(text)
    assert text.startswith(MARKER) and len(text) < MOST


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3), TEXT, st.booleans())
def test_the_tables_of_a_plan_hold_any_text(rows: list[tuple[str, str]], words: str, minor: bool) -> None:
    table = Rows(("one", "two"))
    for cells in rows:
        table.add(*cells)
    text = shown(Section("Title", words, table, minor=minor))
    harmless(text, lists=False)
    cells = [one for one in tokens(text) if one.type == "td_open"]
    assert len(cells) == 2 * len(rows), text


@pytest.mark.parametrize("text", NASTY)
def test_each_text_is_readable_still(text: str) -> None:
    """It is shown, and not left out: letters and digits come through."""
    table = Rows(("one",))
    table.add(text)
    kept = re.sub(r"\W", "", "".join(one.content for one in tokens(shown(Section("T", rows=table))) if not one.children))
    for word in re.findall(r"[A-Za-z]{2,}", text):
        assert word in kept


def _large(nodes: int) -> tuple[str, str]:
    """A fleet of one node, and of so many with a job on each card."""
    jobs = nodes * 8 // 5

    def text(racks: int, count: int) -> str:
        lines = ["fleet: large", "teams:"]
        lines += [f"  team{i}: {{users: [{', '.join(f'u{j}' for j in range(i, jobs, 10))}]}}" for i in range(10)]
        lines += ["limits: {cluster: {gpus: 100000, vcpus: 1000000, memory: 100 PB}, user: {gpus: 8, vcpus: 64, memory: 1 TB}}"]
        lines += ["hardware:", "  h100: {gpus: 8 x H100, vcpus: 128, memory: 1 TB, numa: 2, interface: eth1}"]
        lines += ["prices: {H100: 2.50 EUR/h}", "tuning: {train: {gpu_power: 600 W, tcp: bbr, swappiness: 10}}", "racks:"]
        lines += [f"  r{i}: {{}}" for i in range(racks)] + ["nodes:"]
        for i in range(racks):
            names = f"gpu-[{i * 20 + 1:04d}-{(i + 1) * 20:04d}]"
            lines.append(f"  {names}: {{hardware: h100, rack: r{i}, tuning: train, ssh: 'root@{{name}}'}}")
        lines.append("workloads:")
        run = "run: {command: python -m train --config configs/large.yaml --data /data/tokens}"
        each = "replicas: 5, each: {gpus: 1, vcpus: 4, memory: 30 GB}"
        return "\n".join([*lines, *(f"  w{i}: {{user: u{i}, kind: batch, {each}, {run}}}" for i in range(count))]) + "\n"

    return text(1, 1), text(nodes // 20, jobs)


@pytest.mark.parametrize("nodes", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_large_fleet_all_new_is_a_small_comment(repository: Make, nodes: int, capsys: pytest.CaptureFixture[str]) -> None:
    base, head = _large(nodes)
    large = repository(base)
    large.branch("change")
    large.write("stacks/dev.yaml", head)
    commit = large.commit()
    large.git("checkout", "-q", "-f", "main")
    begin, cpu = time.monotonic(), time.process_time()
    verdict = large.check(commit, author="u0")
    took, cpu = time.monotonic() - begin, time.process_time() - cpu
    with capsys.disabled():
        print(
            f"\n{nodes} nodes: check {took:.1f} s ({cpu:.1f} s of CPU), comment {len(verdict.comment):,} characters, page {len(verdict.pages['dev']):,}"
        )
    assert verdict.ok and len(verdict.comment) < MOST
    first, _, _ = verdict.comment.partition("<details>")
    for part in ("**May be merged**", "to start", "Who is affected", "Cost per month", "How good the placement is"):
        assert part in first, first[:2000]
    assert "the page has them all" in verdict.comment and len(verdict.pages["dev"].encode()) < 2_000_000
    harmless(verdict.comment)
