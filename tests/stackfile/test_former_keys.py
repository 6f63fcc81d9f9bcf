"""Is a key under the name that it had in a former version read as before, with a word about its present one?"""

from __future__ import annotations

import datetime

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import loads
from swarm_iac.stackfile.checks.warnings import doubts

TODAY = datetime.date(2026, 11, 22)
STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
limits: {except: [{user: bo, gpus: 24, until: 2027-01-31, reason: paper}]}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes:
  gpu-[01-02]: {hardware: h, ssh: "root@{name}"}
  gpu-02: {state: drain, reason: fan}
workloads:
  chat: {user: ada, renamed_from: talk}
"""
CHANGES = {
    "nodes.gpu-02.why": ("state: drain, reason", "state: drain, why", "lab.yaml:7:26", "reason"),
    "limits.except[0].why": ("2027-01-31, reason", "2027-01-31, why", "lab.yaml:3:59", "reason"),
    "workloads.chat.formerly": ("renamed_from: talk", "formerly: talk", "lab.yaml:9:21", "renamed_from"),
}


@pytest.mark.parametrize("path", CHANGES)
def test_a_former_key_says_the_same(path: str) -> None:
    new, old, place, key = CHANGES[path]
    loaded = loads(STACK.replace(new, old), "lab.yaml", today=TODAY)
    assert loaded.stack == loads(STACK, "lab.yaml", today=TODAY).stack
    expected = f"{place}: {path}: is called `{key}` now; the old name is still read\n  hint: write `{key}` in its place"
    assert [str(one) for one in doubts(loaded, TODAY)] == [expected]
    assert not doubts(loads(STACK, "lab.yaml", today=TODAY), TODAY)


def test_both_names_at_once_are_a_mistake() -> None:
    with pytest.raises(StackFileError, match=r"workloads\.chat\.formerly: the key 'formerly' is not known here"):
        loads(STACK.replace("renamed_from: talk", "renamed_from: talk, formerly: talk"), "lab.yaml", today=TODAY)


@pytest.mark.parametrize(
    ("new", "old", "place"), [("renamed_from: talk", "formerly: No", "9:31"), ("reason: fan", f"why: {'x' * 201}", "7:31")]
)
def test_a_mistake_in_a_former_key_is_told_at_its_place(new: str, old: str, place: str) -> None:
    with pytest.raises(StackFileError, match=f"^lab.yaml:{place}: "):
        loads(STACK.replace(new, old), "lab.yaml", today=TODAY)


def test_a_stack_in_a_former_state_reads_as_it_did_and_is_written_anew() -> None:
    stack = loads(STACK, "lab.yaml", today=TODAY).stack
    text = stack.model_dump_json(by_alias=True, exclude_defaults=True)
    former = text.replace('"renamed_from"', '"formerly"').replace('"reason"', '"why"')
    assert former != text and '"formerly"' in former and former.count('"why"') == 2
    assert Stack.model_validate_json(former) == stack
