"""What does an allocation's change wait for on other nodes, and among the replicas of its service?

stop-first      its stop in the old place precedes its start in the new one
healthy-first   it is healthy in the new place before its stop in the old one; replicas that restart where they are do so
                one after the other, newcomers first and those that leave last, as far as what they hold allows
together        every stop of the gang, and every other preparation, precedes its first start
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from swarm_iac.errors import Refused
from swarm_iac.model.step import Verb
from swarm_iac.plan.acts import Machine, gangs, homes
from swarm_iac.plan.draft import Draft

Graph = dict[str, Draft]
_PREPARES = (Verb.STOP, Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC)


def order(all_of: Mapping[str, Machine], graph: Graph) -> None:
    """Add the waits between nodes. Raises Refused when steps wait for each other in a circle."""
    old, new = homes(all_of)
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            healthy_first = all_of[new[name]].handover.get(name) == "healthy-first"
            _move(graph, name, old[name], new[name], healthy_first)
    for members in gangs(all_of).values():
        _together(graph, members)
    refuse_circles(graph)
    _one_by_one(all_of, graph)


def _move(graph: Graph, name: str, here: str, there: str, healthy_first: bool) -> None:
    stop, start = f"{here}/{Verb.STOP}/{name}", f"{there}/{Verb.START}/{name}"
    release, health = f"{here}/{Verb.RELEASE}/{name}", f"{there}/{Verb.HEALTH}/{name}"
    if healthy_first and health in graph:
        leave = stop if stop in graph else release
        if leave in graph:
            graph[leave].after.add(health)
    elif start in graph and stop in graph:
        graph[start].after.add(stop)


def _together(graph: Graph, members: Iterable[tuple[str, str]]) -> None:
    ids = [f"{node}/{verb}/{name}" for node, name in members for verb in _PREPARES]
    first = {one for one in ids if one in graph}
    for node, name in members:
        start = graph.get(f"{node}/{Verb.START}/{name}")
        if start is not None:
            start.after |= first


def _one_by_one(all_of: Mapping[str, Machine], graph: Graph) -> None:
    """Chains within each service. A wait that would close a circle is left out: a replica that restarts where it is has
    to be away for a moment, and its siblings may need what it gives."""
    services: dict[str, list[tuple[int, str, str]]] = {}
    for node, machine in all_of.items():
        for name, act in machine.acts.items():
            state = machine.new.allocations.get(name) or machine.old.allocations[name]
            rank = {"come": 0, "start": 0, "restart": 1, "go": 2}.get(act.kind)
            if rank is not None:
                services.setdefault(state.workload, []).append((rank, name, node))
    served = {
        state.workload for machine in all_of.values() for name, state in machine.new.allocations.items()
        if machine.handover.get(name) == "healthy-first"
    }  # fmt: skip
    waiting = waiting_for(graph)
    for workload in sorted(served & services.keys()):
        _chain(graph, waiting, services[workload])


def _chain(graph: Graph, waiting: dict[str, list[str]], replicas: list[tuple[int, str, str]]) -> None:
    """Each replica that stops waits for the health of those that come, and of those that restarted before it."""
    stops = {f"{node}/{Verb.STOP}/{name}" for rank, name, node in replicas if rank} & graph.keys()
    if not stops:
        return
    needs = {
        name: len(stops & _reach(f"{node}/{Verb.START}/{name}", lambda one: graph[one].after if one in graph else ()))
        for rank, name, node in replicas
        if rank == 1
    }
    front: list[str] = []
    for rank, name, node in sorted(replicas, key=lambda each: (each[0], needs.get(each[1], 0), each[1])):
        stop, health = f"{node}/{Verb.STOP}/{name}", f"{node}/{Verb.HEALTH}/{name}"
        held = _reach(stop, lambda one: waiting.get(one, ())) if rank and stop in graph else None
        if held is not None:
            added = [one for one in front if one not in held and one != stop]
            graph[stop].after.update(added)
            for one in added:
                waiting.setdefault(one, []).append(stop)
            if health in graph:
                front = [one for one in front if one not in added]
        if health in graph:
            front.append(health)


def waiting_for(graph: Graph) -> dict[str, list[str]]:
    """Of each step: those that wait for it."""
    found: dict[str, list[str]] = {}
    for draft in graph.values():
        for before in draft.after:
            found.setdefault(before, []).append(draft.id)
    return found


def _reach(one: str, following: Callable[[str], Iterable[str]]) -> set[str]:
    """Everything that can be reached from `one`."""
    found: set[str] = set()
    left = list(following(one))
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += following(each)
    return found


def refuse_circles(graph: Graph) -> None:
    """Raises Refused naming who waits for whom, when steps wait for each other in a circle."""
    circle = _circle(graph)
    if not circle:
        return
    links = [f"{one} waits for {before}" for one, before in zip(circle, [*circle[1:], circle[0]], strict=True)]
    who = sorted({f"{graph[one].allocation} on {graph[one].node}" for one in circle if graph[one].allocation})
    raise Refused(
        f"no order of steps is safe: {', '.join(who)} wait for each other's place\n  " + "\n  ".join(links),
        hint="make room for one of them elsewhere (one free place is enough), or let one of them go first",
    )


def _circle(graph: Graph) -> list[str]:
    """A circle of waits, each waiting for the next; empty when there is none."""
    left = {one: len([before for before in draft.after if before in graph]) for one, draft in graph.items()}
    waiting = waiting_for(graph)
    ready = [one for one, count in left.items() if not count]
    while ready:
        for each in waiting.get(ready.pop(), ()):
            left[each] -= 1
            if not left[each]:
                ready.append(each)
    stuck = {one for one, count in left.items() if count}
    if not stuck:
        return []
    path, seen = [min(stuck)], {min(stuck): 0}
    while True:
        following = min(before for before in graph[path[-1]].after if before in stuck)
        if following in seen:
            return path[seen[following] :]
        seen[following] = len(path)
        path.append(following)
