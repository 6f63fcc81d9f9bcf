"""Who did what on this node, and when? One line of JSON per run and verb, for root alone."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List

from ..machine.run import Context, NodeError

AUDIT = "/var/lib/swarm/audit.jsonl"
#: The older half goes when the file is larger. [bytes]
_MOST = 1 << 20
#: Longest line of a move, and of all of them: a whole answer has the audit log too, and has a bound. [characters]
_LONGEST, _ALL = 1 << 14, 1 << 21


def note(root: str, guard: Dict[str, Any], run: Dict[str, Any], results: List[Dict[str, Any]], *, alone: bool = True) -> None:
    """Add what was done. Words of failures stay out: they may quote what a user's command printed.

    `alone`: nobody else writes here now. Otherwise the line is added all the same, in one piece, and nothing is removed.
    """
    done = [one for one in results if not one["skipped"]]
    path = _below(root)
    if not done or not os.path.isdir(os.path.dirname(path)):
        return  # nothing was done, or the node was just given back
    fields = ("id", "ok", "changed", "pending", "seconds")
    line = {
        "t": round(time.time(), 1), "fleet": guard["fleet"], "lineage": guard["lineage"], "serial": guard["serial"],
        "who": str(run.get("who") or ""), "commit": str(run.get("commit") or ""),
        "steps": [{key: one[key] for key in fields if one.get(key) not in (None, False)} for one in done],
    }  # fmt: skip
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, (json.dumps(line, sort_keys=True) + "\n").encode())
    finally:
        os.close(handle)
    if alone and os.path.getsize(path) > _MOST:
        _halve(path)


def lines(root: str = "/", most: int = 200) -> List[Dict[str, Any]]:
    """The last lines, oldest first. A line that was cut by a power loss is left out."""
    found = []
    try:
        with open(_below(root), encoding="utf-8", errors="replace") as file:
            for text in file.readlines()[-most:]:
                try:
                    found.append(json.loads(text))
                except (ValueError, RecursionError):
                    continue
    except OSError:
        return []
    return found


def moves(context: Context, most: int = 200) -> List[Dict[str, Any]]:
    """The last moves of lent memory, oldest first, as the lender told them to the journal: its certificates, each with `t`.

    Where the journal cannot be asked, one line says why: {unread}.
    """
    ours = ["_SYSTEMD_UNIT=swarm-lender.service", "_UID=0"]
    try:
        text = context.run(
            ["journalctl", *ours, "-n", str(most), "-o", "json", "--all", "--output-fields=MESSAGE", "-q", "--no-pager"],
            timeout=10,
        )
    except NodeError as error:
        return [{"unread": str(error)[-300:]}]
    found: List[Dict[str, Any]] = []
    left = _ALL
    for line in reversed(text.splitlines()):
        try:
            entry = json.loads(line)
            one = json.loads(entry["MESSAGE"])
            when = int(entry["__REALTIME_TIMESTAMP"]) / 1e6
        except (ValueError, TypeError, KeyError, RecursionError):
            continue  # cut by a power loss, or words about a trouble
        if isinstance(one, dict) and isinstance(one.get("moved"), dict) and len(line) < _LONGEST:
            left -= len(line)
            if left < 0:
                break
            found.append(dict(one, t=round(when, 1)))
    return found[::-1]


def _halve(path: str) -> None:
    from ..machine.run import replace

    with open(path, encoding="utf-8", errors="replace") as file:
        kept = file.readlines()
    replace(path, "".join(kept[len(kept) // 2 :]), 0o600)


def _below(root: str) -> str:
    return AUDIT if root == "/" else os.path.join(root, AUDIT.lstrip("/"))
