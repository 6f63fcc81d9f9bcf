"""Which limits would this Fleet break, and in which line is each written?

Called by the provider's Check and by the policy pack. Apart from the solver on purpose: a placement that someone edited
by hand, or that another program made, is judged the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm_iac.errors import Place, Problem, SwarmError
from swarm_iac.provider.plugin.lazy_imports import LOADING
from swarm_iac.provider.plugin.wire import UNKNOWN, understood

if TYPE_CHECKING:
    from swarm_iac.limits.index import Violation
    from swarm_iac.stackfile import Source


def refusals(inputs: Mapping[str, Any]) -> list[str]:
    """One text per broken limit, with file, line and hint; empty when all hold or the inputs carry no `wish`."""
    wish = inputs.get("wish")
    if not wish or wish == UNKNOWN:
        return []
    with LOADING:
        from swarm_iac.limits import judge
        from swarm_iac.provider.spec import unpack_wish

    given = unpack_wish(wish)
    today = datetime.date.today()
    with understood("`wish` of the Fleet"):  # what names a table that is not there
        violations = judge(given.stack, given.placement, today, kept=given.kept, held=given.held)
    if not violations:
        return []
    source = _source(given.source, today)
    return [_told(violation, given.source, source) for violation in violations]


def _source(file: str, today: datetime.date) -> Source | None:
    """Lines of the stack file; read only now, because a YAML reader takes longer to load than all of Check."""
    with LOADING:
        from swarm_iac.stackfile import load

    try:
        return load(Path(file), today=today).source if file and Path(file).is_file() else None
    except SwarmError:
        return None


def _told(violation: Violation, file: str, source: Source | None) -> str:
    place = source.place(violation.path) if source and violation.path else Place(file or "the placement")
    if violation.path.startswith("limits."):
        hint = f"ask for less, or raise {violation.path}"
    else:
        hint = "ask for less, or decide again with `swarm solve`"
    return str(Problem(place, violation.path, violation.text, hint))
