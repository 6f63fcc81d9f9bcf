"""Does a part of a GPU keep its size on a full card, and grow as soon as a card has room for it?"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm_iac.decision import keep
from swarm_iac.limits import judge
from tests.stackfile.test_growing import TODAY, decided, edited

CARDS = """\
fleet: lab
teams:
  t: {users: [ada, bo]}
hardware:
  one: {gpus: 1 x H100, vcpus: 64, memory: 1 TB, nvme: 1 TB}
  two: {gpus: 2 x H100, vcpus: 64, memory: 1 TB, nvme: 1 TB}
nodes:
  n1: {hardware: one, ssh: "root@n1"}
  n2: {hardware: one, ssh: "root@n2", state: cordon, reason: fans}
workloads:
  a: {user: ada, kind: train, each: {gpus: 0.25 x H100}, run: {command: x}}
  b: {user: bo, kind: train, each: {gpus: 0.75 x H100}, run: {command: x}}
"""
PART = "each: {gpus: 0.25 x H100}"


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(tmp_path, CARDS))
    return tmp_path


@pytest.mark.parametrize(
    ("size", "said"), [("0.5 x H100", "0.5 GPUs"), ("1 x H100", "1 GPU"), ("{count: 1, share: 0.3}", "0.3 GPUs")]
)
def test_a_part_of_a_full_card_keeps_its_size_until_there_is_room(cards: Path, size: str, said: str) -> None:
    larger = edited(CARDS, (PART, f"each: {{gpus: {size}}}"))
    now = decided(cards, larger)
    assert now.placement.allocations == now.last.allocations and not now.placement.unplaced, now.placement
    assert [(one.workload, one.keeps, one.wants) for one in now.placement.growing] == [("a", "0.25 GPUs", said)]
    assert now.placement.growing[0].reasons
    assert not judge(now.stack, now.placement, TODAY)
    keep(now)
    assert decided(cards, larger, frozen=True).stale == ()
    text = larger[: larger.index("  b:")] if said == "1 GPU" else edited(larger, ("gpus: 0.75 x H100", "gpus: 0.5 x H100"))
    room = decided(cards, text)
    (grown,) = [one for one in room.placement.allocations if one.workload == "a"]
    assert (grown.node, not room.placement.growing) == ("n1", True)
    assert sum(card.part for card in grown.gpus) == int(1000 * float(said.split(maxsplit=1)[0]))


READY = edited(CARDS, (", state: cordon, reason: fans", "")) + "solve: {moves: 0}\n"


def test_a_part_that_has_outgrown_its_card_moves(cards: Path) -> None:
    """In its new size it could not stay, so that is no move that the budget counts; as with whole GPUs."""
    now = decided(cards, edited(READY, (PART, "each: {gpus: 0.5 x H100}")))
    assert not now.placement.unplaced and now.placement.by_name()["b-0"] == now.last.by_name()["b-0"]
    mine = now.placement.by_name()["a-0"]
    assert (mine.node, mine.gpus[0].part, now.placement.growing) == ("n2", 500, ())


@pytest.mark.parametrize("moves", [0, 1])
def test_for_a_part_that_grows_another_one_moves_only_within_the_budget(cards: Path, moves: int) -> None:
    bound = "each: {gpus: 0.5 x H100}, place: {select: {is: first}}"
    labelled = ("n1: {hardware: one", "n1: {hardware: one, labels: {is: first}")
    now = decided(cards, edited(READY, (PART, bound), labelled, ("moves: 0", f"moves: {moves}")))
    assert not now.placement.unplaced
    found = {one.name: (one.node, one.gpus[0].part) for one in now.placement.allocations}
    assert found == {"a-0": ("n1", 500 if moves else 250), "b-0": ("n2" if moves else "n1", 750)}
    assert [one.workload for one in now.placement.growing] == ([] if moves else ["a"])


def test_a_part_grows_on_another_card_of_its_node(tmp_path: Path) -> None:
    text = edited(CARDS, ("n1: {hardware: one", "n1: {hardware: two")) + "solve: {moves: 0}\n"
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(tmp_path, text))
    now = decided(tmp_path, edited(text, (PART, "each: {gpus: 0.5 x H100}")))
    assert not now.placement.growing and not now.placement.unplaced, now.placement
    mine, other = now.placement.by_name()["a-0"], now.placement.by_name()["b-0"]
    assert mine.gpus[0].part == 500 and mine.cards != other.cards and other == now.last.by_name()["b-0"]
