"""Is what is legal and surely not meant told, with its line, and is everything else left in peace?"""

from __future__ import annotations

import datetime

import pytest

from swarm_iac import errors
from swarm_iac.errors import StackFileError
from swarm_iac.stackfile.checks.warnings import doubts
from swarm_iac.stackfile.load import loads
from tests.cli.typed import ROOT

TODAY = datetime.date(2026, 11, 22)
STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
tuning: {capped: {gpu_power: 500 W}}
racks: {r1: {power: 40 kW}}
limits: {except: [{user: bo, gpus: 24, until: 2026-11-22, reason: paper}]}
nodes:
  gpu-[01-04]: {hardware: h, rack: r1, tuning: capped, ssh: "root@{name}"}
workloads:
  chat: {user: ada, kind: serve, replicas: 4, each: {gpus: 1}, place: {spread: node}, run: {command: serve}}
  tidy: {user: bo, each: {gpus: 1}}
"""


def told(text: str) -> list[str]:
    return [str(one) for one in doubts(loads(text, "lab.yaml", today=TODAY), TODAY)]


def test_a_sound_file_has_no_warning() -> None:
    assert told(STACK) == []
    for path in sorted((ROOT / "stacks").glob("*.yaml")):
        if path.name.count(".") == 1:
            assert not doubts(loads(path.read_text(), path.name, today=TODAY), TODAY), path


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("replicas: 4", "replicas: 5",
         "lab.yaml:10:80: workloads.chat.place.spread: 5 replicas on different nodes, and 4 can take them: the rest is always "
         "pending\n  hint: ask for 4, or leave `spread` out"),
        ("spread: node", "per_site: 4",
         "lab.yaml:10:82: workloads.chat.place.per_site: `per_site: 4` counts each rack as a site: no node names its site\n"
         "  hint: give the nodes a `site`"),
        ("spread: node", "balance: rack",
         "lab.yaml:10:81: workloads.chat.place.balance: `balance: rack` compares nothing: all nodes are in one rack\n"
         "  hint: leave `balance` out"),
        ("spread: node", 'prefer: {rack: "r2\\e[2J"}',
         "lab.yaml:10:87: workloads.chat.place.prefer.rack: prefers rack: r2\x1b[2J, and no node has it\n"
         "  hint: use one of r1"),
        ("place: {spread: node}", "place: {tolerate: {fan: broken}}",
         "lab.yaml:10:88: workloads.chat.place.tolerate.fan: tolerates fan: broken, and no node has a taint 'fan'\n"
         "  hint: delete it"),
        ("place: {spread: node}", "priority: high, place: {only_with: {rack: [tidy]}}",
         "lab.yaml:10:106: workloads.chat.place.only_with.rack: tidy has priority normal and stops for others before those that are "
         "only with it\n  hint: give tidy `priority: high`"),
        ("limits: {", "limits: {team: {gpus_by_model: {H10: 2}}, ",
         "lab.yaml:6:38: limits.team.gpus_by_model.H10: no hardware has a GPU H10\n  hint: did you mean 'H100'?"),
        ("serve, replicas: 4", "serve, needs: 4, speed: {H100: 1, H10: 2}",
         "lab.yaml:10:66: workloads.chat.speed.H10: no hardware has a GPU H10\n  hint: did you mean 'H100'?"),
        ("tidy: {user: bo, each: {gpus: 1}", "tidy: {user: bo, each: {gpus: 1, vcpus: 2..65}",
         "lab.yaml:11:43: workloads.tidy.each.vcpus: may use up to 65 vCPUs, and no node has more than 64\n"
         "  hint: write an upper end of at most 64"),
        ("tidy: {user: bo, each: {gpus: 1}", "tidy: {user: bo, each: {gpus: 1 x H100/1g.10gb}",
         "lab.yaml:11:33: workloads.tidy.each.gpus: no node that it may use has a GPU with MIG instances of 1g.10gb, so it is "
         "always pending\n  hint: write `mig: true` in hardware.h"),
        ("2026-11-22", "2026-11-21",
         "lab.yaml:6:19: limits.except[0]: expired on 2026-11-21: bo may add nothing above the common ceiling\n"
         "  hint: prolong it, or take it out"),
        (" tuning: capped,", "",
         "lab.yaml:5:21: racks.r1.power: bounds nothing: no GPU of this rack has a cap, and one without counts 0 W\n"
         "  hint: give its nodes a `tuning` with `gpu_power`"),
        (", run: {command: serve}", "",
         "lab.yaml:10:9: workloads.chat: is a service without `run`: its place is held, and nothing is started in it\n"
         "  hint: add `run: {command: …}`"),
        ("8 x H100", "8 x H10",
         "lab.yaml:3:22: hardware.h.gpus: H10 is no GPU model that is known, so nobody knows its memory\n"
         "  hint: did you mean H100? Else write {count: 8, model: H10, memory: …}"),
        ("tidy: {user: bo,", "tidy: {user: bo, hold: true,",
         "lab.yaml:11:26: workloads.tidy.hold: keeps its GPUs and memory after the job has ended\n"
         "  hint: leave `hold` out to release them"),
        ("teams: {t: {users: [ada, bo]}}",
         "teams: {t: {users: [ada, bo], parent: lab, limits: {gpus: 9}}, lab: {limits: {gpus: 8}}}",
         "lab.yaml:2:59: teams.t.limits.gpus: is never reached: team lab, around it, may have 8\n"
         "  hint: lower it, or raise the limit of lab"),
        ("user: bo, gpus: 24, until: 2026-11-22", "team: t, gpus: 24, until: 2026-11-21",
         "lab.yaml:6:19: limits.except[0]: expired on 2026-11-21: t may add nothing above the common ceiling\n"
         "  hint: prolong it, or take it out"),
    ],
)  # fmt: skip
def test_what_is_surely_not_meant_is_told_with_its_line(old: str, new: str, warning: str) -> None:
    assert old in STACK
    assert told(STACK.replace(old, new)) == [warning]


def test_a_mig_profile_of_larger_cards_is_told_with_those_of_the_nodes() -> None:
    cut = STACK.replace("8 x H100,", "8 x H100, mig: true,").replace(
        "{user: bo, each: {gpus: 1}", "{user: bo, each: {gpus: 1 x X}"
    )
    assert told(cut.replace("1 x X", "1 x H100/1g.10gb")) == []
    assert told(cut.replace("1 x X", "1 x H100/3g.47gb")) == [
        "lab.yaml:11:33: workloads.tidy.each.gpus: no node that it may use has a GPU with MIG instances of 3g.47gb, so it is "
        "always pending\n  hint: h has 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"
    ]


def test_a_gpu_of_unknown_memory_is_told_where_somebody_asks_for_memory() -> None:
    own = STACK.replace("8 x H100", "8 x Accel-9")
    assert told(own) == []
    asked = own.replace("tidy: {user: bo, each: {gpus: 1}", "tidy: {user: bo, each: {gpus: {count: 1, memory: 20 GB}}")
    (warning,) = told(
        asked.replace("tuning: {", "  # l: is known\ntuning: {")
        .replace("hardware: {h:", "hardware: {l: {gpus: 1 x L4, vcpus: 4, memory: 64 GB}, h:")
        .replace("workloads:", '  l-1: {hardware: l, ssh: "root@{name}"}\nworkloads:')
    )
    assert "Accel-9 is no GPU model that is known, so nobody knows its memory, and tidy asks for GPUs of so much" in warning
    for known in ("8 x A100-40GB", "{count: 8, model: Accel-9, memory: 40 GB}"):
        assert told(asked.replace("8 x Accel-9", known)) == []


@pytest.mark.parametrize(
    ("key", "small", "whole"),
    [("hugepages_1g", "1 GB", "1 GiB"), ("hugepages", "1 MB", "2 MiB"), ("hugepages_1g", "1023 MiB", "1 GiB")],
)
def test_less_than_one_huge_page_of_hardware_is_none_and_that_is_told(key: str, small: str, whole: str) -> None:
    (warning,) = told(STACK.replace("8 x H100,", f"8 x H100, {key}: {small},"))
    assert f"hardware.h.{key}: " in warning and f"is less than one page of {whole}, so none is kept" in warning
    assert told(STACK.replace("8 x H100,", f"8 x H100, {key}: {whole},")) == []


def test_a_toleration_that_is_misspelt_gets_a_hint() -> None:
    tainted = STACK.replace("tuning: capped, ssh", "tuning: capped, taints: {dedicated: research}, ssh")
    for wrong, near in (("{dedicatde: research}", "dedicated"), ("{dedicated: reserch}", "research")):
        (warning,) = told(tainted.replace("place: {spread: node}", f"place: {{tolerate: {wrong}}}"))
        assert f"did you mean {near!r}?" in warning or f"did you mean {near}?" in warning
    for right in ("{dedicated: research}", '{dedicated: "*"}'):
        assert told(tainted.replace("place: {spread: node}", f"place: {{tolerate: {right}}}")) == []


def test_a_range_of_power_without_a_budget_is_never_lowered() -> None:
    ranged = STACK.replace("gpu_power: 500 W", "gpu_power: 300..500 W")
    assert ranged != STACK and told(ranged) == []
    (warning,) = told(ranged.replace("{power: 40 kW}", "{uplink: 1 Tbit/s}"))
    assert (
        "tuning.capped.gpu_power: is never lowered: none of its nodes has `power`, or is in a rack that has, so it is 500 W"
        in warning
    )


def test_a_cap_that_some_work_brings_bounds_only_that_work() -> None:
    bare = STACK.replace(" tuning: capped,", "")
    one = bare.replace("tidy: {user: bo, each: {gpus: 1}", "tidy: {user: bo, each: {gpus: 1, gpu_power: 400 W}")
    (warning,) = told(one)
    assert "racks.r1.power: bounds only workloads with `gpu_power`: no GPU of this rack has a cap" in warning
    assert told(one.replace("replicas: 4, each: {gpus: 1}", "replicas: 4, each: {gpus: 1, gpu_power: 400 W}")) == []


def test_only_nodes_that_could_hold_a_replica_are_counted_for_a_spread() -> None:
    mixed = STACK.replace("tuning: {capped", "  l: {gpus: 4 x L40S, vcpus: 32, memory: 100 GB}\ntuning: {capped", 1)
    mixed = mixed.replace(
        "hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}", "hardware:\n  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}"
    )
    mixed = mixed.replace("workloads:", '  l-[1-2]: {hardware: l, ssh: "root@{name}"}\nworkloads:')
    assert told(mixed) == []
    (warning,) = told(mixed.replace("replicas: 4, each: {gpus: 1}", "replicas: 3, each: {gpus: 1 x L40S}"))
    assert "3 replicas on different nodes, and 2 can take them" in warning
    (warning,) = told(mixed.replace("replicas: 4, each: {gpus: 1}", "replicas: 5, each: {gpus: 1, memory: 101 GB}"))
    assert "5 replicas on different nodes, and 4 can take them" in warning


def test_a_guarantee_of_a_disk_that_nobody_described_is_told_and_a_ceiling_is_not() -> None:
    text = """\
fleet: lab
teams: {research: {users: [ada]}}
hardware: {h: {vcpus: 8, memory: 64 GB, nvme: 1 TB, disk: /dev/sdb}}
nodes: {n-01: {hardware: h, ssh: root@n}}
workloads:
  load: {user: ada, each: {io: {read: 100..500 MB/s}}, run: {command: load}}
"""
    (one,) = told(text)
    assert "workloads.load.each.io.read: guarantees no disk reads on h: its hardware does not say what its disk can do" in one
    assert "add hardware.h.disk_read" in one
    assert told(text.replace("100..500", "500")) == []
    assert told(text.replace("disk: /dev/sdb", "disk: /dev/sdb, disk_read: 1 GB/s")) == []


def _racks(count: int, hardware: str = "h") -> str:
    """As many racks, each with a budget that bounds nothing."""
    racks = [f"  r{n}: {{power: 40 kW}}" for n in range(count)]
    nodes = [f'  n{n}: {{hardware: {hardware}, rack: r{n}, ssh: "root@{{name}}"}}' for n in range(count)]
    hardware = "hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}"
    return "\n".join(("fleet: lab", hardware, "racks:", *racks, "nodes:", *nodes)) + "\n"


@pytest.mark.parametrize(("count", "lines"), [(3, 3), (4, 1), (90, 1)])
def test_a_warning_of_many_places_is_told_once(count: int, lines: int) -> None:
    """Twenty racks without caps said the same forty lines long."""
    found = doubts(loads(_racks(count), "lab.yaml", today=TODAY), TODAY)
    words = errors.told(found)
    assert (len(found), len(words)) == (count, lines)
    assert words[0].startswith("lab.yaml:4:15: racks.r0.power: bounds nothing")
    if lines == 1:
        last = f"the last at lab.yaml:{3 + count}:{15 if count <= 10 else 16}: racks.r{count - 1}.power"
        assert words[0].endswith(f"\n  and {count - 1} more like it, {last}")


def test_a_mistake_in_every_node_is_told_once_and_counted() -> None:
    with pytest.raises(StackFileError) as caught:
        loads(_racks(200, "hh"), "lab.yaml", today=TODAY)
    assert len(caught.value.problems) == 200  # `--json` has all of them
    text = str(caught.value)
    assert text.startswith("lab.yaml:205:18: nodes.n0.hardware: ") and "\n  and 199 more like it, " in text
    assert text.endswith(": nodes.n199.hardware") and text.count("\n") == 2
