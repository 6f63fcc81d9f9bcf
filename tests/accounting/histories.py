"""Random histories of a small fleet, and what they amount to, counted without the package."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from swarm_iac.accounting.observation import FleetPass, HeldPart, Holder, NodePass
from swarm_iac.price import Price

LONGEST = 900
PRICES = (None, Price(25_000, "EUR"), Price(31_337, "EUR"), Price(19_999, "USD"))
#: Names as users and nodes may have them, and as nobody should.
HOLDERS = (
    Holder("train-0", "train", "ada", "vision"), Holder("train-1", "train", "ada", "vision"), Holder("chat-0", "chat", "bo", "speech"),
    Holder("x", "", "", ""), Holder("'; DROP TABLE node; --", "=1+1", "@bo", "-x"),
)  # fmt: skip


def parts(rng: random.Random, cards: int) -> tuple[list[HeldPart], int, int, int]:
    """What is held of some cards, and how the rest is."""
    held: dict[tuple[int, str, Holder], HeldPart] = {}
    rest = Counter[str]()
    for gpu in range(cards):
        left = 1000
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            milli = rng.choice((left, rng.randint(1, 1000), 250))
            holder, piece = rng.choice(HOLDERS), rng.choice(("", "1g.10gb@0"))
            if 0 < milli <= left and (gpu, piece, holder) not in held:
                ratio = rng.choice((None, 0, 1000, rng.randint(0, 1000)))
                held[gpu, piece, holder] = HeldPart(
                    gpu, piece, holder, milli, ratio, rng.choice((None, 7)), rng.choice((None, 1500))
                )
                left -= milli
        rest[rng.choice(("free", "free", "off", "unknown"))] += left
    return list(held.values()), rest["free"], rest["off"], rest["unknown"]


def node(rng: random.Random, name: str) -> NodePass:
    """A node as one pass may see it."""
    cards, model = rng.choice((1, 2, 4)) if rng.random() < 0.05 else 2, rng.choice(("A100",)) if rng.random() < 0.03 else "H100"
    kind = rng.random()
    if kind < 0.15:
        return NodePass(name, model, cards, False, unknown=cards * 1000)
    if kind < 0.3:
        return NodePass(name, model, cards, rng.random() < 0.5, off=cards * 1000)
    held, free, off, unknown = parts(rng, cards)
    return NodePass(name, model, cards, True, free, off, unknown, tuple(held), rng.choice(PRICES))


def history(rng: random.Random) -> list[FleetPass]:
    """Passes as a timer makes them: late, repeated, after a pause, on a clock that was set back, with nodes that come and go."""
    at, found = rng.randrange(0, 10**6) + 490_000 * 3600, []
    before: dict[str, NodePass] = {}
    for _ in range(rng.randint(2, 14)):
        names = [name for name in ("n1", "n2", "n3") if rng.random() < 0.9]
        now = {name: before[name] if name in before and rng.random() < 0.5 else node(rng, name) for name in names}
        found.append(FleetPass(at, tuple(now.values()), rng.choice(("", "a" * 40))))
        before = now
        at += rng.choice((0, 1, 300, 300, 300, rng.randint(1, 900), 900, 901, 4000, rng.randint(1, 100_000), -1, -3600, -5000))
    return found


@dataclass
class Counted:
    """The same sums, by (hour, model, node), and what is held of each holder at each price; all [GPU-ms]."""

    capacity: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    free: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    off: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    unknown: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    held: Counter[tuple[int, str, str, Holder, Price | None]] = field(default_factory=Counter)
    #: Exact, times 1000.
    used: Counter[tuple[int, str, str, Holder, Price | None]] = field(default_factory=Counter)
    pieces: int = 0


def counted(passes: list[FleetPass]) -> Counted:
    """By the rules of docs/usage.md, second after second where something changes."""
    kept: list[FleetPass] = []
    for one in passes:
        if not kept or one.at > kept[-1].at:
            kept.append(one)
    found = Counted()
    for first, second in pairwise(kept):
        later = {one.node: one for one in second.nodes}
        marks = sorted({first.at, second.at, *(hour * 3600 for hour in range(first.at // 3600 + 1, second.at // 3600 + 1))})
        for start, end in pairwise(marks):
            for one in first.nodes:
                _count(found, one, later.get(one.node), start, end, second.at - first.at <= LONGEST)
    return found


def _count(found: Counted, one: NodePass, then: NodePass | None, start: int, end: int, near: bool) -> None:
    seconds, key = end - start, (start // 3600, one.model, one.node)
    found.capacity[key] += one.cards * 1000 * seconds
    away = one.off == one.cards * 1000
    both = one.answered and then is not None and then.answered
    still = away and (then is None or then.answered or then.off == then.cards * 1000)
    if not near or not (both or still):
        found.unknown[key] += one.cards * 1000 * seconds
        return
    found.free[key] += one.free * seconds
    found.off[key] += one.off * seconds
    found.unknown[key] += one.unknown * seconds
    for part in one.held:
        at = (*key, part.holder, one.price)
        found.held[at] += part.milli * seconds
        found.pieces += 1
        if part.active is None:
            found.unknown[key] += part.milli * seconds
        else:
            found.used[at] += part.milli * part.active * seconds
