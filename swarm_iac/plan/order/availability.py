"""How many replicas may a service be short of while it changes, and which order breaks that?

guaranteed(s) = min(up before, wanted)           surge
guaranteed(s) = max(0, min(up before, wanted) − 1)   roll

The worst moment that the DAG allows is a set of steps, closed under `after`, with the most stops not made good by an
earlier health check. By König it is |stops| − |M|, where M is a largest matching of stops to health checks, each of which
precedes its stop: so every order is judged at once, without trying any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swarm_iac.errors import Refused
from swarm_iac.model.step import Verb
from swarm_iac.plan.step_graph.actions import Machine, services
from swarm_iac.plan.step_graph.graph import Graph, reach
from swarm_iac.pluralize import pluralize


def guaranteed(all_of: Mapping[str, Machine]) -> dict[str, int]:
    """Of each service: the healthy replicas that are never to be undercut."""
    found = {}
    for workload, replicas in services(all_of).items():
        wanted = [(node, name) for node, name in replicas if name in all_of[node].new.allocations]
        # A replica that a run was cut short in moving is up in two places, and counts once.
        up = len({name for node, name in replicas if all_of[node].up(name)})
        spare = any(all_of[node].handover.get(name) == "one-by-one" for node, name in wanted)
        found[workload] = max(0, min(up, len(wanted)) - spare)
    return found


def broken(all_of: Mapping[str, Machine], graph: Graph, availability: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Each service that some order leaves with fewer healthy replicas than guaranteed → how few."""
    for workload, replicas in services(all_of).items():
        up = [(node, name) for node, name in replicas if all_of[node].up(name)]
        stops = [stop for node, name in up if (stop := f"{node}/{Verb.STOP}/{name}") in graph]
        if len(up) - len(stops) >= availability.get(workload, 0):
            continue
        healths = {
            f"{node}/{Verb.HEALTH}/{name}" for node, name in replicas
            if not all_of[node].up(name) or f"{node}/{Verb.START}/{name}" in graph
        } & graph.keys()  # fmt: skip
        covers = {stop: sorted(reach(stop, lambda one: graph[one].after) & healths) for stop in stops}
        worst = len(up) - len(stops) + _matched(covers)
        if worst < availability.get(workload, 0):
            yield workload, worst


def _matched(covers: Mapping[str, list[str]]) -> int:
    """Size of a largest matching, by augmenting paths (Kuhn)."""
    taken: dict[str, str] = {}

    def place(stop: str, tried: set[str]) -> bool:
        for health in covers[stop]:
            if health not in tried:
                tried.add(health)
                if health not in taken or place(taken[health], tried):
                    taken[health] = stop
                    return True
        return False

    return sum(place(stop, set()) for stop in covers)


def refusal(workload: str, worst: int, availability: int) -> Refused:
    """Why the change is not made."""
    return Refused(
        f"{workload} needs {pluralize(availability, 'healthy replica')}, but every order of steps drops "
        f"it to {worst}: no node that it may stand on has capacity for one more while others restart",
        hint=f"free capacity for one more replica, or set `on_update: roll` (one at a time) or `recreate` for {workload}",
    )
