"""Does a node say which of its GPUs NVLink joins, and which it cannot tell?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swarm_node.program import observe

from swarm_iac.model.gpus.links import Group
from swarm_iac.model.state import Declared, Facts, GpuFacts
from swarm_iac.plan.state.mismatch import differences

#: Two cards in the order of their addresses, and a switch.
FIRST, SECOND, SWITCH = "00000000:1B:00.0", "00000000:43:00.0", "00000000:05:00.0"
ROW = list[str | None] | None


def seen(machine: Path, nvml: Any, first: ROW, second: ROW) -> list[tuple[Any, Any]]:
    """What each card is joined with, and is behind the same switch with, where links lead there; None: a link that is down."""
    nvml.cards[1]["links"], nvml.cards[0]["links"] = first, second
    return [(card.get("nvlink"), card.get("pcie")) for card in observe.observe(str(machine))["facts"]["gpus"]]


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ([SECOND, SECOND], [FIRST], True),
        ([SWITCH], [SWITCH], True),
        ([None, SWITCH], [None, SWITCH], True),
        ([None], [None], False),
        (["00000000:06:00.0"], [SWITCH], False),
        (None, None, False),
        ([SECOND], None, False),
    ],
    ids=["bridge", "switch", "one link is down", "all are down", "two switches", "no links", "one side"],
)
def test_cards_are_joined_where_a_link_is_up(machine: Path, nvml: Any, first: ROW, second: ROW, joined: bool) -> None:
    assert seen(machine, nvml, first, second) == ([([1], []), ([0], [])] if joined else [([], []), ([], [])])


def test_cards_behind_one_switch_say_so(machine: Path, nvml: Any) -> None:
    for card in nvml.cards.values():
        card["behind"] = 1
    assert seen(machine, nvml, None, None) == [([], [1]), ([], [0])]


def test_links_are_told_where_the_driver_knows_no_switches(machine: Path, nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a card in a virtual machine, which has no way to any other in it, answers of itself."""

    def unsupported(one: object, other: object) -> int:
        raise nvml.NVMLError_NotSupported("Not Supported")

    monkeypatch.setattr(nvml, "nvmlDeviceGetTopologyCommonAncestor", unsupported, raising=False)
    assert seen(machine, nvml, [SECOND], [FIRST]) == [([1], []), ([0], [])]
    assert not observe.observe(str(machine))["troubles"]


def test_a_driver_that_does_not_tell_breaks_no_link(machine: Path, nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(card: dict[str, object], link: int) -> int:
        raise nvml.NVMLError("Unknown Error")

    monkeypatch.setattr(nvml, "_link", fails)
    answer = observe.observe(str(machine))
    assert "links between GPUs cannot be read (NVML: Unknown Error)" in answer["troubles"]
    assert all("nvlink" not in card for card in answer["facts"]["gpus"])
    unknown = Facts(cpus=1, gpus=tuple(GpuFacts.model_validate({**card, "mig": False}) for card in answer["facts"]["gpus"]))
    assert differences(unknown, Declared(gpus=2, cpus=1, nvlink=((0, 1),))) == ()


@pytest.mark.parametrize(
    ("peers", "words"),
    [
        (((1, 2), (0, 2), (0, 1)), ()),
        (((1, 2), (0,), (0,)), ("no NVLink found between GPUs 1 and 2",)),
        (((), (), ()), ("no NVLink found between GPUs 0 and 1 (nor 2 other declared pairs)",)),
        (((), (0, 2), (0, 1)), ("no NVLink found between GPUs 0 and 1 (nor 1 other declared pair)",)),
        (((1, 2), (0, 2), ()), ("no NVLink found between GPUs 0 and 2 (nor 1 other declared pair)",)),
    ],
)
def test_a_link_that_is_declared_and_down_is_named(peers: tuple[Group, ...], words: tuple[str, ...]) -> None:
    cards = tuple(GpuFacts(index=i, pci="", uuid="", model="H100", memory=1, nvlink=own) for i, own in enumerate(peers))
    assert differences(Facts(cpus=1, gpus=cards), Declared(gpus=3, gpu_model="H100", cpus=1, nvlink=((0, 1, 2),))) == words


def test_a_card_in_mig_mode_reaches_no_other_and_breaks_no_declared_link() -> None:
    """Else a node whose cards are linked would get no new work once one of them is cut."""
    peers = ((), (2,), (1,))
    cards = tuple(
        GpuFacts(index=i, pci="", uuid="", model="H100", memory=1, nvlink=own, mig=not i) for i, own in enumerate(peers)
    )
    assert differences(Facts(cpus=1, gpus=cards), Declared(gpus=3, gpu_model="H100", cpus=1, nvlink=((0, 1, 2),))) == ()
