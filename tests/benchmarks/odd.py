"""What does the solver answer to numbers and counts that nobody expects? Prints one line for each.

    python -m tests.benchmarks.odd [--only NAME ...] [--limit SECONDS] [--no-change] [--json]

Each case is a process of its own, written as a stack file and read by the product. Where the file's checks refuse it, that
is the answer, and a row `past the file` has what the solver makes of the same stack built by hand, unless the model refuses
it too. After an answer the first node that is in use is lost, and that change is solved as well. Every answer is judged as
in `tests.benchmarks.fleets`; the exit code is 1 after an error, a broken rule, or no answer within the limit.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from swarm_iac.errors import StackFileError
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.load import loads
from tests.benchmarks.fleets.case import Case, Row, hard, solved
from tests.benchmarks.fleets.written import Data, text_of
from tests.benchmarks.odd_cases import CASES

TODAY = datetime.date(2026, 11, 20)


def tried(name: str, *, change: bool) -> Iterator[Row]:
    """The rows of one case."""
    data = CASES[name]()
    what = "from nothing"
    text = text_of(data)
    try:
        stack = loads(text, f"{name}.yaml", today=TODAY).stack
    except StackFileError as error:
        first = error.problems[0]
        yield {"case": name, "what": "file", "verdict": f"refused: {first.path} {first.message}".replace("  ", " ")}
        what = "past the file"
        try:
            stack = _direct(data)
        except ValidationError as refused:
            one = refused.errors(include_url=False)[0]
            yield {"case": name, "what": what, "verdict": f"refused by the model: {one['msg']}"}
            return
    row = _solved(Case(today=TODAY, stack=stack, last=Placement()), name, what)
    last = row.pop("answer")
    yield row
    if change and last is not None and last.allocations:
        node = stack.nodes[last.allocations[0].node]
        lost = stack.model_copy(update={"nodes": stack.nodes | {node.name: node.model_copy(update={"state": "lost"})}})
        row = _solved(Case(today=TODAY, stack=lost, last=last), name, "a node lost")
        del row["answer"]
        yield row


def _direct(data: Data) -> Stack:
    """The stack without a file; ceilings are those that the data names. Raises ValidationError."""
    nodes = {name: {**entry, "name": name, "ssh": "local"} for name, entry in data.get("nodes", {}).items()}
    return Stack.model_validate(data | {"nodes": nodes})


def _solved(case: Case, name: str, what: str) -> Row:
    done = solved(case, {"case": name, "what": what})
    row: dict[str, Any] = done.row
    wrong = hard(done.findings)
    if "error" in row:
        row["verdict"] = f"ERROR {row['error']}"
    elif wrong:
        row["verdict"] = f"BROKEN {len(wrong)}: {wrong[0].rule}: {wrong[0].text}"
    elif done.findings:
        row["verdict"] = f"{len(done.findings)} without need: {done.findings[0].rule}: {done.findings[0].text}"
    else:
        row["verdict"] = "sound"
    row["answer"] = done.answer
    return row


def _apart(name: str, limit: float | None, change: bool) -> list[Row]:
    """The rows of one case from a process of its own; those that were there before it had to be ended, too."""
    words = [sys.executable, "-m", "tests.benchmarks.odd", "--one", name, *([] if change else ["--no-change"])]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        ended: Row = {"case": name, "what": ""}
        try:
            code = subprocess.run(words, stdout=out, stderr=said, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            ended |= {"verdict": f"NO ANSWER within {limit:.0f} s", "error": "limit"}
        else:
            said.seek(0)
            last = (said.read().strip().splitlines() or ["no word"])[-1]
            ended |= {"verdict": f"ERROR exit {code}: {last}", "error": last} if code else {}
        out.seek(0)
        rows: list[Row] = [json.loads(line) for line in out]
    return rows + ([ended] if "error" in ended else [])


def _line(row: Row) -> str:
    cells = (
        f"{row['seconds']:.1f}" if "seconds" in row else "-",
        str(row.get("peak_mb", "-")),
        str(row.get("replicas", "-")),
        str(row.get("unplaced", "-")),
        str(row.get("gap_percent", "-")),
    )
    numbers = " ".join(f"{cell:>{width}}" for cell, width in zip(cells, (8, 6, 9, 9, 8), strict=True))
    return f"{row['case']:22} {row['what']:14} {numbers}  {row['verdict'][:150]}"


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--limit", type=float, help="seconds for each case; without it there is none")
    parser.add_argument("--no-change", dest="change", action="store_false", help="only from nothing")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", choices=list(CASES), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        for row in tried(asked.one, change=asked.change):
            print(json.dumps(row, default=str), flush=True)
        return 0
    rows: list[Row] = []
    if not asked.json:
        print(f"{'case':22} {'what':14} {'seconds':>8} {'MB':>6} {'placed':>9} {'unplaced':>9} {'gap %':>8}  verdict")
    for name in asked.only:
        for row in _apart(name, asked.limit, asked.change):
            rows.append(row)
            if not asked.json:
                print(_line(row), flush=True)
    if asked.json:
        print(json.dumps(rows))
    elif errors := {row["error"]: row.get("traceback", "") for row in rows if row.get("traceback")}:
        print("\nerrors, once of each kind:", *errors.values(), sep="\n")
    return int(any("error" in row or row["verdict"].startswith("BROKEN") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
