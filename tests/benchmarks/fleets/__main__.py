"""Does the solver answer well on fleets as people have them, and on the edits that they make? Prints a table.

    python -m tests.benchmarks.fleets --seed N --machines M [--changes K] [--fleets F] [--jobs J] [--save DIR] [--twice]
        [--proven] [--ends P] [--rows FILE] [--json]
    python -m tests.benchmarks.fleets --file STACK [--seed N] [--changes K] [...]
    python -m tests.benchmarks.fleets --replay DIR/seed3-edit2 [...]
    python -m tests.benchmarks.fleets --table FILE [FILE ...]

Each seed is a fleet, written as a stack file and read by the product, that is solved from nothing and then through K edits,
each from the placement before. `--machines` is a number or a range, `5-60`. Every answer is judged by `limits`, by a checker
written from docs/stack-file.md alone, and for changes that nothing asks for. Times are those of `solve()`, with the garbage
collector as rare as in the command. `--file` begins with that fleet, from nothing, and draws edits of it.

A seed gives the same fleet and edits whatever the solver answers. `--save` keeps each bad case as a stack file with its lock
and a `case.json`, which `--replay` solves and judges again. `--rows` writes the solves of a fleet to a file as soon as it is
done with, and a run that was ended goes on with the seeds that are not in it; `--table` prints the table of such files. The
exit code is 1 after an error or a broken rule.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from swarm_iac.cli.__main__ import collect_rarely
from tests.benchmarks.fleets.case import Row, read, solved
from tests.benchmarks.fleets.run import Order, rows_of, run
from tests.benchmarks.fleets.table import bad, lines, summary


def main() -> int:
    """Run and print; the exit code."""
    asked = _parser().parse_args()
    collect_rarely()
    rows: list[Row] = []
    try:
        for row in _asked(asked):
            rows.append(row)
    except KeyboardInterrupt:
        print("\nended by hand; what was solved so far:", file=sys.stderr)
    _progress("")
    told = summary(rows)
    if asked.json:
        print(json.dumps({"summary": told, "rows": rows}, default=str))
    else:
        print("\n".join(lines(told)))
    return int(bad(told))


def _asked(asked: argparse.Namespace) -> Iterator[Row]:
    if asked.table:
        return (json.loads(line) for file in asked.table for line in file.read_text().splitlines())
    return _replayed(asked.replay) if asked.replay else _drawn(asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first fleet")
    parser.add_argument("--machines", type=_range, default=(5, 60), help="a number or a range")
    parser.add_argument("--file", type=Path, metavar="STACK", help="this stack file, and not a drawn fleet")
    parser.add_argument("--changes", type=int, default=5, help="edits of each fleet")
    parser.add_argument("--ends", type=float, default=0, metavar="P", help="P%% of what runs comes to its end before each edit")
    parser.add_argument("--fleets", type=int, default=1, help="so many, with the seeds that follow")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--save", type=Path, help="folder for bad cases")
    parser.add_argument("--replay", type=Path, nargs="+", help="folders of saved cases")
    parser.add_argument("--twice", action="store_true", help="solve each again: is the answer the same?")
    parser.add_argument("--proven", action="store_true", help="bound what has a gap by a thorough search (a minute each)")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="append each fleet's solves as lines of JSON; go on from there"
    )
    parser.add_argument("--table", type=Path, nargs="+", metavar="FILE", help="only print the table of such files")
    parser.add_argument("--json", action="store_true")
    return parser


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    found = int(low), int(high or low)
    if not 1 <= found[0] <= found[1]:
        raise argparse.ArgumentTypeError(f"{text} is no number of machines; write 12 or 5-60")
    return found


def _drawn(asked: argparse.Namespace) -> Iterator[Row]:
    rest = (asked.machines, asked.changes, asked.save, asked.twice, asked.proven, asked.file, asked.ends)
    known = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows and asked.rows.exists() else []
    yield from known
    whole = {row["seed"] for row in known}
    orders = [Order(asked.seed + i, *rest) for i in range(asked.fleets) if asked.seed + i not in whole]
    begin, count, wrong = time.monotonic(), 0, 0

    def tell(row: Row) -> None:
        nonlocal count, wrong
        count, wrong = count + ("seconds" in row), wrong + bool("error" in row or row.get("findings"))
        where = f"seed {row['seed']} edit {row['edit']}: {row['what'][:50]}"
        _progress(f"{count} solves, {wrong} with problems, {time.monotonic() - begin:.0f} s; {where}")

    def keep(rows: list[Row]) -> None:
        if asked.rows:
            with asked.rows.open("a") as file:
                file.writelines(json.dumps(row, default=str) + "\n" for row in rows)

    if asked.jobs <= 1:
        for order in orders:
            rows = []
            for row in run(order):
                tell(row)
                rows.append(row)
                yield row
            keep(rows)
        return
    with ProcessPoolExecutor(asked.jobs, multiprocessing.get_context("spawn"), collect_rarely) as pool:
        for future in as_completed([pool.submit(rows_of, order) for order in orders]):
            keep(future.result())
            for row in future.result():
                tell(row)
                yield row


def _replayed(folders: list[Path]) -> Iterator[Row]:
    for number, folder in enumerate(folders):
        yield solved(read(folder), {"seed": folder.name, "edit": number or 1, "what": "again"}).row


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:110]}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
