"""How does a partly failed operation report what is left, row by row?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import grpc
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi.runtime.proto import status_pb2

from swarm_iac.model.step import Step, StepResult
from swarm_iac.plan.state.ownership import UNPLACED
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable
from swarm_iac.provider.plugin.wire import Row, to_struct

_FAILED_PRECONDITION = 9


def row_of(step: Step) -> Row:
    """The row that a step belongs to."""
    placed = step.allocation and step.why != UNPLACED  # what a node merely reports may be another node's row
    return ("Allocation", step.allocation) if placed else ("Node", step.node)


def failed_rows(steps: Iterable[Step], results: Mapping[str, StepResult]) -> dict[Row, str]:
    """Row → what went wrong, as the node reported it. A step without a result was never reached."""
    out: dict[Row, list[tuple[Step, StepResult]]] = {}
    for step in steps:
        result = results.get(step.id) or StepResult(id=step.id, ok=False, skipped=True, message="not run")
        if not result.ok:
            out.setdefault(row_of(step), []).append((step, result))
    return {row: "; ".join(_told(failed)) for row, failed in out.items()}


def _told(failed: list[tuple[Step, StepResult]]) -> list[str]:
    """Only causes, if there are any: that later steps of the row waited for them adds nothing. Each once."""
    causes = [(step, result) for step, result in failed if not result.skipped] or failed
    verbs: dict[tuple[str, str], list[str]] = {}
    for step, result in causes:
        words = result.message or ("not run" if result.skipped else "failed")
        verbs.setdefault((step.node, words), []).append(str(step.verb))
    return [f"{node}: {', '.join(dict.fromkeys(names))}: {words}" for (node, words), names in verbs.items()]


def divergences(left: Iterable[Step]) -> dict[Row, str]:
    """Row → what still differs after the run, for steps that a second reading still shows."""
    out: dict[Row, list[str]] = {}
    for step in left:
        words = ", ".join(f"{c.path} is {c.old!r} and should be {c.new!r}" for c in step.changes)
        out.setdefault(row_of(step), []).append(f"{step.node}: {step.verb}: still differs: {words or step.why}")
    return {row: "; ".join(words) for row, words in out.items()}


def reasons(failures: Mapping[Row, str]) -> list[str]:
    """One line per failed row."""
    return [printable(f"{kind} {name}: {why}") for (kind, name), why in sorted(failures.items())]


async def abort_in_part(
    context: Any,
    *,
    id: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    failures: Mapping[Row, str],
) -> NoReturn:
    """Abort the call so that the engine saves what was done and the run ends in error. Never returns."""
    lines = reasons(failures)
    detail = pb.ErrorResourceInitFailed(
        id=id, properties=to_struct(outputs), inputs=to_struct(inputs), reasons=lines, refresh_before_update=True
    )
    message = f"{pluralize(len(lines), 'row')} failed; everything else was done"
    status = status_pb2.Status(code=_FAILED_PRECONDITION, message=message)
    status.details.add().Pack(detail)
    await context.abort_with_status(_with_details(status))
    raise AssertionError("abort_with_status returned")


def _with_details(status: status_pb2.Status) -> Any:
    """`status` as gRPC's own, with its details; what the package grpcio-status would do."""
    rich: Any = grpc.Status()
    rich.code = grpc.StatusCode.FAILED_PRECONDITION
    rich.details = status.message
    rich.trailing_metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    return rich
