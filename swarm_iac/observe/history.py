"""What do the nodes report about past changes? Their audit logs, read over ssh and grouped by run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from swarm_iac.model.base import Value
from swarm_iac.observe.moves import MemoryMove, newest, split
from swarm_iac.observe.observe import each
from swarm_iac.printable import printable, printable_all
from swarm_iac.reach import ask
from swarm_iac.reach.answer import decode
from swarm_iac.reach.call import call


@dataclass
class PastRun:
    """One run of `up` or `destroy`, as recorded by the nodes that it changed. `began`, `ended`: [s since 1970]."""

    serial: int
    who: str
    commit: str
    began: float
    ended: float
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        """The nodes that it changed."""
        return sorted({name.split("/")[0] for name in self.steps})

    def count(self, key: str) -> int:
        """How many of its steps were `ok`, or `changed` something."""
        return sum(bool(step.get(key)) for step in self.steps.values())


class _Step(Value):
    """What a line says of one step."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    id: str = Field(max_length=200)
    ok: bool = False
    changed: bool = False
    pending: bool = False
    seconds: float = 0


class _Line(Value):
    """One line of an audit, as a node tells it."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    t: float = Field(ge=0, le=10**11, description="[s since 1970]")
    lineage: str = Field(max_length=200)
    serial: int = Field(ge=0, le=1 << 50)
    who: str = Field(max_length=500)
    commit: str = Field(max_length=200)
    steps: list[_Step]


def _lines(node: str, reported: Any) -> tuple[list[dict[str, Any]], int]:
    """The lines that are some, and how many are none. A node tells of its own steps, under the name that it has now."""
    if not isinstance(reported, list):
        raise ValueError("the node's answer is no list of lines")
    found, bad = [], 0
    for one in reported:
        try:
            line = _Line.model_validate(printable_all(one)).model_dump(exclude_unset=True)
        except ValidationError:
            bad += 1
            continue
        steps = [{**step, "id": f"{node}/{step['id'].partition('/')[2]}"} for step in line["steps"]]
        found.append({**line, "steps": steps})
    return found, bad


@dataclass
class Past:
    """`runs` and `moves` of memory, newest first; `dark`: nodes of which not all is known → why."""

    runs: list[PastRun]
    moves: list[MemoryMove]
    dark: dict[str, str]


def history(targets: Mapping[str, str], *, ssh_config: Path | None = None, timeout: float = 20, most: int = 200) -> Past:
    """What the nodes tell. `most`: lines of runs, and as many of moves, asked of each node."""
    return asyncio.run(_all(targets, ssh_config, timeout, most))


async def _all(targets: Mapping[str, str], ssh_config: Path | None, timeout: float, most: int) -> Past:
    answers = await each(
        targets,
        lambda node, address: _one(node, address, ssh_config, most),
        lambda node, words: _Told(why=printable(words, 500)),
        timeout,
    )
    lines = [line for told in answers.values() for line in told.lines]
    moved = newest(one for told in answers.values() for one in told.moves)
    return Past(together(lines), moved, {node: told.why for node, told in answers.items() if told.why})


@dataclass
class _Told:
    """Of one node: the lines of its audit log, its moves, and what is wrong with them; empty where nothing is."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    moves: list[MemoryMove] = field(default_factory=list)
    why: str = ""


async def _one(node: str, address: str, ssh_config: Path | None, most: int) -> _Told:
    code, out, err = await call(ask.installed(address, ssh_config, f"history {most}", program="current"), b"")
    if code == ask.ABSENT:
        return _Told()
    if code:
        return _Told(why=printable(err.decode(errors="replace").strip()[-300:]) or f"exit status {code}")
    rest, moves, wrong = split(node, decode(out))
    found, bad = _lines(node, rest)
    wrong += [f"{bad} of the lines of its audit log cannot be read"] if bad else []
    return _Told(found, moves, "; ".join(wrong))


def together(lines: list[dict[str, Any]]) -> list[PastRun]:
    """Runs, newest first, from the lines of all nodes. A step that was asked several times counts as it ended."""
    runs: dict[tuple[str, int], PastRun] = {}
    for line in sorted(lines, key=lambda line: line["t"]):
        key = (line["lineage"], line["serial"])
        run = runs.setdefault(key, PastRun(line["serial"], line["who"], line["commit"], line["t"], line["t"]))
        run.ended = line["t"]
        for step in line["steps"]:
            changed = run.steps.get(step["id"], {}).get("changed") or step.get("changed")
            run.steps[step["id"]] = {**step, "changed": bool(changed)}
    # Within a lineage the serial tells the order, whatever the nodes' clocks say.
    latest: dict[str, float] = {}
    for (lineage, _), run in runs.items():
        latest[lineage] = max(run.began, latest.get(lineage, 0.0))
    ranked = sorted(runs.items(), key=lambda one: (latest[one[0][0]], one[0]), reverse=True)
    return [run for _, run in ranked]
