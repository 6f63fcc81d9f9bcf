"""Is what is said once of many nodes and replicas what was said of each?"""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from swarm_iac.plan.show.alike import FEW, grouped, merged
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.stackfile.reading.ranges import expand


def every(text: str) -> list[str]:
    return [name for part in text.split(", ") for name in expand(part)]


@pytest.mark.parametrize("seed", range(200))
def test_each_node_and_replica_is_named_once_with_what_was_said_of_it(seed: int) -> None:
    draw = random.Random(seed)
    nodes = draw.sample([f"{head}-{i:02d}" for head in ("a", "b") for i in range(1, 13)] + ["login"], draw.randint(1, 12))
    table = []
    for node in sorted(nodes):
        table += [(node, what, "", draw.choice(["on", "off"])) for what in ("tcp", "gpu 0-7: power") if draw.random() < 0.7]
    numbers = iter(range(100))
    for node in sorted(nodes):
        table += [
            (node, f"+ etl-{next(numbers)}", "", f"cpus 0-3, {draw.choice(['2 GB', '4 GB'])} (new)")
            for _ in range(draw.randint(0, 3))
        ]
    found = merged(Section("What changes", rows=Rows(("node", "what", "old", "new"), table))).rows
    assert found is not None
    said, named = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for node, what, _, new in found.cells:
        if what.startswith("+ "):
            named.update((name, new) for name in every(what[2:]))
        else:
            said.update((one, f"{what} {new}") for one in every(node))
    assert said == Counter((node, f"{what} {new}") for node, what, _, new in table if "etl" not in what)
    assert named == Counter((what[2:], new) for _, what, _, new in table if "etl" in what)
    for node, what, *_ in found.cells:
        if what.startswith("+ "):
            assert set(every(node)) == {row[0] for row in table if row[1][2:] in every(what[2:])}


def test_few_rows_keep_their_cards_and_many_say_how_many() -> None:
    table = [(f"n{i}", f"+ chat-{i}", "", f"gpus {i}-{i + 1}, command serve gpus 3, x (new)") for i in range(FEW + 1)]
    assert [cells for cells, _ in grouped(table[:FEW], 0, FEW)] == table[:FEW]
    assert [cells for cells, _ in grouped(table, 0, FEW, some=len(table))] == table
    ((cells, first),) = grouped(table, 0, FEW)
    assert cells == ("n[0-2]", "+ chat-[0-2]", "", "2 GPUs, command serve gpus 3, x (new)") and first == table[0]


def test_a_command_never_makes_two_changes_one() -> None:
    table = [(f"n{i}", f"chat-{i}: command", "run gpus 0, a", f"run gpus {i}, a") for i in range(FEW + 2)]
    assert len(grouped(table, 0, FEW)) == len(table)


def test_limits_of_users_stand_for_themselves() -> None:
    table = [(f"{level} {name}{i}", "gpus", "0", "8", "8") for level, name in (("user", "u"), ("node", "n")) for i in range(4)]
    rows = merged(Section("Limits", rows=Rows(("limit of", "resource", "before", "after", "ceiling"), table))).rows
    assert rows is not None
    assert [cells[0] for cells in rows.cells] == ["user u0", "user u1", "user u2", "user u3", "node n[0-3]"]


def test_a_terminal_names_every_node_and_a_comment_counts_them() -> None:
    section = Section(
        "What changes", rows=Rows(("node", "what", "old", "new"), [(f"n{i}", "tcp", "", "bbr") for i in range(0, 400, 2)])
    )
    whole, short = merged(section).rows, merged(section, 12).rows
    assert whole is not None and short is not None
    assert every(whole.cells[0][0]) == [f"n{i}" for i in range(0, 400, 2)]
    assert re.fullmatch(r"n0, n2, .*, n22, … \(200 in all\)", short.cells[0][0])
