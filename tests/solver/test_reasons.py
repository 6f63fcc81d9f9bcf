"""Does each reason of what is pending name what has to go, with figures that hold? The words are goldens."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from swarm_iac.model.placement import Unplaced
from swarm_iac.plan.show.causes import why_stopped
from swarm_iac.solver import solve, solve_keeping, why
from swarm_iac.solver.explain.move_causes import moved_for
from swarm_iac.stackfile import load
from tests.benchmarks.reasons.__main__ import decisions

TODAY = datetime.date(2026, 6, 1)
HEAD = """\
fleet: lab
teams:
  t: {users: [ada, bo]}
"""
TWO = """\
hardware:
  h: {vcpus: 100, memory: 1000 GB}
nodes:
  a: {hardware: h, ssh: "root@{name}", labels: {is: a}}
  b: {hardware: h, ssh: "root@{name}", labels: {is: b}}
workloads:
  on-a: {user: bo, priority: high, each: {vcpus: 90, memory: 100 GB}, place: {select: {is: a}}}
  on-b: {user: bo, priority: high, each: {vcpus: 50, memory: 900 GB}, place: {select: {is: b}}}
"""
W = "  w: {user: ada, each: {vcpus: 20, memory: 200 GB}}\n"
USERS = "limits: {user: {gpus: 9, vcpus: 200, memory: 9 TB}, node: {vcpus: 200, memory: 9 TB}}\n"
#: Of users and nodes more than any of the machines has.
WIDE = "limits: {user: {gpus: 9, vcpus: 200, memory: 9 TB}, node: {vcpus: 200, memory: 9 TB}}\n"
EIGHT = """\
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n1: {hardware: h, ssh: "root@{name}"}
workloads:
"""
FULL = """\
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n1: {hardware: h, ssh: "root@{name}"}
workloads:
  old: {user: ada, priority: high, each: {gpus: 6}}
  w: {user: ada, each: {gpus: 4}}
"""


def pending(folder: Path, text: str, name: str = "w") -> Unplaced:
    file = folder / "lab.yaml"
    file.write_text(text)
    found = solve(load(file, today=TODAY).stack, today=TODAY).placement.unplaced
    return next(one for one in found if one.workload == name)


def texts(one: Unplaced) -> list[str]:
    return [f"{reason.text} ({reason.path})" for reason in one.reasons]


def test_two_things_lacking_on_two_nodes_say_which_lacks_what(tmp_path: Path) -> None:
    """b has 50 vCPUs free, so `the most that is free is 10 on a` is no truth about the fleet."""
    assert texts(pending(tmp_path, HEAD + USERS + TWO + W)) == [
        "needs 20 vCPUs on one node; of those with enough memory the most that is free is 10 on a (workloads.w.each.vcpus)",
        "needs 200 GB of memory on one node; of those with enough vCPUs the most that is free is 100 GB on b "
        "(workloads.w.each.memory)",
    ]


def test_what_forbids_it_as_well_is_said(tmp_path: Path) -> None:
    """Whoever gives up the one is not refused for another that nobody spoke of."""
    one = pending(tmp_path, HEAD + USERS.replace("gpus: 9", "gpus: 6") + FULL)
    assert texts(one) == [
        "needs 4 GPUs on one node; the most that is free is 2 on n1 (workloads.w.each.gpus)",
        "besides, needs 4 GPUs; user ada has 0 left of 6 (limits.user.gpus)",
    ]
    assert [reason.besides for reason in one.reasons] == ["", "one"]
    assert one.code == "Resources", "of the reason itself"


def test_what_goes_with_each_reason_is_said_once(tmp_path: Path) -> None:
    limits = (
        "limits: {user: {vcpus: 20, memory: 9 TB}, node: {vcpus: 200, memory: 9 TB}, except: ["
        "{user: bo, vcpus: 200, until: 2026-12-01, reason: x}, {user: ada, vcpus: 24, until: 2026-12-01, reason: y}]}\n"
    )
    mine = "  x: {user: ada, priority: high, each: {vcpus: 5}}\n"
    one = pending(tmp_path, HEAD + limits + TWO + W + mine)
    assert texts(one)[-1] == "besides each of these, needs 20 vCPUs; user ada has 19 left of 24 (limits.except[1].vcpus)"
    assert [reason.besides for reason in one.reasons] == ["", "", "each"]


def test_a_ceiling_that_binds_once_another_rule_is_given_up_is_said(tmp_path: Path) -> None:
    """No GPU of 80 GB stands in the rack, so its uplink cannot bind as things are; with any GPU it would."""
    text = (
        HEAD
        + "limits: {user: {gpus: 9, vcpus: 90, memory: 9 TB}}\nracks:\n  r1: {uplink: 1 Gbit/s}\n"
        + """\
hardware:
  h: {gpus: 8 x L40S, vcpus: 64, memory: 1 TB, nic: 100 Gbit/s}
  g: {gpus: 1 x H100, vcpus: 64, memory: 1 TB, nic: 100 Gbit/s}
nodes:
  n1: {hardware: h, ssh: "root@{name}", rack: r1}
  n2: {hardware: g, ssh: "root@{name}", state: lost}
workloads:
  w: {user: ada, each: {gpus: {count: 1, memory: 80 GB}}, network: {egress: 5 Gbit/s}}
"""
    )
    assert texts(pending(tmp_path, text)) == [
        "needs GPUs of 80 GB or more (workloads.w.each.gpus)",
        "besides, needs 5 Gbit/s more of its rack's uplink; the most that is left is 1 Gbit/s in r1 (racks.r1.uplink)",
        "nothing new may go to n2 (lost) (nodes.n2.state)",
    ]


@pytest.mark.parametrize(
    ("limits", "code", "path"),
    [
        ("{user: {gpus: 9}, cluster: {gpus: 7}}", "ClusterLimit", "limits.cluster.gpus"),
        ("{user: {gpus: 90}, node: {gpus: 7, vcpus: 64, memory: 9 TB}}", "Resources", "limits.node.gpus"),
        (
            "{user: {gpus: 4}, except: [{user: ada, gpus: 7, until: 2026-12-01, reason: x}]}",
            "UserLimit",
            "limits.except[0].gpus",
        ),
    ],
)
def test_a_limit_has_its_code_and_its_line(tmp_path: Path, limits: str, code: str, path: str) -> None:
    one = pending(tmp_path, HEAD + f"limits: {limits}\n" + FULL.replace("gpus: 4}", "gpus: 2}"))
    assert (one.code, one.reasons[0].path) == (code, path)


def test_what_is_free_where_a_replica_is_already_is_not_said_to_be_the_most(tmp_path: Path) -> None:
    """a has 7.6 GPUs free, and no second replica may go there: what matters is b."""
    fleet = """\
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
  one: {gpus: 1 x H100, vcpus: 64, memory: 1 TB}
nodes:
  a: {hardware: h, ssh: "root@{name}"}
  b: {site: x, hardware: one, ssh: "root@{name}"}
workloads:
  old: {user: ada, priority: high, each: {gpus: 0.7, vcpus: 1}, place: {select: {site: x}}}
  w: {user: ada, each: {gpus: 0.4, vcpus: 1}, place: {spread: node}, replicas: 2}
"""
    first = pending(tmp_path, HEAD + WIDE + fleet).reasons[0].text
    assert first == "needs 0.4 of a GPU on one card; of those without a replica of it the most that is free of one is 0.3 on b"


def test_a_node_without_room_on_a_card_is_not_said_to_have_the_most_of_something_else(tmp_path: Path) -> None:
    """a has 30 vCPUs free and no GPU for it, b has the GPU."""
    fleet = """\
hardware:
  h: {gpus: 1 x H100, vcpus: 32, memory: 1 TB}
nodes:
  a: {hardware: h, ssh: "root@{name}", labels: {on: a}}
  b: {hardware: h, ssh: "root@{name}", labels: {on: b}}
workloads:
  card: {user: ada, priority: high, each: {gpus: 0.7, vcpus: 2}, place: {select: {on: a}}}
  cores: {user: ada, priority: high, each: {vcpus: 20}, place: {select: {on: b}}}
  w: {user: ada, each: {gpus: 0.5, vcpus: 16}}
"""
    assert [one.text for one in pending(tmp_path, HEAD + WIDE + fleet).reasons] == [
        "needs 0.5 of a GPU on one card; of those with enough vCPUs the most that is free of one is 0.3 on a",
        "needs 16 vCPUs on one node; of those with enough GPUs the most that is free is 12 on b",
    ]


def test_members_of_a_gang_that_would_fit_alone_are_not_said_to_be_too_large(tmp_path: Path) -> None:
    text = HEAD + USERS.replace("gpus: 9", "gpus: 90") + FULL.replace("w: {user: ada,", "w: {user: ada, gang: 3,")
    assert texts(pending(tmp_path, text.replace("  old: {user: ada, priority: high, each: {gpus: 6}}\n", "")))[0] == (
        "needs 4 GPUs on one node for each of 3 members; 2 fit (workloads.w.each.gpus)"
    )


def test_an_uplink_that_carries_some_members_of_a_gang_is_not_said_to_carry_none(tmp_path: Path) -> None:
    """More is left than one needs, and less than all of them do."""
    text = (
        HEAD + "limits: {user: {gpus: 90, vcpus: 90, memory: 9 TB}}\nracks:\n  r1: {uplink: 500 Gbit/s}\n"
        "hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nic: 400 Gbit/s}}\n"
        'nodes:\n  "n[1-3]": {hardware: h, rack: r1, ssh: "root@{name}"}\nworkloads:\n'
        "  w: {user: ada, gang: 3, each: {gpus: 8}, network: {egress: 200 Gbit/s}}\n"
    )
    assert texts(pending(tmp_path, text))[0] == (
        "needs 200 Gbit/s more of its rack's uplink for each of 3 members; what is left is 500 Gbit/s in r1, enough for 2 "
        "(racks.r1.uplink)"
    )


def test_of_several_racks_that_one_is_named_which_leaves_members_out(tmp_path: Path) -> None:
    """The other has more left than all of them need there."""
    text = (
        HEAD + "limits: {user: {gpus: 90, vcpus: 90, memory: 9 TB}}\nracks:\n  r1: {uplink: 300 Gbit/s}\n"
        "  r2: {uplink: 2 Tbit/s}\nhardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nic: 400 Gbit/s}}\n"
        'nodes:\n  "a[1-2]": {hardware: h, rack: r1, ssh: "root@{name}"}\n'
        '  "b[1-2]": {hardware: h, rack: r2, ssh: "root@{name}"}\nworkloads:\n'
        "  w: {user: ada, gang: 4, each: {gpus: 2}, network: {egress: 200 Gbit/s}, place: {spread: node}}\n"
    )
    assert (
        "needs 200 Gbit/s more of its rack's uplink for each of 4 members; what is left is 300 Gbit/s in r1, enough for 1 "
        "(racks.r1.uplink)"
    ) in texts(pending(tmp_path, text))


def test_of_a_gang_in_one_rack_the_rack_is_named_that_takes_most(tmp_path: Path) -> None:
    text = (
        HEAD + "limits: {user: {gpus: 90, vcpus: 90, memory: 9 TB}}\nracks:\n  r1: {uplink: 300 Gbit/s}\n"
        "  r2: {uplink: 700 Gbit/s}\nhardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nic: 800 Gbit/s}}\n"
        'nodes:\n  "a[1-2]": {hardware: h, rack: r1, ssh: "root@{name}"}\n'
        '  "b[1-2]": {hardware: h, rack: r2, ssh: "root@{name}"}\nworkloads:\n'
        "  w: {user: ada, gang: 4, each: {gpus: 2}, network: {egress: 200 Gbit/s}, place: {within: rack}}\n"
    )
    found = [one for one in texts(pending(tmp_path, text)) if "uplink" in one]
    assert found and all("700 Gbit/s in r2, enough for 3 (racks.r2.uplink)" in one for one in found), texts(
        pending(tmp_path, text)
    )


def test_a_rack_whose_nodes_are_full_is_not_said_to_lack_power(tmp_path: Path) -> None:
    """More power in r1 would not help: its GPUs are held. In r2 they are free, and 150 W are missing."""
    text = (
        HEAD + "limits: {user: {gpus: 90, vcpus: 900, memory: 9 TB}}\nracks:\n  r1: {power: 2200 W}\n  r2: {power: 1800 W}\n"
        "hardware: {h: {gpus: 4 x H100, vcpus: 64, memory: 1 TB}}\ntuning: {low: {gpu_power: 300..350 W}}\n"
        'nodes:\n  a: {hardware: h, rack: r1, tuning: low, ssh: "root@a"}\n'
        '  b: {hardware: h, rack: r2, tuning: low, ssh: "root@b"}\nworkloads:\n'
        "  old: {user: ada, priority: high, each: {gpus: 3, gpu_power: 400 W}, place: {select: {rack: r1}}}\n"
        "  w: {user: ada, each: {gpus: 3, gpu_power: 550 W}}\n"
    )
    assert texts(pending(tmp_path, text))[0] == (
        "needs 750 W more of its rack's power; the most that is left is 600 W in r2 (racks.r2.power)"
    )


def test_growth_under_an_ended_exception_names_one_ceiling(tmp_path: Path) -> None:
    limits = "limits: {user: {gpus: 8}, except: [{user: ada, gpus: 16, until: 2026-05-01, reason: paper}]}\n"
    rest = FULL.replace("n1:", "n[1-3]:").replace("priority: high, ", "")
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + limits + rest.replace("gpus: 4}", "gpus: 6}"))
    last = solve(load(file, today=datetime.date(2026, 4, 1)).stack).placement
    file.write_text(HEAD + limits + rest.replace("gpus: 4}", "gpus: 7}"))
    stack, found = solve_keeping(load(file, today=TODAY).stack, last, today=TODAY)
    (one,) = found.placement.growing
    assert [reason.text for reason in one.reasons] == [
        "user ada holds 12 GPUs and may have 8 since an exception has ended: running replicas stay; no new ones are admitted"
    ]
    assert (one.keeps, one.wants, one.code) == ("6 GPUs", "7 GPUs", "UserLimit")
    assert moved_for(stack, found.placement, "w", last, TODAY) == ()
    bare = tuple(a for a in found.placement.allocations if a.workload != "w")
    asked = found.placement.model_copy(update={"allocations": bare, "growing": ()})
    fixes = why(load(file, today=TODAY).stack, asked, "w", last=last, today=TODAY).fixes
    assert "limits.except[0].until=2026-07-01" in {str(fix.edits[0]) for fix in fixes}


def test_every_limit_that_a_gang_of_another_user_would_be_over_is_said(tmp_path: Path) -> None:
    """Whoever raises the one is not refused for another that nobody spoke of."""
    limits = "limits: {user: {gpus: 8, vcpus: 64}}\n"
    fleet = FULL.replace("n1:", "n[1-2]:").replace(
        "old: {user: ada, priority: high, each: {gpus: 6", "old: {user: bo, each: {gpus: 6, vcpus: 50"
    )
    fleet = fleet.replace("each: {gpus: 4", "gang: 2, each: {gpus: 2, vcpus: 20")
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + limits + fleet)
    last = solve(load(file, today=TODAY).stack).placement
    assert len(last.allocations) == 3
    file.write_text(HEAD + limits + fleet.replace("w: {user: ada", "w: {user: bo"))
    stack, found = solve_keeping(load(file, today=TODAY).stack, last, today=TODAY)
    (why_not,) = set(why_stopped(stack, last, found.placement, TODAY).values())
    assert why_not == (
        "it is of bo now: user bo holds 10 GPUs; the limit is 8 (2 over); besides, user bo holds 90 vCPUs; the limit is 64 "
        "(26 over), and no other node takes it"
    )


def test_what_else_is_in_the_way_of_a_user_over_a_limit_is_said(tmp_path: Path) -> None:
    """Of two nodes the empty one lacks least: only its state. And the cluster has no memory left either."""
    fleet = """\
hardware:
  h: {vcpus: 100, memory: 1000 GB}
nodes:
  a: {hardware: h, ssh: "root@{name}"}
  b: {hardware: h, ssh: "root@{name}"}
workloads:
  one: {user: ada, each: {vcpus: 1, memory: 495 GB}}
  two: {user: ada, each: {vcpus: 1, memory: 495 GB}}
"""
    limits = "limits: {user: {memory: MOST}, cluster: {memory: 1 TB}}\n"
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + limits.replace("MOST", "1 TB") + fleet)
    last = solve(load(file, today=TODAY).stack).placement
    (full,) = {one.node for one in last.allocations}
    other = "b" if full == "a" else "a"
    closed = fleet.replace(f"{other}: {{hardware: h", f"{other}: {{state: cordon, hardware: h")
    file.write_text(HEAD + limits.replace("MOST", "500 GB") + closed + "  w: {user: ada, each: {vcpus: 1, memory: 20 GB}}\n")
    (one,) = solve_keeping(load(file, today=TODAY).stack, last, today=TODAY)[1].placement.unplaced
    assert [reason.text for reason in one.reasons] == [
        "user ada holds 990 GB of memory and may have 500 GB: running replicas stay; no new ones are admitted",
        f"besides, nothing new may go to {other} (cordon)",
        "besides, needs 20 GB of memory; the cluster has 10 GB left of 1 TB",
    ]


UPLINK = """\
hardware:
  h: {vcpus: 10, memory: 100 GB, nic: 100 Gbit/s}
racks:
  r1: {RACK}
nodes:
  n1: {hardware: h, rack: r1, ssh: "root@{name}"}
  n2: {hardware: h, rack: r1, ssh: "root@{name}"}
workloads:
  feed: {user: ada, replicas: 4, each: {vcpus: 4}, network: {ingress: 50 Gbit/s}}
"""


def test_who_came_to_the_node_is_not_named_where_the_rack_would_not_carry_it_either(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + UPLINK.replace("RACK", ""))
    last = solve(load(file, today=TODAY).stack).placement
    less = HEAD + UPLINK.replace("RACK", "uplink: 100 Gbit/s")
    file.write_text(less + "  new: {user: bo, replicas: 2, each: {vcpus: 4}}\n")
    stack, found = solve_keeping(load(file, today=TODAY).stack, last, today=TODAY)
    assert len(found.placement.allocations) == 4
    why = "it does not fit n2 any more: 150 Gbit/s enter rack r1, and its uplink carries 100 Gbit/s, and no other node takes it"
    assert set(why_stopped(stack, last, found.placement, TODAY).values()) == {why}
    file.write_text(less.replace("n2: {", "n2: {state: drain, "))
    stack, found = solve_keeping(load(file, today=TODAY).stack, last, today=TODAY)
    why = "n2: drain, and no other node takes it; besides, 150 Gbit/s enter rack r1, and its uplink carries 100 Gbit/s"
    assert set(why_stopped(stack, last, found.placement, TODAY).values()) == {why}
    told = [reason.text for reason in moved_for(stack, found.placement, "feed", last, TODAY)]
    assert told[0].endswith("in state drain; besides, 150 Gbit/s enter rack r1, and its uplink carries 100 Gbit/s")


def test_who_took_its_place_is_named_although_its_size_changed_as_well(tmp_path: Path) -> None:
    """With 2 GB more of memory it would have stayed: the node has that."""
    fleet = """\
hardware:
  h: {gpus: 2 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n1: {hardware: h, ssh: "root@{name}"}
workloads:
  mine: {user: ada, priority: low, each: {gpus: 1, vcpus: 1, memory: MEMORY}}
"""
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + WIDE + fleet.replace("MEMORY", "8 GB"))
    last = solve(load(file, today=TODAY).stack).placement
    file.write_text(
        HEAD + WIDE + fleet.replace("MEMORY", "10 GB") + "  new: {user: bo, priority: high, each: {gpus: 2, vcpus: 1}}\n"
    )
    stack, found = solve_keeping(load(file, today=TODAY).stack, last, today=TODAY)
    assert [one.workload for one in found.placement.allocations] == ["new"]
    told = [reason.text for reason in moved_for(stack, found.placement, "mine", last, TODAY)]
    assert told == ["mine-0: stopped on n1, because of new-0"]


def test_a_rack_is_named_that_has_a_node_for_it(tmp_path: Path) -> None:
    """r2 has 9 Gbit/s left, and no GPU of 80 GB; r1 has the GPUs."""
    fleet = """\
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nic: 100 Gbit/s}
  t: {gpus: 8 x T4, vcpus: 64, memory: 1 TB, nic: 100 Gbit/s}
racks:
  r1: {uplink: 2 Gbit/s}
  r2: {uplink: 9 Gbit/s}
nodes:
  n1: {hardware: h, rack: r1, ssh: "root@{name}"}
  n2: {hardware: t, rack: r2, ssh: "root@{name}"}
workloads:
  w: {user: ada, each: {gpus: {count: 1, memory: 80 GB}, vcpus: 1}, network: {egress: 5 Gbit/s}}
"""
    assert texts(pending(tmp_path, HEAD + WIDE + fleet)) == [
        "needs GPUs of 80 GB or more (workloads.w.each.gpus)",
        "needs 5 Gbit/s more of its rack's uplink; of those with GPUs as large the most that is left is 2 Gbit/s in r1 "
        "(racks.r1.uplink)",
    ]


def test_a_share_is_no_reason_of_what_a_limit_keeps_out(tmp_path: Path) -> None:
    """Of six GPUs that are free ada may have none; that bo's team holds two has nothing to do with it."""
    fleet = """\
  theirs: {user: bo, each: {gpus: 2, vcpus: 1}}
  mine: {user: ada, each: {gpus: 2, vcpus: 1}}
  w: {user: ada, each: {gpus: 2, vcpus: 1}}
"""
    teams = "fleet: lab\nteams:\n  a: {users: [ada], share: 1}\n  b: {users: [bo], share: 1}\n"
    limits = "limits: {user: {gpus: 3, vcpus: 200, memory: 9 TB}, node: {vcpus: 200, memory: 9 TB}}\n"
    file = tmp_path / "lab.yaml"
    file.write_text(teams + limits + EIGHT + fleet)
    (one,) = solve(load(file, today=TODAY).stack).placement.unplaced
    assert [reason.rule for reason in one.reasons] == ["user_stays_under_limits"]


def test_one_limit_that_holds_for_teams_inside_each_other_is_said_once(tmp_path: Path) -> None:
    fleet = """\
  mine: {user: ada, priority: high, each: {gpus: 2, vcpus: 1}}
  w: {user: ada, each: {gpus: 2, vcpus: 1}}
"""
    teams = "fleet: lab\nteams:\n  t: {users: [ada], parent: dept}\n  dept: {}\n"
    limits = "limits: {team: {gpus: 3}, user: {gpus: 9, vcpus: 200, memory: 9 TB}, node: {vcpus: 200, memory: 9 TB}}\n"
    file = tmp_path / "lab.yaml"
    file.write_text(teams + limits + EIGHT + fleet)
    (one,) = solve(load(file, today=TODAY).stack).placement.unplaced
    assert [(reason.text, reason.path) for reason in one.reasons] == [
        ("needs 2 GPUs; team t has 1 left of 3, in use by user ada 2", "limits.team.gpus")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3000, 3020, 5))
def test_without_the_cause_the_effect_goes(seed: int) -> None:
    """A sample of `python -m tests.benchmarks.reasons`: every named cause is taken away, and all is solved again."""
    rows = [row for one in range(seed, seed + 5) for row in decisions(one, (3, 6), 4)]
    assert not [row["error"] for row in rows if "error" in row]
    said = [(row["seed"], row["edit"], one) for row in rows for one in row.get("said", ())]
    false = [(*where, one["kind"], one["subject"], one["text"]) for *where, one in said if not one["held"]]
    assert len(said) > 100
    assert len(false) <= len(said) / 500, false


def test_what_goes_with_some_of_the_reasons_is_said_once_after_those(tmp_path: Path) -> None:
    """On a and b another one keeps it off the site, whatever it gives up; c is in another site, and drained."""
    text = (
        HEAD
        + USERS
        + """\
hardware:
  h: {vcpus: 100, memory: 1000 GB}
sites: {x: {}, y: {}}
nodes:
  a: {hardware: h, ssh: root@a, site: x}
  b: {hardware: h, ssh: root@b, site: x, taints: {gold: "1"}}
  c: {hardware: h, ssh: root@c, site: y, state: drain}
workloads:
  p: {user: bo, priority: high, each: {vcpus: 90}}
  w: {user: ada, each: {vcpus: 20}, place: {away_from: {site: [p]}}}
"""
    )
    one = pending(tmp_path, text)
    assert texts(one) == [
        "taints keep it off nodes: gold: 1 on 1 of 3 nodes (workloads.w.place.tolerate)",
        "needs 20 vCPUs on one node; of those that are ready and whose taints it tolerates the most that is free is 10 on a "
        "(workloads.w.each.vcpus)",
        "besides each of these, kept away from p: each site with capacity has a replica of it (workloads.w.place.away_from)",
        "nothing new may go to c (drain) (nodes.c.state)",
    ]
    assert [reason.besides for reason in one.reasons] == ["", "", "each", ""]
