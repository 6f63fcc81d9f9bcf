"""How are the waits between steps followed?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from swarm_iac.plan.step_graph.draft import Draft

#: Steps by id.
Graph = dict[str, Draft]


def waiting_for(graph: Graph) -> dict[str, list[str]]:
    """Of each step: those that wait for it."""
    found: dict[str, list[str]] = {}
    for draft in graph.values():
        for before in draft.after:
            found.setdefault(before, []).append(draft.id)
    return found


def reach(one: str, following: Callable[[str], Iterable[str]]) -> set[str]:
    """Everything that can be reached from `one`."""
    found: set[str] = set()
    left = list(following(one))
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += following(each)
    return found


def circle(graph: Graph) -> list[str]:
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
