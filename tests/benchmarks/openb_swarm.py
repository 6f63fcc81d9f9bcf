"""What does column generation place of a trace? Its placement and its proven bound, in thousandths of a GPU."""

from __future__ import annotations

from collections.abc import Callable

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver.columns.cards import pack
from swarm_iac.solver.columns.problem import WHOLE, Kind, Pattern, Problem, Shape, wanted_rows
from swarm_iac.solver.columns.whole import fill_fleet
from tests.benchmarks import openb_trace

ROUNDS = 100


def swarm(stack: Stack, stop: Callable[[], bool]) -> tuple[Placement, float]:
    """The placement, and the bound."""
    wishes = {name: (w.each, w.members) for name, w in stack.workloads.items() if w.each.gpus.count}
    kinds = tuple(
        Kind(each.gpus.count * each.gpus.share, count, each.gpus.count, each.gpus.share, (int(each.vcpus), int(each.memory)))
        for each, count in wishes.values()
    )
    nodes: dict[str, list[str]] = {}
    for node in stack.nodes.values():
        nodes.setdefault(node.hardware, []).append(node.name)
    shapes = []
    for key, alike in nodes.items():
        one = stack.hardware[key]
        fits = tuple(k for k, (each, _) in enumerate(wishes.values()) if each.gpus.allows(one.gpus.model))
        shapes.append(Shape(len(alike), one.gpus.count, (int(one.vcpus), int(one.memory)), fits))
    filled = fill_fleet(Problem(kinds, tuple(shapes), wanted_rows(kinds)), rounds=ROUNDS, stop=stop)
    where = []
    names = list(wishes)
    for alike, patterns in zip(nodes.values(), filled.nodes, strict=True):
        for name, pattern in zip(alike, patterns, strict=True):
            where += [(names[k], name, gpus) for k, gpus in _cards(kinds, pattern, stack.hardware_of(name).gpus.count)]
    return openb_trace.placement(stack, where), filled.bound


def _cards(kinds: tuple[Kind, ...], pattern: Pattern, count: int) -> list[tuple[int, tuple[int, ...]]]:
    """The cards of each replica of a pattern: whole GPUs first, then shares on the rest."""
    found: list[tuple[int, tuple[int, ...]]] = []
    at = 0
    for k, n in pattern:
        if kinds[k].share == WHOLE:
            for _ in range(n):
                found.append((k, tuple(range(at, at + kinds[k].cards))))
                at += kinds[k].cards
    shared = [k for k, n in pattern for _ in range(n) if kinds[k].share < WHOLE]
    chosen = pack([kinds[k].share for k in shared], [WHOLE] * (count - at))
    if chosen is None:
        raise ValueError("a pattern does not fit on its cards")
    return found + [(k, (at + card,)) for k, card in zip(shared, chosen, strict=True)]
