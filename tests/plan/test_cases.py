"""Which steps follow from which situation? One file per case in cases/; SWARM_UPDATE=1 writes `steps` anew.

A case: `why` (one line), `agent`, `observed` and `desired` (node → NodeState, or {state, health, error, managed, handover,
ledger: false}), and `steps` (id → what it waits for and what it changes), `warnings`, or `refused`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac.errors import Refused
from swarm_iac.model.state import Desired, LedgerHead, Observed
from swarm_iac.model.step import Plan
from swarm_iac.plan import steps

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


def observed(given: dict[str, Any]) -> dict[str, Observed]:
    found = {}
    for name, values in given.items():
        one = dict(values or {})
        ours = one.pop("ledger", True)
        head = LedgerHead(lineage="l", serial=1, fleet="f") if ours else None
        found[name] = Observed.model_validate({"node": name, "ledger": head, "agent": "new" if ours else "", **one})
    return found


def desired(given: dict[str, Any]) -> dict[str, Desired]:
    return {
        name: Desired.model_validate({"node": name, "address": "local", "fleet": "f", **(one or {})})
        for name, one in given.items()
    }


def shown(plan: Plan) -> dict[str, Any]:
    return {
        step.id: {
            **({"after": list(step.after)} if step.after else {}),
            **({"why": step.why} if step.why else {}),
            **({"changes": [f"{each.path}: {each.old} -> {each.new}" for each in step.changes]} if step.changes else {}),
        }
        for step in plan.steps
    }


def outcome(case: dict[str, Any]) -> dict[str, Any]:
    try:
        plan = steps(observed(case["observed"]), desired(case["desired"]), agent="new")
    except Refused as refusal:
        return {"refused": str(refusal)}
    return {
        "steps": shown(plan),
        "waves": [[step.id for step in wave] for wave in plan.waves()],
        "warnings": list(plan.warnings),
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    case = yaml.safe_load(text)
    found = outcome(case)
    if os.environ.get("SWARM_UPDATE"):
        head = text.partition("# --- expected")[0].rstrip()
        body = yaml.safe_dump(found, sort_keys=False, width=120)
        path.write_text(f"{head}\n# --- expected\n{body}", encoding="utf-8")
    else:
        assert found == {key: case[key] for key in ("steps", "waves", "warnings", "refused") if key in case}


def test_every_case_says_why() -> None:
    assert len(CASES) >= 12
    assert all(yaml.safe_load(path.read_text(encoding="utf-8"))["why"] for path in CASES)
