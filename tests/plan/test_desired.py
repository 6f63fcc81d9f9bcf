"""Is the wanted state of a node what its stack file says, in the machine's own figures?"""

from __future__ import annotations

import pytest

from swarm_iac.model.hardware import Gpus, Hardware, Rack
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.settings import Tuning
from swarm_iac.model.stack import Node, Stack, Team
from swarm_iac.model.workload import DiskIo, Each, Network, Replicas, Run, Stop, Workload
from swarm_iac.plan import desired, rows
from swarm_iac.plan.state import cpulist
from swarm_iac.plan.state.format import size
from swarm_iac.units import BitsPerSecond, Bytes, BytesPerSecond, Cpus, Hertz, PowerRange, Seconds, Watts
from tests.sized import sizes


def stack() -> Stack:
    return Stack(
        fleet="f",
        teams={"t": Team(users=("ada",))},
        tuning={
            "fast": Tuning(
                gpu_power=PowerRange(600), gpu_persistence=True, tcp="bbr", hugepages=Bytes.parse("1 GB"), swappiness=5,
                governor="performance", sysctl={"net/core/somaxconn": 1024, "net.ipv4.tcp_rmem": "1  2 3"},
            )
        },
        hardware={
            "big": Hardware(
                gpus=Gpus(count=4), vcpus=Cpus(8000), memory=Bytes.parse("64 GB"), nic=BitsPerSecond.parse("1 Gbit/s"),
                interface="eth1", disk="/dev/vdb",
            ),
            "bare": Hardware(vcpus=Cpus(8000), memory=Bytes.parse("64 GB")),
        },
        nodes={
            "n1": Node(name="n1", hardware="big", tuning="fast", ssh="root@n1"),
            "n2": Node(name="n2", hardware="bare", ssh="root@n2"),
            "n3": Node(name="n3", hardware="big", ssh="root@n3", state="lost"),
            "n4": Node(name="n4", hardware="big", tuning="fast", ssh="root@n4", state="drain"),
        },
        workloads={
            "chat": Workload(
                user="ada", kind="serve", replicas=Replicas(least=2, most=2),
                each=Each(
                    gpus=Gpus(count=1), vcpus=Cpus(2000), pinned=True, memory=Bytes.parse("1 GB"),
                    scratch=Bytes.parse("5 GB"), gpu_clock=Hertz.parse("1410 MHz"),
                    io=DiskIo(read=BytesPerSecond.parse("10 MB/s")),
                ),
                network=Network(egress=BitsPerSecond.parse("20 Mbit/s")),
                run=Run(command="serve", env={"B": "2", "A": "1"}, healthy="/ready", port=8000),
                stop=Stop(signal="INT", grace=Seconds(90)),
            ),
            "tidy": Workload(user="ada", each=Each(vcpus=Cpus(500), scratch=Bytes.parse("1 GB"))),
        },
    )  # fmt: skip


def allocation(name: str, node: str, **values: object) -> Allocation:
    workload = stack().workloads[name.rpartition("-")[0]]
    return Allocation.model_validate(
        {
            "name": name, "workload": name.rpartition("-")[0], "index": int(name[-1]), "node": node,
            **sizes(workload), **values,
        }
    )  # fmt: skip


PLACEMENT = Placement(
    allocations=(
        allocation("chat-0", "n1", gpus=(2,), cpus=(0, 1), numa=(0,)),
        allocation("chat-1", "n4", gpus=(0,), cpus=(0, 1)),
        allocation("tidy-0", "n1"),
        allocation("tidy-1", "n2"),
    )
)


def test_every_node_that_is_not_lost_is_wanted() -> None:
    found = desired(stack(), PLACEMENT)
    assert sorted(found) == ["n1", "n2", "n4"]
    assert found["n1"].handover == {"chat-0": "healthy-first", "tidy-0": "stop-first"}
    assert found["n4"].state.allocations == {}, "drained"
    assert found["n4"].state.settings == found["n1"].state.settings


def test_settings_are_as_the_kernel_reads_them_back() -> None:
    state = desired(stack(), PLACEMENT)["n1"].state
    assert state.settings.sysctl == {
        "net.core.somaxconn": "1024",
        "net.ipv4.tcp_congestion_control": "bbr",
        "net.ipv4.tcp_rmem": "1 2 3",
        "vm.swappiness": "5",
    }
    assert state.settings.hugepages_2m == 476
    assert (state.gpus[2].power_w, state.gpus[2].clock_mhz) == (600, 1410)
    assert (state.gpus[1].power_w, state.gpus[1].clock_mhz) == (600, None)


def test_who_pins_has_its_cores_alone_and_no_quota() -> None:
    found = desired(stack(), PLACEMENT)["n1"].state.allocations
    chat, tidy = found["chat-0"].slice, found["tidy-0"].slice
    assert (chat.cpus, chat.mems, chat.cpu_quota_m, chat.cpu_weight) == ("0-1", "0", None, 2500)
    assert (tidy.cpus, tidy.mems, tidy.cpu_quota_m, tidy.cpu_weight) == ("2-7", "", 500, 625)
    assert chat.memory_max == 999997440
    assert chat.memory_high is not None and chat.memory_high % 4096 == 0 and chat.memory_high < chat.memory_max


@pytest.mark.parametrize(("vcpus", "held", "quota"), [
    ("2..6", 2000, 6000),
    ("0.5..64", 500, 8000),  # no more than the machine has
    (2, 2000, 2000),
    (4, 2000, 2000),  # it waits to grow: nobody has more than the stack file says
    ("4..6", 2000, 6000),  # it waits as well, and its ceiling waits for nothing
])  # fmt: skip
def test_of_a_range_the_lower_end_is_the_weight_and_the_upper_one_the_quota(vcpus: object, held: int, quota: int) -> None:
    """Weights share what is contended in proportion to what is guaranteed; the quota caps what is lent."""
    chat = {"each": {"gpus": 1, "vcpus": vcpus, "memory": "1 GB"}}
    placement = Placement(allocations=(allocation("chat-0", "n1", gpus=(2,), cpus=(), vcpus=Cpus(held)),))
    found = desired(changed(**chat), placement)["n1"].state.allocations["chat-0"].slice
    assert (found.cpu_weight, found.cpu_quota_m) == (held * 10_000 // 8000, quota)


def test_what_a_machine_cannot_hold_is_not_wanted_of_it() -> None:
    found = desired(stack(), PLACEMENT)
    bare = found["n2"].state.allocations["tidy-1"]
    assert bare.scratch is None and bare.bandwidth.out_bps is None
    assert found["n1"].state.allocations["chat-0"].slice.io_read_bps == 10_000_000


def test_jobs_are_not_started_again_and_services_are() -> None:
    found = desired(stack(), PLACEMENT)["n1"].state.allocations
    assert found["chat-0"].unit.restart and found["chat-0"].unit.grace_s == 90
    assert found["tidy-0"].unit.restart, "a holder keeps its cgroup"
    assert found["tidy-0"].unit.command == ""


def changed(**values: object) -> Stack:
    """The stack with another chat."""
    before = stack()
    chat = Workload.model_validate({**before.workloads["chat"].model_dump(), **values})
    return before.model_copy(update={"workloads": {**before.workloads, "chat": chat}})


@pytest.mark.parametrize(
    ("on_update", "handover"), [("surge", "healthy-first"), ("roll", "one-by-one"), ("recreate", "stop-first")]
)
def test_a_service_changes_as_its_stack_file_says(on_update: str, handover: str) -> None:
    assert desired(changed(on_update=on_update), PLACEMENT)["n1"].handover["chat-0"] == handover


def test_restart_says_otherwise_for_failures() -> None:
    assert not desired(changed(restart="never"), PLACEMENT)["n1"].state.allocations["chat-0"].unit.restart
    assert desired(changed(kind="batch", restart="on-failure"), PLACEMENT)["n1"].state.allocations["chat-0"].unit.restart
    assert not desired(changed(kind="batch"), PLACEMENT)["n1"].state.allocations["chat-0"].unit.restart


def test_a_renamed_workload_runs_on_as_it_was() -> None:
    before, new = stack(), stack()
    chat = new.workloads.pop("chat").model_copy(update={"renamed_from": "chat"})
    renamed = new.model_copy(update={"workloads": {**new.workloads, "talk": chat}})
    placed = tuple(
        one.model_copy(update={"workload": "talk", "name": f"talk-{one.index}"}) if one.workload == "chat" else one
        for one in PLACEMENT.allocations
    )
    assert desired(renamed, Placement(allocations=placed)) == desired(before, PLACEMENT)


def test_a_rack_with_a_budget_is_known_to_its_nodes() -> None:
    racks = {"r1": Rack(power=Watts(9000)), "r2": Rack()}
    homes = {"n1": "r1", "n2": "r2", "n3": "r1", "n4": None}
    nodes = {name: node.model_copy(update={"rack": homes[name]}) for name, node in stack().nodes.items()}
    found = desired(stack().model_copy(update={"racks": racks, "nodes": nodes}), PLACEMENT)
    assert {name: (one.rack, one.rack_power_w) for name, one in found.items()} == {
        "n1": ("r1", 9000), "n2": ("", 0), "n4": ("", 0),
    }  # fmt: skip


def test_rows_read_like_the_stack_file() -> None:
    found = rows(desired(stack(), PLACEMENT))
    assert found["Node", "n1"]["gpus"]["2"] == {"power": "600 W", "clock": "1410 MHz", "persistence": True}
    assert found["Node", "n1"]["bandwidth"] == "1 Gbit/s"
    chat = found["Allocation", "chat-0"]
    assert chat["memoryMax"] == "1 GB" and chat["memoryHigh"] == "95 %"
    assert chat["scratch"] == "5 GB" and chat["bandwidthOut"] == "20 Mbit/s"
    assert chat["stop"] == "INT, 90 s" and chat["health"] == "ok" and chat["node"] == "n1"
    assert "cpuQuota" not in chat and found["Allocation", "tidy-0"]["cpuQuota"] == "0.5"


def test_sizes_are_one_to_one_for_whole_pages() -> None:
    sizes = [pages * 4096 for pages in (*range(2000), 244140, 244141, 10**6, 10**6 + 1)]
    assert len({size(each) for each in sizes}) == len(sizes)


def test_lists_of_cpus_are_the_kernels() -> None:
    assert cpulist.write({0, 1, 2, 8, 10, 11}) == "0-2,8,10-11"
    assert cpulist.read("0-2,8,10-11") == {0, 1, 2, 8, 10, 11}
    assert cpulist.write(()) == "" and cpulist.read("") == frozenset()
