"""What happens to one fleet, from nothing through all its edits?"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.errors import StackFileError
from swarm_iac.model.placement import Placement
from tests.benchmarks.fleets import real
from tests.benchmarks.fleets.case import Case, Row, save, solved
from tests.benchmarks.fleets.draw_where import more
from tests.benchmarks.fleets.draw_workloads import filled
from tests.benchmarks.fleets.edits import edited
from tests.benchmarks.fleets.written import Drawn, text_of

#: How often an edit is drawn anew when the file is refused.
ATTEMPTS = 5


@dataclass(frozen=True)
class Order:
    """Which fleet, and what is to be done with it."""

    seed: int
    machines: tuple[int, int]
    changes: int
    save: Path | None = None
    twice: bool = False
    proven: bool = False
    #: A stack file to begin with, instead of a drawn fleet.
    file: Path | None = None
    #: How many of the replicas that run come to their end before each edit, of a hundred.
    ends: float = 0


def run(order: Order) -> Iterator[Row]:
    """One row for each solve, and one for each file that was refused."""
    machines = random.Random(f"machines {order.seed}").randint(*order.machines)
    drawn = real.drawn(order.file) if order.file else more(filled(order.seed, machines), order.seed)
    last = Placement()
    for number in range(order.changes + 1):
        label: Row = {"seed": order.seed, "edit": number, "what": "from nothing"}
        try:
            if number:
                drawn, label["what"], refused = _next(drawn, order.seed, number)
                yield from refused
                last = finishing(last, order, number)
            stack = drawn.stack()
        except StackFileError as error:
            yield label | {"refused": str(error.problems[0]), "drawn": True}
            return
        case = Case(today=drawn.today, stack=stack, last=last)
        answer = solved(case, label, twice=order.twice, proven=order.proven)
        yield answer.row
        if order.save and ("error" in answer.row or answer.findings):
            lines = [answer.row.get("traceback", ""), *(f"{one.rule}: {one.text}" for one in answer.findings)]
            note = f"seed {order.seed}, edit {number}: {label['what']}, {drawn.today}\n" + "\n".join(lines)
            save(order.save, f"seed{order.seed}-edit{number}", case, text_of(drawn.data), note)
        last = answer.answer if answer.answer is not None else last


def finishing(last: Placement, order: Order, number: int) -> Placement:
    """The same, with some jobs at their end. A stream of its own for each, so that nothing else is drawn anew for it."""

    def over(name: str) -> bool:
        return random.Random(f"end {order.seed} {number} {name}").random() * 100 < order.ends

    if not order.ends:
        return last
    ones = tuple(a.released() if not a.ended and over(a.name) else a for a in last.allocations)
    return last.model_copy(update={"allocations": ones})


def rows_of(order: Order) -> list[Row]:
    """The same at once, for a process of its own."""
    return list(run(order))


def _next(drawn: Drawn, seed: int, number: int) -> tuple[Drawn, str, list[Row]]:
    """The next edit whose file is accepted, in words, and those that were refused before it."""
    refused: list[Row] = []
    for attempt in range(ATTEMPTS):
        after, what = edited(drawn, seed, number, attempt)
        try:
            after.stack()
        except StackFileError as error:
            label: Row = {"seed": seed, "edit": number, "what": what}
            refused.append(label | {"refused": str(error.problems[0]), "drawn": False})
            continue
        return after, what, refused
    return drawn, "nothing (all drawn edits were refused)", refused
