"""Is no node with work ever powered off, do enough stay on, and does demand bring nodes back, whatever happens?"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from swarm_iac.autopilot.power import (
    AGAIN,
    HookReport,
    PowerAction,
    PowerMemory,
    PowerTick,
    PowerWorld,
    power_tick,
)
from swarm_iac.live.layer import Layer, NodePower
from swarm_iac.live.overlay import without_failed
from swarm_iac.model.service.power_saving import PowerSaving
from swarm_iac.model.stack import Stack
from tests.autopilot.fleet import START, Flight, chat, fleet
from tests.solver.fleets import stack_of

TIMES = {"suspend_time": "60 s", "resume_timeout": "100 s", "suspend_timeout": "40 s", "retry": "300 s"}


def stack(nodes: int = 4, keep: int = 0, **states: str) -> Stack:
    """Nodes n0, n1, … that may be powered off. `states`: those that are not ready."""
    named = {f"n{i}": {"power_saving": "idle", "state": states.get(f"n{i}", "ready")} for i in range(nodes)}
    return stack_of(named, {}, power_saving={"idle": {**TIMES, "keep": keep}})


@dataclass
class Machines:
    """Machines that take a while to boot and to stop, some of which never do, and hooks that fail."""

    stack: Stack
    power: dict[str, NodePower] = field(default_factory=dict)
    needed: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    refuses: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    steady: float = 0.0
    wall: float = START
    memory: PowerMemory = field(default_factory=PowerMemory)
    switched: dict[str, tuple[bool, float]] = field(default_factory=dict)  # on or off, and from when
    waiting: list[PowerAction] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)

    def is_on(self, node: str) -> bool | None:
        on, when = self.switched.get(node, (True, 0.0))
        return on if self.steady >= when else None

    def hook(self, action: PowerAction) -> HookReport:
        self.asked[f"{action.verb} {action.node}"] += 1
        if action.node in self.refuses:
            return HookReport(action.verb, False, None, "no")
        if action.verb == "resume" and action.node not in self.broken:
            self.switched[action.node] = True, self.steady + 20
        if action.verb == "suspend":
            self.switched[action.node] = False, self.steady + 10
        return HookReport(action.verb, True)

    def tick(self, *, killed: bool = False) -> PowerTick:
        """One decision. `killed`: after it is written, and before any hook is asked."""
        reports = {one.node: self.hook(one) for one in self.waiting}
        for node, one in self.power.items():
            if node not in reports:
                reports[node] = HookReport("check", True, self.is_on(node) if one.state != "suspending" else self.powered(node))
        seen = without_failed(self.stack, _layer(self.power))
        found = power_tick(PowerWorld(seen, self.power, self.needed, reports), self.memory, steady=self.steady, wall=self.wall)
        self.power, self.waiting = dict(found.power), list(found.actions)
        if killed:
            self.memory, self.waiting = PowerMemory(), []
        return found

    def powered(self, node: str) -> bool | None:
        if node in self.silent:
            return None
        on, when = self.switched.get(node, (True, 0.0))
        return on if self.steady >= when else not on

    def state(self, node: str) -> str:
        return self.power[node].state if node in self.power else "on"

    def passes(self, seconds: float, step: float = 5.0) -> list[PowerTick]:
        found = []
        for _ in range(int(seconds / step)):
            self.steady += step
            self.wall += step
            found.append(self.tick())
        return found


def _layer(power: dict[str, NodePower]) -> Layer:
    return Layer(power=power)


def test_an_idle_node_is_powered_off_after_its_delay_and_demand_brings_it_back() -> None:
    one = Machines(stack(2), needed={"n0": "chat-0 is placed there"})
    one.tick()
    one.passes(55)
    assert one.state("n1") == "on" and not one.asked
    one.passes(10)
    assert one.state("n1") == "suspending"
    one.passes(20)
    assert (one.state("n0"), one.state("n1")) == ("on", "off")
    one.passes(600)
    assert one.state("n1") == "off" and one.asked == {"suspend n1": 1}
    one.needed["n1"] = "chat-1 is placed there"
    first = one.passes(5)[0].changes
    assert [(each.node, each.after, each.reason) for each in first] == [("n1", "resuming", "chat-1 is placed there")]
    one.passes(40)
    assert one.state("n1") == "on" and one.asked["resume n1"] == 1
    del one.needed["n1"]
    one.passes(50)
    assert one.state("n1") == "on", "a cool-down lies between"
    one.passes(40)
    assert one.state("n1") == "off"


def test_a_node_that_does_not_boot_has_failed_and_is_closed_to_new_work_until_it_answers() -> None:
    one = Machines(stack(2))
    one.tick()
    one.passes(120)
    assert one.state("n0") == one.state("n1") == "off"
    one.broken.add("n0")
    one.needed["n0"] = "chat-2 is placed there"
    found = [each for tick in one.passes(120) for each in tick.changes]
    assert found[-1].after == "failed" and "no answer within 100 s" in found[-1].reason
    closed = without_failed(one.stack, _layer(one.power)).nodes
    assert (closed["n0"].state, closed["n1"].state) == ("cordon", "ready") and "failed to power on" in closed["n0"].reason
    tries = one.asked["resume n0"]
    assert tries <= 1 + 100 / AGAIN, "a hook whose effect does not show is asked again, and not with each tick"
    one.passes(270)
    assert one.asked["resume n0"] == tries, "it waits for `retry`"
    one.broken.clear()
    one.passes(60)
    assert one.state("n0") == "on"


def sleeping(nodes: int, **power: str) -> Flight:
    """Two replicas on each node at most, and some nodes that are not on."""
    base = fleet(nodes, {"chat": chat(place={"per_node": 2})})
    named = {name: node.model_copy(update={"power_saving": "idle"}) for name, node in base.nodes.items()}
    flight = Flight(base.model_copy(update={"nodes": named, "power_saving": {"idle": PowerSaving()}}))
    flight.layer = Layer(
        power={name: NodePower.model_validate({"state": state, "since": START}) for name, state in power.items()}
    )
    return flight


def live_on(flight: Flight) -> dict[str, int]:
    return dict(Counter(one.allocation.node for one in flight.layer.grants))


def test_live_replicas_go_to_nodes_that_are_on_before_others_are_powered_on() -> None:
    flight = sleeping(4, g001="off", g002="off")
    assert {one.node for one in flight.lock.allocations} == {"g000"}
    flight.tick(chat=160)
    assert live_on(flight) == {"g003": 2}
    flight.passes(40)
    flight.tick(chat=240)
    assert live_on(flight) == {"g003": 2, "g001": 2}


def test_without_hooks_nothing_is_placed_on_nodes_that_are_off() -> None:
    flight = sleeping(4, g001="off", g002="off")
    flight.wakes = False
    found = flight.tick(chat=240)
    assert live_on(flight) == {"g003": 2} and "2 more find no place" in found.decided[0].reason


def test_a_live_replica_of_a_node_that_does_not_boot_goes_elsewhere() -> None:
    flight = sleeping(4, g001="off", g002="off")
    flight.tick(chat=240)
    assert live_on(flight) == {"g003": 2, "g001": 2}
    failed = NodePower(state="failed", since=START, reason="no answer")
    flight.layer = flight.layer.model_copy(update={"power": flight.layer.power | {"g001": failed}})
    flight.stack = without_failed(flight.stack, flight.layer)
    found = flight.tick(chat=240)
    assert any("called back: g001 is in state cordon" in one.reason for one in found.decided)
    flight.passes(40)
    flight.tick(chat=240)
    assert live_on(flight) == {"g003": 2, "g002": 2}


def test_a_hook_that_refuses_leaves_the_node_on_and_is_not_asked_at_once() -> None:
    one = Machines(stack(1), refuses={"n0"})
    one.tick()
    found = [each for tick in one.passes(300) for each in tick.changes]
    assert one.state("n0") in ("on", "suspending") and "stays on: no" in {each.reason for each in found}
    assert one.asked["suspend n0"] <= 300 / 60


def test_keep_of_a_group_counts_nodes_that_can_be_used() -> None:
    one = Machines(stack(4, keep=2, n0="cordon"))
    one.tick()
    one.passes(200)
    assert [one.state(f"n{i}") for i in range(4)] == ["on", "off", "on", "on"]
    one.stack = stack(4, keep=3, n0="cordon")
    one.passes(60)
    assert [one.state(f"n{i}") for i in range(4)] == ["on"] * 4


@pytest.mark.parametrize("state", ["cordon", "drain", "lost"])
def test_nodes_that_a_person_has_closed_are_left_alone(state: str) -> None:
    one = Machines(stack(1, n0=state))
    one.tick()
    one.passes(500)
    assert not one.asked and not one.power


def test_a_node_that_is_no_longer_under_power_saving_is_powered_on() -> None:
    one = Machines(stack(2))
    one.tick()
    one.passes(120)
    one.stack = stack(1)  # n1 has left the stack: it is restored, which it has to be on for
    one.passes(60)
    assert one.power.keys() == {"n0"}


def test_a_node_that_somebody_powered_on_is_on() -> None:
    one = Machines(stack(1))
    one.tick()
    one.passes(120)
    assert one.state("n0") == "off"
    one.switched["n0"] = True, one.steady
    one.tick()
    assert one.state("n0") == "on"


@pytest.mark.parametrize("wanted", [True, False])
def test_a_kill_before_the_hook_is_made_up_for(wanted: bool) -> None:
    one = Machines(stack(1))
    one.tick()
    one.passes(60)
    one.memory, one.waiting = PowerMemory(), []
    assert one.state("n0") == "suspending" and not one.asked
    if wanted:
        one.needed["n0"] = "chat-0 is placed there"
        one.passes(60)
        assert one.state("n0") == "on" and not one.asked
        return
    one.passes(60)
    assert one.state("n0") == "off" and one.asked == {"suspend n0": 1}
    one.needed["n0"] = "chat-0 is placed there"
    one.steady += 5
    one.tick(killed=True)
    assert one.state("n0") == "resuming" and one.asked["resume n0"] == 0
    one.passes(60)
    assert one.state("n0") == "on" and one.asked["resume n0"] == 1


def test_a_node_about_which_nobody_knows_is_powered_on_when_it_is_needed() -> None:
    one = Machines(stack(1), power={"n0": NodePower(state="suspending", since=START)}, needed={"n0": "chat-0"})
    one.switched["n0"] = True, 1e9  # neither on nor off
    one.silent.add("n0")
    one.tick()
    one.passes(35)
    assert one.state("n0") == "suspending"
    one.passes(10)
    assert one.state("n0") == "resuming"


def test_a_clock_that_is_set_back_changes_nothing() -> None:
    one = Machines(stack(1))
    one.tick()
    one.wall -= 1e6
    one.passes(100)
    assert one.state("n0") == "off"


@pytest.mark.parametrize(
    "seeds", [range(500), pytest.param(range(500, 4000), marks=pytest.mark.slow)], ids=["some", "thousands"]
)
def test_random_traces_never_power_off_what_is_needed_nor_too_many(seeds: range) -> None:
    figures: Counter[str] = Counter()
    for seed in seeds:
        figures += trace(seed)
    print(dict(figures))
    assert min(figures[key] for key in ("suspend", "resume", "failed", "kills", "boots")) > len(seeds) // 4, figures


def trace(seed: int) -> Counter[str]:
    """A fleet on which work comes and goes, nodes and hooks fail, clocks jump, and the autopilot is killed."""
    rng = random.Random(seed)
    count, keep = rng.randint(1, 6), rng.randint(0, 3)
    one = Machines(stack(count, keep))
    names = [f"n{i}" for i in range(count)]
    idle_since = dict.fromkeys(names, 0.0)
    figures: Counter[str] = Counter()
    one.tick()
    for _ in range(rng.randint(20, 120)):
        one.steady += (step := rng.choice((1, 5, 20, 70)))
        one.wall += rng.choice((step, step, -3600, 86400))
        for node in names:
            if rng.random() < 0.1:
                one.needed.pop(node, None) if node in one.needed else one.needed.update({node: "work"})
            one.broken ^= {node} if rng.random() < 0.03 else set()
            one.refuses ^= {node} if rng.random() < 0.02 else set()
        before = {node: one.state(node) for node in names}
        known = {node: when for node, (_, when) in one.memory.entered.items()}
        for node in names:
            if before[node] != "on" or node in one.needed:
                idle_since[node] = one.steady
        found = one.tick(killed=(killed := rng.random() < 0.05))
        figures["kills"] += killed
        for change in found.changes:
            figures[change.after] += 1
            figures["boots"] += (change.before, change.after) == ("resuming", "on")
            if change.after == "suspending":
                assert change.before == "on" and change.node not in one.needed, (seed, change)
                assert one.steady - idle_since[change.node] >= 60, (seed, change, known)
                on = [node for node in names if one.state(node) == "on"]
                assert len(on) >= keep, (seed, change, on)
        for action in found.actions:
            figures[action.verb] += 1
            assert action.verb != "suspend" or action.node not in one.needed, (seed, action)
            assert one.state(action.node) == {"suspend": "suspending", "resume": "resuming"}[action.verb], "written first"
        assert all(one.state(node) == "on" or node in found.power for node in names)
    # With sound hooks and machines, all that is needed comes back, and enough stay on.
    one.broken.clear()
    one.refuses.clear()
    one.passes(700)
    assert all(one.state(node) == "on" for node in one.needed), (seed, one.power)
    assert sum(one.state(node) == "on" for node in names) >= min(keep, count), (seed, one.power)
    return figures


def test_what_was_told_to_power_off_before_a_kill_is_not_on_because_it_refuses_to_be_told_again() -> None:
    """Written `on`, it would get work, and go off under it."""
    one = Machines(stack(1))
    one.tick()
    one.passes(60)
    (suspend,) = one.waiting
    assert one.hook(suspend).ok
    one.memory, one.waiting = PowerMemory(), []
    one.refuses.add("n0")
    seen = set()
    while one.state("n0") != "off":
        one.passes(5)
        seen.add(one.state("n0"))
        assert one.steady < 200
    assert seen == {"suspending", "off"}


def test_one_that_refused_before_a_kill_is_on_after_its_timeout() -> None:
    one = Machines(stack(1), refuses={"n0"})
    one.tick()
    one.passes(60)
    one.memory, one.waiting = PowerMemory(), []
    one.passes(60)
    assert one.state("n0") == "on"


def test_a_node_that_left_the_stack_file_and_does_not_power_on_is_not_tried_for_ever() -> None:
    one = Machines(stack(1), power={"gone": NodePower(state="off", since=START)}, broken={"gone"})
    one.switched["gone"] = False, 0.0
    one.tick()
    one.passes(1000)
    tried = one.asked["resume gone"]
    assert tried and "gone" not in one.power
    one.passes(5000)
    assert one.asked["resume gone"] == tried
