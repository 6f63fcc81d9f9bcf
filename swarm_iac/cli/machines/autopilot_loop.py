"""How does the autopilot run? One tick after the other: read, decide, write the live layer, apply it by `up`.

Level-triggered: each tick begins with what is written and measured now, so one that was killed anywhere is continued by the
next. What was decided is written before any machine is changed.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from swarm_iac.autopilot import reading
from swarm_iac.autopilot.granting import World
from swarm_iac.autopilot.power import PowerChange
from swarm_iac.autopilot.reading import Reading
from swarm_iac.autopilot.tick import Recollection, Tick, Times, WorkloadDecision, tick
from swarm_iac.cli import engine
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.engine import Say
from swarm_iac.cli.live_sharing import Leadership
from swarm_iac.cli.machines import direct_start, scrape_targets
from swarm_iac.cli.power.needs import awake, needed
from swarm_iac.cli.power.powering import Powering
from swarm_iac.decision import Decision, decide, still
from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.live import checkpoint
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer
from swarm_iac.live.overlay import RanBefore
from swarm_iac.model.stack import Stack
from swarm_iac.printable import without_passwords
from swarm_iac.run_options import VARIABLES
from swarm_iac.stackfile.locks.companions import Files

Measure = Callable[[Stack], Mapping[str, Reading]]


@dataclass
class Autopilot:
    """One autopilot of one stack. `lease`: life of what it grants [s]; `dry_run`: it writes nothing and changes nothing.

    `power`: powers nodes on and off; None without hooks. `leadership`: among the autopilots of all clones; None for a dry run.
    """

    root: Path
    name: str
    measure: Measure
    say: Say
    lease: float = 600.0
    dry_run: bool = False
    power: Powering | None = None
    leadership: Leadership | None = None
    memory: Recollection = field(default_factory=lambda: Recollection(time.monotonic()))
    _known: tuple[object, Decision] | None = None
    _said: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The live layer's file."""
        found = Files.of(self.root, self.name).live
        assert found is not None, "a stack of a fleet repository has one"
        return found

    def once(self) -> Tick:
        """One tick. Raises Retryable where something is in the way for now, and SwarmError where a person has to act."""
        decision = self._decision()
        live_file.read(self.path, decision.stack.fleet, self.name)  # who cannot decide does not lead either
        if self.leadership:
            self.leadership.begin()
            decision = self._decision()
        layer = live_file.read(self.path, decision.stack.fleet, self.name)
        before = RanBefore(**still(decision.last, decision.placement))
        world = World(
            decision.stack, decision.placement, datetime.date.today(), before, frozenset(layer.asleep), self.power is not None
        )
        readings = _of_all(self.measure(awake(decision.stack, layer.asleep)), decision, layer)
        times = Times(time.time(), time.monotonic())
        outcome = tick(world, layer, readings, times, self.memory)
        if self.dry_run:
            return replace(outcome, power=self._powered(decision, outcome.layer)) if self.power else outcome
        written = self._write(layer, outcome, times)
        self._note(outcome, written)
        if self.power:
            before_power = written.power
            written = self.power.tick(decision.stack, written, self._needed(decision, written))
            if written.power != before_power:
                scrape_targets.refresh(self.root, decision.stack, self.name, written.asleep)
        if any(node not in written.power for node in written.unapplied):
            if self.leadership and checkpoint.state_folder(self.root):  # elsewhere nothing is started without an `up`
                self.leadership.confirm()
            self._start(decision, written)
        if written.unapplied:
            self._apply(written, decision.stack)
        if self.leadership:
            self.leadership.settle()
        return outcome

    def _needed(self, decision: Decision, layer: Layer) -> dict[str, str]:
        return needed(layer, decision.files, decision.last.allocations, decision.placement.allocations)

    def _powered(self, decision: Decision, layer: Layer) -> tuple[PowerChange, ...]:
        """What would become of nodes."""
        assert self.power is not None
        return self.power.decide(decision.stack, layer, self._needed(decision, layer)).changes

    def _decision(self) -> Decision:
        """The decision of a lock that stands, read again only if a file has changed. Never solves."""
        if deciding.never_applied(self.root, self.name):
            raise Refused("nothing was ever applied here", hint=f"run `swarm up {self.name}` once, then the autopilot")
        files = Files.of(self.root, self.name)
        policy = deciding.policies(files.stack)
        seen = (
            datetime.date.today(),
            tuple(sorted(live_file.at(self.path).failed)),
            *(_stamp(path) for path in (files.stack, files.lock, files.proof, policy) if path),
        )
        if self._known is None or self._known[0] != seen:
            self._known = (seen, decide(self.root, self.name, today=datetime.date.today(), frozen=True, write=False))
        return self._known[1]

    def _write(self, layer: Layer, outcome: Tick, times: Times) -> Layer:
        """The layer as it is on disk now: written if it changed, or if half of its lease is over."""
        late = layer.left(times.wall) < self.lease / 2 or bool(self.leadership and self.leadership.due)
        due = bool(layer.grants) and (late or times.wall < layer.at)
        if not outcome.changed and not due:
            return layer
        update = {"stack": self.name, "by": f"{os.uname().nodename} process {os.getpid()}", "lease": self.lease}
        return live_file.write(self.path, outcome.layer.model_copy(update=update), layer.generation)

    def _note(self, outcome: Tick, written: Layer) -> None:
        """Each change, and each new reason for none, goes to the log."""
        for one in outcome.decided:
            kind = one.reason.partition(":")[2] or one.reason
            if one.before == one.after and self._said.get(one.workload) == kind.strip():
                continue
            self._said[one.workload] = kind.strip()
            live_file.note(self.path, {"at": written.at, "generation": written.generation, **one.document()})
            self.say(line(one))

    def _start(self, decision: Decision, layer: Layer) -> None:
        """Start what is new at once, where that is all there is to do; the `up` after it records that, or does it."""
        began = time.monotonic()
        why = direct_start.start(self.root, decision, layer, self.say)
        self.say(
            f"left to `up`: {why}" if why else f"new replicas run after {time.monotonic() - began:.1f} s; `up` records them"
        )

    def _apply(self, layer: Layer, stack: Stack) -> None:
        """`up` of the nodes that differ, with the lock as it is; another `up` goes first."""
        # What was never on has nothing of it; what is about to be on is waited for.
        granted = {one.allocation.node for one in layer.grants}
        waits = tuple(node for node in layer.unapplied if node in granted & layer.asleep.keys())
        applied = layer.model_copy(update={"unapplied": waits, "stopping": 0})
        nodes = [node for node in layer.unapplied if node in stack.nodes and node not in layer.power]
        if not nodes:  # they left the stack, which a person has applied
            if waits != layer.unapplied:
                live_file.applied(self.path, applied)
            return
        more = {VARIABLES["only"]: ",".join(nodes), VARIABLES["frozen"]: "1"}
        more |= {VARIABLES["allow_stop"]: str(layer.stopping)} if layer.stopping else {}
        more |= self.leadership.variables() if self.leadership else {}
        more |= engine.at_once(self.root, self.name, self.say)
        began = time.monotonic()
        done = engine.pulumi(self.root, self.name, ["up", "--yes", "--skip-preview"], self.say, capture=True, more=more)
        self.say(f"`up` of {', '.join(nodes)} took {time.monotonic() - began:.1f} s")
        if done.returncode:
            last = [text for text in (done.stdout or "").splitlines() if "error" in text.lower()]
            said = without_passwords((last or ["no error was printed"])[-1].strip())[:300]
            raise Retryable(f"`up` ended with {done.returncode}: {said}", after=30)
        live_file.applied(self.path, applied)
        if self.leadership:
            self.leadership.pushed(layer.generation)


def once(autopilot: Autopilot, show: Callable[[Tick], None]) -> None:
    """One tick of the leader. Raises Retryable where another one leads."""
    with live_file.leading(autopilot.path) as leads:
        if not leads:
            raise Retryable(f"another autopilot leads: {live_file.leader_of(autopilot.path)}")
        show(autopilot.once())


def run(autopilot: Autopilot, interval: float, ended: Callable[[float], bool], show: Callable[[Tick], None]) -> None:
    """Ticks every `interval` [s] until `ended(pause)` says so. One leader decides; the others wait for it to end."""
    waits = ""
    while True:
        with _leading(autopilot) as leads:
            while leads:
                began = time.monotonic()
                pause = interval
                try:
                    show(autopilot.once())
                    waits = ""
                except Retryable as error:
                    waits, pause = _told(autopilot.say, waits, f"waits: {error}"), max(interval, min(error.after, 60))
                except SwarmError as error:
                    waits = _told(autopilot.say, waits, f"decides nothing: {error}")
                if ended(max(0.0, pause - (time.monotonic() - began))):
                    if autopilot.leadership:
                        autopilot.leadership.end()
                    return
        waits = _told(autopilot.say, waits, f"another autopilot leads: {live_file.leader_of(autopilot.path)}")
        if ended(interval):
            return


def _leading(autopilot: Autopilot) -> contextlib.AbstractContextManager[bool]:
    """A dry run changes nothing, so it needs not lead, and keeps nobody from it."""
    return contextlib.nullcontext(True) if autopilot.dry_run else live_file.leading(autopilot.path)


def _told(say: Say, before: str, now: str) -> str:
    """Say it once, and not with each tick."""
    if now != before:
        say(now)
    return now


def line(one: WorkloadDecision) -> str:
    """One decision for people."""
    return f"{one.workload}: {one.before} → {one.after}: {one.reason}"


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def of_source(root: Path, source: str) -> Measure:
    """Where readings come from: a Prometheus, a file, or the nodes themselves, which know of GPUs alone."""
    if source.startswith(("http:", "https:")):
        where = reading.address(source)
        return lambda stack: reading.of_prometheus(where, stack)
    if source:
        file = Path(source).absolute()
        return lambda stack: reading.of_file(file, stack)
    return lambda stack: _of_nodes(root, stack)


def _of_nodes(root: Path, stack: Stack) -> dict[str, Reading]:
    from swarm_iac.cli.machines import in_use
    from swarm_iac.observe import measurements

    scaling = {name: one.scale for name, one in stack.workloads.items() if one.scales and one.scale is not None}
    found: dict[str, Any] = {}
    if any(one.on == "gpu" for one in scaling.values()):
        run_options = engine.options(root)
        targets = {node: one.ssh for node, one in stack.nodes.items() if one.state != "lost"}
        asked = measurements(targets, ssh_config=run_options.ssh_config, timeout=min(3.0, run_options.node_timeout))
        found = dict(in_use.in_use(asked.values()).workloads)
    answer = {}
    for name, one in scaling.items():
        busy = found[name].busy if name in found else None
        other = Reading(None, f"nodes do not measure {one.on}: --metrics http://PROMETHEUS:9090")
        known = _measured(found[name]) if name in found else 0
        gpu = replace(reading.reading(None if busy is None else 100 * busy), replicas=known)
        answer[name] = other if one.on != "gpu" else gpu
    return answer


def _measured(used: Any) -> int:
    """Of how many replicas its `busy` is the mean: those whose cards a node cannot tell of are not in it."""
    return int(len(used.allocations) * used.known / used.gpus + 1e-6) if used.gpus else 0


def _of_all(readings: Mapping[str, Reading], decision: Decision, layer: Layer) -> dict[str, Reading]:
    """What was measured of all that run; those that are about to start are on nodes that do not have the layer yet."""
    runs = Counter(one.workload for one in decision.placement.allocations if not one.ended)
    runs.update(one.allocation.workload for one in layer.grants if one.allocation.node not in layer.unapplied)
    return {name: one.of_all(runs[name]) for name, one in readings.items()}
