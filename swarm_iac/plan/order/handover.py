"""What does an allocation's change wait for on other nodes, and among the replicas of its service?

stop-first      its stop in the old place precedes its start in the new one
healthy-first   it is healthy in the new place before its stop in the old one; replicas that restart where they are do so
                one after the other, newcomers first and those that leave last (one-by-one: the same, with one replica less)
together        every stop of the gang, and every other preparation, precedes its first start
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swarm_iac.errors import Refused
from swarm_iac.model.step import Verb
from swarm_iac.plan.step_graph.actions import SERVES, Machine, Schedules, gangs, homes, keepers, services
from swarm_iac.plan.step_graph.graph import Graph, circle, reach, waiting_for

_PREPARES = (Verb.STOP, Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC)


def order(all_of: Mapping[str, Machine], graph: Graph, schedules: Schedules | None = None) -> list[str]:
    """Add the waits between nodes; with `turns`, the replicas of a service follow them.

    Gives the circle in which steps wait for each other, empty when there is none.
    """
    (old, new), kept = homes(all_of), keepers(all_of)
    for name in sorted(old.keys() & new.keys()):
        for here in old[name]:
            if here != new[name]:
                _move(graph, name, here, new[name], kept.get(name) == here, all_of[new[name]].handover.get(name) in SERVES)
    for members in gangs(all_of).values():
        _together(graph, members)
    if schedules is not None:
        for replicas in services(all_of).values():
            _by_schedules(all_of, graph, replicas, schedules)
    found = circle(graph)
    if not found and schedules is None:
        _one_by_one(all_of, graph)
    return found


def _move(graph: Graph, name: str, here: str, there: str, kept: bool, serves: bool) -> None:
    stop, start = f"{here}/{Verb.STOP}/{name}", f"{there}/{Verb.START}/{name}"
    health = f"{there}/{Verb.HEALTH}/{name}"
    if kept:
        graph[stop].after.add(health)
    elif start in graph and stop in graph and not serves:
        graph[start].after.add(stop)


def _together(graph: Graph, members: Iterable[tuple[str, str]]) -> None:
    ids = {f"{node}/{verb}/{name}" for node, name in members for verb in _PREPARES}
    first = (ids | {f"{one}/give" for one in ids}) & graph.keys()
    for node, name in members:
        start = graph.get(f"{node}/{Verb.START}/{name}")
        if start is not None:
            start.after |= first


def _by_schedules(
    all_of: Mapping[str, Machine], graph: Graph, replicas: Iterable[tuple[str, str]], schedules: Schedules
) -> None:
    """Every stop waits for the stop before it and for all that got healthy in between."""
    events: list[tuple[float, str, str]] = []
    for node, name in replicas:
        stop, health = f"{node}/{Verb.STOP}/{name}", f"{node}/{Verb.HEALTH}/{name}"
        if stop in graph and all_of[node].up(name):
            events.append((schedules[node].gives[name], "stop", stop))
        if health in graph:
            events.append((schedules[node].takes.get(name, 0), "health", health))
    since: list[str] = []
    for _, kind, one in sorted(events):
        if kind == "stop":
            graph[one].after.update(since)
            since = [one]
        else:
            since.append(one)


def _one_by_one(all_of: Mapping[str, Machine], graph: Graph) -> None:
    """Chains within each service. A wait that would close a circle is left out: whether enough replicas are left then is
    for plan.order.availability to see."""
    waiting = waiting_for(graph)
    for replicas in services(all_of).values():
        found: list[tuple[int, str, str]] = []
        for node, name in replicas:
            action = all_of[node].actions[name]
            # Who is not well anyway need not wait for anyone.
            rank = {"restart": 1, "go": 2}.get(action.kind, 0) if all_of[node].up(name) else 0
            found.append((rank, name, node))
        _chain(graph, waiting, found)


def _chain(graph: Graph, waiting: dict[str, list[str]], replicas: list[tuple[int, str, str]]) -> None:
    """Each replica that stops waits for the health of those that come, and of those that restarted before it."""
    stops = {f"{node}/{Verb.STOP}/{name}" for rank, name, node in replicas if rank} & graph.keys()
    if not stops:
        return
    needs = {
        name: len(stops & reach(f"{node}/{Verb.START}/{name}", lambda one: graph[one].after if one in graph else ()))
        for rank, name, node in replicas
        if rank == 1
    }
    front: list[str] = []
    for rank, name, node in sorted(replicas, key=lambda each: (each[0], needs.get(each[1], 0), each[1], each[2])):
        stop, health = f"{node}/{Verb.STOP}/{name}", f"{node}/{Verb.HEALTH}/{name}"
        held = reach(stop, lambda one: waiting.get(one, ())) if rank and stop in graph else None
        if held is not None:
            added = [one for one in front if one not in held and one != stop]
            graph[stop].after.update(added)
            for one in added:
                waiting.setdefault(one, []).append(stop)
            if health in graph:
                front = [one for one in front if one not in added]
        if health in graph:
            front.append(health)


def refusal(graph: Graph, found: list[str]) -> Refused:
    """The circle, naming who waits for whom."""
    links = [f"{one} waits for {before}" for one, before in zip(found, [*found[1:], found[0]], strict=True)]
    who = sorted({f"{graph[one].allocation} on {graph[one].node}" for one in found if graph[one].allocation})
    return Refused(
        f"deadlock: {', '.join(who)} each need the other's slot\n  " + "\n  ".join(links),
        hint="free capacity for one of them elsewhere (one free slot is enough), or let one stop first (on_update: recreate)",
    )
