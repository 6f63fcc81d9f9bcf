"""What did each fault do, as the tests saw it? Rows in a JSON file, and the table of docs/reliability.md made from them.

    python -m tests.e2e.faults_table        writes the table into docs/reliability.md

The rows lie in build/faults.json; SWARM_FAULTS names another file.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
_HEAD = "| fault | how | what the operator saw | the fleet meanwhile | the next run |\n|---|---|---|---|---|\n"
_MOST = 330


def file() -> Path:
    """Where the rows lie."""
    return Path(os.environ.get("SWARM_FAULTS", ROOT / "build" / "faults.json"))


def words(text: str) -> list[str]:
    """What a run told a person at its end: failed rows, warnings, and the command's own last lines."""
    told = re.findall(
        r"^\s+\* (?:Node|Allocation) \S+: (.*(?:\n(?!\s*(?:\*|warning:|error:)|\s*$)\s+\S.*)*)", text, re.MULTILINE
    )
    told += re.findall(r"^\s+warning: (.*)", text, re.MULTILINE)
    told += re.findall(r"^(?:the engine|the provider|cleared the lock) .*", text, re.MULTILINE)
    return list(dict.fromkeys(" ".join(one.split()) for one in told))


def rows() -> dict[str, dict[str, Any]]:
    """Every row that was kept, by fault."""
    return dict(json.loads(file().read_text())) if file().exists() else {}


def keep(fault: str, **row: Any) -> None:
    """Keep one row; a later run of the same test replaces it."""
    file().parent.mkdir(parents=True, exist_ok=True)
    file().write_text(json.dumps({**rows(), fault: row}, indent=1, ensure_ascii=False) + "\n")


def render(found: dict[str, dict[str, Any]]) -> str:
    """The table as Markdown, in the order of the tests."""
    return _HEAD + "".join(f"| {' | '.join(map(_cell, _cells(name, row)))} |\n" for name, row in found.items())


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
        f"{after}, {row['next_seconds']} s",
    )


def _cell(text: str) -> str:
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def main() -> None:
    """Write the table between the page's marks."""
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{render(rows())}{END}{tail}")


if __name__ == "__main__":
    main()
