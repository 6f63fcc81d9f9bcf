"""How is a measured speed written into a stack file, with nothing else touched?"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

from swarm_iac.errors import SwarmError
from swarm_iac.model.service.needs import derived, written
from swarm_iac.model.service.speed import Rate
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.editing import splice
from swarm_iac.stackfile.load import loads
from swarm_iac.stackfile.reading.text import decode


def set_speeds(
    raw: bytes, file: str, speeds: Mapping[tuple[str, str], Rate], today: datetime.date, policies: Path | None = None
) -> bytes:
    """The file with other speeds of models that it names already. `speeds`: by workload and GPU model.

    Raises StackFileError for a file that is wrong before, SwarmError where its form defies this, as with an alias.
    """
    text = decode(raw, file)
    before = loads(text, file, policies=policies, today=today)
    for (workload, model), speed in sorted(speeds.items()):
        place = before.source.place(f"workloads.{workload}.speed")
        by_hand = SwarmError(
            f"{file}:{place.line}: the speed of {workload} cannot be changed from here",
            hint=f"write it by hand: speed: {{{model}: {speed}}}",
        )
        path = ("workloads", workload, "speed")
        try:
            if model not in splice.keys(text, path):
                raise by_hand
            text = splice.put(text, path, model, str(speed))
        except LookupError:
            raise by_hand from None
    if loads(text, file, policies=policies, today=today).stack != _with(before.stack, speeds):
        raise SwarmError(f"{file}: a speed stands for several workloads there", hint="write it by hand, for each of them")
    mark = b"\xef\xbb\xbf"
    return (mark if raw.startswith(mark) else b"") + text.encode()


def _with(stack: Stack, speeds: Mapping[tuple[str, str], Rate]) -> Stack:
    found = written(stack)
    for (workload, model), speed in speeds.items():
        old = found.workloads[workload]
        new = old.model_copy(update={"speed": old.speed | {model: speed}})
        found = found.model_copy(update={"workloads": found.workloads | {workload: new}})
    return derived(found)
