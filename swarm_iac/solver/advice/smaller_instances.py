"""Which fewer or smaller MIG instances would fit in place of those that a workload asks for?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from swarm_iac.model.gpus.mig import part_of
from swarm_iac.model.workload import Workload
from swarm_iac.solver.advice.offer import Relaxation
from swarm_iac.solver.snapshot.capacity import FreeCapacity

#: So many profiles are offered.
MOST = 3


def smaller_instances(
    capacity: FreeCapacity, workload: Workload, request: Callable[[str, object, int], Relaxation]
) -> Iterator[Relaxation]:
    """Half of the instances; and as many of the largest profiles that fit by counting, with what is a little larger than those.

    Only profiles that a card of the fleet can be cut into. Where none fits, the largest: others may give way to them.
    """
    gpus = workload.each.gpus
    model = str(gpus.model)
    there = {name for host in capacity.snapshot.nodes.values() if gpus.allows(host.model or "") for name in host.profiles}
    parts = {name: part for name in there if 0 < (part := part_of(model, name)) < gpus.part}

    def asked(count: int, name: str, part: int) -> Relaxation:
        change = 1000 - 1000 * count * part // (gpus.count * gpus.part)
        keys = {"count": count, "model": model, "profile": name, "memory": gpus.memory and str(gpus.memory)}
        table = {key: value for key, value in keys.items() if value is not None}
        return request("each.gpus", table if gpus.memory else f"{count} x {model}/{name}", change)

    if gpus.profile and gpus.count > 1:
        yield asked(gpus.count // 2, gpus.profile, gpus.part)
    found: list[Relaxation] = []
    for part, names in itertools.groupby(sorted(parts, key=lambda name: (-parts[name], name)), key=lambda name: parts[name]):
        found += [asked(gpus.count, name, part) for name in names]
        if any(one.whole for one in found):
            yield from found[-MOST:]
            return
    yield from found[:MOST]
