"""What was solved, and does it give the same answer again?

A record holds all that the solver saw and its answer. Commands, environment and addresses are left out: no placement
depends on them, and a record may be sent to somebody.
"""

from __future__ import annotations

import datetime
import json
from typing import Literal

from pydantic import ValidationError

from swarm_iac.errors import Place, Problem, StackFileError
from swarm_iac.model.base import Value
from swarm_iac.model.placement import Placement, Proof
from swarm_iac.model.service.variants import given, varied
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import RunPart, Workload
from swarm_iac.solver.decide.declared import solve_declared
from swarm_iac.solver.decide.solve import solve
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.solution import Solution


class Record(Value):
    """One solve: its arguments, who solved it, and the placement."""

    format: Literal["swarm-iac record 1"] = "swarm-iac record 1"
    solver: str
    today: datetime.date | None
    stack: Stack
    last: Placement
    answer: Placement

    def text(self) -> str:
        """The file's text; the same record gives the same bytes."""
        found = self.model_dump(mode="json", by_alias=True)
        for name, one in self.stack.workloads.items():
            if one.variants:
                found["stack"]["workloads"][name]["variants"] = given(one)
        return json.dumps(found, indent=1, ensure_ascii=False) + "\n"

    def replayed(self, watch: Watch | None = None) -> Solution:
        """The same solve once more."""
        if varied(self.stack):
            return solve_declared(self.stack, self.last, today=self.today, watch=watch)[1]
        return solve(self.stack, self.last, today=self.today, watch=watch)


def record(stack: Stack, last: Placement, today: datetime.date | None, answer: Placement, proof: Proof) -> Record:
    """The record of a solve. Raises ValueError when it was cut by hand: it would not be the same again."""
    if "cut" in proof.parameters:
        raise ValueError("the search was cut by hand, and would not end at the same point again")
    workloads = {name: _bare(one) for name, one in stack.workloads.items()}
    nodes = {name: one.model_copy(update={"ssh": "local"}) for name, one in stack.nodes.items()}
    bare = stack.model_copy(update={"workloads": workloads, "nodes": nodes})
    return Record(solver=proof.solver, today=today, stack=bare, last=last, answer=answer)


def _bare(workload: Workload) -> Workload:
    """Without what it starts, in no variant either."""
    variants = {name: one.model_copy(update={"run": RunPart()}) for name, one in workload.variants.items()}
    return workload.model_copy(update={"run": None} | ({"variants": variants} if variants else {}))


def read(text: str, file: str) -> Record:
    """A record's text. Raises StackFileError."""
    hint = "`swarm solve --record FILE` writes one"
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(step) for step in first["loc"])
        message = "this is no record" if first["type"] == "json_invalid" else f"this is no record: {first['msg']}"
        raise StackFileError((Problem(Place(file), path, message, hint),)) from None


def differences(before: Placement, after: Placement) -> tuple[str, ...]:
    """What two placements put differently, an allocation each; empty only when their bytes are equal."""
    if before.model_dump_json() == after.model_dump_json():
        return ()
    old, new = before.by_name(), after.by_name()
    changes = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            was, now = (one[name].node if name in one else "no place" for one in (old, new))
            changes.append(f"{name}: {was} → {now}" if was != now else f"{name}: other devices on {was}")
    return tuple(changes) or ("what is not placed, or why",)
