"""Are the reasons true that are said of decisions? Each named cause is taken away, and all is solved again.

    python -m tests.benchmarks.reasons --seed N --decisions K [--machines 3-15] [--changes K] [--jobs J] [--save DIR] [--json]
    python -m tests.benchmarks.reasons --replay DIR/seed3-edit2 [...]

Fleets and edits are those of `tests.benchmarks.fleets`. Every reason that a person reads is tried: of what is pending or
waits to grow (each rule, the count of nodes, the code), of what stops or moves, and for whose sake. The cause is given up by
the edit that does so, everything else that was decided stays asked for, and the effect has to go. Prints how many of each kind
were said and held, and those that did not. `--save` keeps the decision of each as a case, which `--replay` tries again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swarm_iac.errors import StackFileError
from swarm_iac.model.placement import Placement
from tests.benchmarks.fleets.case import Case, read, save
from tests.benchmarks.fleets.draw_links import with_links
from tests.benchmarks.fleets.draw_workloads import filled
from tests.benchmarks.fleets.run import _next
from tests.benchmarks.fleets.written import text_of
from tests.benchmarks.reasons.tried import Decided

Row = dict[str, Any]


def decisions(
    seed: int, machines: tuple[int, int], changes: int, folder: Path | None = None, *, links: bool = False
) -> Iterator[Row]:
    """One row for each decision of a fleet: from nothing, and after each edit."""
    count = random.Random(f"machines {seed}").randint(*machines)
    drawn, last, before = filled(seed, count), Placement(), None
    drawn = with_links(drawn, seed) if links else drawn
    for number in range(changes + 1):
        label: Row = {"seed": seed, "edit": number, "what": "from nothing"}
        try:
            if number:
                drawn, label["what"], _ = _next(drawn, seed, number)
            stack = drawn.stack()
        except StackFileError as error:
            yield label | {"refused": str(error.problems[0])}
            return
        decided, row = _tried(
            Case(today=drawn.today, stack=stack, last=last), before or Case(today=drawn.today, stack=stack, last=last), label
        )
        yield row
        if folder and ("error" in row or any(not one["held"] for one in row["said"])):
            name = f"seed{seed}-edit{number}"
            note = "\n".join(f"{one['kind']}: {one['subject']}: {one['text']}" for one in row["said"] if not one["held"])
            save(folder, name, Case(today=drawn.today, stack=stack, last=last), text_of(drawn.data), note)
            (folder / name / "before.json").write_text(
                (before or Case(today=drawn.today, stack=stack, last=last)).model_dump_json(by_alias=True)
            )
        if decided is None:
            return
        last = decided.now.model_copy(update={"unplaced": (), "growing": ()})
        before = Case(today=drawn.today, stack=decided.stack, last=last)


def _tried(case: Case, before: Case, label: Row) -> tuple[Decided | None, Row]:
    decided = None
    begin = time.process_time()
    try:
        decided = Decided(before.stack, case.stack, case.last, case.today)
        said = list(decided.reasons())
    except Exception:
        return decided, label | {"error": traceback.format_exc(), "said": []}
    return decided, label | {"seconds": time.process_time() - begin, "said": [asdict(one) for one in said]}


def replayed(folder: Path) -> Row:
    """A saved decision, tried again."""
    return _tried(
        read(folder),
        Case.model_validate_json((folder / "before.json").read_text()),
        {"seed": folder.name, "edit": 0, "what": "again"},
    )[1]


def _rows(order: tuple[int, tuple[int, int], int, Path | None]) -> list[Row]:
    return list(decisions(*order))


def _drawn(asked: argparse.Namespace) -> Iterator[Row]:
    per = asked.changes + 1
    orders = [(asked.seed + i, asked.machines, asked.changes, asked.save) for i in range(-(-asked.decisions // per))]
    if asked.jobs <= 1:
        for order in orders:
            yield from decisions(*order)
        return
    with ProcessPoolExecutor(asked.jobs, multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_rows, order) for order in orders]):
            yield from future.result()


def table(rows: list[Row]) -> Iterator[str]:
    """Each kind of reason, and each that did not hold."""
    said: Counter[str] = Counter(one["kind"] for row in rows for one in row["said"])
    held: Counter[str] = Counter(one["kind"] for row in rows for one in row["said"] if one["held"])
    yield f"{'reason':<50} {'said':>6} {'held':>6} {'not':>5}"
    for kind in sorted(said):
        yield f"{kind:<50} {said[kind]:>6} {held[kind]:>6} {said[kind] - held[kind]:>5}"
    whole = sum(all(one["held"] for one in row["said"]) for row in rows if "error" not in row and "refused" not in row)
    total = max(1, said.total())
    yield f"{'all':<50} {said.total():>6} {held.total():>6} {said.total() - held.total():>5}   {100 * held.total() / total:.2f}%"
    yield f"{len(rows)} decisions, of {whole} every reason held"
    for row in rows:
        if "error" in row:
            yield f"seed {row['seed']} edit {row['edit']}: {row['error'].strip().splitlines()[-1]}"
        for one in row.get("said", ()):
            if not one["held"]:
                yield f"seed {row['seed']} edit {row['edit']}: {one['kind']}: {one['subject']}: {one['text']}"


def main() -> int:
    """Run and print; the exit code is 1 where a decision failed or fewer than 99% of the reasons held."""
    asked = _parser().parse_args()
    rows: list[Row] = []
    try:
        for row in map(replayed, asked.replay) if asked.replay else _drawn(asked):
            rows.append({"said": [], **row})
            if sys.stderr.isatty():
                print(f"\r\x1b[K{len(rows)} decisions", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("\nended by hand; what was tried so far:", file=sys.stderr)
    print(json.dumps(rows) if asked.json else "\n".join(table(rows)))
    held = [one["held"] for row in rows for one in row["said"]]
    return int(any("error" in row for row in rows) or sum(held) < 0.99 * len(held))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first fleet")
    parser.add_argument("--decisions", type=int, default=100, help="how many at least")
    parser.add_argument("--machines", type=_range, default=(3, 15), help="a number or a range")
    parser.add_argument("--changes", type=int, default=4, help="edits of each fleet")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--save", type=Path, help="folder for decisions of which a reason did not hold")
    parser.add_argument("--replay", type=Path, nargs="+", help="folders of saved decisions")
    parser.add_argument("--json", action="store_true")
    return parser


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


if __name__ == "__main__":
    sys.exit(main())
