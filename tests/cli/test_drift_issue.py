"""Is the issue about drift one, true and short, whatever machines, persons and nights bring?"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.cli.nightly.drift_issue import body, kept, key, merged, moment, show
from swarm_iac.forge import Issue
from swarm_iac.review.last_known import FleetSnapshot, NodeDifference, NodeReport, published

NOON = datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC)
ROW = NodeDifference(what="settings.governor", wanted="performance", found="powersave")


def machines(hours: int, nodes: dict[str, NodeReport], stack: str = "dev") -> FleetSnapshot:
    return FleetSnapshot(stack=stack, fleet="dev", commit="a" * 40, at=NOON + datetime.timedelta(hours=hours), nodes=nodes)


@dataclass
class Kept:
    """A forge that keeps issues. Only what `show` uses of one."""

    open: dict[int, Issue] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    last: int = 0

    def me(self) -> str:
        return "bot"

    def issues(self, by: str) -> tuple[Issue, ...]:
        return tuple(self.open[number] for number in sorted(self.open))

    def open_issue(self, title: str, body: str) -> Issue:
        self.last += 1
        self.open[self.last] = Issue(number=self.last, by="bot", body=body)
        return self.open[self.last]

    def edit_issue(self, issue: Issue, body: str) -> None:
        self.open[issue.number] = issue.model_copy(update={"body": body})

    def close_issue(self, issue: Issue, word: str) -> None:
        self.words.append(word)
        del self.open[issue.number]


def test_since_when_is_that_of_the_value_and_not_of_what_it_is_today() -> None:
    forge = Kept()
    show(forge, machines(0, {"n1": NodeReport(differences=(ROW,))}))
    other, new = ROW.model_copy(update={"found": "schedutil"}), ROW.model_copy(update={"what": "settings.thp"})
    found = show(forge, machines(24, {"n1": NodeReport(differences=(other, new))}))
    assert {moment(at) for at in found.since["n1"].values()} == {"2026-11-25 12:00", "2026-11-26 12:00"}
    assert moment(found.since["n1"][key(ROW)]) == "2026-11-25 12:00"
    gone = show(forge, machines(48, {"n1": NodeReport(differences=(new,))}))
    assert set(gone.since["n1"]) == {key(new)}


def test_two_stacks_have_an_issue_each_and_two_of_one_stack_become_one() -> None:
    forge = Kept()
    differs = {"n1": NodeReport(differences=(ROW,))}
    assert show(forge, machines(0, differs)).number == 1
    assert show(forge, machines(0, differs, "prod")).number == 2
    forge.open_issue("twice", forge.open[1].body)
    show(forge, machines(1, differs))
    assert set(forge.open) == {1, 2} and forge.words == ["The same as #1."]
    show(forge, machines(2, {"n1": NodeReport()}))
    assert set(forge.open) == {2}


def test_a_line_that_somebody_changed_costs_the_dates_alone() -> None:
    forge = Kept()
    differs = {"n1": NodeReport(differences=(ROW,))}
    for wrong in (
        'since={"n1":{"x":"y"}} -->',
        "since={",
        'since={"../n":{}} -->',
        f'since={{"n1":{{"{key(ROW)}":{10**30}}}}} -->',
    ):
        forge.open = {1: Issue(number=1, by="bot", body=f"<!-- swarm-drift stack=dev {wrong}\r\nx")}
        found = show(forge, machines(0, differs))
        assert found.number == 1 and moment(found.since["n1"][key(ROW)]) == "2026-11-25 12:00", wrong
    assert show(forge, machines(1, differs)).deed == "edited"


def test_nothing_is_written_where_nothing_changed() -> None:
    forge = Kept()
    shot = machines(0, {"n1": NodeReport(differences=(ROW,))})
    show(forge, shot)
    assert show(forge, shot).deed == "as it was"


words = st.text(max_size=60) | st.sampled_from(
    ["-->", "@all", "/close", "](x)", "|", "`", "<img>", "$x$", "#1", "http://x", "10"]
)
rows = st.builds(NodeDifference, what=words, wanted=words, found=words)


@given(st.lists(rows, max_size=8))
def test_no_text_of_a_machine_is_markup(found: list[NodeDifference]) -> None:
    """Of what is published only plain words are left, and what may mean something is code."""
    shot = machines(0, {"n1": NodeReport(differences=tuple(map(published, found)))})
    text = body(shot, merged({}, shot))
    first, _, rest = text.partition("\n")
    assert first.endswith("-->") and first.count("-->") == 1 and "-->" not in rest
    for line in rest.splitlines():
        plain = "".join(line.split("`")[::2])  # outside of code
        assert not any(mark in plain for mark in ("@", "](", "<img", "http://", "$", "#1")), line
        assert not line.startswith("/")


def test_a_thousand_machines_that_differ_in_all_fit() -> None:
    every = tuple(NodeDifference(what=f'settings.sysctl["vm.x{i}"]', wanted="1" * 50, found="2" * 50) for i in range(30))
    shot = machines(0, {f"gpu-{i}": NodeReport(differences=every) for i in range(1000)})
    since = merged({}, shot)
    text = body(shot, since)
    assert len(text) < 60_000 and "**30000 differences on 1000 of 1000 nodes**" in text and "more: `swarm drift`" in text
    assert kept(Issue(number=1, by="bot", body=text)) == since
