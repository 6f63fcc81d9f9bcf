"""Who approves now, where a forge lists every review that was ever written?"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

from swarm_iac.forge.forge import ForgeApproval

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def last_words(reviews: Iterable[tuple[str, bool, str, datetime.datetime | None]]) -> tuple[ForgeApproval, ...]:
    """The approvals that count, of reviews in the order in which they were written: (account, approves?, commit, when).

    The last word of an account counts: who asks for changes after an approval has taken that back, and so has who was
    dismissed. Accounts of a forge are the same in upper and lower case. A review that names no whole commit approves nothing.
    """
    last: dict[str, ForgeApproval | None] = {}
    for by, approves, commit, at in reviews:
        whole = approves and at is not None and _COMMIT.fullmatch(commit)
        last[by.lower()] = ForgeApproval(by=by, commit=commit, at=at) if whole else None
    return tuple(one for _, one in sorted(last.items()) if one)
