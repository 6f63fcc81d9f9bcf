"""Do the links between sites carry what the members of gangs send each other?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from swarm_iac.limits.index import PlacementIndex, Violation
from swarm_iac.units import BitsPerSecond


def links_carry_gangs(placed: PlacementIndex) -> Iterator[Violation]:
    """For every link l between sites s and t, each way:  Σ_w between_w · min(a_w,s, a_w,t) ≤ bandwidth_l   [bit/s]

    a_w,s: members of the gang w in s. No more than the fewer ones receive is sent by the others.
    """
    for (one, other), most in placed.stack.site_links.items():
        sent = 0
        for name, members in placed.going.items():
            workload = placed.stack.workloads[name]
            if workload.gang is not None and workload.network.between is not None:
                there = Counter(placed.stack.nodes[each.node].site for each in members)
                sent += int(workload.network.between) * min(there[one], there[other])
        if sent > most:
            text = f"gangs send {BitsPerSecond(sent)} between {one} and {other}, and the link carries {BitsPerSecond(most)}"
            path = f"sites.{one}.links.{other}"
            yield Violation(rule="links_carry_gangs", text=text, subject=f"{one} and {other}", path=path)
