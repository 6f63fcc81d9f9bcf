"""Are a slice's limits written as systemd takes them, and read back as they were meant?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import devices, loans, slices
from swarm_node.machine import hugetlb, systemd
from swarm_node.machine.run import Context, NodeError
from swarm_node.records import ledger

WANT: dict[str, Any] = {
    "cpus": "0-3,8", "mems": "0", "cpu_weight": 250, "cpu_quota_m": 1505, "memory_low": 150_000_000, "memory_high": 190_000_000,
    "memory_max": 200_000_000, "swap_max": 0, "tasks_max": 200, "io_read_bps": 4_000_001, "io_write_bps": None,
    "io_read_iops": 900, "io_write_iops": None, "io_weight": 250,
    "hugetlb_2m": 4 << 20, "hugetlb_1g": 0,
}  # fmt: skip
#: As read on a node (Debian 12, systemd 252) after WANT was applied.
FILES = {
    "cpuset.cpus": "0-3,8", "cpuset.mems": "0", "cpu.weight": "250", "cpu.max": "150500 100000",
    "memory.low": "149999616", "memory.high": "189997056", "memory.max": "199999488", "memory.swap.max": "0", "pids.max": "200",
    "io.max": "254:16 rbps=4000001 wbps=max riops=900 wiops=max", "io.weight": "default 250",
    "hugetlb.2MB.max": "4194304", "hugetlb.2MB.rsvd.max": "4194304", "hugetlb.1GB.max": "0", "hugetlb.1GB.rsvd.max": "0",
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "sys/fs/cgroup/swarm.slice/swarm-pre_train_0.slice"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text + "\n")
    (folder.parent / "memory.low").write_text("149999616\n")
    monkeypatch.setattr(slices, "device_number", lambda disk: "254:16")
    book = ledger.load(str(tmp_path))
    book.data["state"] = {"disk": "/dev/vdb"}
    return Context(book, check=True, root=str(tmp_path))


def test_rounding_of_the_kernel_is_no_drift(here: Any) -> None:
    assert slices.read(here, "pre-train-0", WANT) == WANT


@pytest.mark.parametrize(
    ("file", "text", "key", "value"),
    [("memory.max", "104857600", "memory_max", 104857600), ("memory.high", "max", "memory_high", None),
     ("memory.low", "0", "memory_low", None), ("memory.low", "4096", "memory_low", 4096), ("../memory.low", "149995520", "memory_low", None),
     ("../memory.low", "max", "memory_low", 150_000_000),
     ("cpu.max", "max 100000", "cpu_quota_m", None), ("cpuset.cpus", "0-3", "cpus", "0-3"), ("pids.max", "max", "tasks_max", None),
     ("io.max", "254:16 rbps=max wbps=5", "io_read_bps", None), ("io.max", "254:0 rbps=1", "io_read_bps", None),
     ("io.max", "254:16 riops=max wiops=7", "io_read_iops", None), ("io.max", "254:16 riops=max wiops=7", "io_write_iops", 7),
     ("io.weight", "default 100", "io_weight", 100), ("io.weight", "default 100\n254:16 900", "io_weight", 100),
     ("hugetlb.2MB.max", "max", "hugetlb_2m", None), ("hugetlb.2MB.rsvd.max", "max", "hugetlb_2m", None),
     ("hugetlb.1GB.rsvd.max", "1073741824", "hugetlb_1g", 1 << 30),
     ("cpuset.mems", "", "mems", "")],
)  # fmt: skip
def test_a_limit_changed_by_hand_is_seen(here: Any, file: str, text: str, key: str, value: Any) -> None:
    Path(here.path(slices.cgroup("pre-train-0")), file).write_text(text + "\n")
    assert slices.read(here, "pre-train-0", WANT)[key] == value


def test_absent_slice_reads_as_none(here: Any) -> None:
    assert slices.read(here, "other-0", WANT) is None


def test_slice_file(here: Any) -> None:
    text = slices.render(here, "pre-train-0", {"slice": WANT, "gpus": [2, 1]})
    assert text.split("[Slice]\n")[1].splitlines() == [
        "AllowedCPUs=0-3,8", "AllowedMemoryNodes=0", "CPUWeight=250", "CPUQuota=150.5%", "MemoryLow=150000000", "MemoryHigh=190000000",
        "MemoryMax=200000000", "MemorySwapMax=0", "TasksMax=200", "IOWeight=250", "IOReadBandwidthMax=/dev/vdb 4000001",
        "IOReadIOPSMax=/dev/vdb 900", "DevicePolicy=closed",
        "DeviceAllow=/dev/nvidia1 rw", "DeviceAllow=/dev/nvidia2 rw", "DeviceAllow=/dev/nvidiactl rw",
        "DeviceAllow=/dev/nvidia-uvm rw", "DeviceAllow=/dev/nvidia-uvm-tools rw", "DeviceAllow=/dev/nvidia-modeset rw",
    ]  # fmt: skip


def test_an_allocation_without_gpus_may_open_none(here: Any) -> None:
    assert "nvidia" not in slices.render(here, "cpu-0", {"slice": {}, "gpus": []})


def test_disk_limits_need_a_disk(here: Any) -> None:
    with pytest.raises(NodeError, match="no disk is managed"):
        slices.properties({"io_write_bps": 5}, "")


def test_a_cpu_list_never_carries_a_line() -> None:
    with pytest.raises(NodeError):
        slices.properties({"cpus": "0\nMemoryMax=infinity"}, "")


@pytest.fixture
def counting(here: Any) -> Any:
    """A kernel with the controller, which nobody uses yet."""
    here.check, root = False, Path(here.path("/sys/fs/cgroup"))
    for folder in (root, root / "swarm.slice"):
        (folder / "cgroup.controllers").write_text("cpu hugetlb io\n")
        (folder / "cgroup.subtree_control").write_text("cpu io\n")
    return here


def test_huge_pages_are_limited_as_used_and_as_mapped_and_the_kernel_is_left_as_it_was(counting: Any) -> None:
    folder, root = Path(counting.path(slices.cgroup("pre-train-0"))), Path(counting.path("/sys/fs/cgroup"))
    hugetlb.limit(counting, slices.CGROUPS, slices.cgroup("pre-train-0"), {"hugetlb.2MB": 2 << 20, "hugetlb.1GB": None})
    assert [(folder / f"hugetlb.2MB{end}").read_text() for end in hugetlb.ENDS] == ["2097152", "2097152"]
    assert [(folder / f"hugetlb.1GB{end}").read_text() for end in hugetlb.ENDS] == ["max", "max"]
    assert (
        (root / "cgroup.subtree_control").read_text() == (root / "swarm.slice/cgroup.subtree_control").read_text() == "+hugetlb"
    )
    hugetlb.restore(counting, slices.CGROUPS)
    assert (root / "cgroup.subtree_control").read_text() == "-hugetlb" and not counting.ledger.has_original(hugetlb.ORIGINAL)


def test_a_kernel_without_the_controller_is_told_and_one_that_has_it_is_left_alone(counting: Any) -> None:
    root = Path(counting.path("/sys/fs/cgroup"))
    (root / "cgroup.subtree_control").write_text("cpu hugetlb\n")
    (root / "swarm.slice/cgroup.subtree_control").write_text("hugetlb\n")
    hugetlb.limit(counting, slices.CGROUPS, slices.cgroup("pre-train-0"), {"hugetlb.2MB": 0})
    hugetlb.restore(counting, slices.CGROUPS)
    assert (root / "cgroup.subtree_control").read_text() == "cpu hugetlb\n"
    for folder in (root, root / "swarm.slice"):
        (folder / "cgroup.controllers").write_text("cpu\n")
        (folder / "cgroup.subtree_control").write_text("cpu\n")
    with pytest.raises(NodeError, match="has no controller hugetlb"):
        hugetlb.limit(counting, slices.CGROUPS, slices.cgroup("pre-train-0"), {"hugetlb.2MB": 0})
    hugetlb.limit(counting, slices.CGROUPS, slices.cgroup("other-0"), {"hugetlb.2MB": None})


def test_huge_pages_that_are_in_use_are_not_taken_by_killing(counting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(path: str, text: str) -> None:
        raise NodeError(f"{path}: Device or resource busy")

    (Path(counting.path("/sys/fs/cgroup")) / "cgroup.subtree_control").write_text("hugetlb\n")
    (Path(counting.path("/sys/fs/cgroup")) / "swarm.slice/cgroup.subtree_control").write_text("hugetlb\n")
    monkeypatch.setattr(counting, "poke", busy)
    with pytest.raises(
        NodeError, match=r"more huge pages are in use than the new limit of 0 bytes allows, and nothing was killed"
    ):
        hugetlb.limit(counting, slices.CGROUPS, slices.cgroup("pre-train-0"), {"hugetlb.2MB": 0})


def test_room_is_never_made_by_killing(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(here.path(slices.cgroup("pre-train-0")))
    (folder / "memory.current").write_text("150000000\n")
    here.check = False
    monkeypatch.setattr(loans, "SHRINK_WAIT_S", 0)
    monkeypatch.setattr(devices, "read", lambda *_: [])
    monkeypatch.setattr(here, "act", lambda *_, **__: pytest.fail("systemd was told"))
    with pytest.raises(NodeError, match="nothing was killed"):
        slices.apply(here, "pre-train-0", {"slice": dict(WANT, memory_max=80_000_000), "gpus": []})
    assert (folder / "memory.high").read_text().strip() == "189997056"
    assert not Path(here.path(systemd.UNITS)).exists()


def test_a_recall_that_fails_slows_nobody_down_for_good(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed while it waited left the lower memory.high; the next that fails does not keep that."""
    folder = Path(here.path(slices.cgroup("pre-train-0")))
    (folder / "memory.current").write_text("150000000\n")
    (folder / "memory.high").write_text("76000000\n")
    here.check = False
    here.ledger.data["state"]["allocations"] = {"pre-train-0": {"slice": WANT}}
    monkeypatch.setattr(loans, "SHRINK_WAIT_S", 0)
    with pytest.raises(NodeError, match="nothing was killed"):
        loans.make_room(here, "pre-train-0", 80_000_000, 76_000_000)
    assert ((folder / "memory.high").read_text(), (folder / "memory.max").read_text()) == ("190000000", "199999488\n")


def test_a_smaller_limit_holds_from_the_moment_that_the_memory_is_there(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it could grow again until systemd has read its file, and be killed then."""
    folder = Path(here.path(slices.cgroup("pre-train-0")))
    (folder / "memory.current").write_text("70000000\n")
    here.check = False
    loans.make_room(here, "pre-train-0", 80_000_000, 76_000_000)
    assert ((folder / "memory.high").read_text(), (folder / "memory.max").read_text()) == ("76000000", "80000000")
    loans.make_room(here, "pre-train-0", 90_000_000, 86_000_000)
    assert (folder / "memory.max").read_text() == "80000000", "to grow is left to systemd"


def test_a_step_that_names_memory_alone_keeps_all_else_as_it_is_recorded(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever somebody opened by hand: else that would be recorded as its own."""
    made: list[Any] = []
    here.ledger.data["state"]["allocations"] = {"pre-train-0": {"workload": "pre-train", "gpus": [1], "slice": WANT}}
    monkeypatch.setattr(slices, "apply", lambda context, name, part: made.append(part) or [])
    monkeypatch.setattr(devices, "apply", lambda *_: [])
    less = {"memory_low": 100, "memory_high": 95, "memory_max": 100}
    slices.STEPS["slice"](here, "pre-train-0", {"allocations": {"pre-train-0": {"workload": "pre-train", "slice": less}}})
    assert made == [{"slice": {**WANT, **less}, "gpus": [1]}]
    with pytest.raises(NodeError, match="other-0 has no slice here"):
        slices.STEPS["slice"](here, "other-0", {"allocations": {"other-0": {"workload": "other", "slice": less}}})


def test_the_slice_above_protects_the_sum_and_no_more(here: Any) -> None:
    """Its file goes with the last that is protected."""
    here.check = False
    here.ledger.data["state"]["allocations"] = {name: {"slice": {"memory_low": low}} for name, low in LOWS.items()}
    here.ledger.data["state"]["allocations"] |= {"torn-0": "garbage", "torn-1": {"slice": "garbage"}}
    roof = Path(here.path(systemd.UNITS)) / "swarm.slice"
    assert slices._protect(here, {}) and "[Slice]\nMemoryLow=20480\n" in roof.read_text()
    assert not slices._protect(here, {"new-0": {"memory_low": None}}), "as it is already"
    assert slices._protect(here, {"new-0": {"memory_low": 4096}, "b-0": None}) and "MemoryLow=16384\n" in roof.read_text()
    assert slices._protect(here, {"a-0": None, "b-0": {}}) and not roof.exists()


#: Memory that is recorded as protected; pages are what the kernel counts in.
LOWS = {"a-0": 12_288, "b-0": 8_192, "c-0": None, "bent-0": "1G", "less-0": -(1 << 40), "switch-0": True}


def test_users_sessions_have_every_device_but_gpus() -> None:
    text = devices.user_policy("Character devices:\n  1 mem\n 10 misc\n195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n"
                               "  4 /dev/vc/0\n\nBlock devices:\n254 virtblk\n")  # fmt: skip
    assert "nvidia" not in text
    assert [line for line in text.splitlines() if line.startswith("Dev")] == [
        "DevicePolicy=closed", "DeviceAllow=char-mem rwm", "DeviceAllow=char-misc rwm", "DeviceAllow=block-virtblk rwm",
    ]  # fmt: skip


def test_systemctl_show_of_several_units() -> None:
    text = "Id=a.slice\nDeviceAllow=/dev/nvidia1 rw\nDeviceAllow=/dev/nvidia2 rw\n\nId=b.service\nResult=success\n"
    assert systemd.parse(text) == {
        "a.slice": {"Id": "a.slice", "DeviceAllow": "/dev/nvidia1 rw\n/dev/nvidia2 rw"},
        "b.service": {"Id": "b.service", "Result": "success"},
    }


@pytest.mark.parametrize(
    ("shown", "reloads"),
    [
        ({"LoadState": "not-found", "FragmentPath": "", "NeedDaemonReload": "no"}, False),
        ({"LoadState": "loaded", "FragmentPath": "/etc/systemd/system/a.slice", "NeedDaemonReload": "no"}, False),
        ({"LoadState": "loaded", "FragmentPath": "/etc/systemd/system/a.slice", "NeedDaemonReload": "yes"}, True),
        ({"LoadState": "loaded", "FragmentPath": "", "NeedDaemonReload": "no"}, True),
    ],
)
def test_systemd_never_keeps_what_is_not_our_file(
    shown: dict[str, str], reloads: bool, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    here.check = False
    monkeypatch.setattr(systemd, "show", lambda context, unit: shown)
    monkeypatch.setattr(here, "act", lambda argv, **_: done.append(argv))
    systemd.settle(here, "a.slice")
    assert bool(done) == reloads


@pytest.mark.parametrize(
    ("shown", "force", "reloads"),
    [
        ("Id=a.slice\nActiveState=inactive\nFragmentPath=\n\nId=a.service\nActiveState=inactive\nFragmentPath=\n", False, False),
        ("Id=a.slice\nActiveState=inactive\nFragmentPath=\n\nId=a.service\nActiveState=inactive\nFragmentPath=\n", True, True),
        ("Id=a.slice\nActiveState=active\nFragmentPath=\n\nId=a.service\nActiveState=inactive\nFragmentPath=\n", False, True),
        ("Id=a.slice\nActiveState=inactive\nFragmentPath=\n\nId=a.service\nActiveState=failed\nFragmentPath=/etc/x\n", False, True),
        ("Id=a.slice\nActiveState=inactive\nFragmentPath=\n", False, True),
        ("", False, True),
    ],
)  # fmt: skip
def test_systemd_reads_again_unless_it_has_forgotten_what_is_gone(
    shown: str, force: bool, reloads: bool, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    here.check = False
    monkeypatch.setattr(here, "run", lambda argv, **_: shown)
    monkeypatch.setattr(here, "act", lambda argv, **_: done.append(argv))
    systemd.forget(here, "a.slice", "a.service", force=force)
    assert bool(done) == reloads
    here.check = True
    systemd.forget(here, "a.slice", force=True)
    assert len(done) == reloads, "a check changes nothing"


def test_a_drop_in_made_by_hand_goes(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, everyones = "/etc/systemd/system.control/a.slice.d/50-MemoryMax.conf", "/etc/systemd/system/slice.d/x.conf"
    for path in (ours, everyones):
        Path(here.path(path)).parent.mkdir(parents=True)
        Path(here.path(path)).write_text("[Slice]\n")
    here.check = False
    here.ledger.data["lineage"] = "L"
    monkeypatch.setattr(here.ledger, "confirm", lambda: None)
    monkeypatch.setattr(systemd, "show", lambda context, unit: {"DropInPaths": f"{ours} {everyones}"})
    monkeypatch.setattr(here, "act", lambda argv, **_: None)
    systemd.settle(here, "a.slice")
    assert not Path(here.path(ours)).exists()
    assert Path(here.path(everyones)).exists()
