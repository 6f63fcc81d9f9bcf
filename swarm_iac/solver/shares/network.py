"""Which GPUs can serve whom? A flow from teams over limits and kinds of requests to the GPUs that suit them.

    team ─► limits inside it ─► its user's ─► what he requests of one kind ─► GPUs of one pool ─► limit of the cluster

A pool is all GPUs that suit the same requests. Every vector of GPUs that teams can hold at once, indivisible replicas and
other resources aside, is a flow, and the minimum cut names what is in the way of more (Ford and Fulkerson 1956). Amounts are
integers: thousandths of a GPU times a scale.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

#: More than any fleet has.
ENDLESS = 1 << 60


@dataclass(frozen=True)
class Request:
    """Of one user, what suits the same pools. `scopes`: limits that count it, outermost first; the user's is the last."""

    line: tuple[str, ...]  # the teams around it, outermost first
    scopes: tuple[str, ...]
    pools: frozenset[str]
    wants: int  # thousandths of GPUs


@dataclass(frozen=True)
class Supply:
    """GPUs by pool, and the limits of scopes, in thousandths of GPUs."""

    pools: Mapping[str, int]
    limits: Mapping[str, int]
    cluster: int


@dataclass(frozen=True)
class Cut:
    """What a flow could carry, and who could not have all that they asked for: together they have at most `most`."""

    carried: int
    short: frozenset[str]
    most: int
    pools: frozenset[str]  # the GPUs that hold those back


def flow(requests: tuple[Request, ...], supply: Supply, asked: Mapping[str, int], scale: int = 1) -> Cut:
    """The most that can be carried where each team has at most what it `asked`, and everything else is times `scale`.

    Of the teams in a request's line the one that asked counts; a request of nobody who asked is left out.
    """
    graph = _Graph()
    for name, most in asked.items():
        graph.edge("", f"team {name}", most)
    for i, one in enumerate(requests):
        team = next((team for team in reversed(one.line) if team in asked), "")
        if not team or not one.wants:
            continue
        at = f"team {team}"
        for scope in one.scopes:
            # The same scope inside another team is another bound; who asks is inside of it then, and has it as a bound alone.
            graph.edge(at, f"scope {team} {scope}", supply.limits.get(scope, ENDLESS) * scale)
            at = f"scope {team} {scope}"
        graph.edge(at, f"request {i}", one.wants * scale)
        for pool in one.pools:
            graph.edge(f"request {i}", f"pool {pool}", ENDLESS * scale)
    for pool, most in supply.pools.items():
        graph.edge(f"pool {pool}", "cluster", most * scale)
    graph.edge("cluster", "GPUs", supply.cluster * scale)
    carried, reached = graph.run("", "GPUs")
    short = frozenset(team for team in asked if f"team {team}" in reached)
    pools = frozenset(pool for pool in supply.pools if f"pool {pool}" in reached)
    return Cut(carried, short, carried - sum(most for team, most in asked.items() if team not in short), pools)


class _Graph:
    """A network with capacities; each edge is there once."""

    def __init__(self) -> None:
        self.left: dict[str, dict[str, int]] = {}

    def edge(self, source: str, target: str, most: int) -> None:
        self.left.setdefault(source, {})[target] = most
        self.left.setdefault(target, {}).setdefault(source, 0)

    def run(self, source: str, sink: str) -> tuple[int, frozenset[str]]:
        """The maximum flow by blocking flows (Dinitz 1970), and what the source still reaches: one side of a minimum cut."""
        carried = 0
        while sink in (level := self._levels(source)):
            tried = {node: [*self.left[node]] for node in level}
            while more := self._push(source, sink, ENDLESS * ENDLESS, level, tried):
                carried += more
        return carried, frozenset(level)

    def _levels(self, source: str) -> dict[str, int]:
        level, queue = {source: 0}, deque([source])
        while queue:
            node = queue.popleft()
            for other, left in self.left.get(node, {}).items():
                if left and other not in level:
                    level[other] = level[node] + 1
                    queue.append(other)
        return level

    def _push(self, node: str, sink: str, most: int, level: dict[str, int], tried: dict[str, list[str]]) -> int:
        if node == sink:
            return most
        while tried[node]:
            other = tried[node][-1]
            left = self.left[node][other]
            if left and level.get(other) == level[node] + 1:
                pushed = self._push(other, sink, min(most, left), level, tried)
                if pushed:
                    self.left[node][other] -= pushed
                    self.left[other][node] += pushed
                    return pushed
            tried[node].pop()
        return 0
