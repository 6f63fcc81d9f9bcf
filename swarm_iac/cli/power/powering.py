"""How is a decision about power carried out? Written first, then asked of a hook, then seen.

Hooks run beside the ticks, one at a time for each node. A kill anywhere leaves a state that the next process continues: it
asks `check`, and `resume` or `suspend` again, which may be asked twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from swarm_iac.autopilot.power import (
    HookReport,
    PowerAction,
    PowerChange,
    PowerMemory,
    PowerTick,
    PowerWorld,
    Verb,
    power_tick,
)  # fmt: skip
from swarm_iac.cli import engine_lock
from swarm_iac.cli.merge_lock import between_merges
from swarm_iac.cli.power.hooks import Hooks
from swarm_iac.errors import Retryable, SwarmError
from swarm_iac.live import checkpoint
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer, NodePower
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Observed
from swarm_iac.printable import printable

#: Machines that are asked, or powered on or off, at the same time.
AT_ONCE = 16
#: Seconds between two checks of a node that is off or failed, and of one that is changing.
SLOW, FAST = 60.0, 2.0
Say = Callable[[str], None]
Look = Callable[[Mapping[str, str]], Mapping[str, Observed]]


@dataclass
class Powering:
    """What one process knows of the nodes that it powers on and off. `look`: reads nodes by ssh.

    `share`: tells all clones what was written, before a node is powered off. None where that is no matter.
    """

    root: Path
    name: str
    path: Path
    hooks: Hooks
    say: Say
    look: Look
    share: Callable[[], None] | None = None
    memory: PowerMemory = field(default_factory=PowerMemory)
    _jobs: dict[str, Future[HookReport]] = field(default_factory=dict)
    _checked: dict[str, float] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE, "power"))

    def decide(
        self, stack: Stack, layer: Layer, needed: Mapping[str, str], reports: Mapping[str, HookReport] = {}
    ) -> PowerTick:
        """What would be done now; nothing is."""
        world = PowerWorld(stack, layer.power, needed, reports, frozenset(self._jobs))
        return power_tick(world, self.memory, steady=time.monotonic(), wall=time.time())

    def tick(self, stack: Stack, layer: Layer, needed: Mapping[str, str]) -> Layer:
        """One decision, written, and its hooks begun. Raises Retryable if another process wrote in between."""
        now = time.monotonic()
        done = {node: job.result() for node, job in self._jobs.items() if job.done()}
        for node in done:
            del self._jobs[node]
        # An `up` may lie between two ticks: what was seen before it is not what is.
        reports = {node: one for node, one in done.items() if one.verb != "check" or now - self._checked.get(node, now) < SLOW}
        found = self.decide(stack, layer, needed, reports)
        if found.changes:
            layer = self._write(layer, found)
        self._share(found.actions)
        for action in found.actions:
            self._begin(action, stack)
        self._check(stack, layer.power)
        return layer

    def _share(self, actions: Sequence[PowerAction]) -> None:
        """An `up` that begins from now on leaves out what is about to be powered off; one that runs has the engine's lock.

        Where it cannot be said, nothing is powered off: asked again once `check` says that the node is on.
        """
        off = [one.node for one in actions if one.verb == "suspend"]
        if not off or self.share is None:
            return
        try:
            self.share()
        except SwarmError:
            for node in off:
                self.memory.asked.pop(node, None)
            raise

    def wake(self, stack: Stack, nodes: Collection[str], layer: Layer) -> Layer:
        """Power these nodes on and wait until each answers or has failed. Others are left as they are.

        Those that have failed are asked once whether they are on by now.
        """
        mine = set(nodes)
        for node in sorted(mine & layer.failed.keys()):
            address = stack.nodes[node].ssh if node in stack.nodes else ""
            if self._look(node, address).on:
                found = PowerTick({}, changes=(PowerChange(node, "failed", "on", "it answers"),))
                layer = self._write(layer, found)
        while waits := {node for node in mine & layer.power.keys() if layer.power[node].state != "failed"}:
            part = layer.model_copy(update={"power": {node: layer.power[node] for node in waits}})
            less = stack.model_copy(update={"nodes": {n: stack.nodes[n] for n in waits if n in stack.nodes}})
            self.tick(_without_keep(less), part, dict.fromkeys(waits, "`up` needs it"))
            time.sleep(0.2)
            layer = live_file.read(self.path, layer.fleet, self.name)
        return layer

    def end(self) -> None:
        """Wait for the hooks that run; each has a time limit."""
        self._pool.shutdown(cancel_futures=True)

    def _write(self, layer: Layer, found: PowerTick) -> Layer:
        def change(there: Layer) -> Layer:
            for one in found.changes:
                if _state(there, one.node) != one.before:
                    raise Retryable(f"{one.node}: another process changed its power state", after=5)
            power = {name: each for name, each in there.power.items() if name not in {one.node for one in found.changes}}
            fresh = {one.node: found.power[one.node] for one in found.changes if one.node in found.power}
            return there.model_copy(update={"fleet": layer.fleet, "stack": self.name, "power": power | fresh})

        written = live_file.update(self.path, layer.fleet, self.name, change)
        for one in found.changes:
            live_file.note(self.path, document(one, time.time()))
            self.say(line(one))
        return written

    def _begin(self, action: PowerAction, stack: Stack) -> None:
        work = {"suspend": self._suspend, "resume": self._resume, "check": self._look}[action.verb]
        address = stack.nodes[action.node].ssh if action.node in stack.nodes else ""
        self._jobs[action.node] = self._pool.submit(_safely, action.verb, work, action.node, address)

    def _check(self, stack: Stack, power: Mapping[str, NodePower]) -> None:
        now = time.monotonic()
        for node, one in power.items():
            pause = SLOW if one.state in ("off", "failed") else FAST
            if node not in self._jobs and now - self._checked.get(node, -SLOW) >= pause:
                self._checked[node] = now
                if one.state == "suspending":  # it need not answer ssh any more
                    self._jobs[node] = self._pool.submit(_safely, "check", self._powered, node, "")
                else:
                    self._begin(PowerAction(node, "check"), stack)

    def _powered(self, node: str, address: str = "") -> HookReport:
        on, words = self.hooks.is_on(node)
        return HookReport("check", True, on, words)

    def _look(self, node: str, address: str) -> HookReport:
        """On only if the machine answers as well."""
        found = self._powered(node)
        if not found.on or not address:
            return found
        error = self.look({node: address})[node].error.strip()
        return HookReport("check", True, None, printable(error.splitlines()[-1], 200)) if error else found

    def _resume(self, node: str, address: str) -> HookReport:
        return self._run("resume", node)

    def _suspend(self, node: str, address: str) -> HookReport:
        """`suspending` is written, so that an `up` that begins now leaves the node out; one that runs goes first, and so does a
        merge. A node that does not answer may be going off already: it is not asked, and `check` says what became of it.
        """
        with between_merges(self.root):
            seen = self.look({node: address})[node]
            if seen.error:
                return HookReport("suspend", True, None, f"it does not answer: {seen.error.strip().splitlines()[-1]}")
            if why := self._in_use(node, seen):
                return HookReport("suspend", False, None, why)
            return self._run("suspend", node)  # one that was killed for being late may have begun it: `check` says so

    def _in_use(self, node: str, seen: Observed) -> str:
        state = checkpoint.state_folder(self.root)
        if state:
            try:
                engine_lock.refuse_held(state, self.name)
            except Retryable as error:
                return str(error)
        if _state(live_file.at(self.path), node) != "suspending":
            return "it is needed again"
        held = sorted({*seen.state.allocations, *seen.health, *seen.foreign})
        return f"it has {', '.join(held[:3])}" if held else ""

    def _run(self, verb: Verb, node: str) -> HookReport:
        answer = self.hooks.run(verb, node)
        for text in answer.text.splitlines():
            self.say(f"{verb} {node}: {text}")
        return HookReport(verb, answer.ok or (answer.late and verb == "suspend"), None, answer.text)


def line(one: PowerChange) -> str:
    """One change for people."""
    return f"{one.node}: {one.before} → {one.after}: {one.reason}"


def document(one: PowerChange, at: float) -> dict[str, object]:
    """One change for the log of decisions."""
    return {"at": at, "node": one.node, "before": one.before, "after": one.after, "reason": one.reason}


def _safely(verb: Verb, work: Callable[[str, str], HookReport], node: str, address: str) -> HookReport:
    """What went wrong with one node ends nothing else."""
    try:
        return work(node, address)
    except Exception as error:
        return HookReport(verb, False, None, printable(f"{type(error).__name__}: {error}", 200))


def _state(layer: Layer, node: str) -> str:
    return layer.power[node].state if node in layer.power else "on"


def _without_keep(stack: Stack) -> Stack:
    """Of a few nodes nobody can say how many of their group are on."""
    groups = {name: one.model_copy(update={"keep": 0}) for name, one in stack.power_saving.items()}
    return stack.model_copy(update={"power_saving": groups})
