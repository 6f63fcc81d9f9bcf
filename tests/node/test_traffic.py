"""Are classes and rules read as tc and nft tell them?"""

from __future__ import annotations

import pytest
from swarm_node.concerns import traffic
from swarm_node.machine import tc

CLASSES = """\
class htb 1:1 root rate 300Mbit ceil 300Mbit burst 375000b cburst 375000b 
class htb 1:fffe parent 1:1 leaf 8002: prio 0 rate 290Mbit ceil 300Mbit burst 354Kb cburst 375000b 
class htb 1:8978 parent 1:1 leaf 8005: prio 0 rate 12345Kbit ceil 12345Kbit burst 16000b cburst 16000b 
class fq_codel 8002:37a parent 8002: 
"""  # noqa: W291
RULES = """\
table inet swarm {
	chain out {
		type filter hook output priority mangle; policy accept;
		oifname "eth1" socket cgroupv2 level 2 "swarm.slice/swarm-pre_train_0.slice" meta priority set 1:c749 ct mark set 0x5357c749
		oifname "eth1" socket cgroupv2 level 2 "swarm.slice/swarm-in_0.slice" ct mark set 0x53570020
		oifname "eth1" socket cgroupv2 level 2 1307 meta priority set 1:8978 ct mark set 0x53578978
		oifname "eth1" socket cgroupv2 level 2 "swarm.slice/swarm-odd_0.slice" meta priority set 1:8 ct mark set 0x53578978
	}
}
"""
FILTERS = """\
filter protocol all pref 1 matchall chain 0 handle 0x1 
  not_in_hw
	action order 1: ctinfo zone 0 continue
	 index 1 ref 1 bind 1 cpmark 0xffffffff

filter protocol all pref 2 fw chain 0 handle 0x5357c749 

	action order 1: mirred (Egress Redirect to device swarm-in) stolen
	index 2 ref 1 bind 1
"""  # noqa: W291


def test_classes_of_tc() -> None:
    found = tc.parse(CLASSES)
    assert found == {1: (300_000_000,) * 2, 0xFFFE: (290_000_000, 300_000_000), 0x8978: (12_345_000,) * 2}
    assert tc.as_recorded(found[0x8978], 12_345_678) == (12_345_678, None)
    assert tc.as_recorded(None, 1, 2) == (None, None)


@pytest.mark.parametrize(
    ("found", "recorded", "read"),
    [
        ((20, 20), (20, None), (20, None)),
        ((20, 25), (20, None), (20, 25)),
        ((20, 100), (20, 100), (20, 100)),
        ((20, 50), (20, 100), (20, 50)),
        ((20, 20), (20, 100), (20, None)),
        ((9, 100), (20, 100), (9, 100)),
        ((9, 9), (20, None), (9, None)),
    ],
)
def test_a_class_reads_as_it_is_recorded_within_what_tc_writes(
    found: tuple[int, int], recorded: tuple[int, int | None], read: tuple[int, int | None]
) -> None:
    """Each in Mbit/s; tc cuts a rate of the kernel off, and the recorded one is exact."""
    mega, less = 10**6, 1999
    exact = [None if one is None else one * mega for one in recorded]
    assert tc.as_recorded((found[0] * mega - less, found[1] * mega - less), exact[0], exact[1]) == tuple(
        None if want is None else next((one for one in exact if one == want * mega), want * mega - less) for want in read
    )


class Machine:
    """A context whose tc has no class yet and is told what to make."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def run(self, argv: list[str], **_: object) -> str:
        return "[]" if "-j" in argv else ""

    def act(self, argv: list[str], **_: object) -> None:
        self.told.append(" ".join(argv))


def test_a_class_has_its_rate_borrows_up_to_its_ceiling_and_in_proportion() -> None:
    machine = Machine()
    tc.settle(machine, "eth1", 100_000_000, {0x10: (20_000_000, 20_000_000), 0x20: (10_000_000, 60_000_000)})
    classes = {line.split(" classid 1:")[1].split()[0]: line for line in machine.told if " class replace " in line}
    assert "parent 1: " in classes["1"] and "rate 100000000bit ceil 100000000bit" in classes["1"]
    assert "rate 20000000bit ceil 20000000bit" in classes["10"] and classes["10"].endswith("quantum 40000")
    assert "rate 10000000bit ceil 60000000bit" in classes["20"] and classes["20"].endswith("quantum 20000")
    assert "rate 70000000bit ceil 100000000bit" in classes["fffe"], "what belongs to nobody has the rest, and borrows as well"


@pytest.mark.parametrize(
    ("rates", "whole"),
    [
        ({"out_bps": 8, "out_ceil_bps": 16}, {"out_bps": 8, "out_ceil_bps": 16}),
        ({"out_bps": 8, "out_ceil_bps": 8}, {"out_bps": 8}),
        ({"out_ceil_bps": 16}, {}),
        ({"in_bps": 8, "out_ceil_bps": 16, "in_ceil_bps": 9}, {"in_bps": 8, "in_ceil_bps": 9}),
        (None, {}),
    ],
)
def test_there_is_no_ceiling_without_a_guarantee_below_it(rates: dict[str, int] | None, whole: dict[str, int]) -> None:
    nothing = dict.fromkeys(("out_bps", "out_ceil_bps", "in_bps", "in_ceil_bps"))
    assert traffic._whole(rates) == {**nothing, **whole}


def test_only_where_someone_borrows_all_that_arrives_is_bounded() -> None:
    plain, open_ = traffic._whole({"in_bps": 8}), traffic._whole({"in_bps": 8, "in_ceil_bps": 16})
    assert traffic._top_in(1000, {"a": plain}) == traffic._top_in(0, {"a": open_}) == tc.UNKNOWN
    assert traffic._top_in(1000, {"a": plain, "b": open_}) == 950


@pytest.mark.parametrize(("text", "value"), [("8bit", 8), ("12345Kbit", 12_345_000), ("100Gbit", 10**11), ("?", 0)])
def test_rates_of_tc(text: str, value: int) -> None:
    assert tc.bits(text) == value


def test_a_rule_whose_cgroup_is_gone_counts_as_missing() -> None:
    assert traffic.rules(RULES) == {
        "swarm-pre_train_0.slice": {"interface": "eth1", "priority": True, "number": 0xC749},
        "swarm-in_0.slice": {"interface": "eth1", "priority": False, "number": 0x20},
    }


def test_script_reads_back() -> None:
    want = {"swarm-a_0.slice": {"interface": "eth1", "priority": True, "number": 0x10}}
    assert traffic.rules(traffic.script(want)) == want


def test_redirected_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        text = FILTERS

        def run(self, argv: list[str], **_: object) -> str:
            return self.text

    here = Here()
    assert tc.redirected(here, "eth1", "swarm-in") == {0xC749}
    here.text = FILTERS.replace("ctinfo", "gact")
    assert tc.redirected(here, "eth1", "swarm-in") == set()
