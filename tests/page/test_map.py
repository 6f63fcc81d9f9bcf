"""Does the map of a page show each card with its owners, before and after, whatever the placement is?"""

from __future__ import annotations

import re
from collections import defaultdict
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.step import Plan
from swarm_iac.page import page
from swarm_iac.plan.show.render import Context
from swarm_iac.ranges import natural, ranges

#: Of one card at one time: node, side (`was` or `now`), and its number; -1 for what has none.
Spot = tuple[str, str, int]


class Shown(HTMLParser):
    """Reads the map back: which allocations are on each card, and as what kind."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.owners: dict[Spot, list[str]] = defaultdict(list)
        self.kinds: dict[str, set[str]] = defaultdict(set)
        self.others: set[tuple[str, str, str]] = set()
        self.unchanged: set[str] = set()
        self.side = self.node = ""
        self._head = self._block = False
        self._cards: range = range(0)
        self._part: int | None = None
        self._kind = ""
        self.feed(html[html.index("<div id=map") : html.index("<div id=changes")])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        numbers = {one[0]: int(one[1:]) for one in classes if re.fullmatch("[cwnt][0-9]+", one)}
        if tag == "tr":
            self.node, self._same = "", "same" in classes
        elif tag == "th":
            self._head = dict(attrs).get("scope") == "row"
        elif tag == "td":
            self.side = classes[0]
        elif tag == "span" and "part" in classes:
            self._part = numbers["c"]
        elif tag == "b":
            self._other = dict(attrs).get("data-to") or ""
            first = numbers.get("c", -1 if self._part is None else self._part)
            self._cards, self._block, self._kind = range(first, first + numbers.get("w", 1)), True, classes[0]

    def handle_endtag(self, tag: str) -> None:
        if tag == "b":
            self._block = False
        elif tag == "span":
            self._part = None

    def handle_data(self, data: str) -> None:
        if self._head and not self.node and data.strip():
            self.node, self._head = data.strip(), False
            if self._same:
                self.unchanged.add(self.node)
        elif self._block:
            for card in self._cards:
                self.owners[self.node, self.side, card].append(data)
            self.kinds[data].add(self._kind)
            self.others |= {(data, self.side, self._other)} if self._other else set()


def expected(placement: Placement, side: str) -> dict[Spot, list[str]]:
    """The same of a placement."""
    found: dict[Spot, list[str]] = defaultdict(list)
    for one in placement.allocations:
        for card in (each.index for each in one.gpus):
            found[one.node, side, card].append(one.name)
        if not one.gpus:
            found[one.node, side, -1].append(one.name)
    return found


NODES = [f"n{i}" for i in range(1, 4)]
CARDS = ["0", "1", "2", "3", "4", "5", "0:0.5", "1:0.25", "5:0.4", "2:1g.10gb@0/8", "2:1g.10gb@1/8"]


@st.composite
def placements(draw: st.DrawFn, nodes: list[str]) -> Placement:
    """Any: the page shows what it is given, right or wrong."""
    names = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), unique=True, max_size=8))
    ones = []
    for workload, index in names:
        gpus = draw(st.lists(st.sampled_from(CARDS), unique=True, max_size=5))
        ones.append(Allocation.model_validate({
            "name": f"{workload}-{index}", "workload": workload, "index": index, "node": draw(st.sampled_from(nodes)),
            "gpus": [int(one) if one.isdigit() else one for one in gpus], "vcpus": 1, "memory": "1 GB",
        }))  # fmt: skip
    return Placement(allocations=tuple(sorted(ones, key=lambda one: one.name)))


STACK = Stack.model_validate({
    "fleet": "f", "teams": {"t": {"users": ["ada"]}}, "racks": {"r": {}},
    "hardware": {"big": {"gpus": 6, "vcpus": 64, "memory": "1 TB"}, "none": {"vcpus": 4, "memory": "8 GB"}},
    "nodes": {name: {"name": name, "hardware": "none" if name == "n3" else "big", "ssh": "local", "rack": "r" if name == "n1" else None}
              for name in NODES},
    "workloads": {"a": {"user": "ada", "replicas": 5, "each": {"vcpus": 1, "memory": "1 GB"}},
                  "b": {"user": "bo", "replicas": 5, "each": {"vcpus": 1, "memory": "1 GB"}}},
})  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(placements([*NODES, "gone"]), placements(NODES))
def test_the_map_never_shows_a_card_with_other_owners(before: Placement, after: Placement) -> None:
    shown = Shown(page(Plan(), Context(STACK, before, after)))
    old, new = expected(before, "was"), expected(after, "now")
    for (node, _, card), names in tuple(old.items()):
        if node in shown.unchanged:  # shown once
            assert new.get((node, "now", card)) == names
            del old[node, "was", card]
    wanted = {spot: sorted(names) for spot, names in (old | new).items()}
    assert {spot: sorted(names) for spot, names in shown.owners.items()} == wanted
    was, now = before.by_name(), after.by_name()
    stays = {name for name in was.keys() & now.keys() if (was[name].node, was[name].gpus) == (now[name].node, now[name].gpus)}
    assert {name for name, kinds in shown.kinds.items() if "keep" in kinds} == stays
    moves = {name for name in was.keys() & now.keys() if was[name].node != now[name].node}
    assert shown.others == {one for name in moves for one in ((name, "was", now[name].node), (name, "now", was[name].node))}


@given(st.lists(st.from_regex("[a-c]{0,2}[0-9]{1,3}|[a-c]{1,3}", fullmatch=True), unique=True))
def test_ranges_are_the_names_again(names: list[str]) -> None:
    found = []
    for part in filter(None, ranges(names).split(", ")):
        many = re.fullmatch(r"(.*)\[([0-9]+)-([0-9]+)\]", part)
        found += [f"{many[1]}{i:0{len(many[2])}d}" for i in range(int(many[2]), int(many[3]) + 1)] if many else [part]
    assert sorted(found) == sorted(names)


def test_names_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["n10", "n2", "login", "n1"], key=natural) == ["login", "n1", "n2", "n10"]
