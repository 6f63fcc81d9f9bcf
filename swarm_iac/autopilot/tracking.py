"""How many replicas does the load ask for, and may their number change now?

The formula and the windows are those of Kubernetes' HorizontalPodAutoscaler ("Algorithm details", "Stabilization window"):
desired = ⌈current · value / target⌉, nothing within the tolerance, and before replicas are taken away the highest
recommendation of the last `down.after` counts. Cool-downs are stricter: no change up within `up.after`, and none down within
`down.after`, of the last change in either direction, so there is at most one reversal in each.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from swarm_iac.autopilot.reading import Reading
from swarm_iac.model.service.scaling import Scaling
from swarm_iac.pluralize import pluralize


@dataclass(frozen=True)
class ReplicaBounds:
    """`least`: guaranteed; `most`: the upper end of the range; `current`: placed now, live ones included."""

    least: int
    most: int
    current: int


@dataclass(frozen=True)
class ReplicaTarget:
    """The number of replicas from now on, and why."""

    count: int
    reason: str


@dataclass
class History:
    """What was recommended, by time [s of a steady clock]. `since`: when it began."""

    since: float
    past: deque[tuple[float, int]] = field(default_factory=deque)

    def highest(self, now: float, window: float, recommended: int) -> int:
        """The highest recommendation of the last `window` seconds, with that of now."""
        while self.past and self.past[0][0] < now - window:
            self.past.popleft()
        while self.past and self.past[-1][1] <= recommended:  # it can never be the highest again
            self.past.pop()
        self.past.append((now, recommended))
        return self.past[0][1]


def recommended(scaling: Scaling, value: float, bounds: ReplicaBounds) -> int:
    """⌈current · ratio⌉ within the range, where ratio is value / target, of a total value / (target · current).

    Within the tolerance it is the current number. A total does not depend on how many serve it.
    """
    current = max(1, bounds.current)
    whole = scaling.target if scaling.on == "gpu" else scaling.target * current
    ratio = value / whole
    if abs(ratio - 1) <= scaling.tolerance:
        return bounds.current
    # A hair above a whole number is that number: 6 · (120 / 120) is 6, however it was divided.
    count = math.ceil(min(current * ratio, 1e9) - 1e-9)
    return min(max(count, bounds.least), bounds.most)


def target(
    scaling: Scaling, measured: Reading, bounds: ReplicaBounds, history: History, *, now: float, since_change: float
) -> ReplicaTarget:
    """How many replicas there are to be. `now`: [s of a steady clock]; `since_change`: since the last change [s]."""
    if bounds.current > bounds.most:
        return ReplicaTarget(bounds.most, f"the range ends at {bounds.most}")
    if measured.value is None:
        return ReplicaTarget(bounds.current, f"no change without a measurement: {measured.why}")
    count = recommended(scaling, measured.value, bounds)
    highest = history.highest(now, int(scaling.down.after), count)
    figures = f"{scaling.on} {measured.value:g}, target {scaling.target:g}"
    figures += "" if scaling.on == "gpu" else " per replica"
    if count == bounds.current:
        return ReplicaTarget(count, f"{figures}: {pluralize(count, 'replica is', 'replicas are')} right")
    if count > bounds.current:
        return _up(scaling, bounds, count, figures, since_change)
    return _down(scaling, bounds, (count, highest), figures, min(since_change, now - history.since))


def _up(scaling: Scaling, bounds: ReplicaBounds, count: int, figures: str, since_change: float) -> ReplicaTarget:
    if since_change < int(scaling.up.after):
        return ReplicaTarget(bounds.current, f"{figures}: up to {count} after the cool-down of {scaling.up.after}")
    count = min(count, bounds.current + (scaling.up.by or count))
    return ReplicaTarget(count, f"{figures}: {bounds.current} → {pluralize(count, 'replica')}")


def _down(scaling: Scaling, bounds: ReplicaBounds, low: tuple[int, int], figures: str, quiet: float) -> ReplicaTarget:
    """`low`: what is recommended now, and the most of the window; `quiet`: since the last change, or the first look. [s]"""
    count, highest = low
    if highest >= bounds.current:
        needed = pluralize(highest, "replica was", "replicas were")
        return ReplicaTarget(bounds.current, f"{figures}: {needed} needed within the last {scaling.down.after}")
    if quiet < int(scaling.down.after):
        return ReplicaTarget(bounds.current, f"{figures}: down to {count} after {scaling.down.after} of low load")
    count = max(highest, bounds.current - (scaling.down.by or bounds.current))
    return ReplicaTarget(count, f"{figures}: {bounds.current} → {pluralize(count, 'replica')}")
