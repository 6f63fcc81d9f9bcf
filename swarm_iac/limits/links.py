"""Are the GPUs of a replica linked where they have to be?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.limits.index import PlacementIndex, Violation


def gpus_of_a_replica_are_linked(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a ∉ kept of w with links = required and |gpus_a| > 1:  gpus_a ⊆ g for some NVLink group g of its machine

    Who ran there before it was asked for stays as it is: nobody is stopped for it.
    """
    for one in placed.known:
        if placed.stack.workloads[one.workload].place.links is None or one.name in placed.kept:
            continue
        hardware = placed.stack.hardware_of(one.node)
        links = hardware.links.nvlink
        groups = [range(hardware.gpus.count)] if links == "all" else links
        if len(one.gpus) > 1 and not any({*one.cards} <= {*group} for group in groups):
            cards = ", ".join(map(str, sorted(one.cards)))
            text = f"{one.name} has GPUs {cards} of {one.node}, and no NVLink joins all of them"
            path = f"workloads.{one.workload}.place.links"
            yield Violation(rule="gpus_of_a_replica_are_linked", text=text, subject=one.name, path=path)
