"""Who stays where it is? The variables that compare a placement with the last one.

placed[w]      Σ_n x[w,n]
kept[w,n]      ≤ min(x[w,n], stay[w,n])
reassigned[n]  ≥ Σ_w ( kept[w,n] − Σ_c keep[w,c] )       parts of GPUs that stay on n, but not on their card
eased[w,n]     ≤ soft[w,n],  kept[w,n] + eased[w,n] ≤ x[w,n]
stayed[w]      = min(Σ_n stay[w,n], placed[w])    ran[w] = min(running_w, placed[w])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import FleetModel, Instances, Terms, Values
from swarm_iac.solver.packing import mig_instances
from swarm_iac.solver.packing.kept_parts import changed, keeping
from swarm_iac.solver.packing.shared_gpus import fewest_cards
from swarm_iac.solver.snapshot.layout import GPUS


class Keeping:
    """Variables over workloads that ran before; nothing where nothing ran."""

    def __init__(self, fleet: FleetModel) -> None:
        self.fleet = fleet
        task = fleet.task
        self.kept: dict[tuple[str, str], cp_model.IntVar] = {}
        self.eased: dict[tuple[str, str], cp_model.IntVar] = {}
        for pair, x in fleet.x.items():
            stay, soft = task.stay[pair], task.soft[pair]
            if stay:
                self.kept[pair] = fleet.new(0, stay, f"kept[{pair}]", _at_most(x, stay))
                fleet.model.add(self.kept[pair] <= x)
            if soft:
                self._ease(pair, x, stay, soft)
        self.reassign_gpus = self._reassigned()
        totals: Counter[str] = Counter()
        for (name, _), count in task.stay.items():
            totals[name] += count
        self.stayed = {n: self._least(n, count) for n, count in totals.items() if n in fleet.by_request and count}
        self.ran = {n: self._least(n, count) for n, count in task.running.items() if n in fleet.by_request and count}

    def _ease(self, pair: tuple[str, str], x: cp_model.IntVar, stay: int, soft: int) -> None:
        def eased(values: Values) -> int:
            return max(0, min(values[x.index] - stay, soft))

        self.eased[pair] = self.fleet.new(0, soft, f"eased[{pair}]", eased)
        kept = self.kept.get(pair)
        self.fleet.model.add(self.eased[pair] + (0 if kept is None else kept) <= x)

    def _reassigned(self) -> list[cp_model.IntVar]:
        """For each node the parts that change their card there, counted exactly."""
        fleet, by_node = self.fleet, dict[str, list[str]]()
        for name, node in fleet.on_card:
            by_node.setdefault(node, []).append(name)
        found = []
        for node, names in by_node.items():
            pairs = [(name, node) for name in names if (name, node) in self.kept]
            top = sum(fleet.top_of(self.kept[pair]) for pair in pairs)
            found.append(fleet.new(0, top, f"reassigned[{node}]", self._counted(node)))
            loose = sum(self.kept[pair] - sum(fleet.on_card[pair]) for pair in pairs)
            fleet.model.add(found[-1] >= loose)
        return found

    def _counted(self, node: str) -> Callable[[Values], int]:
        fleet = self.fleet
        requests = [fleet.request(name) for name in fleet.by_node[node]]
        shares, cards = fleet.parts(node)
        instances = fleet.instances(node)
        known: dict[tuple[int, ...], int] = {}

        def count(values: Values) -> int:
            found = {request.name: values[fleet.x[request.name, node].index] for request in requests}
            key = tuple(found.values())
            if key not in known:
                wholes = sum(found[request.name] * request.need[GPUS] for request in requests if not request.in_pieces)
                counts = {name: found[name] for name in shares}
                elsewhere, cut = _out_of_position(instances, found, wholes, shares) if instances else (0, 0)
                known[key] = elsewhere + changed(cards, keeping(cards, shares, counts, wholes + cut), counts)
            return known[key]

        return count

    def moves(self) -> Terms:
        """Replicas that leave the place they could keep: their node, or the card that they hold a part of."""
        terms: Terms = [(var, 1) for var in (*self.stayed.values(), *self.reassign_gpus)]
        return terms + [(var, -1) for var in self.kept.values()]

    def _least(self, name: str, count: int) -> cp_model.IntVar:
        """min(count, Σ_n x[w,n])"""
        terms = self.fleet.total(name)

        def least(values: Values) -> int:
            return min(count, sum(each * values[var.index] for var, each in terms))

        var = self.fleet.new(0, count, f"least[{name},{count}]", least)
        self.fleet.model.add_min_equality(var, [sum(part * each for part, each in terms), count])
        return var


def _out_of_position(found: Instances, counts: dict[str, int], wholes: int, shares: dict[str, int]) -> tuple[int, int]:
    """How many replicas stay on the node and not where their MIG instances are; how many cards more are cut."""
    parts = fewest_cards([share for name, share in shares.items() for _ in range(counts[name])])
    mine = {name: counts[name] for name in found.sizes}
    kept = mig_instances.keeping(found.beside, found.cards - wholes - parts, found.stand, found.sizes, mine)
    could = sum(min(len(held), mine[name]) for name, held in found.stand.items())
    cards = found.beside.copy()
    for name, count in mine.items():
        profile, each = found.sizes[name]
        for held in (kept or {}).get(name, ()):
            cards.put(held)
        cards.loose[profile] += (count - len((kept or {}).get(name, ()))) * each
    return could - sum(map(len, (kept or {}).values())), cards.count - found.beside.count


def _at_most(x: cp_model.IntVar, most: int) -> Callable[[Values], int]:
    return lambda values: min(values[x.index], most)
