"""Is an approval bound to what its author was shown, whoever writes statuses before, after or beside ours?"""

from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.cli.merging.verdicts import judged_on
from swarm_iac.forge.forge import State, Status

NOON = datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC)
BASE, OTHER = "0123456789abcdef", "fedcba9876543210"


def status(
    minutes: int, base: str = BASE, *, by: str | None = "bot", state: State = State.SUCCESS, text: str = "1 to start"
) -> Status:
    at = NOON + datetime.timedelta(minutes=minutes)
    return Status(context="swarm", state=state, by=by, at=at, description=f"{text} on {base}")


def test_the_last_verdict_before_the_approval_counts() -> None:
    assert judged_on([status(-9, OTHER), status(-5)], "Bot", NOON) == BASE
    assert judged_on([status(-5), status(1, OTHER)], "bot", NOON) == BASE, "what came later, nobody had seen"
    assert judged_on([status(1)], "bot", NOON) == "", "approved before it was judged: approve again"


def test_nobody_else_says_on_what_it_was_judged() -> None:
    """Neither another account, nor a text of the pull request that an error repeats, nor one in the summary."""
    assert judged_on([status(-5), status(-4, OTHER, by="eve"), status(-3, OTHER, by=None)], "bot", NOON) == BASE
    assert judged_on([status(-5), status(-4, OTHER, state=State.ERROR)], "bot", NOON) == BASE
    assert judged_on([status(-5, text=f"x on {OTHER}")], "bot", NOON) == BASE


@given(
    st.lists(
        st.tuples(st.integers(-9, 9), st.sampled_from(["bot", "eve", None]), st.sampled_from(list(State)), st.integers(0, 9))
    )
)
def test_what_is_found_was_shown_by_us_before(drawn: list[tuple[int, str | None, State, int]]) -> None:
    statuses = [status(at, f"{number:016x}", by=by, state=state) for at, by, state, number in drawn]
    shown = {f"{n:016x}" for at, by, state, n in drawn if by == "bot" and at <= 0 and state in (State.SUCCESS, State.FAILURE)}
    found = judged_on(statuses, "bot", NOON)
    assert (found in shown) if shown else found == ""
