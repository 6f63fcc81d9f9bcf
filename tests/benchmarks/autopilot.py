"""How steady is the autopilot, and how long does a decision take? An hour of oscillating load on 1,000 nodes, replayed.

    python -m tests.benchmarks.autopilot [--nodes 1000] [--services 40] [--hours 1] [--interval 15] [--json]

Every service has a load of its own: a slow wave, a fast one, noise, bursts and gaps in what is measured. Time passes in the
simulation alone; each certificate is checked by sums (tests/autopilot/checker.py). Exits 1 where a limit of `BOUNDS` is passed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections import Counter
from typing import Any

from swarm_iac.live.overlay import overlay
from tests.autopilot.fleet import TODAY, Flight, chat, fleet

#: Seconds of one decision; stops of anybody else.
BOUNDS = {"slowest_s": 5.0, "stopped_others": 0}


def load(service: int, now: float) -> float | None:
    """What is measured of a service: requests per second, of which a replica is to have 40."""
    rng = random.Random(service * 1_000_003 + int(now))
    if rng.random() < 0.01:
        return None
    slow = 1 + math.sin(now / 900 * math.tau + service)
    fast = 0.5 * math.sin(now / 120 * math.tau + 2 * service)
    burst = 3.0 if int(now / 300 + service) % 7 == 0 else 0.0
    return max(0.0, 40 * (3 + 2.5 * slow + fast + burst) * rng.uniform(0.9, 1.1))


def replay(nodes: int, services: int, hours: float, interval: float) -> dict[str, Any]:
    """All figures of one replay."""
    requests: dict[str, Any] = {f"s{i:02d}": chat(replicas="2..16") for i in range(services)}
    jobs = {f"j{i:03d}": {"each": {"gpus": 2}, "replicas": 6} for i in range(nodes // 4)}
    began = time.perf_counter()
    flight = Flight(fleet(nodes, {**requests, **jobs}))
    solved = time.perf_counter() - began
    took: list[float] = []
    changes: list[float] = []
    last: dict[str, tuple[float, bool]] = {}
    figures: Counter[str] = Counter()
    early = 0
    while flight.now <= hours * 3600:
        began = time.perf_counter()
        found = flight.tick(**{name: load(i, flight.now) for i, name in enumerate(requests)})
        took.append(time.perf_counter() - began)
        figures["ticks"] += 1
        wanted = overlay(flight.stack, flight.lock, flight.layer, now=flight.wall, today=TODAY)
        figures["stopped_others"] += len({*flight.lock.allocations} - {*wanted.placement.allocations})
        figures["live_at_most"] = max(figures["live_at_most"], len(wanted.live))
        if found.changed:
            changes.append(took[-1])
        for one in found.decided:
            if one.after != one.before:
                up = one.after > one.before
                figures["ups" if up else "downs"] += 1
                if one.workload in last and last[one.workload][1] != up:
                    figures["reversals"] += 1
                    early += flight.now - last[one.workload][0] < (30 if up else 300)
                last[one.workload] = (flight.now, up)
        flight.passes(interval)
    return {
        "nodes": nodes,
        "guaranteed": len(flight.lock.allocations),
        "services": services,
        "hours": hours,
        "interval_s": interval,
        **{key: figures[key] for key in ("ticks", "ups", "downs", "reversals", "stopped_others")},
        "reversals_within_a_cool_down": early,
        "live_at_most": figures["live_at_most"],
        "median_s": round(statistics.median(took), 3),
        "median_of_changes_s": round(statistics.median(changes), 3) if changes else None,
        "slowest_s": round(max(took), 3),
        "first_solve_s": round(solved, 1),
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--services", type=int, default=40)
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--interval", type=float, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = replay(options.nodes, options.services, options.hours, options.interval)
    print(json.dumps(found, indent=2) if options.json else "\n".join(f"{key:30} {value}" for key, value in found.items()))
    bad = found["reversals_within_a_cool_down"] or any(found[key] > most for key, most in BOUNDS.items())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
