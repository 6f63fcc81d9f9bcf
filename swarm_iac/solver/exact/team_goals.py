"""How much of what teams are due do they hold? Goals over the teams, where GPUs are shared by them.

    LEVEL_guaranteed  max   Σ_t min(above_t + stay_t, guarantee_t)    of the level what may stay, and all of those above it
    LEVEL_share_stay  max   Σ_t min(stay_t, due_t)                    with `solve.reclaim`, if some of what ran has to leave
    LEVEL_share_kept  max   Σ_t min(ran_t, due_t)                     with `solve.reclaim`: nobody falls below what he is due
    LEVEL_share       max   Σ_t min(held_t, due_t)                    of the level and those above it

`_2` and on: teams inside one other, and so on; those further outside come first. What a team holds counts in those around
it. due_t is worked out before (`shares`); what a replica counts on a node says `Entitlements.counts`. Of what ran each counts
the least of the nodes on which the workload runs.

Of a team around others, what is new counts as well in stay_t and ran_t, up to what could stay and what ran: one inside it
calls back what another one inside it was lent, and the team around both has lost nothing. In `guaranteed` so with
`solve.reclaim` alone. And with that, what it holds in `LEVEL_share` is of each innermost team inside it no more than its top
(`Entitlements.tops`): what is lent calls nobody back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.aim import Aim
from swarm_iac.solver.exact.changes import Keeping
from swarm_iac.solver.exact.fleet_model import FleetModel, Terms, Values
from swarm_iac.solver.snapshot.suitability import heaviest
from swarm_iac.solver.snapshot.value import unit_of_due

#: Of each workload its variables, and what a replica of each counts.
Vars = Mapping[str, list[tuple[cp_model.IntVar, int]]]


@dataclass(frozen=True)
class _Counting:
    """What counts as held: of each workload the variables, what is fixed, and how much all of it could be."""

    variables: Vars
    fixed: Mapping[str, int]
    most_of: Callable[[str], int]

    def could(self, workload: str) -> int:
        return max(self.fixed[workload], self.most_of(workload))


class TeamGoals:
    """The goals of one model."""

    def __init__(self, fleet: FleetModel, keeping: Keeping, possible: Mapping[str, int]) -> None:
        snapshot = fleet.task.snapshot
        assert snapshot.shares is not None, "asked only where GPUs are shared by teams"
        self.fleet, self.keeping, self.possible, self.shares = fleet, keeping, possible, snapshot.shares
        self.unit = unit_of_due(snapshot)
        homes = {name: [one.node for one in snapshot.running.get(name, ())] for name in snapshot.requests}
        self.lowest = {name: self.shares.least(snapshot.requests[name], nodes) for name, nodes in homes.items()}
        base, counts, requests = fleet.task.base.counts, self.shares.counts, snapshot.requests
        self.could = Counter(name for name, _ in fleet.task.stay.elements())
        self.fixed = {name: base[name].total() for name in requests}
        self.held = {name: sum(counts(one, node) * n for node, n in base[name].items()) for name, one in requests.items()}
        self.placed: Vars = {name: self._counted(name) for name in requests}
        self.all = _Counting(self.placed, self.held, self._possible)

    def _counted(self, workload: str) -> list[tuple[cp_model.IntVar, int]]:
        nodes, request = self.fleet.by_request.get(workload, ()), self.fleet.task.snapshot.requests[workload]
        counts = [self.shares.counts(request, node) for node in nodes]
        if len(set(counts)) == 1:
            return [(var, times * counts[0]) for var, times in self.fleet.total(workload)]
        return [(self.fleet.x[workload, node], count) for node, count in zip(nodes, counts, strict=True)]

    def guaranteed(self, level: str, priority: int) -> list[Aim]:
        """What of the level is guaranteed and may stay is not taken by another team.

        New work of the team itself takes the place of what stays if it has a higher priority: it counts, and its equals do not.
        """
        if not self.shares.guarantees:
            return []
        requests, stay = self.fleet.task.snapshot.requests, Counter(self.held)
        for (name, node), count in self.fleet.task.stay.items():
            stay[name] += count * self.shares.counts(requests[name], node)
        held = self._by_team(lambda name: stay[name], priority)
        most = {team: min(held[team], amount) for team, amount in self.shares.guarantees.items() if held[team]}
        mine = [name for name, one in requests.items() if one.priority == priority and self.shares.shared(one)]
        if not most or not any(stay[name] for name in mine):
            return []
        of_level = {name: [(var, self.lowest[name])] for name in mine if (var := self.keeping.stayed.get(name)) is not None}
        above = {name: found for name, found in self.placed.items() if requests[name].priority > priority}
        fixed = self.held | {name: self.fixed[name] * self.lowest[name] for name in mine}

        def most_of(workload: str) -> int:
            return self._possible(workload) if requests[workload].priority > priority else self._stay(workload)

        counting = _Counting(above | of_level, fixed, most_of)
        aim = self._aim(f"{level}_guaranteed", most, counting, priority, self.all if self.shares.reclaim else counting)
        return [replace(aim, runs=True)]

    def kept(self, level: str, priority: int) -> list[Aim]:
        """Of what ran. Where some of that has to leave its node, first of what may stay: nobody stops for an equal."""
        if not self.keeping.ran or priority not in self.shares.due:
            return []
        requests, running = self.fleet.task.snapshot.requests, self.fleet.task.running
        leaves = any(
            running[name] > self.could[name]
            for name, one in requests.items()
            if one.priority >= priority and self.shares.shared(one)
        )
        stayed = self._of_running(f"{level}_share_stay", self.keeping.stayed, priority, self._stay) if leaves else []
        return [*stayed, *self._of_running(f"{level}_share_kept", self.keeping.ran, priority, self._ran)]

    def _of_running(
        self, name: str, least: Mapping[str, cp_model.IntVar], priority: int, most_of: Callable[[str], int]
    ) -> list[Aim]:
        variables = {workload: [(var, self.lowest[workload])] for workload, var in least.items()}
        fixed = {workload: count * self.lowest[workload] for workload, count in self.fixed.items()}
        aims = self._at_each_depth(name, _Counting(variables, fixed, most_of), priority, self.all)
        return [replace(aim, runs=True) for aim in aims]

    def within(self, level: str, priority: int) -> list[Aim]:
        """Of all that is placed."""
        known = priority in self.shares.due
        return self._at_each_depth(f"{level}_share", self.all, priority, self.all, capped=True) if known else []

    def _possible(self, workload: str) -> int:
        snapshot = self.fleet.task.snapshot
        return self.possible[workload] * heaviest(snapshot, self.shares, snapshot.requests[workload])

    def _stay(self, workload: str) -> int:
        return min(self.fixed[workload] + self.could[workload], self.possible[workload]) * self.lowest[workload]

    def _ran(self, workload: str) -> int:
        ran = self.fixed[workload] + self.fleet.task.running[workload]
        return min(ran, self.possible[workload]) * self.lowest[workload]

    def _at_each_depth(
        self, name: str, counting: _Counting, priority: int, around: _Counting, *, capped: bool = False
    ) -> list[Aim]:
        """Teams inside one other hold no more than it does; where they are due no more either, its goal bounds theirs."""
        found: list[Aim] = []
        due = self.shares.due[priority]
        for depth in range(self.shares.depth):
            most = {team: due[team] for team in self.shares.at(depth)}
            title = f"{name}_{depth + 1}" if depth else name
            tops = self.shares.tops.get(priority, {}) if capped else {}
            aim = self._aim(title, most, counting, priority, around, tops)
            found.append(replace(aim, inside=found[-1].name) if depth and self.shares.divided(depth, priority) else aim)
        return found

    def _by_team(self, count: Callable[[str], int], priority: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, request in self.fleet.task.snapshot.requests.items():
            if request.priority >= priority and self.shares.shared(request):
                for team in self.shares.lines[request.user]:
                    found[team] += count(name)
        return found

    def _aim(
        self,
        name: str,
        most: Mapping[str, int],
        counting: _Counting,
        priority: int,
        around: _Counting,
        tops: Mapping[str, int] = MappingProxyType({}),
    ) -> Aim:
        """Σ_t min(most_t, fixed_t + Σ_w,n counts_w,n · variable_w,n), in whole GPUs where nobody asks for parts.

        `around`: what counts for teams around others, up to as much as `counting` could be. `tops`: of innermost teams, what of
        them counts for those at most.
        """
        requests = self.fleet.task.snapshot.requests
        outer = self.shares.around.intersection(most) if around is not counting else frozenset[str]()
        tables = (counting, around) if outer else (counting,)
        terms: dict[str, Terms] = defaultdict(list)
        for i, table in enumerate(tables):
            for workload, found in table.variables.items():
                request = requests[workload]
                if request.priority >= priority and self.shares.shared(request):
                    for team in self.shares.lines[request.user]:
                        if i == (team in outer):
                            terms[team] += [(var, amount // self.unit) for var, amount in found]
        fixed = [self._by_team(table.fixed.__getitem__, priority) for table in tables]
        could = [self._by_team(table.could, priority) for table in tables]
        if tops and not outer:
            self._cap(name, self.shares.around.intersection(most), tops, terms, fixed[0], could[0])
        value: Terms = []
        constant = best = 0
        for team, amount in most.items():
            i = team in outer
            most_held = min(amount, could[0][team]) if i else amount
            has = min(fixed[i][team], most_held) // self.unit
            left = most_held // self.unit - has
            constant += has
            best += min(left, could[i][team] // self.unit - has)
            if left > 0 and terms[team]:
                value.append((self._least(f"{name}[{team}]", left, terms[team]), 1))
        counts = frozenset(
            w for table in tables for w in table.variables
            if requests[w].priority >= priority and self.shares.shared(requests[w])
        )  # fmt: skip
        return Aim(name, value, constant, 1, constant + best, counts=counts, due=True)

    def _cap(
        self,
        name: str,
        outer: frozenset[str],
        tops: Mapping[str, int],
        terms: dict[str, Terms],
        fixed: Counter[str],
        could: Counter[str],
    ) -> None:
        """Of teams around others: what counts for them, of each innermost team inside no more than its top."""
        inside = {line[-1]: line for line in sorted({*self.shares.lines.values()}) if not outer.isdisjoint(line)}
        for team in outer:
            terms[team] = []
            fixed[team] = could[team] = 0
        for leaf, line in inside.items():
            has, counts = min(fixed[leaf], tops[leaf]), terms[leaf]
            if could[leaf] > tops[leaf]:
                left = tops[leaf] // self.unit - has // self.unit
                counts = [(self._least(f"{name}[{leaf}]", left, counts), 1)] if counts and left else []
            for team in outer.intersection(line):
                terms[team] += counts
                fixed[team] += has
                could[team] += min(could[leaf], tops[leaf])

    def _least(self, name: str, most: int, terms: Terms) -> cp_model.IntVar:
        """min(most, Σ coefficient · variable)"""

        def least(values: Values) -> int:
            return min(most, sum(coefficient * values[var.index] for var, coefficient in terms))

        total = cp_model.LinearExpr.weighted_sum([var for var, _ in terms], [factor for _, factor in terms])
        var = self.fleet.new(0, most, name, least)
        self.fleet.model.add(var <= total)
        return var
