"""How long is asked of a store of usage, and how large is it? A synthetic one: 1,000 nodes, 90 days of hours.

    python -m tests.benchmarks.usage [NODES] [DAYS] [FOLDER]

Each node has 8 cards in two or three allocations, which change every other day. All of it goes through the writer that
`swarm usage --record` has, one pass an hour (a real timer's passes between add rows to nothing, but take as long each).
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from swarm_iac.accounting import idle, recording, schema
from swarm_iac.accounting.observation import FleetPass, HeldPart, Holder, NodePass
from swarm_iac.accounting.summary import WAYS, summary
from swarm_iac.accounting.window import Window
from swarm_iac.price import Price

HOUR, CARDS, T = 3600, 8, 490_008 * 3600
PRICE = Price(25_000, "EUR")
#: What is asked for: seconds of one query, and bytes of the store.
SECONDS, BYTES = 2.0, 500 * 10**6


def node(rng: random.Random, name: str) -> NodePass:
    """A node with some of its cards held."""
    held: list[HeldPart] = []
    gpu = 0
    for size in rng.choice(((8,), (4, 2), (4, 4), (2, 4, 1), (1, 1, 4))):
        user = rng.randrange(60)
        holder = Holder(f"job-{rng.randrange(3000)}-0", f"job-{rng.randrange(3000)}", f"user{user}", f"team{user % 12}")
        for _ in range(size):
            held.append(HeldPart(gpu, "", holder, 1000, rng.randrange(1001), rng.randrange(1001), rng.randrange(8000)))
            gpu += 1
    return NodePass(name, "H100", CARDS, True, free=(CARDS - gpu) * 1000, held=tuple(held), price=PRICE)


def fill(path: Path, nodes: int, days: int) -> tuple[float, float]:
    """Write the store; the median and the longest time of a pass. [s]"""
    rng, times = random.Random(1), []
    now = [node(rng, f"n{number}") for number in range(nodes)]
    with schema.opened(path, write=True) as store:
        store.execute("PRAGMA synchronous = OFF")
        for hour in range(days * 24 + 1):
            now = [node(rng, one.node) if rng.random() < 1 / 48 else one for one in now]
            seen = FleetPass(T + hour * HOUR, tuple(now))
            began = time.perf_counter()
            recording.record(store, "fleet", seen, longest=HOUR)
            times.append(time.perf_counter() - began)
    times.sort()
    return times[len(times) // 2], times[-1]


def main() -> int:
    """Print the figures; 1 if one is worse than is asked for."""
    nodes, days = (int(word) for word in (*sys.argv[1:3], *("1000", "90")[len(sys.argv[1:3]) :]))
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as folder:
        path = Path(folder) / "usage.db"
        median, most = fill(path, nodes, days)
        size = sum(one.stat().st_size for one in Path(folder).iterdir())
        print(f"{nodes} nodes, {days} days: {size / 1e6:.0f} MB; a pass is written in {median:.3f} s (at most {most:.3f} s)")
        start = T // HOUR
        windows = {
            "whole days": Window(start, start + days * 24),
            "with hours at both ends": Window(start + 7, start + days * 24 - 5),
        }
        worst = 0.0
        for label, window in windows.items():
            for by in WAYS:
                began = time.perf_counter()
                with schema.opened(path) as store:
                    found = summary(store, "fleet", window, by)
                worst = max(worst, took := time.perf_counter() - began)
                assert found.total.whole == found.total.capacity
                print(f"  by {by}, {label}: {took:.2f} s, {len(found.rows)} rows, {found.total.cost}")
        began = time.perf_counter()
        with schema.opened(path) as store:
            idlers = idle.idle(store, "fleet", windows["whole days"], idle.Thresholds(300, 300, 2000))
        worst = max(worst, took := time.perf_counter() - began)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(
            f"  --idle: {took:.2f} s, {len(idlers)} named; most memory of this process, the writer's included: {memory:.0f} MB"
        )
        good = worst < SECONDS and size < BYTES
        print(
            f"slowest query {worst:.2f} s of {SECONDS:g}, {size / 1e6:.0f} MB of {BYTES / 1e6:.0f}: {'good' if good else 'TOO MUCH'}"
        )
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
