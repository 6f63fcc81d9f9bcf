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
    assert tc.as_recorded(found[0x8978], 12_345_678) == 12_345_678
    assert tc.as_recorded(found[0x8978], 20_000_000) == 12_345_000
    assert tc.as_recorded((20_000_000, 25_000_000), 20_000_000) == 25_000_000


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
