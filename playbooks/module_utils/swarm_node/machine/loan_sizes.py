"""How much of what is lent on a node goes to whom now? From what each uses, is guaranteed and may use; pure arithmetic."""

from __future__ import annotations

import os
from typing import Dict, Mapping, NamedTuple, Optional

#: memory.high of memory.max, as the plan has it of those who take part. The kernel slows down what is above it, the more the farther,
#: so that the limit can rise before it is reached. [%]
_HIGH = 90
#: Less is not moved: each move is a reload of systemd. [bytes]
_GRAIN = 1 << 20
MIB = 1 << 20


class Borrower(NamedTuple):
    """One of a pool. `share`: what the plan lends it, with its guarantee `low`; `limit`: memory.max now; `used`: without what
    was only read and not again. [bytes]"""

    low: int
    share: int
    most: int
    limit: int
    used: int

    @property
    def pressed(self) -> bool:
        """Is it about to be slowed down, though it may have more?"""
        return self.limit < self.most and self.used + max(4 * MIB, self.used // 8) > high(self.limit, self.low)

    @property
    def idle(self) -> int:
        """What it could leave to others and not notice. [bytes]"""
        keeps = max(self.low, self.used + max(16 * MIB, self.used // 2))
        return 0 if self.pressed else max(0, self.limit - keeps)

    @property
    def need(self) -> int:
        """All that it may have: what others leave idle is of no use to them. [bytes]"""
        return self.most - self.limit if self.pressed else 0


Pool = Dict[str, Borrower]


def high(limit: int, low: int) -> int:
    """memory.high of a limit: nobody is slowed down within a guarantee. [bytes, in whole pages as the kernel has it]"""
    page = os.sysconf("SC_PAGE_SIZE")
    plain = limit * _HIGH // 100 // page * page
    return max(plain, low // page * page) if limit > low else plain


def moves(pool: Mapping[str, Borrower], lent: Optional[int] = None) -> Dict[str, int]:
    """memory.max of those that are to change now: who is pressed gets what nobody has, then what others leave idle. [bytes]

    `lent`: what all of them may have together; the plan's part of each, where nothing is said.

    Where they have more than the plan lends all of them (one that had lent something was released), idle memory goes back first.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    free = (sum(one.share for one in pool.values()) if lent is None else lent) - sum(one.limit for one in pool.values())
    needs = {name: one.need for name, one in pool.items() if one.need >= _GRAIN}
    given = taken(pool, sum(needs.values()) - free)
    left = free + sum(given.values())
    found = {name: pool[name].limit - less for name, less in given.items()}
    for count, name in enumerate(sorted(needs, key=lambda name: (needs[name], name))):
        more = min(needs[name], max(0, left) // (len(needs) - count)) // page * page
        if more >= _GRAIN:
            found[name] = pool[name].limit + more
            left -= more
    raised = any(limit > pool[name].limit for name, limit in found.items())
    return found if raised or free < 0 else {}


def taken(pool: Mapping[str, Borrower], wanted: int) -> Dict[str, int]:
    """How much of whose idle memory makes up for so much; the idlest first. [bytes, in whole pages]"""
    page, found = os.sysconf("SC_PAGE_SIZE"), {}
    for name, one in sorted(pool.items(), key=lambda each: (-each[1].idle, each[0])):
        less = min(one.idle, -(-wanted // page) * page) // page * page
        if wanted <= 0 or less < min(_GRAIN, wanted):
            break
        found[name] = less
        wanted -= less
    return found
