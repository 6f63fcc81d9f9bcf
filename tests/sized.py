"""How large is an allocation that holds what its workload asks for? Its amounts by field; pieces are for each test to give."""

from __future__ import annotations

from swarm_iac.model.resources.table import SIZES
from swarm_iac.model.workload import Workload


def sizes(workload: Workload) -> dict[str, int]:
    """An amount for each of SIZES."""
    return {row.name: row.unit(row.demand(workload)) for row in SIZES}
