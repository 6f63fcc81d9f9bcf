"""What is free beside everything that stands, and would one more replica fit there now? Apart from the solver."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from swarm_iac.model.device import gpu
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload
from tests.benchmarks.fleets import balance, by_model
from tests.benchmarks.fleets.checker import (
    RESOURCES,
    around,
    ceilings,
    held,
    joined,
    parts,
    place,
    size,
    suits,
    team_ceilings,
    untolerated,
)

_HUGE = 1 << 62


class Free:
    """Free devices and resources of nodes, racks, users, teams and the cluster, kept up while replicas come and go."""

    def __init__(self, stack: Stack, today: datetime.date, allocations: Iterable[Allocation]) -> None:
        self.stack, self.today = stack, today
        #: By node: vCPUs, memory, storage, out, in of the hardware, then GPUs, vCPUs, memory, storage, out, in, replicas of
        #: limits.node.
        self.nodes: dict[str, list[int]] = {}
        limit = [_most(getattr(stack.limits.node, key)) for key in RESOURCES]
        for name in stack.nodes:
            h = stack.hardware_of(name)
            self.nodes[name] = [
                *map(int, (h.vcpus, h.memory, h.nvme, h.nic, h.nic)), *limit, limit[-1], _most(stack.limits.node.replicas)
            ]  # fmt: skip
        self.cards: dict[str, Counter[int]] = defaultdict(Counter)  # thousandths held
        self.cores: dict[str, set[int]] = defaultdict(set)
        self.racks = {name: [_most(rack.uplink), _most(rack.uplink), _most(rack.power)] for name, rack in stack.racks.items()}
        for name, node in stack.nodes.items():
            if node.rack and node.state != "lost":
                self.racks[node.rack][2] -= int(stack.tuning_of(name).gpu_power or 0) * stack.hardware_of(name).gpus.count
        cluster = [_most(getattr(stack.limits.cluster, key)) for key in RESOURCES]
        self.cluster = [*cluster, cluster[-1], _most(stack.limits.cluster.replicas)]
        self.users: dict[str, list[int]] = {}
        self.teams: dict[str, list[int]] = {}
        self.stands: dict[str, list[Allocation]] = defaultdict(list)
        #: Thousandths of GPUs of a model that count in the limits of each: `user ada`, `team a`, `the cluster`.
        self.models: Counter[tuple[str, str | None]] = Counter()
        self.limits: dict[str, list[tuple[str, dict[str, int]]]] = {}
        #: Who is away from whom, by either's word.
        self.strangers: dict[str, set[str]] = defaultdict(set)
        for name, workload in stack.workloads.items():
            for other in itertools.chain.from_iterable(workload.place.away_from.values()):
                self.strangers[name].add(other)
                self.strangers[other].add(name)
        for a in allocations:
            self.take(a, 1)

    def _user(self, user: str) -> list[int]:
        if user not in self.users:
            most = ceilings(self.stack, user, self.today)
            values = [_most(most[key]) for key in RESOURCES]
            self.users[user] = [*values, values[-1], _most(most["replicas"])]
        return self.users[user]

    def around(self, user: str) -> list[list[int]]:
        """What the cluster and the teams around the user have left."""
        for team in (names := around(self.stack, user)):
            if team not in self.teams:
                most = team_ceilings(self.stack, team, self.today)
                values = [_most(most[key]) for key in RESOURCES]
                self.teams[team] = [*values, values[-1], _most(most["replicas"])]
        return [self.cluster, *(self.teams[team] for team in names)]

    def _watts(self, workload: Workload, node: str) -> int:
        own = int(workload.each.gpu_power or 0) - int(self.stack.tuning_of(node).gpu_power or 0)
        return max(0, own) * workload.each.gpus.count

    def take(self, a: Allocation, sign: int) -> None:
        """It comes (1), or goes (-1)."""
        workload = self.stack.workloads[a.workload]
        use = (sum(one.part for one in a.gpus), *map(int, (a.vcpus, a.memory, a.storage, a.egress, a.ingress)))
        for table, values in (
            (self.nodes[a.node], (*use[1:], *use, int(not a.ended))),
            *((table, (*use, int(not a.ended))) for table in (self._user(workload.user), *self.around(workload.user))),
        ):
            for i, value in enumerate(values):
                table[i] -= sign * value
        rack = self.stack.nodes[a.node].rack
        if rack and not a.ended:
            for i, value in enumerate((use[4], use[5], self._watts(workload, a.node))):
                self.racks[rack][i] -= sign * value
        for one in a.gpus:
            self.cards[a.node][one.index] += sign * (1000 if one.profile else one.part)
        self.cores[a.node] ^= set(a.cpus)
        if a.ended:  # its files are all that is there
            return
        for who, _ in self._limits(workload.user) if a.gpus else ():
            self.models[who, self.stack.hardware_of(a.node).gpus.model] += sign * use[0]
        if sign > 0:
            self.stands[a.workload].append(a)
        else:
            self.stands[a.workload].remove(a)

    def below_ceilings(self, workload: Workload) -> bool:
        """Is there room for one more under the ceilings of the user, its teams and the cluster?"""
        gpus, _, *rest = size(workload)
        use = (gpus, *rest, 1)
        tables = (self._user(workload.user), *self.around(workload.user))
        return all(not need or need <= left for table in tables for need, left in zip(use, table, strict=True))

    def apart(self, name: str, node: str) -> bool:
        """Do the rules of `place` on groups of nodes let one more replica of a workload stand there?"""
        where = self.stack.workloads[name].place
        others = self.stands[name]
        if where.spread and any(
            place(self.stack, a.node, where.spread) == place(self.stack, node, where.spread) for a in others
        ):
            return False
        if where.per_node and sum(a.node == node for a in others) >= where.per_node:
            return False
        for kind, most in (("rack", where.per_rack), ("site", where.per_site)):
            if most and sum(place(self.stack, a.node, kind) == place(self.stack, node, kind) for a in others) >= most:
                return False
        if where.balance and not balance.even(self.stack, name, [*(a.node for a in others), node]):
            return False
        near = (where.apart and any(self.near(name, node))) or any(self.foes(name, node))
        if near or not self.in_company(name, node):
            return False
        return not where.within or all(
            place(self.stack, a.node, where.within) == place(self.stack, node, where.within) for a in others
        )

    def near(self, name: str, node: str) -> Iterator[str]:
        """The other workloads with `apart` that are on the node, or in its rack or site where one of the two says so."""
        own = self.stack.workloads[name].place.apart
        for other, ones in self.stands.items():
            says = self.stack.workloads[other].place.apart if other in self.stack.workloads and other != name else None
            level = next((kind for kind in ("site", "rack") if kind in (own, says)), "node")
            if says and any(place(self.stack, a.node, level) == place(self.stack, node, level) for a in ones):
                yield other

    def in_company(self, name: str, node: str) -> bool:
        """Is each there whom it is to be only with?"""
        return all(
            any(place(self.stack, a.node, kind) == place(self.stack, node, kind) for a in self.stands.get(other, ()))
            for kind, others in self.stack.workloads[name].place.only_with.items()
            for other in others
        )

    def foes(self, name: str, node: str) -> Iterator[str]:
        """The other workloads that are too near, of those that are to be away from it, or it from them."""
        own = self.stack.workloads[name].place.away_from
        for other in self.strangers.get(name, ()):
            ones = self.stands.get(other, ())
            theirs = self.stack.workloads[other].place.away_from if other in self.stack.workloads else {}
            for kind in ("node", "rack", "site"):
                both = other in own.get(kind, ()) or name in theirs.get(kind, ())
                if (
                    both
                    and other != name
                    and any(place(self.stack, a.node, kind) == place(self.stack, node, kind) for a in ones)
                ):
                    yield other

    def capacity(self, workload: Workload, node: str) -> bool:
        """Have the node and its rack what one replica needs, devices aside?"""
        gpus, _, *rest = size(workload)
        if any(need and need > free for need, free in zip((*rest, gpus, *rest, 1), self.nodes[node], strict=True)):
            return False
        rack = self.stack.nodes[node].rack
        needs = (rest[3], rest[4], self._watts(workload, node))
        return not rack or all(not need or need <= free for need, free in zip(needs, self.racks[rack], strict=True))

    def devices(self, workload: Workload, node: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """GPUs and cores for one replica there, or None where too few are free."""
        _, cores, *_ = size(workload)
        hardware, gpus, share = self.stack.hardware_of(node), workload.each.gpus.count, int(workload.each.gpus.share)
        loads = self.cards[node]
        # The fullest card that still has room, so that parts lie close.
        open_ = sorted((g for g in range(hardware.gpus.count) if loads[g] + share <= 1000), key=lambda g: (-loads[g], g))
        free = [c for c in range(int(hardware.vcpus) // 1000) if c not in self.cores[node]] if cores else []
        groups = joined(hardware) if workload.place.links and gpus > 1 else [{*open_}]
        for cards in ([g for g in open_ if g in group] for group in groups):
            if workload.place.numa and (gpus or cores):
                if found := self._on_one(workload, node, cards, free):
                    return found
            elif len(cards) >= gpus and len(free) >= cores:
                return tuple(cards[:gpus]), tuple(free[:cores])
        return None

    def _on_one(
        self, workload: Workload, node: str, open_: list[int], free: list[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The same on one NUMA node."""
        gpus, (_, cores, *_) = workload.each.gpus.count, size(workload)
        hardware = self.stack.hardware_of(node)
        here = [a for ones in self.stands.values() for a in ones if a.node == node]
        totals = (hardware.gpus.count, int(hardware.vcpus) // 1000, int(hardware.memory))
        for j, own in enumerate(zip(*(parts(total, hardware.numa) for total in totals), strict=True)):
            cards, pins = [g for g in open_ if g in own[0]], [c for c in free if c in own[1]]
            if len(cards) >= gpus and len(pins) >= cores and int(workload.each.memory) <= _memory_left(hardware, here, j):
                return tuple(cards[:gpus]), tuple(pins[:cores])
        return None

    def could_have(self, a: Allocation, node: str) -> bool:
        """Are the very devices of an allocation free on the node?"""
        hardware, share = self.stack.hardware_of(node), self.stack.workloads[a.workload].each.gpus.share
        cards = all(g < hardware.gpus.count and self.cards[node][g] + share <= 1000 for g in a.cards)
        return cards and self.cores[node].isdisjoint(a.cpus) and all(c < int(hardware.vcpus) // 1000 for c in a.cpus)

    def fits(self, name: str, node: str) -> bool:
        """May one more replica stand there now, ceilings of users and cluster aside?"""
        workload = self.stack.workloads[name]
        return (
            suits(self.stack, workload, node)
            and not untolerated(self.stack, workload, node)
            and self.capacity(workload, node)
            and self.apart(name, node)
            and (not self.stack.limits_models or self.below_models(name, node))
            and self.devices(workload, node) is not None
        )

    def below_models(self, name: str, node: str) -> bool:
        """Do the limits on the node's GPU model leave one more replica?"""
        request, model = self.stack.workloads[name], self.stack.hardware_of(node).gpus.model
        need = request.each.gpus.count * request.each.gpus.part
        return not need or all(
            self.models[who, model] + need <= limits[model] for who, limits in self._limits(request.user) if model in limits
        )

    def above_models(self, name: str, node: str) -> bool:
        """Is a limit on the node's GPU model exceeded by what is held?"""
        user, model = self.stack.workloads[name].user, self.stack.hardware_of(node).gpus.model
        return any(self.models[who, model] > limits[model] for who, limits in self._limits(user) if model in limits)

    def _limits(self, user: str) -> list[tuple[str, dict[str, int]]]:
        if user not in self.limits:
            self.limits[user] = list(by_model.ceilings(self.stack, user, self.today))
        return self.limits[user]

    def put(self, name: str, index: int, node: str) -> Allocation | None:
        """Put one more replica there, if it fits."""
        workload = self.stack.workloads[name]
        found = self.devices(workload, node) if self.fits(name, node) else None
        if found is None:
            return None
        gpus = [gpu(card, int(workload.each.gpus.share)) for card in found[0]]
        _, _, vcpus, memory, storage, egress, ingress = size(workload)
        a = Allocation.model_validate(
            {"name": f"{name}-{index}", "workload": name, "index": index, "node": node, "gpus": gpus, "cpus": found[1]}
            | {"vcpus": f"{vcpus}m", "memory": f"{memory} B", "storage": f"{storage} B"}
            | {"egress": f"{egress} bit/s", "ingress": f"{ingress} bit/s"}
        )
        self.take(a, 1)
        return a


def _memory_left(hardware: Hardware, here: list[Allocation], one: int) -> int:
    """What may still be bound to one NUMA node: each set of them holds what is bound within it, and who is bound to none may
    lie anywhere."""
    sizes = [len(part) for part in parts(int(hardware.memory), hardware.numa)]
    others = [j for j in range(hardware.numa) if j != one]
    sets = [{one, *more} for count in range(max(1, len(others))) for more in itertools.combinations(others, count)]
    return min(sum(sizes[j] for j in each) - sum(int(a.memory) for a in here if a.numa and {*a.numa} <= each) for each in sets)


def _most(value: int | None) -> int:
    return _HUGE if value is None else int(value)


__all__ = ["Free", "held"]
