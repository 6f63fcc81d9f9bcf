"""Which fleets do the autopilot's tests use, and how does time pass on them?"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from swarm_iac.autopilot.granting import World
from swarm_iac.autopilot.reading import Reading, reading
from swarm_iac.autopilot.tick import Recollection, Tick, Times, tick
from swarm_iac.live.layer import Layer
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from tests.autopilot.checker import check
from tests.solver.fleets import stack_of

TODAY = datetime.date(2026, 6, 1)
START = 1_780_000_000.0


def chat(**more: Any) -> dict[str, Any]:
    """A service of 2..6 replicas with one GPU each that follows its requests."""
    scale = {"on": "requests_per_replica", "target": 40.0, **more.pop("scale", {})}
    base = {"kind": "serve", "replicas": "2..6", "each": {"gpus": 1, "vcpus": 4, "memory": "32 GB"}, "scale": scale}
    return {**base, **more}


def fleet(nodes: int = 2, workloads: dict[str, Any] | None = None, **rest: Any) -> Stack:
    """Nodes with 8 GPUs each."""
    return stack_of({f"g{i:03d}": {"rack": f"r{i // 10}"} for i in range(nodes)}, workloads or {"chat": chat()}, **rest)


@dataclass
class Flight:
    """An autopilot on a fleet in which time passes only when it is said."""

    stack: Stack
    lock: Placement = field(default_factory=Placement)
    layer: Layer = field(default_factory=Layer)
    now: float = 0.0
    wall: float = START
    memory: Recollection = field(default_factory=lambda: Recollection(0.0))
    wakes: bool = True

    def __post_init__(self) -> None:
        self.lock = self.lock if self.lock.allocations else solve(self.stack, today=TODAY).placement

    def tick(self, **values: object) -> Tick:
        """One decision with these measurements; its certificate is checked."""
        world = World(self.stack, self.lock, TODAY, asleep=frozenset(self.layer.asleep), wakes=self.wakes)
        readings: dict[str, Reading] = {name: reading(value) for name, value in values.items()}
        found = tick(world, self.layer, readings, Times(self.wall, self.now), self.memory)
        ones = [one.allocation for one in found.layer.grants]
        check(self.stack, self.lock, ones, found.layer.certificate)
        if found.changed:
            self.layer = found.layer.model_copy(
                update={"generation": self.layer.generation + 1, "unapplied": (), "stopping": 0}
            )
        return found

    def passes(self, seconds: float) -> None:
        """Both clocks go on."""
        self.now += seconds
        self.wall += seconds

    def count(self, workload: str = "chat") -> int:
        """Replicas, live ones included."""
        return sum(one.workload == workload for one in self.lock.allocations) + len(self.layer.of(workload))

    def restart(self) -> None:
        """The autopilot was killed: another one knows only what is written."""
        self.memory = Recollection(self.now)
