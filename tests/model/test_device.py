"""Is a device one value, written the same everywhere?"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from swarm_iac.model import device
from swarm_iac.model.device import Device, gpu, whole_gpus
from swarm_iac.model.placement import Allocation

DEVICES = TypeAdapter(tuple[Device, ...])


@pytest.mark.parametrize(
    ("one", "plain", "text"),
    [
        (gpu(3), 3, "3"),
        (gpu(3, 250), "3:0.25", "0.25 of GPU 3"),
        (gpu(0, 1), "0:0.001", "0.001 of GPU 0"),
        (gpu(12, 500), "12:0.5", "0.5 of GPU 12"),
    ],
)
def test_it_is_written_and_read_back_as_it_was(one: Device, plain: int | str, text: str) -> None:
    assert one.plain == plain and Device.parse(plain) == one and Device.parse(one) is one
    assert DEVICES.validate_json(DEVICES.dump_json((one,))) == (one,)
    assert device.format_devices([one]) == text


@pytest.mark.parametrize(
    "wrong",
    [True, -1, 4096, 1.0, "3", "3:1", "3:0", "3:0.0", "3:0.000", "3:1.5", "3:0.2500", "4096:0.5", "x:0.5", "3:.5", None, [3]],
)
def test_what_is_no_device_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError, match="is no GPU of a machine"):
        DEVICES.validate_python((wrong,))


def test_people_read_neighbours_as_one_and_parts_by_name() -> None:
    ones = (gpu(6), gpu(2, 125), *whole_gpus((0, 1)), gpu(3))
    assert device.format_devices(ones) == "0-1,3,6, 0.125 of GPU 2"
    assert device.format_devices(()) == ""


def test_an_allocation_knows_its_cards_and_how_much_it_has_of_them() -> None:
    held: dict[str, Any] = {"workload": "a", "index": 0, "node": "n", "vcpus": 1, "memory": "1 GB"}
    whole = Allocation(name="a-0", gpus=(1, 2), **held)
    part = Allocation(name="a-0", gpus=("2:0.3",), **held)
    assert (whole.cards, whole.gpu_milli, part.cards, part.gpu_milli) == ((1, 2), 2000, (2,), 300)
    assert whole.gpus == whole_gpus((1, 2)) and whole.model_dump(mode="json")["gpus"] == [1, 2]
    assert sorted([gpu(2), gpu(1), gpu(2, 300)]) == [gpu(1), gpu(2, 300), gpu(2)] and len({gpu(1), gpu(1)}) == 1
