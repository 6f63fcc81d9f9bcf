"""Which nodes are powered off or on now? From what is needed where, what hooks reported, and time.

Pure: the same world, memory and time give the same decision. States are those of `NodePower`; a node without one is on.
The terms and time-outs are those of Slurm's power saving. A node is powered off only if nothing is placed there, it has been
on and without work for `suspend_time`, and `keep` others of its group stay on. Durations are measured by a clock that is
never set back, and start again with each autopilot: a restart delays, and never hurries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from swarm_iac.live.layer import NodePower, PowerState, words
from swarm_iac.model.service.power_saving import PowerSaving
from swarm_iac.model.stack import Stack
from swarm_iac.pluralize import pluralize

Verb = Literal["suspend", "resume", "check"]
#: A hook whose effect does not show is asked again after so long. [s]
AGAIN = 30.0


@dataclass(frozen=True)
class HookReport:
    """What came of a hook. `on`: the node answers; off; None: neither, or unknown. `words`: what the hook said."""

    verb: Verb
    ok: bool = True
    on: bool | None = None
    words: str = ""


@dataclass(frozen=True)
class PowerWorld:
    """What a decision is made from.

    `power`: as written; `needed`: node → what is placed there, or is about to be; `reports`: since the last decision; without
    one no time-out is called; `busy`: nodes for which a hook is running.
    """

    stack: Stack
    power: Mapping[str, NodePower]
    needed: Mapping[str, str]
    reports: Mapping[str, HookReport] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()


@dataclass
class PowerMemory:
    """Since when each node is in its state, and on and without work [s of the steady clock]; when a hook was asked last.

    `suspended`: nodes of which this process, and no other before it, decided that they are powered off.
    """

    entered: dict[str, tuple[str, float]] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class PowerAction:
    """A hook to run. What it leads to is written before."""

    node: str
    verb: Verb


@dataclass(frozen=True)
class PowerChange:
    """A node that changes its state, and why."""

    node: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True)
class PowerTick:
    """`power`: to be written if there are `changes`, before the `actions` are done."""

    power: Mapping[str, NodePower]
    actions: tuple[PowerAction, ...] = ()
    changes: tuple[PowerChange, ...] = ()


def power_tick(world: PowerWorld, memory: PowerMemory, *, steady: float, wall: float) -> PowerTick:
    """One decision. `steady`: [s], never set back; `wall`: [s since 1970], for people alone."""
    now = _Decision(world, memory, steady, wall)
    for node in sorted(world.power):
        now.follow(node)
    for node in sorted(now.states):
        now.wake(node)
    for name, saving in sorted(world.stack.power_saving.items()):
        now.fill(name, saving)
        now.suspend(name, saving)
    return now.result()


class _Decision:
    def __init__(self, world: PowerWorld, memory: PowerMemory, steady: float, wall: float) -> None:
        self.world, self.memory, self.steady, self.wall = world, memory, steady, wall
        self.states: dict[str, PowerState | Literal["on"]] = dict.fromkeys(world.stack.nodes, "on")
        self.states |= {name: one.state for name, one in world.power.items()}
        self.reasons = {name: one.reason for name, one in world.power.items()}
        self.actions: list[PowerAction] = []
        self.moved: dict[str, str] = {}
        for node, state in self.states.items():
            was, _ = memory.entered.get(node, ("", 0.0))
            if was != state or (state == "on" and node in world.needed):
                memory.entered[node] = state, steady

    def elapsed(self, node: str) -> float:
        return self.steady - self.memory.entered[node][1]

    def saving(self, node: str) -> PowerSaving | None:
        one = self.world.stack.nodes.get(node)
        return self.world.stack.power_saving.get(one.power_saving or "") if one else None

    def go(self, node: str, state: PowerState | Literal["on"], reason: str) -> None:
        self.states[node] = state
        self.moved[node] = self.reasons[node] = words(reason)
        self.memory.entered[node] = state, self.steady

    def ask(self, node: str, verb: Verb) -> None:
        self.actions.append(PowerAction(node, verb))
        self.memory.asked[node] = self.steady

    def overdue(self, node: str) -> bool:
        """Was the hook never asked by this autopilot, or long ago?"""
        return node not in self.memory.asked or self.steady - self.memory.asked[node] >= AGAIN

    def follow(self, node: str) -> None:
        """What reports and time-outs make of a node that is not simply on."""
        state, report = self.states[node], self.world.reports.get(node, HookReport("check"))
        saving = self.saving(node) or PowerSaving()
        if report.on and state != "suspending":
            self.go(node, "on", "it answers")
        elif state == "failed" and node not in self.world.stack.nodes:
            self.go(node, "on", "it left the stack file, and does not power on: it is looked after no longer")
        elif state == "suspending":
            self._suspending(node, report, int(saving.suspend_timeout))
        elif state == "resuming" and report.verb == "resume" and not report.ok:
            self.go(node, "failed", f"`resume` failed: {report.words}")
        elif state == "resuming" and node in self.world.reports and self.elapsed(node) >= int(saving.resume_timeout):
            says = f"; `check` says: {report.words}" if report.words else ""
            self.go(node, "failed", f"no answer within {saving.resume_timeout} after it was powered on{says}")
        elif state == "resuming" and report.on is False and self.overdue(node) and node not in self.world.busy:
            self.ask(node, "resume")

    def _suspending(self, node: str, report: HookReport, timeout: int) -> None:
        late = self.elapsed(node) >= timeout
        if report.verb == "suspend" and not report.ok and node in self.memory.suspended:
            self.go(node, "on", f"stays on: {report.words}")
        elif report.verb == "check" and report.on is False:
            self.go(node, "off", self.reasons[node])
        elif late and report.on:
            self.go(node, "on", f"did not power off within {timeout} s")
        elif late and node in self.world.reports and report.on is None and node not in self.world.needed:
            self.go(node, "on", "it does not answer, and `check` does not know whether it is on")
        elif report.on and node not in self.memory.asked and node not in self.world.needed and node not in self.world.busy:
            self.ask(node, "suspend")  # whoever wrote this was killed, perhaps before it asked, and perhaps after that

    def wake(self, node: str) -> None:
        """Demand brings a node back; so does leaving power saving, or the stack."""
        reason = self.world.needed.get(node, "")
        if not reason and self.saving(node) is None:
            reason = "it is no longer under `power_saving`"
        if reason and self.ready_to_wake(node):
            self.resume(node, reason)

    def ready_to_wake(self, node: str) -> bool:
        saving, state = self.saving(node) or PowerSaving(), self.states[node]
        if node in self.world.busy:
            return False
        if state == "suspending":  # nobody knows whether it is off
            unknown = node in self.world.reports and self.world.reports[node].on is None
            return unknown and self.elapsed(node) >= int(saving.suspend_timeout)
        return state == "off" or (state == "failed" and self.elapsed(node) >= int(saving.retry))

    def resume(self, node: str, reason: str) -> None:
        self.go(node, "resuming", reason)
        self.ask(node, "resume")

    def group(self, name: str) -> list[str]:
        """Its nodes that nobody has closed, or that failed: those are closed to new work for that alone."""
        nodes = self.world.stack.nodes
        mine = (node for node, one in nodes.items() if one.power_saving == name)
        return sorted(
            node
            for node in mine
            if nodes[node].state == "ready" or (nodes[node].state, self.states[node]) == ("cordon", "failed")
        )

    def fill(self, name: str, saving: PowerSaving) -> None:
        """Power on as many as are missing of those that stay on."""
        mine = self.group(name)
        short = saving.keep - sum(self.states[node] in ("on", "resuming") for node in mine)
        able = [node for node in mine if self.ready_to_wake(node)]
        for node in sorted(able, key=lambda node: (self.states[node] == "failed", node))[: max(0, short)]:
            self.resume(node, pluralize(saving.keep, f"node of {name} stays", f"nodes of {name} stay") + " powered on")

    def suspend(self, name: str, saving: PowerSaving) -> None:
        """Power off what has been idle longest, down to those that stay on."""
        on = [node for node in self.group(name) if self.states[node] == "on"]
        idle = [
            node
            for node in on
            if node not in self.world.needed and node not in self.world.busy and self.elapsed(node) >= int(saving.suspend_time)
        ]
        for node in sorted(idle, key=lambda node: (-self.elapsed(node), node))[: max(0, len(on) - saving.keep)]:
            self.go(node, "suspending", f"idle for {saving.suspend_time}")
            self.memory.suspended.add(node)
            self.ask(node, "suspend")

    def result(self) -> PowerTick:
        power = {}
        for node, state in sorted(self.states.items()):
            was = self.world.power.get(node)
            if was is not None and node not in self.moved:
                power[node] = was
            elif state != "on":
                power[node] = NodePower(state=state, since=self.wall, reason=self.reasons.get(node, ""))
        changes = [PowerChange(node, self._before(node), self.states[node], why) for node, why in sorted(self.moved.items())]
        for node in self.moved:
            if self.states[node] == "on":
                self.memory.asked.pop(node, None)
            if self.states[node] != "suspending":
                self.memory.suspended.discard(node)
        return PowerTick(power, tuple(self.actions), tuple(changes))

    def _before(self, node: str) -> str:
        was = self.world.power.get(node)
        return was.state if was else "on"
