"""Which limits would this Fleet exceed, on which line is each, and what follows from its request?

Called by the provider's Check and by the policy pack. Independent of the solver on purpose: a placement that was edited by
hand, or made by another program, is judged the same way.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm_iac.errors import Place, Problem, SwarmError
from swarm_iac.provider.plugin.lazy_imports import LOADING
from swarm_iac.provider.plugin.wire import UNKNOWN, understood

if TYPE_CHECKING:
    from swarm_iac.limits.index import Violation
    from swarm_iac.stackfile import Source


@dataclass(frozen=True)
class Checked:
    """The result of checking inputs: why they are refused, and the inputs that follow from the others."""

    refusals: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)


def check(inputs: Mapping[str, Any]) -> Checked:
    """Check the request of a Fleet, and derive from it what is done to the nodes, so that both are the same.

    One message per exceeded limit, with file, line and hint. Without a request nothing is checked.
    """
    with LOADING:
        from swarm_iac.limits import judge
        from swarm_iac.provider import spec

    text = spec.request_text(inputs)
    if text == UNKNOWN:
        return Checked()
    if not text:
        nodes = inputs.get("spec")
        return Checked(derived={"digest": spec.digest(nodes)} if isinstance(nodes, str) and nodes != UNKNOWN else {})
    request = spec.unpack_request(text)
    derived = spec.derived(request)
    today = datetime.date.today()
    with understood("`request` of the Fleet"):  # what refers to a missing entry
        violations = judge(request.stack, request.placement, today, kept=request.kept, held=request.held, ran=request.ran())
    # A digest alone means nothing, and an input that is not known yet cannot differ.
    other = [key for key, value in derived.items() if key != "digest" and inputs.get(key) not in (None, UNKNOWN, value)]
    refusals = [f"`{key}` of the Fleet is not what its request comes to\n  hint: {_OTHER}" for key in other]
    source = _source(request.source, today) if violations else None
    return Checked((*refusals, *(_told(each, request.source, source) for each in violations)), derived)


_OTHER = "leave it out: it is derived from stack and placement, which are what the limits are judged by"


def _source(file: str, today: datetime.date) -> Source | None:
    """Lines of the stack file; read only now, because loading a YAML reader takes longer than all of Check."""
    with LOADING:
        from swarm_iac.stackfile import load

    try:
        return load(Path(file), today=today).source if file and Path(file).is_file() else None
    except SwarmError:
        return None


def _told(violation: Violation, file: str, source: Source | None) -> str:
    place = source.place(violation.path) if source and violation.path else Place(file or "the placement")
    if violation.path.startswith(("limits.", "teams.")):
        hint = f"request less, or raise {violation.path}"
    else:
        hint = "request less, or run `swarm solve` again"
    return str(Problem(place, violation.path, violation.text, hint))
