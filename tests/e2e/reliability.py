"""What did each fault and each kill do, as the tests saw it? Rows in a JSON file, and docs/reliability.md made from them.

    python -m tests.e2e.reliability        writes the tables into docs/reliability.md

A row is kept once its test has passed. The rows lie in build/reliability.json; SWARM_RELIABILITY names another file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
_FAULTS = "| fault | how | what the operator saw | the fleet meanwhile | the next run |\n|---|---|---|---|---|\n"
_MOST = 420
Rows = dict[str, dict[str, Any]]


def file() -> Path:
    """Where the rows lie."""
    return Path(os.environ.get("SWARM_RELIABILITY", ROOT / "build" / "reliability.json"))


def words(text: str) -> list[str]:
    """What a run told a person at its end: failed rows, warnings, and the command's own last lines."""
    told = re.findall(
        r"^\s+\* (?:Node|Allocation) \S+: (.*(?:\n(?!\s*(?:\*|warning:|error:)|\s*$)\s+\S.*)*)", text, re.MULTILINE
    )
    told += re.findall(r"^\s+warning: (.*)", text, re.MULTILINE)
    told += re.findall(r"^(?:the engine|the provider|cleared the lock) .*", text, re.MULTILINE)
    return list(dict.fromkeys(" ".join(one.split()) for one in told))


def kept(kind: str) -> Rows:
    """Every row of this kind ("faults", "kills"), by name."""
    return dict(json.loads(file().read_text()).get(kind, {})) if file().exists() else {}


def forget(kind: str) -> None:
    """Drop the rows of an earlier run."""
    if file().exists():
        file().write_text(json.dumps({name: rows for name, rows in json.loads(file().read_text()).items() if name != kind}))


def keep(kind: str, name: str, **row: Any) -> None:
    """Keep one row; a later run of the same test replaces it."""
    file().parent.mkdir(parents=True, exist_ok=True)
    all_of = json.loads(file().read_text()) if file().exists() else {}
    all_of.setdefault(kind, {})[name] = row
    file().write_text(json.dumps(all_of, indent=1, ensure_ascii=False) + "\n")


def faults(found: Rows) -> str:
    """The table of faults as Markdown."""
    return _FAULTS + "".join(f"| {' | '.join(map(_cell, _cells(name, row)))} |\n" for name, row in found.items())


def _cells(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    told = "<br>".join(row["told"]) or "nothing: there is nothing to do about it"
    fleet = "the others' changes were made" if row["went_on"] else "nothing further was begun"
    fleet += f"; {row['others']} of {row['others']} other jobs kept their process; {row['looks']} looks, no GPU with two owners"
    after = "; ".join(["nothing was left to do" if row["ended"] == "well" else "converged", *row["next_told"]])
    return (
        name,
        row["how"],
        f"ended {row['ended']} after {row['seconds']} s<br>{told}",
        fleet,
        f"{after}; {row['next_seconds']} s",
    )


def _cell(text: str) -> str:
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def kills(found: Rows) -> str:
    """The kills in one table of figures as Markdown."""
    if not found:
        return ""
    hit = [row for row in found.values() if row["processes"]]

    def span(key: str, rows: Iterable[dict[str, Any]]) -> str:
        values = sorted(row[key] for row in rows)
        return f"{values[0]} … {values[len(values) // 2]} … {values[-1]}" if values else "-"

    return (
        f"| {len(found)} runs | least … median … most |\n|---|---|\n"
        f"| killed before their end | {len(hit)} of {len(found)} |\n"
        f"| seconds into the run | {span('after', hit)} |\n"
        f"| processes killed | {span('processes', hit)} |\n"
        f"| seconds of the next `swarm up` | {span('next_seconds', found.values())} |\n"
        f"| next run converged, nothing twice, no orphan | {len(found)} of {len(found)} |\n"
    )


def write(page: str, name: str, table: str) -> str:
    """`page` with the table between the marks `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{table}{end}{tail}"


def main() -> None:
    """Write what there are rows for."""
    page = PAGE.read_text()
    for name, render in (("faults", faults), ("kills", kills)):
        rows = kept(name)
        page = write(page, name, render(rows)) if rows else page
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
