"""Which workloads run in a lighter variant, which change theirs, and why?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.model.placement import Placement
from swarm_iac.model.service.variants import changes
from swarm_iac.printable import printable

#: Columns of `rows`.
HEADS = ("workload", "ran in", "runs in", "because")
_PREFERRED = "it is preferred, and fits"


def rows(before: Placement, after: Placement) -> Iterator[tuple[str, str, str, str]]:
    """One for each workload that is not in its first variant, or was not and is now; `before`: what ran."""
    ran = {one.workload for one in before.going()}
    changed, now = changes(before, after), {one.workload: one for one in after.lighter}
    for name in sorted(changed.keys() | now.keys()):
        one = now.get(name)
        was, into = changed.get(name, (one.variant if one and name in ran else "", one.variant if one else ""))
        reasons = [f"{reason.text} ({reason.path or reason.rule})" for reason in one.reasons] if one else [_PREFERRED]
        yield name, was, into, printable("\n".join([*reasons, *([one.nodes] if one and one.nodes else [])]))


def as_json(before: Placement, after: Placement) -> list[dict[str, str]]:
    """The same for machines."""
    return [dict(zip(("workload", "before", "after", "because"), row, strict=True)) for row in rows(before, after)]
