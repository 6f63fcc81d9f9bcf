"""What may one allocation do on the disk of its node?

The ceilings are what the kernel enforces (io.max). The weight (io.weight) is the largest part of the disk that is guaranteed
to it, in ten-thousandths: for every resource r of the disk that its hardware declares,

    weight_a = max(1, max_r ⌊10,000 · guaranteed_a,r / declared_r⌋)

so weights on one node are proportional to what is guaranteed, as those of CPUs are.
"""

from __future__ import annotations

from typing import Any

from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.model.resources.row import Resource
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.workload import Workload

#: By row of the table, the fields of SliceState that have its ceiling.
FIELDS = {"io_read": ("io_read_bps",), "io_write": ("io_write_bps",), "iops": ("io_read_iops", "io_write_iops")}
#: All of SliceState that is about the disk.
OF_DISK = (*(field for fields in FIELDS.values() for field in fields), "io_weight")
_ROWS: tuple[Resource, ...] = tuple(row for row in RESOURCES if row.name in FIELDS)
#: All of one disk.
_WHOLE = 10_000


def disk_io(workload: Workload, allocation: Allocation, hardware: Hardware) -> dict[str, Any]:
    """Fields of SliceState. Ceilings are the workload's, whatever the allocation holds yet; None: there is none, or nothing is
    declared of the disk.
    """
    most = {row.name: row.ceiling(workload) or None for row in _ROWS if row.ceiling}
    found: dict[str, Any] = {field: most[name] for name, fields in FIELDS.items() for field in fields}
    return found | {"io_weight": _weight(allocation, hardware)}


def _weight(allocation: Allocation, hardware: Hardware) -> int | None:
    declared = [(row.held(allocation), int(getattr(hardware, row.capacity.key))) for row in _ROWS if row.capacity]
    parts = [held * _WHOLE // most for held, most in declared if most]
    return min(_WHOLE, max(1, *parts)) if parts else None
