"""Does a value changed on the command line mean what it would mean in the file, and is a wrong one told as well?"""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.model.edit import Edit
from swarm_iac.stackfile import load, loads
from swarm_iac.stackfile.editing.overrides import edited, parse
from swarm_iac.stackfile.reading.source import Loaded

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 6, 1)
TEXT = """\
fleet: lab
teams: {research: {users: [ada, bo]}}
limits:
  user: {gpus: 16}
  except: [{user: bo, gpus: 24, until: 2027-01-31, reason: paper}]
tuning: {train: {governor: performance}}
hardware:
  h100: {gpus: 8 x H100, vcpus: 64, memory: 512 GB}
prices: {H100: 2.50 EUR/h}
nodes:
  gpu-[01-04]: {hardware: h100, ssh: "root@{name}"}
  gpu-02: {state: drain, reason: fan}
workloads:
  chat: {user: ada, replicas: 2..6, each: {gpus: 2 x H100, memory: 64 GB}, place: {spread: node}}
"""


def read(text: str = TEXT) -> Loaded:
    return loads(text, "lab.yaml", policies=ROOT / "policies", today=TODAY)


def with_edits(*texts: str) -> Loaded:
    return edited(read(), [edit for text in texts for edit in parse(text)])


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        ("workloads.chat.replicas=4", "replicas: 2..6", "replicas: 4"),
        ("workloads.chat.replicas = 3..5", "replicas: 2..6", "replicas: 3..5"),
        ("workloads.chat.each.gpus=1", "gpus: 2 x H100, m", "gpus: 1, m"),
        ("workloads.chat.each.memory=32 GB", "memory: 64 GB", "memory: 32 GB"),
        ("workloads.chat.place.spread=", ", place: {spread: node}", ""),
        ("workloads.chat.run={command: serve}", "place:", "run: {command: serve}, place:"),
        ("workloads.chat=", "  chat:", "#"),
        ("workloads.more={user: bo}", "  chat:", "  more: {user: bo}\n  chat:"),
        ("nodes.gpu-02.state=ready", "state: drain", "state: ready"),
        ("nodes.gpu-[01-04].labels.zone=c", "  gpu-02:", "  gpu-[01,02-04]: {labels: {zone: c}}\n  gpu-02:"),
        ("nodes.gpu-05={hardware: h100, ssh: 'root@{name}'}", "gpu-[01-04]", "gpu-[01-05]"),
        ("limits.user.gpus=24", "user: {gpus: 16}", "user: {gpus: 24}"),
        ("limits.except[0].until=2027-02-28", "2027-01-31", "2027-02-28"),
        ("tuning.train.sysctl.net.core.somaxconn=1024", "performance}", "performance, sysctl: {net.core.somaxconn: 1024}}"),
        ("prices.H100=3 EUR/h", "2.50", "3"),
        ("solve.moves=0", "nodes:", "solve: {moves: 0}\nnodes:"),
        ("racks.r1={power: 40 kW}", "nodes:", "racks: {r1: {power: 40 kW}}\nnodes:"),
        ("hardware.h100.gpus.count=4", "8 x", "4 x"),
    ],
)  # fmt: skip
def test_an_edit_means_what_the_file_would_mean(edit: str, old: str, new: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    wanted = read(text).stack
    found = with_edits(edit).stack
    assert found.model_copy(update={"workloads": dict(sorted(found.workloads.items()))}) == wanted.model_copy(
        update={"workloads": dict(sorted(wanted.workloads.items()))}
    )


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("workloads.chta.replicas=4", "lab.yaml:14:3: workloads.chta.replicas: there is no 'chta' under workloads\n  hint: did you mean 'chat'?"),
        ("workload.chat.replicas=4", "lab.yaml: workload.chat.replicas: there is no section 'workload' to change\n  hint: did you mean 'workloads'?"),
        ("workloads.chat.replica=4", "lab.yaml:14:3: workloads.chat: the key 'replica' is not known here\n  hint: did you mean 'replicas'?"),
        ("workloads.chat.replicas=many", "lab.yaml:14:31: workloads.chat.replicas: 'many' is no number of replicas; write 2 or 2..6"),
        ("workloads.chat.each.memory=64", "lab.yaml:14:68: workloads.chat.each.memory: 64 has no unit; write a size like '512 GB'"),
        ("workloads.chat.user=cy", "lab.yaml:14:16: workloads.chat.user: 'cy' is in no team"),
        ("workloads.chat.each.gpus=9", "gpus: no node has 9 GPUs: the largest, h100, has 8"),
        ("workloads.chat.replicas=9", "lab.yaml:14:50: workloads.chat.each.gpus: 9 x 2 = 18 GPUs, and user ada may have 16: 2 too many"),
        ("nodes.gpu-09.state=ready", "lab.yaml:11:3: nodes.gpu-09.state: there is no 'gpu-09' under nodes"),
        ("nodes.gpu-[04-01].state=ready", "'gpu-[04-01]' is no range of nodes: [04-01] runs backwards"),
        ("nodes.gpu-01.hardware=b200", "there is no hardware 'b200'\n  hint: use one of h100"),
        ("nodes.gpu-01.state=off", "'off' is not one of ready, cordon, drain, lost"),
        ("prices.B200=1 EUR/h", "prices.B200: no hardware has a GPU B200"),
        ("limits.except[3].gpus=4", "there is no '3' under limits"),
        ("limits={}", "'limits' is a whole section; name what in it is to change"),
        ("solve.moves=true", "true does not fit here"),
        ("replicas", "replicas: this changes nothing\n  hint: write PATH=VALUE"),
        ("workloads.chat.replicas=[4", "'[4' is no value: this is no YAML"),
        ("workloads..replicas=4", "is no path"),
    ],
)  # fmt: skip
def test_a_wrong_edit_is_told_with_its_line_and_a_hint(edit: str, said: str) -> None:
    with pytest.raises(StackFileError) as caught:
        with_edits(edit)
    assert said in str(caught.value)


def test_an_edit_that_says_what_is_already_there_changes_nothing() -> None:
    for path in sorted((ROOT / "stacks").glob("dev.yaml")):
        loaded = load(path, today=TODAY)
        for name, workload in loaded.stack.workloads.items():
            assert edited(loaded, parse(f"workloads.{name}.user={workload.user}")).stack == loaded.stack


@pytest.mark.parametrize(
    "value", [None, 4, 0.5, "8560 W", "1 x H100/3g.40gb", "2..8", {"over": "rack", "skew": 2}, ["a", "b"], []]
)
def test_an_edit_is_offered_as_it_is_typed(value: object) -> None:
    """`swarm why` prints a command with it, which has to say the same."""
    edit = Edit(path="workloads.chat.place.balance", value=value)
    assert parse(str(edit)) == (edit,)
    assert not {"'", "!"} & {*str(edit)}, "as in a stack file, not as in Python"
