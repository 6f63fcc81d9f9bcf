"""How are measured speeds shown? As a table, for a pull request, and as JSON."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from swarm_iac.autopilot.speeds import STEP, MeasuredSpeed
from swarm_iac.model.service.speed import Rate
from swarm_iac.plan.show.markdown import shown
from swarm_iac.plan.show.section import Rows, Section

HEADS = ("workload", "GPU model", "declared", "measured", "10 to 90 %", "busy for", "replicas by needs", "")


def rows(found: Sequence[MeasuredSpeed]) -> list[tuple[str, ...]]:
    """One for each workload and GPU model."""
    return [
        (
            one.workload,
            one.model,
            str(one.declared),
            str(one.measured or "-"),
            f"{one.low} to {one.high}" if one.low and one.high else "-",
            f"{one.moments * STEP / 3600:.3g} h",
            " → ".join(dict.fromkeys(map(str, one.replicas))),
            one.verdict,
        )
        for one in found
    ]


def suggested(found: Sequence[MeasuredSpeed]) -> dict[tuple[str, str], Rate]:
    """By workload and GPU model."""
    return {(one.workload, one.model): one.suggested for one in found if one.suggested is not None}


def as_json(found: Sequence[MeasuredSpeed], since: int, until: int) -> dict[str, Any]:
    """Rates as they are written in a stack file."""
    return {
        "since": _moment(since),
        "until": _moment(until),
        "speeds": [
            {
                "workload": one.workload, "model": one.model, "declared": str(one.declared), "moments": one.moments,
                **{key: str(value) if value else None for key, value in _rates(one).items()},
                "replicas": {"declared": one.replicas[0], "suggested": one.replicas[1]}, "verdict": one.verdict,
            }
            for one in found
        ],
    }  # fmt: skip


def _rates(one: MeasuredSpeed) -> dict[str, Rate | None]:
    return {"measured": one.measured, "low": one.low, "high": one.high, "suggested": one.suggested}


def title(stack: str) -> str:
    """Of the pull request."""
    return f"Speeds of {stack} as measured"


def body(found: Sequence[MeasuredSpeed], since: int, until: int, busy: float) -> str:
    """Of the pull request, as Markdown."""
    table = Rows(HEADS)
    for row in rows([one for one in found if one.suggested is not None]):
        table.add(*row)
    words = (
        f"From {_moment(since)} to {_moment(until)}: the median of what one replica did while its GPUs were at least "
        f"{100 * busy:.0f} % busy. `needs` then asks for as many replicas as the table says. Nothing of it is in force before "
        "this is merged; see `swarm speed`."
    )
    return shown(Section("Measured speeds", words, table), len(table.cells), "") + "\n"


def _moment(seconds: int) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%dT%H:%MZ}"
