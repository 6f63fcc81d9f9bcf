"""Is memory lent that is free and nothing else, to all alike, and is nothing left that somebody might have had?

The rule is written here a second time, over all sets of NUMA nodes, and not with the sums that lending makes.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Node, Stack, Team
from swarm_iac.model.state import SliceState
from swarm_iac.model.workload import Each, Workload
from swarm_iac.plan import desired
from swarm_iac.units import Bytes, Cpus, MemoryRange

PAGE, NUMA = 4096, 3


def wanted(sizes: dict[str, tuple[int, int, tuple[int, ...]]], memory: int, numa: int = 1) -> dict[str, SliceState]:
    """The slices on one node. `sizes`: guarantee, upper end and NUMA nodes of each allocation. [bytes]"""
    stack = Stack(
        fleet="f",
        teams={"t": Team(users=("ada",))},
        hardware={"h": Hardware(vcpus=Cpus(64_000), memory=Bytes(memory), numa=numa)},
        nodes={"n": Node(name="n", hardware="h", ssh="root@n")},
        workloads={
            name: Workload(user="ada", each=Each(memory=MemoryRange.between(least, most)))
            for name, (least, most, _) in sizes.items()
        },
    )
    ones = tuple(
        Allocation(name=f"{name}-0", workload=name, index=0, node="n", vcpus=Cpus(1000), memory=Bytes(least), numa=parts)
        for name, (least, _, parts) in sizes.items()
    )
    return {
        name.removesuffix("-0"): one.slice
        for name, one in desired(stack, Placement(allocations=ones))["n"].state.allocations.items()
    }


@st.composite
def nodes(draw: st.DrawFn) -> tuple[dict[str, tuple[int, int, tuple[int, ...]]], int]:
    """Allocations on a node of three NUMA nodes, each bound to some of them or to none, whose guarantees have a place."""
    part = draw(st.integers(5, 60)) * PAGE + draw(st.integers(0, PAGE - 1))
    found: dict[str, tuple[int, int, tuple[int, ...]]] = {}
    for name in "abcde"[: draw(st.integers(1, 5))]:
        parts = draw(st.sampled_from([(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]))
        least = draw(st.integers(1, 40)) * PAGE + draw(st.sampled_from([0, 0, 1, PAGE - 1]))
        most = least + draw(st.sampled_from([0, 1, PAGE, 7 * PAGE, 30 * PAGE, 500 * PAGE]))
        more = {**found, name: (least, most, parts)}
        if all(sum(low for low, _, on in more.values() if inside(on, some)) <= size(some, part) for some in SETS):
            found = more
    return found, part * NUMA


SETS = [some for count in range(1, NUMA + 1) for some in itertools.combinations(range(NUMA), count)]


def inside(parts: tuple[int, ...], some: tuple[int, ...]) -> bool:
    """Has it to lie on these NUMA nodes, whatever it does?"""
    return set(parts or range(NUMA)) <= set(some)


def size(some: tuple[int, ...], part: int) -> int:
    return part * len(some)


@settings(max_examples=400, deadline=None)
@given(nodes())
def test_the_sum_of_what_all_may_use_is_within_the_machine_and_none_is_free_that_somebody_wants(
    drawn: tuple[dict[str, tuple[int, int, tuple[int, ...]]], int],
) -> None:
    """For every set S of NUMA nodes: Σ_{a: numa_a ⊆ S} max_a ≤ memory of S. Who has less than it may is stopped by such a set,
    in which no borrower has a larger part of its guarantee."""
    sizes, memory = drawn
    found = wanted(sizes, memory, NUMA) if sizes else {}
    most = {name: one.memory_max or 0 for name, one in found.items()}
    lent = {name: most[name] - sizes[name][0] for name in sizes}
    free = {
        some: size(some, memory // NUMA) - sum(most[name] for name in sizes if inside(sizes[name][2], some)) for some in SETS
    }
    assert min(free.values()) >= 0, "never more than there is"
    level = {name: Fraction(lent[name], sizes[name][0]) for name in sizes}
    for name, (least, upper, parts) in sizes.items():
        assert lent[name] > -PAGE and most[name] <= upper and most[name] % PAGE == 0
        if lent[name] > upper - least - PAGE:
            continue  # it has all that it may use
        slack = 2 * len(sizes) * PAGE  # guarantee and loan are rounded to pages
        tight = [some for some, left in free.items() if inside(parts, some) and left < slack]
        fair = [
            some
            for some in tight
            if all(
                level[other] <= level[name] + Fraction(PAGE, sizes[name][0])
                for other in sizes
                if inside(sizes[other][2], some) and lent[other] > 0
            )
        ]
        assert fair, (name, lent, free)


@settings(max_examples=200, deadline=None)
@given(nodes())
def test_a_guarantee_is_never_lent_and_is_protected_where_anything_may_be_lent(
    drawn: tuple[dict[str, tuple[int, int, tuple[int, ...]]], int],
) -> None:
    sizes, memory = drawn
    found = wanted(sizes, memory, NUMA) if sizes else {}
    borrowers = any(most > least for least, most, _ in sizes.values())
    for name, one in found.items():
        held = sizes[name][0] // PAGE * PAGE
        assert one.memory_max is not None and one.memory_high is not None and one.memory_max >= held
        assert one.memory_low == (held if borrowers else None)
        assert one.memory_high <= one.memory_max and (one.memory_high >= held or one.memory_max == held)


@pytest.mark.parametrize(
    ("sizes", "lent"),
    [
        ({"a": (100, 900)}, {"a": 700}),
        ({"a": (100, 900), "b": (100, 900)}, {"a": 300, "b": 300}),
        ({"a": (100, 900), "b": (300, 900)}, {"a": 100, "b": 300}),  # as their guarantees
        ({"a": (100, 150), "b": (300, 900)}, {"a": 50, "b": 350}),  # what one does not want is the other's
        ({"a": (100, 900), "b": (700, 700)}, {}),  # the guarantees fill it
        ({"a": (100, 900), "b": (200, 200)}, {"a": 500}),
        ({"a": (100, 100), "b": (200, 200)}, {}),
    ],
)
def test_it_is_shared_by_guarantee(sizes: dict[str, tuple[int, int]], lent: dict[str, int]) -> None:
    found = wanted({name: (low * PAGE, most * PAGE, ()) for name, (low, most) in sizes.items()}, 800 * PAGE)
    assert {name: one.memory_max for name, one in found.items()} == {
        name: (low + lent.get(name, 0)) * PAGE for name, (low, _) in sizes.items()
    }


def test_where_nobody_borrows_nothing_is_different() -> None:
    """A fleet without ranges keeps the states that it had, and its preview has no row more."""
    one = wanted({"a": (4 * PAGE, 4 * PAGE, ())}, 800 * PAGE)["a"]
    assert (one.memory_low, one.memory_high, one.memory_max) == (None, 3 * PAGE, 4 * PAGE)


@pytest.mark.parametrize(
    ("sizes", "reach"),
    [
        ({"a": (100, 900, ())}, {}),  # nobody could leave it anything
        ({"a": (100, 900, ()), "b": (100, 900, ())}, {"a": 800, "b": 800}),  # no more than the machine has
        ({"a": (100, 150, ()), "b": (300, 900, ())}, {"a": 150, "b": 800}),  # who has all may leave something
        ({"a": (100, 300, ()), "b": (300, 450, ())}, {}),  # all have their upper end
        ({"a": (100, 900, ()), "b": (200, 200, ())}, {}),  # a guarantee is lent to nobody
        ({"a": (90, 900, (0,)), "b": (90, 900, (1,))}, {}),  # memory is on other NUMA nodes
        ({"a": (90, 900, (0,)), "b": (90, 900, (0,))}, {"a": 800, "b": 800}),
        ({"a": (400, 900, ()), "b": (400, 900, ())}, {}),  # the guarantees fill it
    ],
)
def test_who_may_get_what_others_leave_idle(sizes: dict[str, tuple[int, int, tuple[int, ...]]], reach: dict[str, int]) -> None:
    scaled = {name: (low * PAGE, most * PAGE, parts) for name, (low, most, parts) in sizes.items()}
    found = wanted(scaled, 800 * PAGE, 2 if any(parts for *_, parts in sizes.values()) else 1)
    assert {name: one.memory_most for name, one in found.items() if one.memory_most is not None} == {
        name: most * PAGE for name, most in reach.items()
    }
    for one in found.values():
        least, share = one.memory_low or 0, 90 if one.memory_most else 95
        most = one.memory_max or 0
        slowed = most * share // 100 // PAGE * PAGE
        assert one.memory_high == (max(slowed, least) if most > least else slowed)
