"""Does a fault leave everyone else alone, tell the operator what it was, and end in a converged fleet once it is gone?

On real machines. Each test makes the same change twice: under the fault, and again after it. Rows of the table in
docs/reliability.md come from here: see tests/e2e/reliability.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest
import yaml

from swarm_iac.sandbox.tool import SandboxError
from tests.e2e import reliability
from tests.e2e.conftest import Fleet, Running
from tests.e2e.trouble import GRACE, OTHER, TARGET, Trouble, gone, kill

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Cause = Callable[[Trouble, Running], None]


@dataclass(frozen=True)
class Fault:
    """One misfortune. `before`: words of `swarm sandbox fault`, caused before the run. `during`: done in the middle of it,
    while a job is being stopped. `says`: what the operator must be told, if anything. `ends_well`: the run's own end.
    `goes_on`: does the run that meets it still change the other nodes?"""

    name: str
    how: str
    says: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    during: Cause | None = None
    ends_well: bool = False
    goes_on: bool = True
    boots: bool = False


def _sandbox(*words: str) -> Cause:
    return lambda trouble, running: trouble.fleet.sandbox.fault(TARGET, *words)


def _killed(*marks: str) -> Cause:
    def cause(trouble: Trouble, running: Running) -> None:
        assert kill(running, *marks), f"none of {marks} ran"

    return cause


def _rebooted(trouble: Trouble, running: Running) -> None:
    trouble.fleet.sandbox.begin_reboot(TARGET)


NODE = rf"{TARGET}: "
FAULTS = (
    Fault("a unit ignores its stop signal", f"`trap '' TERM`, a grace of {GRACE} s", ends_well=True),
    Fault("ssh is slow", "netem, 400 ms", before=("slow", "400"), ends_well=True),
    Fault("clock off by an hour", "`date -s`", (NODE + "its clock is (359.|36..) s ahead",), ("clock", "3600"), ends_well=True),
    Fault("node unreachable", "both cables out", (NODE + "cannot be read: ", "changes deferred to the next `swarm up`"), ("unreachable",)),
    Fault("disk full", "no byte free on /", (NODE + "the file system of /var/lib/swarm is full", NODE + ".*the disk is full"), ("disk-full",)),
    Fault("read-only root", "sysrq u", (NODE + "the file system of /var/lib/swarm is read-only", NODE + ".*read-only"), ("read-only",)),
    Fault("NVML error on set", "the power limit, on every card", (NODE + r"gpus: gpu \d \(.*\): gpu_power \d+ W: ",), ("nvml-error", "*", "set-power", "999")),
    Fault("GPU off the bus", "one that the new job takes", (NODE + "not the hardware that the stack file declares: 7 x H100 found", NODE + r"gpu 1 has fallen off the bus.*; reboot the node, or drain it"), ("gpu-lost", "1")),
    Fault("ssh drops in mid-step", "every session killed while a job stops", (NODE,), during=_sandbox("ssh-drop")),
    Fault("node rebooted", "while a job stops", (NODE,), during=_rebooted, boots=True),
    Fault("node powered off", "while a job stops", (NODE,), during=_sandbox("power-off"), boots=True),
    Fault("Ansible killed", "SIGKILL, while a job stops", (NODE + ".*Ansible was killed",), during=_killed("ansible-playbook")),
    Fault("the engine killed", "SIGKILL to `pulumi`, while a job stops", (r"the engine \(pulumi\) was killed by SIGKILL",), during=_killed("pulumi up"), goes_on=False),
    Fault("the provider killed", "SIGKILL to `pulumi-resource-swarm`, while a job stops", (r"the provider \(pulumi-resource-swarm\) exited during a change",), during=_killed("pulumi-resource-swarm"), goes_on=False),
)  # fmt: skip


@pytest.fixture(scope="module")
def trouble(fleet: Fleet) -> Iterator[Trouble]:
    before = fleet.stack.read_text()
    text = yaml.safe_load(before)
    for node, label in ((TARGET, "two"), (OTHER, "one")):
        text["nodes"].setdefault(node, {})["labels"] = {"at": label}
    one = Trouble(fleet, text)
    one.put_recorder()
    one.request()
    try:
        fleet.swarm("up", "--yes", "--skip-preview").ok()
        yield one
    finally:
        fleet.stack.write_text(before)
    fleet.swarm("up", "--yes", "--skip-preview").ok()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_fault_hurts_nobody_else_is_told_and_is_mended_by_the_next_run(trouble: Trouble, fault: Fault) -> None:
    fleet = trouble.fleet
    trouble.turn += 1
    trouble.request()
    others = trouble.processes()
    trouble.watch()
    try:
        if fault.before:
            fleet.sandbox.fault(TARGET, *fault.before)
        begun = time.monotonic()
        met = trouble.during(partial(fault.during, trouble)) if fault.during else fleet.swarm("up", "--yes", "--skip-preview")
        took = time.monotonic() - begun
    finally:
        _gone(trouble, fault)
    assert (met.status == 0) is fault.ends_well, met.text[-4000:]
    told = reliability.words(met.text)
    for pattern in fault.says:
        assert any(re.search(pattern, line) for line in told), f"{pattern!r} is not in {told}\n{met.text[-4000:]}"
    assert "Traceback" not in met.text, met.text[-4000:]
    assert gone(trouble.run.values()), "nothing of the run is left here"
    went_on = trouble.changed_elsewhere()
    assert went_on or not fault.goes_on, met.text[-4000:]

    trouble.watch()
    begun = time.monotonic()
    mended = fleet.swarm("up", "--yes", "--skip-preview").ok()
    again = time.monotonic() - begun
    fleet.swarm("assert").ok()
    assert trouble.serves(trouble.new) and not trouble.serves(trouble.old) and trouble.changed_elsewhere()
    looks, two = trouble.moments()
    assert two == 0, f"{two} of {looks} moments with two owners"
    assert trouble.processes() == others, "nobody else was stopped or started"
    reliability.keep(
        "faults", fault.name, how=fault.how, told=told, ended="well" if fault.ends_well else "in error", seconds=round(took),
        went_on=went_on, others=len(others), looks=looks, next_seconds=round(again), next_told=reliability.words(mended.text),
    )  # fmt: skip


def _gone(trouble: Trouble, fault: Fault) -> None:
    """The fault ends; the machine answers again."""
    sandbox = trouble.fleet.sandbox
    if fault.name == "node powered off":
        sandbox.power_on(TARGET)
    elif fault.boots:
        trouble.wait_for_ssh()
    try:
        sandbox.fault(TARGET, "clear")
    except SandboxError:
        # The shared connection may be one that the fault has cut.
        trouble.wait_for_ssh()
        sandbox.fault(TARGET, "clear")
