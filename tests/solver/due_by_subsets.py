"""What is each team due? Once more, from docs/solver.md alone, without flows: a bound for each set of nodes.

Teams can hold E_t at once, replicas aside, if and only if for every set M of nodes

    Σ_t max(E_t − else_t(M), Σ_{l in t} max(0, f_l − else_l(M))) ≤ GPUs of M

(Hall's condition). else_t(M): what t could have without M, by its limits and requests; l: the innermost teams, f_l: what
each is due of the priorities above. All rise at the same height per share; who is in a set that is full, or has all it wants, stops.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from fractions import Fraction

from swarm_iac.model.stack import Stack

ENDLESS = 1 << 60
Sets = list[tuple[frozenset[str], int]]
#: Of a user: what he wants, and the nodes that suit it.
Wants = Mapping[str, list[tuple[frozenset[str], int]]]


class Due:
    """The teams of one stack. `gpus`: thousandths of GPUs of each node; `limits`: of `user NAME`, `team NAME`, `cluster`.

    `weights`: what a GPU of each node counts; limits and the unit are in that already.
    """

    def __init__(
        self, stack: Stack, gpus: Mapping[str, int], limits: Mapping[str, int], unit: int, weights: Mapping[str, int], one: int
    ) -> None:
        self.stack, self.limits, self.unit, self.one = stack, limits, unit, one
        self.gpus, self.weights = gpus, weights
        self.floors: Mapping[str, int] = {}
        nodes = list(gpus)
        self.sets: Sets = []
        for size in range(len(nodes) + 1):
            for some in itertools.combinations(nodes, size):
                most = sum(gpus[node] * weights[node] for node in some)
                self.sets.append((frozenset(some), min(most, limits["cluster"]) if size == len(nodes) else most))

    def of(self, wants: Mapping[int, Wants]) -> dict[int, dict[str, int]]:
        """By priority; `wants` of it alone."""
        above: dict[str, int] = {}
        found: dict[int, dict[str, int]] = {}
        so_far: dict[str, list[tuple[frozenset[str], int]]] = {}
        for priority in sorted(wants, reverse=True):
            for user, ones in wants[priority].items():
                so_far.setdefault(user, []).extend(ones)
            self.floors = above
            above = found[priority] = self._tree(self._counted(so_far), above)
        return found

    def _counted(self, wants: Wants) -> Wants:
        """What requests count at most if they alone took GPUs, those that count most first."""
        found: dict[str, list[tuple[frozenset[str], int]]] = {}
        for user, ones in wants.items():
            found[user] = []
            for nodes in dict.fromkeys(suit for suit, _ in ones):
                left, count = sum(most for suit, most in ones if suit == nodes), 0
                for weight in sorted({self.weights[node] for node in nodes}, reverse=True):
                    there = sum(self.gpus[node] for node in nodes if self.weights[node] == weight)
                    count, left = count + weight * min(left, there), left - min(left, there)
                found[user].append((nodes, count + left * min(self.weights[node] for node in nodes)))
        return found

    def _inside(self, around: str | None, wants: Wants) -> list[str]:
        found = [name for name, team in self.stack.teams.items() if team.parent == around and self._users(name, wants)]
        parents = {team.parent for team in self.stack.teams.values()}
        if around in parents and around is not None and set(self.stack.teams[around].users) & set(wants):
            found.append(f"{around} itself")
        return sorted(found)

    def _users(self, name: str, wants: Wants) -> set[str]:
        if name.endswith(" itself"):
            return set(self.stack.teams[name.removesuffix(" itself")].users) & set(wants)
        found = set(self.stack.teams[name].users) & set(wants)
        for other, team in self.stack.teams.items():
            if team.parent == name:
                found |= self._users(other, wants)
        return found

    def _leaves(self, name: str, wants: Wants) -> list[str]:
        inside = [] if name.endswith(" itself") else self._inside(name, wants)
        return [leaf for other in inside for leaf in self._leaves(other, wants)] or [name]

    def _of_users(self, leaf: str, wants: Wants, gone: frozenset[str]) -> int:
        """What users of an innermost team could have of nodes that are not `gone`."""
        users = self.stack.teams[leaf.removesuffix(" itself")].users
        each = {user: sum(most for nodes, most in wants.get(user, []) if not nodes <= gone) for user in users}
        return sum(min(self.limits[f"user {user}"], most) for user, most in each.items())

    def _without(self, name: str, wants: Wants, gone: frozenset[str]) -> int:
        """What the team could have of nodes that are not `gone`, where each inside it has its floor in any case."""
        leaves = self._leaves(name, wants)
        own = {leaf: self._of_users(leaf, wants, gone) for leaf in leaves}
        inside = [] if leaves == [name] else self._inside(name, wants)
        found = sum(self._without(other, wants, gone) for other in inside) if inside else own[name]
        floors = sum(self.floors.get(leaf, 0) for leaf in leaves)
        kept = sum(min(self.floors.get(leaf, 0), own[leaf]) for leaf in leaves)
        return min(found, self.limits.get(f"team {name}", ENDLESS) - floors + kept)

    def _needs(self, name: str, value: Fraction | int, wants: Wants, some: frozenset[str]) -> Fraction | int:
        """What the team has to have of these nodes."""
        owed = (self.floors.get(leaf, 0) - self._of_users(leaf, wants, some) for leaf in self._leaves(name, wants))
        return max(value - self._without(name, wants, some), sum(max(0, one) for one in owed))

    def _guarantee(self, name: str) -> int:
        inside = sum(self._guarantee(other) for other, team in self.stack.teams.items() if team.parent == name)
        return max(inside, self.one * int(self.stack.teams[name].guarantee.gpus)) if name in self.stack.teams else 0

    def _tree(self, wants: Wants, above: Mapping[str, int]) -> dict[str, int]:
        due: dict[str, int] = {}
        front: dict[str, int] = {}
        waiting: list[tuple[str | None, int | None]] = [(None, None)]
        while waiting:
            around, total = waiting.pop(0)
            front.pop(around or "", None)
            teams = self._inside(around, wants)
            floors = {team: above.get(team, 0) for team in teams}
            asks = {team: self._without_nothing(team, wants) for team in teams}
            if any(self._guarantee(team) for team in teams):
                tops = {team: max(floors[team], min(self._guarantee(team), asks[team])) for team in teams}
                weights = {team: self._guarantee(team) for team in teams}
                floors = self._fill(teams, weights, floors, tops, front, total, wants)
            shares = {team: (self.stack.teams[team].share or 1) if team in self.stack.teams else 1 for team in teams}
            found = self._fill(teams, shares, floors, asks, front, total, wants)
            due |= found
            front |= found
            waiting += [(team, found[team]) for team in teams if self._inside(team, wants)]
        return due

    def _without_nothing(self, team: str, wants: Wants) -> int:
        users = self._users(team, wants)
        return sum(most for user in users for _, most in wants[user])

    def _fits(self, values: Mapping[str, Fraction | int], total: int | None, teams: Iterable[str], wants: Wants) -> bool:
        if total is not None and sum(values[team] for team in teams) > total:
            return False
        return all(
            sum(self._needs(team, value, wants, some) for team, value in values.items()) <= most for some, most in self.sets
        )

    def _fill(
        self,
        teams: list[str],
        weights: Mapping[str, int],
        floors: Mapping[str, int],
        tops: Mapping[str, int],
        front: Mapping[str, int],
        total: int | None,
        wants: Wants,
    ) -> dict[str, int]:
        done: dict[str, Fraction] = {}

        def at(height: Fraction, only: str = "") -> dict[str, Fraction | int]:
            rising = {t: min(Fraction(tops[t]), max(Fraction(floors[t]), height * weights[t])) for t in teams if t not in done}
            return {**front, **rising, **done}

        height = Fraction(0)
        while len(done) < len(teams):
            # What a set holds is linear between these heights, so the first that is too much lies right after one of them.
            stops = {Fraction(0)}
            for team in teams:
                if weights[team]:
                    elses = [self._without(team, wants, some) + self._needs(team, 0, wants, some) for some, _ in self.sets]
                    stops |= {Fraction(each, weights[team]) for each in (floors[team], tops[team], *elses)}
            good = max((stop for stop in stops if stop >= height and self._fits(at(stop), total, teams, wants)), default=height)
            bad = min((stop for stop in stops if stop > good and not self._fits(at(stop), total, teams, wants)), default=None)
            if bad is not None:
                good = self._between(at, good, bad, total, teams, wants)
            height = good
            eps = Fraction(1, 10**9)
            stuck = []
            for team in teams:
                if team not in done:
                    values = at(height)
                    more = {**values, team: values[team] + eps}
                    last = values[team] >= tops[team] or not weights[team] or bad is None
                    if last or not self._fits(more, total, teams, wants):
                        stuck.append(team)
            now = at(height)
            done |= {team: Fraction(now[team]) for team in stuck}
        return self._rounded(teams, done, floors, tops, front, total, wants)

    def _between(self, at, good, bad, total, teams, wants):
        low, high = at(good), at(bad)
        best = bad
        checks = [(sum(v[t] for t in teams) for v in (low, high))] if total is not None else []
        pairs = [(*each, total) for each in checks]
        for some, most in self.sets:
            pairs.append(
                (
                    *(sum(self._needs(team, value, wants, some) for team, value in v.items()) for v in (low, high)),
                    most,
                )
            )
        for first, last, most in pairs:
            if last > most:
                best = min(best, good + (bad - good) * Fraction(most - first) / Fraction(last - first))
        return best

    def _rounded(self, teams, exact, floors, tops, front, total, wants):
        due = {team: max(floors[team], int(exact[team] // self.unit) * self.unit) for team in teams}
        left = int(sum(exact.values()) // self.unit) * self.unit - sum(due.values())
        for team in sorted((t for t in teams if due[t] < exact[t]), key=lambda t: due[t] - exact[t]):
            more = min(self.unit, tops[team] - due[team])
            if 0 < more <= left and self._fits({**front, **due, team: due[team] + more}, None, teams, wants):
                due[team] += more
                left -= more
        return due
