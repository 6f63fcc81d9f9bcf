"""Which GPUs can serve whom? A flow from teams over limits and kinds of requests to the GPUs that suit them.

    team ─► its limit ─► teams inside it ─► limits of users ─► requests of one user and kind ─► pools that suit that kind
    ─► GPUs of one pool ─► limit of the cluster

A pool is all GPUs that suit the same requests. Every vector of GPUs that teams can hold at once, indivisible replicas and
other resources aside, is a flow, and the minimum cut names what is in the way of more (Ford and Fulkerson 1956). What a team
with no other inside it has as its floor enters there, so that it is not served by requests of another one. Amounts are
integers: thousandths of a GPU times a scale, and where models are worth more or less, times what a GPU of the pool counts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

#: More than any fleet has.
ENDLESS = 1 << 60


@dataclass(frozen=True)
class GpuDemand:
    """Of one user, what suits the same pools."""

    user: str
    line: tuple[str, ...]  # the teams around him, outermost first
    pools: frozenset[str]
    wants: int  # thousandths of GPUs


@dataclass(frozen=True)
class Supply:
    """GPUs by pool, and the limits of teams and users, in thousandths of GPUs, times what they count."""

    pools: Mapping[str, int]
    teams: Mapping[str, int]
    users: Mapping[str, int]
    cluster: int
    each: Mapping[str, int] = field(default_factory=dict)  # what a GPU of each pool counts

    def best(self, pools: frozenset[str], milli: int) -> int:
        """The most that so many thousandths of GPUs of some pools count: those that count most are taken first."""
        found, least = 0, 1
        for least, pool in sorted(((self.each.get(pool, 1), pool) for pool in pools), reverse=True):
            take = min(milli, self.pools[pool] // least)
            found, milli = found + take * least, milli - take
        return found + milli * least


def allowed(requests: tuple[GpuDemand, ...], supply: Supply) -> dict[str, int]:
    """What limits let each team have of what it asks for: those of its users, its own, and of the teams inside and around it.

    allowed_t = min(limit_t, Σ allowed of its users and of the teams inside it);  of each team inside no more than of the one
    around it, and of none more than of the cluster
    """
    asked, lines = Counter[str](), {one.user: one.line for one in requests}
    for one in requests:
        asked[one.user] += one.wants
    found = Counter[tuple[str, ...]]()
    for user, most in asked.items():
        found[lines[user]] += min(most, supply.users.get(user, most))
    for depth in range(max(map(len, found), default=0), 0, -1):
        for line in [line for line in found if len(line) == depth]:
            found[line] = min(found[line], supply.teams.get(line[-1], ENDLESS))
            if line[:-1]:
                found[line[:-1]] += found[line]
    for line in sorted(found, key=len):
        found[line] = min(found[line], found[line[:-1]] if line[:-1] else supply.cluster)
    return {line[-1]: most for line, most in found.items()}


@dataclass(frozen=True)
class Cut:
    """What could be had, and what those teams can have together who could not have all that they asked for.

    Σ_t weights_t · what t has ≤ most. Of a flow each of them weighs 1.
    """

    carried: Fraction
    weights: Mapping[str, Fraction]
    most: Fraction
    pools: frozenset[str]  # what holds those back


class FlowNetwork:
    """The requests of some teams. `floors`: of each innermost team what it has in any case."""

    def __init__(self, requests: tuple[GpuDemand, ...], supply: Supply, floors: Mapping[str, int]) -> None:
        self.requests, self.supply, self.slack = requests, supply, Fraction(0)
        self.floors = {one.line[-1]: floors.get(one.line[-1], 0) for one in requests}
        self.inside: dict[str, int] = {}
        for line in {one.line for one in requests}:
            for team in line:
                self.inside[team] = self.inside.get(team, 0) + self.floors[line[-1]]

    def floor(self, team: str) -> int:
        """The floors of all teams inside the team, together."""
        return self.inside.get(team, 0)

    def cut(self, asked: Mapping[str, Fraction]) -> Cut:
        """The most that can be had where each team has at most what it `asked`.

        Of the teams in a request's line one has asked at most; where none has, its team has its floor.
        """
        scale = lcm(*(value.denominator for value in asked.values()))
        return self._flow({team: int(value * scale) for team, value in asked.items()}, scale)

    def _flow(self, asked: Mapping[str, int], scale: int) -> Cut:
        """Everything but what is asked is times `scale`."""
        graph = _Graph()
        kinds = {pools: i for i, pools in enumerate(dict.fromkeys(one.pools for one in self.requests))}
        rest = {team: most - self.floor(team) * scale for team, most in asked.items()}
        for name, most in rest.items():
            graph.edge("", f"team {name}", most)
        for i, one in enumerate(self.requests):
            first = next((place for place, team in enumerate(one.line) if team in asked), len(one.line))
            for team, inner in zip(one.line[first:], (*one.line[first + 1 :], ""), strict=False):
                limit = self.supply.teams.get(team, ENDLESS) - self.floor(team)
                graph.edge(f"team {team}", f"in {team}", max(0, limit) * scale)
                graph.edge(f"in {team}", f"team {inner}" if inner else f"users of {team}", ENDLESS * scale)
            graph.edge("", f"users of {one.line[-1]}", self.floors[one.line[-1]] * scale)
            graph.edge(f"users of {one.line[-1]}", f"user {one.user}", self.supply.users.get(one.user, ENDLESS) * scale)
            graph.edge(f"user {one.user}", f"request {i}", one.wants * scale)
            graph.edge(f"request {i}", f"suit {kinds[one.pools]}", ENDLESS * scale)
        for pools, kind in kinds.items():
            for pool in pools:
                graph.edge(f"suit {kind}", f"pool {pool}", ENDLESS * scale)
        for pool, most in self.supply.pools.items():
            graph.edge(f"pool {pool}", "cluster", most * scale)
        graph.edge("cluster", "GPUs", self.supply.cluster * scale)
        carried, reached = graph.run("", "GPUs")
        short = frozenset(team for team in asked if f"team {team}" in reached)
        most = carried - sum(most for team, most in rest.items() if team not in short)
        most -= sum(floor * scale for floor in self.floors.values())  # those that are not reached are cut, and all others count
        most += sum(self.floor(team) * scale for team in short)
        pools = frozenset(pool for pool in self.supply.pools if f"pool {pool}" in reached)
        return Cut(Fraction(carried, scale), dict.fromkeys(short, Fraction(1)), Fraction(most, scale), pools)


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
