"""Is what cards tell shown, and nothing that they do not? Through the real binding, on the stand-in for NVML."""

from __future__ import annotations

import json
from typing import Any

from tests.exporter.conftest import Measured

TWICE = "gpus.collect(labels); found = gpus.collect(labels)"


def of(found: Any, name: str, **labels: str) -> list[float]:
    return [value for each, has, value in found if each == name and all(has.get(key) == one for key, one in labels.items())]


def test_a_card_with_gpm_tells_activity_and_bandwidth(h100: Measured) -> None:
    (h100.run / "processes").write_text("2 4711 1024\n")
    found = h100.ask(TWICE)
    assert of(found, "swarm_gpu_sm_active_ratio", gpu="2") == [0.83] and of(found, "swarm_gpu_sm_active_ratio", gpu="0") == [0]
    assert of(found, "swarm_gpu_memory_bandwidth_ratio", gpu="2") == [0.35]
    assert not of(found, "swarm_gpu_memory_busy_ratio"), "GPM is better"
    assert of(found, "swarm_gpu_busy_ratio", gpu="2") == [0.97]
    assert of(found, "swarm_gpu_memory_used_bytes", gpu="2") == [1024 << 20], "without what the driver keeps for itself"
    assert of(found, "swarm_gpu_power_watts", gpu="2") == [700] and of(found, "swarm_gpu_clock_hertz", gpu="2", clock="sm")


def test_an_old_driver_counts_its_own_memory_as_used(h100: Measured) -> None:
    (h100.run / "processes").write_text("2 4711 1024\n")
    (h100.run / "faults").write_text("error nvmlDeviceGetMemoryInfo_v2 * 13\n")
    found = h100.ask(TWICE)
    assert of(found, "swarm_gpu_memory_used_bytes", gpu="2") == [(1024 + 480) << 20]
    assert of(found, "swarm_gpu_memory_size_bytes", gpu="2") == [81559 << 20]


def test_the_first_sample_has_no_activity_yet(h100: Measured) -> None:
    found = h100.ask("found = gpus.collect(labels)")
    assert not of(found, "swarm_gpu_sm_active_ratio"), "between no two samples anything was active"
    assert len(of(found, "swarm_gpu_busy_ratio")) == 8


def test_a_card_without_gpm_tells_what_it_has(l40s: Measured) -> None:
    found = l40s.ask(TWICE)
    assert not of(found, "swarm_gpu_sm_active_ratio")
    assert len(of(found, "swarm_gpu_busy_ratio")) == len(of(found, "swarm_gpu_memory_busy_ratio")) == 4


def test_what_a_card_does_not_tell_is_absent(h100: Measured) -> None:
    (h100.run / "faults").write_text("error nvmlDeviceGetPowerUsage 3 999\nerror nvmlDeviceGetTemperature * 3\n")
    found = h100.ask(TWICE)
    assert len(of(found, "swarm_gpu_power_watts")) == 7 and not of(found, "swarm_gpu_power_watts", gpu="3")
    assert not of(found, "swarm_gpu_temperature_celsius")
    assert len(of(found, "swarm_gpu_energy_joules_total")) == 8, "one that fails takes no other along"


def test_a_lost_card_is_down_and_the_others_are_measured(h100: Measured) -> None:
    code = "gpus.collect(labels); (run / 'faults').write_text('lost 5\\n'); found = gpus.collect(labels)"
    found = h100.ask(code)
    assert of(found, "swarm_gpu_up") == [1, 1, 1, 1, 1, 0, 1, 1]
    assert not [
        has for name, has, _ in found if has.get("gpu") == "5" and not name.startswith(("swarm_gpu_up", "swarm_gpu_xid"))
    ]
    again = h100.ask("found = gpus.collect(labels)")
    assert sorted(of(again, "swarm_gpu_up")) == [0, *[1] * 7], "also where it was lost before"


def test_xid_errors_are_counted_as_they_come(h100: Measured) -> None:
    code = (
        "(run / 'xid').write_text('1 13\\n'); first = gpus.collect(labels)\n"
        "(run / 'xid').open('a').write('6 48\\n6 79\\n'); second = gpus.collect(labels); found = [first, second]"
    )
    both = h100.ask(code)
    assert isinstance(both, list)
    first, second = both
    assert set(of(first, "swarm_gpu_xid_errors_total")) == {0}, "errors of before the sampler are not its own"
    assert of(second, "swarm_gpu_xid_errors_total", gpu="6") == [2] and of(second, "swarm_gpu_last_xid") == [79]
    assert sum(of(second, "swarm_gpu_xid_errors_total")) == 2


def test_a_machine_without_a_driver_has_no_cards(h100: Measured) -> None:
    (h100.etc / "gpus").unlink()
    assert h100.ask(TWICE) == []


def test_a_driver_that_was_loaded_later_is_found(h100: Measured) -> None:
    code = (
        f"p = Path({str(h100.etc)!r}) / 'gpus'; text = p.read_text(); p.unlink(); gpus.collect(labels); p.write_text(text)\n"
        "found = gpus.collect(labels)"
    )
    assert len(of(h100.ask(code), "swarm_gpu_up")) == 8


def test_who_holds_a_card_joins_its_values(h100: Measured) -> None:
    ada = {"workload": "train", "user": "ada", "team": "vision"}
    h100.label({"train-0": {**ada, "gpus": [0, 1]}, "chat-0": {"workload": "chat", "user": "bo", "gpus": ["2:0.25"]}})
    found = h100.ask(TWICE)
    assert of(found, "swarm_gpu_allocated_ratio", gpu="0", allocation="train-0", team="vision", user="ada") == [1]
    assert of(found, "swarm_gpu_allocated_ratio", gpu="2", allocation="chat-0") == [0.25]
    assert len(of(found, "swarm_gpu_allocated_ratio")) == 3
    assert all("team" not in has for name, has, _ in found if has.get("allocation") == "chat-0"), "nobody's team is made up"


def test_an_instance_has_values_of_its_own(h100: Measured) -> None:
    uuid = h100.ask(
        "import ctypes, pynvml as n; n.nvmlInit(); c = n.nvmlDeviceGetHandleByIndex(0); n.nvmlDeviceSetMigMode(c, 1)\n"
        "g = n.nvmlDeviceCreateGpuInstanceWithPlacement(c, 19, ctypes.byref(n.c_nvmlGpuInstancePlacement_t(2, 1)))\n"
        "n.nvmlGpuInstanceCreateComputeInstance(g, 0)\n"
        "found = n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(c, 0))"
    )
    plain = "0:1g.10gb@2/8"
    h100.label({"small-0": {"workload": "small", "user": "ada", "gpus": [plain]}}, {str(uuid): plain})
    found = h100.ask(TWICE)
    assert of(found, "swarm_gpu_memory_size_bytes", gpu="0", mig="1g.10gb@2/8") == [9984 << 20]
    assert of(found, "swarm_gpu_sm_active_ratio", gpu="0", mig="1g.10gb@2/8") == [0]
    assert of(found, "swarm_gpu_allocated_ratio", gpu="0", mig="1g.10gb@2/8", allocation="small-0") == [0.125]
    assert not of(found, "swarm_gpu_busy_ratio", gpu="0"), "NVML tells no utilisation of a card that is cut"
    h100.label({})
    assert of(h100.ask(TWICE), "swarm_gpu_memory_size_bytes", gpu="0", mig=str(uuid)), "one that is nobody's bears NVML's name"


def test_samples_are_as_families_say(h100: Measured) -> None:
    h100.label({"a-0": {"workload": "a", "user": "ada", "gpus": [0]}})
    h100.cgroup("a-0")
    code = "gpus.collect(labels); found = gpus.collect(labels) + of_allocations.collect(context, labels)"
    found = json.loads(json.dumps(h100.ask(code)))
    from swarm_node.exporter import families

    written = families.render(families.checked(found))
    assert written.count("\n") == len(found) + 2 * len({name for name, _, _ in found}), "none is left out as no sample of ours"
