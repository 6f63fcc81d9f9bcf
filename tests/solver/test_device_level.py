"""On one node: does who is resized keep as many of its GPUs as it can, and is then as much within one NUMA node as can be?"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator

import pytest

from swarm_iac.model.device import cards, gpu
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.solver import solve
from swarm_iac.solver.packing.devices import Devices, Used, Want, assign, share_cards
from tests.solver.fleets import stack_of
from tests.solver.test_numa import each, fleet, lies, parts, sound

#: Nodes that are drawn; `DEVICE_DRAWS=20000 pytest tests/solver/test_device_level.py` for many.
DRAWS = int(os.environ.get("DEVICE_DRAWS", "400"))
ONE = {"n1": {"hardware": "h"}}
Node = tuple[Hardware, Used, tuple[Want, ...]]


def node(chance: random.Random) -> Node:
    """A small machine on which some GPUs and cores are held, some replicas start anew in another size, and others come."""
    numa, gpus, cores = chance.choice([2, 2, 3]), chance.choice([4, 5, 6]), chance.choice([4, 6])
    hardware = Hardware.model_validate({"gpus": gpus, "vcpus": cores, "memory": "64 GB", "numa": numa})
    free, pins = set(range(gpus)), set(range(cores))
    taken = set(chance.sample(sorted(free), chance.choice([0, 0, 1, 2])))
    used = set(chance.sample(sorted(pins), chance.choice([0, 0, 1])))
    free -= taken
    had: list[tuple[int, ...]] = []
    for _ in range(chance.choice([0, 1, 1, 2])):
        mine = tuple(chance.sample(sorted(free - {i for one in had for i in one}), min(len(free), chance.choice([1, 2, 2, 3])))
                     if len(free - {i for one in had for i in one}) >= 3 else ())  # fmt: skip
        had.append(mine)
    left, capacity, wants = len(free), cores - len(used), []
    for i in range(len(had) + chance.choice([0, 1, 2])):
        wanted = min(left, chance.choice([0, 1, 1, 2, 3, 4]))
        asked = min(capacity, chance.choice([0, 0, 1, 2]))
        left, capacity = left - wanted, capacity - asked
        wants.append(Want(f"w{i}", wanted, asked, had=had[i] if i < len(had) and wanted else ()))
    return hardware, Used(frozenset(taken), frozenset(used)), tuple(wants)


def score(hardware: Hardware, want: Want, gpus: tuple[int, ...], cpus: tuple[int, ...]) -> tuple[int, int]:
    """GPUs that it keeps, and what it weighs where it is within one NUMA node."""
    own = parts(hardware.gpus.count, hardware.numa), parts(int(hardware.vcpus) // 1000, hardware.numa)
    homes = {j for j in range(hardware.numa) if {*gpus} & {*own[0][j]} or {*cpus} & {*own[1][j]}}
    within = len(homes) == 1 and want.bound
    return len({*gpus} & {*want.had}), (1 + want.gpus + want.cores) * within


def every_way(hardware: Hardware, taken: Used, wants: tuple[Want, ...]) -> Iterator[tuple[int, int]]:
    """The score of every way to give GPUs and cores out; of cores of one NUMA node one is as good as another."""
    own = parts(int(hardware.vcpus) // 1000, hardware.numa)

    def go(i: int, gpus: frozenset[int], cpus: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        if i == len(wants):
            yield 0, 0
            return
        want = wants[i]
        for mine in itertools.combinations(sorted(gpus), want.gpus):
            for counts in itertools.product(*(range(min(left, want.cores) + 1) for left in cpus)):
                if sum(counts) != want.cores:
                    continue
                pins = tuple(own[j][k] for j, count in enumerate(counts) for k in range(count))
                kept, weight = score(hardware, want, mine, pins)
                rest = tuple(left - count for left, count in zip(cpus, counts, strict=True))
                for more, others in go(i + 1, gpus - {*mine}, rest):
                    yield kept + more, weight + others

    free = frozenset(range(hardware.gpus.count)) - taken.gpus
    yield from go(0, free, tuple(len({*part} - taken.cpus) for part in own))


@pytest.mark.parametrize("seed", range(0, DRAWS, 20))
def test_no_way_keeps_more_gpus_nor_more_within_one_numa_node(seed: int) -> None:
    for draw in range(seed, seed + 20):
        hardware, taken, wants = node(random.Random(f"device {draw}"))
        found = assign(hardware, taken, wants)
        used = [i for one in found.values() for i in cards(one.gpus)], [i for one in found.values() for i in one.cpus]
        assert all(len(ones) == len({*ones}) for ones in used) and taken.gpus.isdisjoint(used[0])
        assert all((len(found[w.name].gpus), len(found[w.name].cpus)) == (w.gpus, w.cores) for w in wants)
        scores = [score(hardware, w, cards(found[w.name].gpus), found[w.name].cpus) for w in wants]
        kept, weight = (sum(values) for values in zip((0, 0), *scores, strict=True))
        assert (kept, weight) == max(every_way(hardware, taken, wants)), (draw, hardware, taken, wants, found)


def one_node(before: dict[str, object], after: dict[str, object], gpus: dict[str, tuple[int, ...]]) -> dict[str, Allocation]:
    """The node with what stood on these GPUs, and then another stack."""
    last = solve(fleet(before, ONE)).placement  # type: ignore[arg-type]
    held = Placement(allocations=tuple(
        a.model_copy(update={"gpus": tuple(gpu(i) for i in gpus[a.name]), "numa": tuple(sorted({i // 4 for i in gpus[a.name]}))})
        for a in last.allocations
    ))  # fmt: skip
    stack = fleet(after, ONE)  # type: ignore[arg-type]
    found = solve(stack, held).placement
    sound(stack, found)
    return found.by_name()


def test_who_grows_keeps_what_it_has_and_nobody_waits_for_it() -> None:
    """GPU 2 is taken; it grew from 0-1 to 3-7, and who came waited for 0-1."""
    runs = {"job": each(2), "x": each(1)}
    now = one_node(runs, runs | {"job": each(5), "new": each(2)}, {"job-0": (0, 1), "x-0": (2,)})
    assert now["x-0"].cards == (2,) and {0, 1} < {*now["job-0"].cards} and {0, 1}.isdisjoint(now["new-0"].cards)


@pytest.mark.parametrize(
    ("had", "wanted", "kept"), [((0, 1), 3, {0, 1}), ((0, 1, 4, 5), 2, {0, 1}), ((1, 2, 5), 1, {1}), ((6, 7), 8, {6, 7})]
)
def test_who_is_resized_keeps_gpus_of_one_numa_node_where_it_can(had: tuple[int, ...], wanted: int, kept: set[int]) -> None:
    now = one_node({"job": each(len(had))}, {"job": each(wanted)}, {"job-0": had})["job-0"]
    assert kept <= {*now.cards} and len({*now.cards} & {*had}) == min(wanted, len(had))


def test_who_comes_gets_gpus_that_nobody_has_to_give_up_first() -> None:
    """Of one that leaves GPUs 0-1 and one that shrinks from 4-6 to one of them, the newcomer takes nothing while others are free."""
    before = {"goes": each(2), "less": each(3)}
    now = one_node(before, {"less": each(1), "new": each(2)}, {"goes-0": (0, 1), "less-0": (4, 5, 6)})
    assert now["less-0"].cards == (4,) and now["new-0"].cards == (2, 3)


def test_one_numa_node_for_all_of_it_comes_before_not_waiting() -> None:
    before = {"goes": each(3), "stays": each(3)}
    now = one_node(before, {"stays": each(3), "new": each(3)}, {"goes-0": (0, 1, 2), "stays-0": (4, 5, 6)})
    assert {*now["new-0"].cards} < {0, 1, 2, 3} and len(now["new-0"].numa) == 1


@pytest.mark.parametrize(
    ("share", "others", "card"),
    [(0.5, {}, 3), (0.75, {"x": each(0.25)}, 3), (1, {}, 3), (0.8, {"x": each(0.25)}, None)],
)
def test_who_asks_for_another_part_keeps_its_card_where_it_has_room(
    share: float, others: dict[str, object], card: int | None
) -> None:
    before = fleet({"job": each(0.25), **others}, ONE)  # type: ignore[arg-type]
    last = Placement(allocations=tuple(
        a.model_copy(update={"gpus": (gpu(3, 250),), "numa": (0,)}) for a in solve(before).placement.allocations
    ))  # fmt: skip
    stack = fleet({"job": each(share), **others}, ONE)  # type: ignore[arg-type]
    now = solve(stack, last).placement
    sound(stack, now)
    (mine,) = now.by_name()["job-0"].gpus
    assert mine.part == share * 1000 and (mine.index == 3) is (card == 3)
    assert "x-0" not in now.by_name() or now.by_name()["x-0"].gpus == (gpu(3, 250),)


def test_a_part_that_comes_opens_no_card_of_who_is_resized() -> None:
    runs = {"job": each(2)}
    now = one_node(runs, {"job": each(3), "half": each(0.5)}, {"job-0": (0, 1)})
    assert {0, 1} < {*now["job-0"].cards} and now["half-0"].cards[0] not in now["job-0"].cards


def test_parts_keep_their_cards_as_many_as_can() -> None:
    shares, had = {"a": 600, "b": 600, "c": 300}, {"a": (0,), "b": (0,), "c": (1,)}
    found = share_cards(shares, {}, [0, 1, 2], 3, had)
    assert sorted(had[name][0] == card for name, card in found.items()) == [False, True, True]
    assert share_cards({"a": 500, "b": 500}, {}, [0, 1], 1, {"a": (0,), "b": (1,)}) in ({"a": 0, "b": 0}, {"a": 1, "b": 1})
    with pytest.raises(ValueError, match="more of a GPU is wanted"):
        share_cards({"a": 500, "b": 501}, {}, [0, 1], 1, {"a": (0,)})


@pytest.mark.parametrize("wanted", [1, 3, 4])
def test_who_has_to_be_on_one_numa_node_keeps_its_gpus_as_well(wanted: int) -> None:
    single = {"place": {"numa": "single"}}
    now = one_node({"job": each(2, **single)}, {"job": each(wanted, **single), "new": each(4, **single)}, {"job-0": (5, 6)})
    assert len({*now["job-0"].cards} & {5, 6}) == min(2, wanted) and len(lies(fleet({}, ONE), now["job-0"])) == 1
    assert {*now["new-0"].cards} == {0, 1, 2, 3}


def test_an_answer_without_devices_is_an_answer() -> None:
    hardware = Hardware.model_validate({"vcpus": 4, "memory": "8 GB"})
    assert assign(hardware, Used(), (Want("w-0", 0, 0),)) == {"w-0": Devices((), (), ())}
    assert solve(stack_of({"n": {"hardware": "cpu"}}, {"w": {"each": {"vcpus": 1}}})).placement.allocations[0].gpus == ()
