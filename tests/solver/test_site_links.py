"""Do the links between sites carry what the members of gangs send each other, and is it said where they do not?"""

from __future__ import annotations

import datetime
import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.plan.show.causes import why_stopped
from swarm_iac.solver import solve, why
from swarm_iac.solver.explain.counting import EVERY, reach
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.stackfile import load
from tests.benchmarks.reasons.tried import Decided
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, check_change, check_exact, check_fill

SHAPES = {"h": {"gpus": "2 x H100", "vcpus": 64, "memory": "1 TB", "nic": "100 Gbit/s"}}
RULE = "links_carry_gangs"


def fleet(sites: dict[str, int], links: dict[str, dict[str, str]], workloads: dict[str, dict[str, Any]], **rest: Any) -> Stack:
    """So many machines of two GPUs in each site; gangs of members with two GPUs each, where nothing else is said."""
    nodes = {f"{site}-{i}": {"hardware": "h", "site": site} for site, count in sites.items() for i in range(count)}
    wide = {site: {"links": links.get(site, {})} for site in sites}
    each = {name: {"each": {"gpus": 2, "vcpus": 1, "memory": "1 GB"}} | one for name, one in workloads.items()}
    return stack_of(nodes, each, hardware=SHAPES, sites=wide, **rest)


def gang(members: int, rate: str = "10 Gbit/s", **rest: Any) -> dict[str, Any]:
    return {"gang": members, "network": {"between": rate}, **rest}


def drawn(seed: int) -> tuple[Stack, Stack]:
    """Two or three sites of one or two machines, and gangs of which most fit into none; then a link carries another rate."""
    rng = random.Random(f"links {seed}")
    names = "abc"[: rng.choice([2, 2, 3])]
    sites = {name: rng.choice([1, 2]) if len(names) == 2 else 1 for name in names}

    def links() -> dict[str, dict[str, str]]:
        pairs = [pair for pair in itertools.combinations(names, 2) if rng.random() < 0.9]
        return {one: {other: f"{rng.choice([0, 1, 2, 3])} Gbit/s" for first, other in pairs if first == one} for one in names}

    works: dict[str, dict[str, Any]] = {}
    for i in range(2):
        works[f"g{i}"] = gang(
            rng.choice([2, 3, 3]),
            f"{rng.choice([1, 2])} Gbit/s",
            priority=rng.choice(["normal", "high"]),
            each={"gpus": rng.choice([1, 1, 2]), "vcpus": 1, "memory": "1 GB"},
        )
    works["w"] = {"replicas": rng.choice([1, 2]), "each": {"gpus": 1, "vcpus": 1, "memory": "1 GB"}}
    before = fleet(sites, links(), {name: one for name, one in works.items() if name != "g1"}, solve={"moves": 1})
    return before, fleet(sites, links(), works, solve={"moves": rng.choice([0, 1, 4])})


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 200), marks=pytest.mark.slow)], ids=["some", "hundreds"])
def test_no_placement_is_better_on_either_path(seeds: range) -> None:
    """Against every placement there is."""
    for seed in seeds:
        before, now = drawn(seed)
        check_exact(before, now)
        check_fill(as_large, now)
        check_change(as_large, before, now)


def test_so_many_members_fit_as_every_way_to_divide_them_says() -> None:
    """Counting decides what a reason says: never a number that is not there."""
    for seed in range(150):
        rng = random.Random(f"count {seed}")
        names = "abcd"[: rng.choice([2, 3, 4])]
        sites = {name: rng.choice([0, 1, 2, 3]) for name in names}
        rates = {pair: rng.choice([0, 1, 2, None]) for pair in itertools.combinations(names, 2)}
        links = {
            one: {other: f"{rate} Gbit/s" for (first, other), rate in rates.items() if first == one and rate is not None}
            for one in names
        }
        stack = fleet(sites, links, {"g": gang(8, "1 Gbit/s")})
        snapshot = snapshot_of(stack, Placement())
        ways = (
            sum(each)
            for each in itertools.product(*(range(sites[name] + 1) for name in names))
            if all(
                rate is None or min(each[names.index(one)], each[names.index(other)]) <= rate
                for (one, other), rate in rates.items()
            )
        )
        assert reach(FreeCapacity(snapshot), snapshot.requests["g"], EVERY) == min(8, max(ways)), (sites, rates)


def test_so_many_members_fit_where_sites_are_compared_as_every_way_to_divide_them_says() -> None:
    """As above, with `balance`: the two rules together leave less than each alone."""
    less = 0
    for seed in range(150):
        rng = random.Random(f"compared {seed}")
        names, skew, members = "abcd"[: rng.choice([2, 3, 4])], rng.choice([1, 2]), rng.choice([3, 5, 8])
        sites = {name: rng.choice([1, 2, 3, 4]) for name in names}
        rates = {pair: rng.choice([0, 1, 2, None]) for pair in itertools.combinations(names, 2)}
        links = {
            one: {other: f"{rate} Gbit/s" for (first, other), rate in rates.items() if first == one and rate is not None}
            for one in names
        }
        works = {"g": gang(members, "1 Gbit/s", place={"balance": {"over": "site", "skew": skew}})}
        snapshot = snapshot_of(fleet(sites, links, works), Placement())
        even = [each for each in itertools.product(*(range(sites[one] + 1) for one in names)) if max(each) - min(each) <= skew]
        ways = (
            sum(each)
            for each in even
            if all(
                rate is None or min(each[names.index(one)], each[names.index(other)]) <= rate
                for (one, other), rate in rates.items()
            )
        )
        most = max(ways)
        assert reach(FreeCapacity(snapshot), snapshot.requests["g"], EVERY) == min(members, most), (seed, sites, rates)
        less += most < min(members, max(map(sum, even)))
    assert less > 20


def test_many_gangs_keep_under_a_link_on_a_large_fleet() -> None:
    rng = random.Random(7)
    works = {f"g{i}": gang(rng.choice([2, 3, 4]), f"{rng.choice([5, 10])} Gbit/s") for i in range(30)}
    stack = fleet({"a": 25, "b": 25, "c": 25}, {"a": {"b": "15 Gbit/s", "c": "0 bit/s"}, "b": {"c": "5 Gbit/s"}}, works)
    found = as_large(stack).placement
    assert judge(stack, found) == ()
    assert sum(len(Counter(a.node[0] for a in found.allocations if a.workload == name)) > 1 for name in works) >= 1
    assert len(found.allocations) >= 70, "of 75 machines few are left"


def test_a_gang_across_two_sites_is_counted_by_its_smaller_side() -> None:
    def nodes(rate: str) -> list[str]:
        found = solve(fleet({"a": 3, "b": 2}, {"b": {"a": rate}}, {"g": gang(4)})).placement
        return sorted(one.node[0] for one in found.allocations)

    assert nodes("10 Gbit/s") == ["a", "a", "a", "b"], "one member on the other side, and 10 Gbit/s are enough"
    assert nodes("9999 Mbit/s") == []
    assert len(nodes("20 Gbit/s")) == 4


def test_sites_without_a_link_are_not_bounded() -> None:
    found = solve(fleet({"a": 1, "b": 1, "c": 9}, {"a": {"c": "0 bit/s"}}, {"g": gang(2, place={"spread": "site"})})).placement
    assert {one.node[0] for one in found.allocations} != {"a", "c"} and len(found.allocations) == 2


def test_who_waits_is_told_the_link_its_figures_and_what_would_do() -> None:
    works = {"big": gang(2, "20 Gbit/s", priority="high", place={"spread": "site"}), "g": gang(4)}
    stack = fleet({"a": 4, "b": 3}, {"a": {"b": "25 Gbit/s"}}, works)
    found = solve(stack).placement
    answer = why(stack, found, "g")
    assert [(one.rule, one.text, one.path) for one in answer.reasons if one.rule == RULE] == [
        (
            RULE,
            "needs 10 Gbit/s between a and b: one site takes at most 3 of its 4 members; the link has 5 Gbit/s left of 25 Gbit/s",
            "sites.a.links.b",
        )
    ]
    holds = [one.text for one in answer.reasons if one.rule == "holds"]
    assert len(holds) == 1 and "20 Gbit/s between a and b" in holds[0]
    edits = {str(fix.edits[0]) for fix in answer.fixes}
    assert {"sites.a.links.b=30 Gbit/s", "workloads.g.network.between=5 Gbit/s"} <= edits
    assert next(one for one in found.unplaced if one.workload == "g").code == "Resources"


def test_of_three_sites_the_link_is_told_that_would_do() -> None:
    """Not one that is short of less, and with which all would still not fit."""
    links = {"a": {"b": "100 Gbit/s"}, "b": {"c": "50 Gbit/s"}, "c": {"a": "10 Gbit/s"}}
    stack = fleet({"a": 3, "b": 3, "c": 3}, links, {"g": gang(7, "20 Gbit/s")})
    found = solve(stack).placement
    answer = why(stack, found, "g")
    assert [(one.text, one.path) for one in answer.reasons if one.rule == RULE] == [
        (
            "needs 20 Gbit/s between c and a: one site takes at most 3 of its 7 members; the link has 10 Gbit/s left of 10 Gbit/s",
            "sites.c.links.a",
        )
    ]
    assert "sites.c.links.a=20 Gbit/s" in {str(fix.edits[0]) for fix in answer.fixes}


def test_where_a_site_is_full_as_well_no_link_is_told_that_carries_enough() -> None:
    """The GPUs of b are held; once they are free, it is the link between b and c that is too narrow."""
    links = {"a": {"b": "50 Gbit/s", "c": "20 Gbit/s"}, "b": {"c": "10 Gbit/s"}}
    works = {
        "old": gang(3, "30 Gbit/s", priority="high"),
        "g": gang(3, "15 Gbit/s", place={"spread": "site"}, each={"gpus": 1, "vcpus": 1, "memory": "1 GB"}),
    }
    found = solve(fleet({"a": 2, "b": 2, "c": 1}, links, works)).placement
    told = [one for one in found.unplaced[0].reasons if one.rule == RULE]
    assert {one.path for one in told} == {"sites.b.links.c"}, told


def test_where_sites_are_compared_the_link_is_the_reason_and_not_the_effort() -> None:
    links = {"a": {"b": "100 Gbit/s", "c": "10 Gbit/s"}, "b": {"c": "50 Gbit/s"}}
    stack = fleet({"a": 3, "b": 3, "c": 3}, links, {"g": gang(6, "20 Gbit/s", place={"balance": "site"})})
    found = solve(stack).placement
    assert not found.allocations
    assert {RULE, "balance_holds_skew"} <= {one.rule for one in found.unplaced[0].reasons}
    assert why(stack, found, "g").fixes


def test_a_link_that_carries_less_now_stops_the_gang_and_says_so() -> None:
    before = fleet({"a": 2, "b": 2}, {"a": {"b": "20 Gbit/s"}}, {"g": gang(4)})
    after = fleet({"a": 2, "b": 2}, {"a": {"b": "15 Gbit/s"}}, {"g": gang(4)})
    last = solve(before).placement
    assert len(last.allocations) == 4
    now = solve(after, last).placement
    assert now.allocations == ()
    texts = why_stopped(after, last, now).values()
    assert len(texts) == 4
    assert all("gangs send 20 Gbit/s between a and b, and the link carries 15 Gbit/s" in text for text in texts)


HEAD = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware: {h: {gpus: 2 x H100, vcpus: 64, memory: 1 TB}}
"""


@pytest.mark.parametrize(
    ("sites", "site", "path", "message"),
    [
        ("{a: {links: {b: 1 Gbit/s}}}", "a", "sites.a.links.b", "there is no site 'b'"),
        ("{a: {links: {a: 1 Gbit/s}}}", "a", "sites.a.links.a", "a needs no link to itself"),
        (
            "{a: {links: {b: 1 Gbit/s}}, b: {links: {a: 1 Gbit/s}}}",
            "a", "sites.b.links.a", "the link between a and b is said at a already",
        ),
        ("{a: {}}", "other", "nodes.n.site", "there is no site 'other'"),
        ("{a: {links: {b: 1 km}}, b: {}}", "a", "sites.a.links.b", "'km' is no unit of a bandwidth"),
        ('{a: {links: {"b\\u202e": 1 Gbit/s}}, b: {}}', "a", "sites.a.links", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(tmp_path: Path, sites: str, site: str, path: str, message: str) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(f"{HEAD}sites: {sites}\nnodes: {{n: {{hardware: h, site: {site}, ssh: local}}}}\n")
    with pytest.raises(StackFileError) as raised:
        load(file, today=datetime.date(2026, 6, 1))
    (problem,) = raised.value.problems
    assert problem.path.startswith(path) and message in problem.message
    assert problem.place.line in (4, 5) and "\u202e" not in problem.message
    assert "no site" not in message or problem.hint == "use one of a, or describe it under `sites:`"


def test_without_the_link_the_gang_has_a_place() -> None:
    """Each reason is tried as `tests.benchmarks.reasons` does: its cause is taken away, and all is solved again."""
    told = 0
    for seed in range(150):
        _, now = drawn(seed)
        decided = Decided(now, now, Placement(), datetime.date(2026, 6, 1))
        said = list(decided.reasons())
        told += sum(RULE in one.kind for one in said)
        assert [(seed, one.kind, one.text) for one in said if not one.held] == []
    assert told >= 8
