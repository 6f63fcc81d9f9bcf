"""Are decisions about power carried out, continued after a kill, seen by all commands, and tried elsewhere if they fail?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from swarm_iac.cli.machines import scrape_targets
from swarm_iac.cli.merge_lock import alone, between_merges
from swarm_iac.cli.power import waking
from swarm_iac.cli.power.hooks import Hooks
from swarm_iac.cli.power.needs import needed
from swarm_iac.cli.power.powering import Powering
from swarm_iac.errors import Refused, Retryable
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer, NodePower
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import AllocationState, NodeState, Observed
from swarm_iac.stackfile import load
from swarm_iac.stackfile.locks.companions import Files
from tests.cli.power.test_hooks import write
from tests.cli.test_autopilot import swarm

STACK = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
power_saving: {idle: {suspend_time: 1 s, resume_timeout: 3 s, suspend_timeout: 3 s, keep: 0}}
nodes:
  n[1-3]: {hardware: h, ssh: "root@{name}.invalid"}
  n1: {power_saving: idle}
workloads:
  big: {user: ada, each: {gpus: 6}}
"""
JOB = "  job: {user: ada, each: {gpus: 7}}\n"
#: Machines as files: `on` and `off` in FOLDER/NODE; an empty one neither boots nor stops.
RESUME = 'test -s {0}/$1 && echo on >{0}/$1; echo "resume $1" >>{0}/asked'
SUSPEND = 'echo "suspend $1" >>{0}/asked; sleep 0.2; echo off >{0}/$1'


class Site:
    """A fleet repository, machines that are files, and hooks for them."""

    def __init__(self, folder: Path) -> None:
        self.root, self.machines = folder / "fleet", folder / "machines"
        for each in (self.root / "stacks", self.machines):
            each.mkdir(parents=True)
        (self.root / "Pulumi.yaml").write_text("name: lab\nbackend: {url: file://.state}\n")
        self.stack_file = self.root / "stacks" / "lab.yaml"
        self.stack_file.write_text(STACK)
        for node in ("n1", "n2", "n3"):
            (self.machines / node).write_text("on")
        scripts = {"resume": RESUME.format(self.machines), "suspend": SUSPEND.format(self.machines)}
        self.folder = write(folder / "hooks", **scripts, check=f"cat {self.machines}/$1")
        self.held: dict[str, tuple[str, ...]] = {}

    @property
    def path(self) -> Path:
        return self.root / ".state" / "lab.live.json"

    def look(self, targets: Mapping[str, str]) -> dict[str, Observed]:
        found = {}
        for node in targets:
            on = (self.machines / node).read_text().strip() == "on"
            held = {
                name: AllocationState.model_validate({"workload": name, "unit": {"user": "ada"}})
                for name in self.held.get(node, ())
            }
            found[node] = Observed(node=node, error="" if on else "no route to host", state=NodeState(allocations=held))
        return found

    def powering(self) -> Powering:
        said: list[str] = []
        return Powering(self.root, "lab", self.path, Hooks.of(self.folder, self.root), said.append, self.look)

    def stack(self) -> Stack:
        import datetime

        return load(self.stack_file, today=datetime.date(2026, 6, 1)).stack

    def layer(self) -> Layer:
        return live_file.read(self.path, "lab", "lab")

    def put(self, node: str, state: str, machine: str) -> None:
        one = NodePower.model_validate({"state": state, "since": time.time()})
        live_file.update(self.path, "lab", "lab", lambda layer: layer.model_copy(update={"power": layer.power | {node: one}}))
        (self.machines / node).write_text(machine)

    def asked(self) -> list[str]:
        path = self.machines / "asked"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def until(one: Powering, site: Site, wants: Callable[[], bool], **needs: str) -> None:
    began = time.monotonic()
    while not wants():
        assert time.monotonic() - began < 15, (site.layer().power, site.asked())
        one.tick(site.stack(), site.layer(), needs)
        time.sleep(0.1)


def test_an_idle_node_goes_off_and_comes_back_for_work(site: Site) -> None:
    one = site.powering()
    until(one, site, lambda: "n1" in site.layer().power and site.layer().power["n1"].state == "off")
    assert site.layer().power.keys() == {"n1"} and site.asked() == ["suspend n1"]
    until(one, site, lambda: not site.layer().power, n1="chat-2 is placed there")
    assert site.asked() == ["suspend n1", "resume n1"] and (site.machines / "n1").read_text().strip() == "on"
    one.end()
    told = [(each["before"], each["after"]) for each in live_file.decisions(site.path)]
    assert told == [("resuming", "on"), ("off", "resuming"), ("suspending", "off"), ("on", "suspending")]
    os.chdir(site.root)
    text = swarm(site.root, "history", "lab", "--decisions")
    assert "on → suspending" in text and "idle for 1 s" in text and "n1" in text


def test_a_node_is_powered_off_once_all_clones_know_and_not_while_an_up_elsewhere_runs(site: Site) -> None:
    """That `up` has the engine's lock, so nothing is shared meanwhile."""
    one, shared, held = site.powering(), [], [True]

    def share() -> None:
        if held:
            raise Retryable("stack lab is being changed by bo@desk")
        assert not site.asked()
        shared.append(site.layer().power["n1"].state)

    one.share = share
    site.layer()
    began = time.monotonic()
    while not live_file.at(site.path).power:
        assert time.monotonic() - began < 15
        try:
            one.tick(site.stack(), site.layer(), {})
        except Retryable:
            break
        time.sleep(0.1)
    assert site.layer().power["n1"].state == "suspending" and site.asked() == []
    held.clear()
    until(one, site, lambda: "n1" in site.layer().power and site.layer().power["n1"].state == "off")
    one.end()
    assert shared == ["suspending"] and site.asked() == ["suspend n1"]


def test_a_node_that_holds_anything_is_not_asked_to_power_off(site: Site) -> None:
    site.held["n1"] = ("old-0",)
    one = site.powering()
    until(one, site, lambda: any(each["after"] == "on" for each in live_file.decisions(site.path)))
    one.end()
    assert site.asked() == [] and "it has old-0" in str(live_file.decisions(site.path))


def test_a_node_that_does_not_answer_is_not_powered_off(site: Site) -> None:
    (site.machines / "n1").write_text("hangs")
    one = site.powering()
    until(one, site, lambda: any("does not answer" in each["reason"] for each in live_file.decisions(site.path)))
    one.end()
    assert site.asked() == []


@pytest.mark.parametrize(
    "says",
    ["echo one; echo two", "printf 'no\\303\\202BMC\\302\\240\\356\\200\\200\\n'", "head -c 1000 /dev/zero | tr '\\0' x"],
)
@pytest.mark.parametrize("hook", ["resume", "check"])
def test_whatever_a_hook_says_is_written_and_ends_nothing(site: Site, hook: str, says: str) -> None:
    site.put("n1", "resuming", "off")
    (site.machines / "n1").write_text("")
    if hook == "resume":
        (site.machines / "n1").write_text("off")
    write(site.folder, **{"resume": "exit 0", "check": f"cat {site.machines}/n1", hook: f"{says}; exit 1"})
    one = site.powering()
    until(one, site, lambda: "n1" in site.layer().failed, n1="work")
    one.end()
    assert f"`{hook}`" in site.layer().power["n1"].reason


def test_an_up_that_is_running_goes_first(site: Site) -> None:
    lock = site.root / ".state" / ".pulumi" / "locks" / "organization" / "lab" / "lab" / "x.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": 1, "username": "eve", "hostname": "elsewhere", "timestamp": "2026-06-01T00:00:00Z"}))
    one = site.powering()
    until(one, site, lambda: any("being changed by eve" in each["reason"] for each in live_file.decisions(site.path)))
    one.end()
    assert site.asked() == []


def test_no_time_out_is_called_on_what_was_seen_long_ago(site: Site) -> None:
    site.put("n1", "resuming", "off")
    one = site.powering()
    one.tick(site.stack(), site.layer(), {"n1": "work"})  # its check says that it is off
    time.sleep(0.5)
    (site.machines / "n1").write_text("on")
    one._checked["n1"] -= 100  # an `up` took so long
    one.memory.entered["n1"] = "resuming", time.monotonic() - 100
    one.tick(site.stack(), site.layer(), {"n1": "work"})
    assert site.layer().power["n1"].state == "resuming"
    until(one, site, lambda: not site.layer().power, n1="work")
    one.end()
    assert "failed" not in str(live_file.decisions(site.path))


def test_two_writers_are_noticed(site: Site) -> None:
    one = site.powering()
    layer = site.layer()
    one.tick(site.stack(), layer, {})
    time.sleep(1.1)
    site.put("n1", "failed", "on")
    with pytest.raises(Retryable, match="another process"):
        one.tick(site.stack(), layer, {})
    one.end()
    assert site.asked() == [] and site.layer().power["n1"].state == "failed"


KILLED = """
import sys, time
from pathlib import Path
from tests.cli.power.test_powering import Site
site = object.__new__(Site)
site.root, site.machines, site.folder = (Path(each) for each in sys.argv[1:4])
site.stack_file, site.held = site.root / "stacks" / "lab.yaml", {}
one = site.powering()
while True:
    one.tick(site.stack(), site.layer(), {"n1": "work"} if (site.machines / "work").exists() else {})
    time.sleep(0.02)
"""


def test_a_kill_anywhere_is_continued_by_the_next(site: Site) -> None:
    def begin() -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", KILLED, str(site.root), str(site.machines), str(site.folder)]
        return subprocess.Popen(words, start_new_session=True, cwd=Path(__file__).parents[3])

    def settled(state: str) -> bool:
        one = site.layer().power.get("n1")
        return (one.state if one else "on") == state

    for after in (1.6, 2.0, 2.3):
        process = begin()
        time.sleep(after)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        site.layer()  # whole, whenever it was killed
    process = begin()
    try:
        for state, work in (("off", False), ("on", True)):
            (site.machines / "work").touch() if work else None
            began = time.monotonic()
            while not settled(state):
                assert time.monotonic() - began < 20, (site.layer().power, site.asked())
                time.sleep(0.1)
            assert (site.machines / "n1").read_text().strip() == state
    finally:
        process.kill()
        process.wait()


def test_needs_are_what_is_placed_pending_live_or_not_applied(site: Site) -> None:
    os.chdir(site.root)
    swarm(site.root, "solve", "--stack", "lab")
    site.stack_file.write_text(STACK + JOB)
    swarm(site.root, "plan", "lab", "--offline")  # leaves a candidate
    placed = yaml.safe_load((site.root / ".state" / "lab.candidate.yaml").read_text())["allocations"]
    found = needed(Layer(unapplied=("n3",)), Files.of(site.root, "lab"))
    assert found == {"n3": "a change there is not applied yet"} | {
        one["node"]: f"{name} is placed there" for name, one in placed.items()
    }


def placed(site: Site) -> dict[str, str]:
    found = yaml.safe_load((site.root / ".state" / "lab.candidate.yaml").read_text())["allocations"]
    return {name: one["node"] for name, one in found.items()}


@pytest.fixture
def asleep(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A job that is new goes to n1, which is off."""
    monkeypatch.chdir(site.root)
    monkeypatch.setattr("swarm_iac.cli.power.needs.powering", None)
    text = STACK.replace("  n1: {power_saving", "  n3: {state: cordon}\n  n1: {state: cordon, power_saving")
    site.stack_file.write_text(text)
    swarm(site.root, "solve", "--stack", "lab")  # big is on n2
    site.stack_file.write_text(STACK + JOB)
    site.put("n1", "off", "off")
    powering = site.powering()
    monkeypatch.setattr(waking, "powering", lambda root, name, hooks, say: powering)
    monkeypatch.setenv("SWARM_POWER_HOOKS", str(site.folder))
    return site


def test_up_powers_on_what_it_needs(asleep: Site) -> None:
    waking.wake(asleep.root, "lab", lambda text: None)
    assert placed(asleep) == {"big-0": "n2", "job-0": "n1"} and asleep.asked() == ["resume n1"]
    assert not asleep.layer().power


def test_up_places_elsewhere_what_does_not_power_on(asleep: Site) -> None:
    said: list[str] = []
    (asleep.machines / "n1").write_text("")
    waking.wake(asleep.root, "lab", said.append)
    assert asleep.layer().power["n1"].state == "failed"
    assert placed(asleep) == {"big-0": "n2", "job-0": "n3"}, said
    text = swarm(asleep.root, "plan", "lab", "--offline")
    assert "job-0" in text and "n3" in text
    assert "no answer within 3 s" in swarm(asleep.root, "history", "lab", "--decisions")


def test_up_without_hooks_says_how_to_power_on(asleep: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWARM_POWER_HOOKS")
    with pytest.raises(Refused, match="n1 is powered off, and needed") as caught:
        waking.wake(asleep.root, "lab", lambda text: None)
    assert "SWARM_POWER_HOOKS" in str(caught.value.hint)


def test_up_that_needs_no_node_that_is_off_asks_no_hook(asleep: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWARM_POWER_HOOKS")
    asleep.stack_file.write_text(STACK)
    waking.wake(asleep.root, "lab", lambda text: None)
    assert asleep.asked() == []


def test_a_node_that_failed_and_answers_again_is_taken(asleep: Site) -> None:
    waking.wake(asleep.root, "lab", lambda text: None)
    asleep.put("n1", "failed", "on")
    # The candidate of before is there; with n1 closed it would be decided again.
    waking.wake(asleep.root, "lab", lambda text: None)
    assert placed(asleep)["job-0"] in ("n1", "n3")


def test_nodes_that_are_off_are_neither_drift_nor_unreachable_nor_scraped(asleep: Site) -> None:
    asleep.stack_file.write_text(STACK + "telemetry: {}\n")
    text = swarm(asleep.root, "plan", "lab")
    assert "powered off: n1: is powered off since" in text and "unreachable: n1" not in text and "unreachable: n2" in text
    found = json.loads(swarm(asleep.root, "assert", "lab", "--json", code=1))
    assert {one["node"] for one in found} == {"n2", "n3"}
    rows = json.loads(swarm(asleep.root, "status", "lab", "--json", code=4))
    assert rows["n1"]["asleep"] and "asleep" not in rows["n2"]
    targets = [one["labels"]["instance"] for one in json.loads(swarm(asleep.root, "metrics", "lab", "--json"))]
    assert targets == ["n2", "n3"]
    path = asleep.root / scrape_targets.FOLDER / "lab.json"
    scrape_targets.refresh(asleep.root, asleep.stack(), "lab", ())
    assert not path.exists(), "who has no such file gets none"
    path.parent.mkdir(parents=True)
    path.write_text("[]")
    scrape_targets.refresh(asleep.root, asleep.stack(), "lab", {"n1"})
    assert "n1" not in path.read_text() and "n2" in path.read_text()


def test_status_names_what_failed(asleep: Site) -> None:
    asleep.put("n1", "failed", "off")
    assert "n1 failed to power on since" in swarm(asleep.root, "status", "lab", code=4)


def test_no_node_goes_off_while_a_merge_is_applied(site: Site) -> None:
    """A merge begins with what is known of machines that are off; two nodes may go off at once."""
    one = site.powering()
    with alone(site.root):
        until(one, site, lambda: any("stays on" in each["reason"] for each in live_file.decisions(site.path)))
    assert site.asked() == [] and not site.layer().power
    with between_merges(site.root):
        site.put("n1", "suspending", "on")
        assert one._suspend("n1", "n1").ok
    one.end()


def test_a_node_that_was_told_before_a_kill_and_is_going_off_is_off(site: Site) -> None:
    """It answers no more, and its machine says that it is on until it is off."""
    site.put("n1", "suspending", "on")
    one = site.powering()
    asked = one.look
    one.look = lambda targets: {name: found.model_copy(update={"error": "no route"}) for name, found in asked(targets).items()}
    one.tick(site.stack(), site.layer(), {})
    began = time.monotonic()
    while time.monotonic() - began < 1:
        one.tick(site.stack(), site.layer(), {})
        assert site.layer().power["n1"].state == "suspending"
        time.sleep(0.1)
    (site.machines / "n1").write_text("off")
    until(one, site, lambda: site.layer().power["n1"].state == "off")
    one.end()


def test_a_suspend_that_waited_its_turn_asks_whether_it_is_still_wanted(site: Site) -> None:
    one = site.powering()
    found = one._suspend("n1", "n1")
    one.end()
    assert not found.ok and found.words == "it is needed again" and site.asked() == []


def test_targets_of_prometheus_are_written_through_no_link(asleep: Site) -> None:
    """A merge can bring one, and what is behind it may be the engine's state."""
    asleep.stack_file.write_text(asleep.stack_file.read_text() + "telemetry: {}\n")
    state = asleep.root / ".state" / "stacks"
    state.mkdir(parents=True)
    (state / "lab.json").write_text("ours")
    (asleep.root / "monitoring").mkdir(exist_ok=True)
    (asleep.root / "monitoring" / "targets").symlink_to(state)
    scrape_targets.refresh(asleep.root, asleep.stack(), "lab", ())
    assert (state / "lab.json").read_text() == "ours"


def test_a_suspend_that_was_killed_after_it_had_begun_leaves_no_node_on_that_goes_off(site: Site) -> None:
    suspend = f"(sleep 1.2; echo off >{site.machines}/$1) & sleep 60"
    site.folder = write(
        site.folder.parent / "slow-hooks",
        suspend=f"setsid sh -c '{suspend}' $0 $1",
        resume="true",
        check=f"cat {site.machines}/$1",
    )
    one = Powering(site.root, "lab", site.path, Hooks.of(site.folder, site.root, 0.5), lambda text: None, site.look)
    seen = set()
    began = time.monotonic()
    while site.layer().power.get("n1") is None or site.layer().power["n1"].state != "off":
        assert time.monotonic() - began < 20, site.layer().power
        one.tick(site.stack(), site.layer(), {})
        if "n1" in site.layer().power:
            seen.add("begun")
        elif seen:
            raise AssertionError("it is written on, and goes off")
        time.sleep(0.02)
    one.end()
