"""Are the kernel's counts of a cgroup, a class and a directory read as what they are, and is what is not there left out?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from swarm_node.exporter import labels as holders
from swarm_node.exporter import of_allocations, of_directories, of_network, of_units
from swarm_node.exporter.families import Sample
from swarm_node.machine.run import Context

from tests.exporter.conftest import Measured

WHO = {"allocation": "train-0", "workload": "train", "user": "ada", "team": "vision"}
ADA = {"workload": "train", "user": "ada", "team": "vision"}


def of(found: list[Sample], name: str, **labels: str) -> list[float]:
    return [value for each, has, value in found if each == name and all(has.get(key) == one for key, one in labels.items())]


def seen(measured: Measured) -> tuple[Context, holders.Labels]:
    context = Context(None, check=True, root=str(measured.root))
    return context, holders.read(context)


def test_a_cgroup_is_read(l40s: Measured) -> None:
    l40s.label({"train-0": ADA})
    l40s.cgroup("train-0")
    found = of_allocations.collect(*seen(l40s))
    assert of(found, "swarm_allocation_cpu_seconds_total", mode="user", **WHO) == [3]
    assert of(found, "swarm_allocation_cpu_throttled_seconds_total") == [0.25]
    assert of(found, "swarm_allocation_memory_limit_bytes") == [2147483648]
    assert of(found, "swarm_allocation_oom_kills_total") == [1]
    assert of(found, "swarm_allocation_io_bytes_total", direction="read") == [4097]
    assert of(found, "swarm_allocation_io_operations_total", direction="write") == [2]
    assert of(found, "swarm_allocation_pressure_seconds_total", resource="cpu", waiting="some") == [1.5]
    assert all(has.items() >= WHO.items() for _, has, _ in found)


def test_what_a_kernel_does_not_count_is_absent(l40s: Measured) -> None:
    l40s.label({"train-0": ADA, "gone-0": ADA})
    folder = l40s.cgroup("train-0", memory_max="max\n")
    for file in ("cpu.pressure", "memory.pressure", "io.pressure", "io.stat"):
        (folder / file).unlink()
    found = of_allocations.collect(*seen(l40s))
    assert found and {has["allocation"] for _, has, _ in found} == {"train-0"}
    names = {name for name, _, _ in found}
    assert not names & {"swarm_allocation_pressure_seconds_total", "swarm_allocation_io_bytes_total"}
    assert "swarm_allocation_memory_limit_bytes" not in names, "no limit is no number"


@settings(deadline=None)
@example("0\t²")  # a digit for Python, and no number
@given(st.text(max_size=200))
def test_no_text_in_a_file_of_the_kernel_breaks_a_sample(text: str) -> None:
    of_allocations.pairs(text)
    of_allocations.pressure(text)
    of_network.passed(text)


def test_without_labels_nothing_is_measured_of_anybody(l40s: Measured) -> None:
    l40s.cgroup("train-0")
    assert of_allocations.collect(*seen(l40s)) == []


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"interface": 1}', '{"interface": "", "instances": {}, "allocations": {"a-0": 5}}']
)
def test_labels_that_are_torn_are_refused(l40s: Measured, text: str) -> None:
    l40s.label({})
    (l40s.root / "run/swarm-telemetry/labels.json").write_text(text)
    with pytest.raises(ValueError, match=r"labels\.json"):
        seen(l40s)


#: What iproute2 6.1 writes.
CLASSES = """\
class htb 1:fffe parent 1:1 prio 7 rate 8bit ceil 10Gbit burst 1b cburst 0b
 Sent 77 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
class htb 1:2a parent 1:1 prio 0 rate 1Gbit ceil 2Gbit burst 1375b cburst 1375b
 Sent 123456 bytes 99 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
"""


def test_bytes_of_a_class_are_those_of_its_allocation(l40s: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    l40s.label({"train-0": {**ADA, "class": 0x2A}, "free-0": ADA})
    path = l40s.root / "run/swarm-telemetry/labels.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "interface": "eth1"}))
    (l40s.root / "sys/class/net/eth1/statistics").mkdir(parents=True)
    asked: list[list[str]] = []
    monkeypatch.setattr(Context, "run", lambda self, argv, **_: asked.append(argv) or CLASSES)
    found = of_network.collect(*seen(l40s))
    assert found == [("swarm_allocation_network_bytes_total", {**WHO, "direction": "out"}, 123456)]
    assert len(asked) == 1, "nothing is asked of a device that is not there"


def test_a_directory_is_as_full_as_its_quota_says(l40s: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    l40s.label({"train-0": {**ADA, "quotas": {"scratch": 1 << 30, "cache": 1 << 20}}})
    answers = {"scratch": (1 << 18, 1 << 17), "cache": (1 << 30, 1 << 29)}

    def statvfs(path: str) -> SimpleNamespace:
        blocks, free = answers[Path(path).parent.name]
        return SimpleNamespace(f_frsize=4096, f_blocks=blocks, f_bfree=free)

    monkeypatch.setattr(os, "statvfs", statvfs)
    found = of_directories.collect(*seen(l40s))
    assert of(found, "swarm_allocation_directory_used_bytes", directory="scratch") == [1 << 29]
    assert not of(found, "swarm_allocation_directory_used_bytes", directory="cache"), "without its quota the whole disk answers"


def test_a_directory_that_its_user_mounted_over_is_not_asked(l40s: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    l40s.label({"train-0": {**ADA, "quotas": {"scratch": 1 << 30}}})
    (l40s.root / "proc/self").mkdir(parents=True)
    line = "99 1 0:50 / /srv/swarm/scratch/train-0 rw - fuse.trap trap rw\n"
    (l40s.root / "proc/self/mountinfo").write_text(line)
    monkeypatch.setattr(os, "statvfs", lambda path: pytest.fail("it may never answer"))
    assert of_directories.collect(*seen(l40s)) == []


def test_a_unit_is_as_systemd_has_it(l40s: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    l40s.label({"train-0": ADA, "gone-0": ADA})
    text = (
        "Id=swarm-train_0.service\nLoadState=loaded\nActiveState=failed\nNRestarts=3\n\n"
        "Id=swarm-gone_0.service\nLoadState=not-found\nActiveState=inactive\nNRestarts=0\n"
    )
    monkeypatch.setattr(Context, "run", lambda self, argv, **_: text)
    found = of_units.collect(*seen(l40s))
    assert of(found, "swarm_allocation_unit_state", state="failed") == [1]
    assert of(found, "swarm_allocation_unit_state", state="active") == [0]
    assert of(found, "swarm_allocation_restarts_total") == [3] and len(found) == 6
