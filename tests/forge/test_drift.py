"""Does one issue on a real forge say what differs on machines, as long as it does, and is it closed after?"""

from __future__ import annotations

import datetime

import pytest

from swarm_iac.cli.nightly.drift_issue import show
from swarm_iac.review.last_known import FleetSnapshot, NodeDifference, NodeReport
from tests.forge.conftest import Lab

pytestmark = pytest.mark.forge

NOON = datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC)
SWAP = NodeDifference(what='settings.sysctl["vm.swappiness"]', wanted="10", found="77")


def machines(hours: int, **nodes: NodeReport) -> FleetSnapshot:
    reports = {"gpu-01": NodeReport(), "gpu-02": NodeReport()} | {name.replace("_", "-"): one for name, one in nodes.items()}
    return FleetSnapshot(stack="dev", fleet="dev", commit="a" * 40, at=NOON + datetime.timedelta(hours=hours), nodes=reports)


def test_one_issue_is_opened_edited_in_place_and_closed_with_a_word(lab: Lab) -> None:
    bot, at = lab.bot, f"/repos/{lab.repository}/issues"
    assert show(bot, machines(0)).number is None
    assert show(bot, machines(0, gpu_02=NodeReport(answered=False))).number is None, "a node that does not answer is no drift"
    differs = NodeReport(differences=(SWAP,))
    assert show(bot, machines(0, gpu_01=differs), dry=True).deed == "opened" and not bot.issues(bot.me())

    first = show(bot, machines(0, gpu_01=differs))
    assert first.deed == "opened"
    second = show(bot, machines(24, gpu_01=differs, gpu_02=NodeReport(answered=False)))
    assert (second.number, second.deed) == (first.number, "edited")
    (issue,) = bot.issues(bot.me())
    assert '`settings.sysctl["vm.swappiness"]`' in issue.body and "| 10 | 77 | 2026-11-25 12:00 |" in issue.body, issue.body
    assert "gpu-02 did not answer, so nothing is known about it." in issue.body

    away = show(bot, machines(48, gpu_01=NodeReport(answered=False)))
    assert (away.number, away.deed) == (first.number, "edited"), "what is not seen is not known to be well"
    again = show(bot, machines(72, gpu_01=differs))
    assert "2026-11-25 12:00" in bot.issues(bot.me())[0].body and again.number == first.number

    assert show(bot, machines(96)).deed == "closed"
    shown = lab.people["ada"].ask("GET", f"{at}/{first.number}")
    assert shown["state"] == "closed" and not bot.issues(bot.me())
    (word,) = lab.people["ada"].ask("GET", f"{at}/{first.number}/comments")
    assert "every node of dev is as aaaaaaaaaaaa has it" in word["body"]
    assert show(bot, machines(97, gpu_01=differs)).number != first.number, "the next time is another one"


def test_the_issue_of_another_is_never_touched(lab: Lab) -> None:
    """They may copy our first line; it is ours if our account wrote it."""
    bot, ada = lab.bot, lab.people["ada"]
    ours = show(bot, machines(0, gpu_01=NodeReport(differences=(SWAP,))))
    copy = bot.issues(bot.me())[0].body
    made = ada.ask("POST", f"/repos/{lab.repository}/issues", title="mine", body=copy)
    assert show(bot, machines(1)).number == ours.number
    assert ada.ask("GET", f"/repos/{lab.repository}/issues/{made['number']}")["state"] == "open"
