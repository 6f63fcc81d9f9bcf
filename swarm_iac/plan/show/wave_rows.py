"""What waits for what? The steps of each wave, node by node, and what they wait for beyond the wave before."""

from __future__ import annotations

import re
from collections.abc import Iterable

from swarm_iac.model.step import Plan, Step
from swarm_iac.plan.show.alike import FEW
from swarm_iac.plan.show.section import Rows
from swarm_iac.ranges import ranges

_NUMBER = re.compile(r"-(?:0|[1-9][0-9]*)$")


def waves(plan: Plan) -> Rows:
    """Empty where one is enough. Nodes whose steps differ in nothing but the numbers of replicas are one row."""
    table = Rows(("wave", "node", "steps", "waits for"))
    every = plan.waves()
    if len(every) < 2:
        return table
    home = {step.id: number for number, wave in enumerate(every) for step in wave}
    for number, wave in enumerate(every, 1):
        by_node: dict[str, list[Step]] = {}
        for step in wave:
            by_node.setdefault(step.node, []).append(step)
        alike: dict[tuple[tuple[str, ...], frozenset[str]], list[str]] = {}
        waits = {
            node: sorted({one for step in mine for one in step.after if home.get(one, number) < number - 1})
            for node, mine in by_node.items()
        }
        for node, mine in sorted(by_node.items()):
            key = tuple(dict.fromkeys(_kind(step.id) for step in mine)), frozenset(map(_kind, waits[node]))
            alike.setdefault(key, []).append(node)
        for nodes in alike.values():
            for some in [nodes] if len(nodes) > FEW else [[node] for node in nodes]:
                steps = [step.id.partition("/")[2] for node in some for step in by_node[node]]
                after = sorted({one for node in some for one in waits[node]})
                table.add(str(number), ranges(some), _short(steps), ", ".join(after) if len(some) == 1 else _elsewhere(after))
    return table


def _kind(step: str) -> str:
    """A step without its node and the number of its replica."""
    return _NUMBER.sub("-", step.partition("/")[2])


def _short(steps: Iterable[str]) -> str:
    """Steps by their kind, in the order in which the kinds come."""
    kinds: dict[str, list[str]] = {}
    for step in steps:
        kinds.setdefault(_NUMBER.sub("-", step), []).append(step)
    return ", ".join(ranges(same) for same in kinds.values())


def _elsewhere(steps: list[str]) -> str:
    if not steps:
        return ""
    return f"{_short(step.partition('/')[2] for step in steps)} on {ranges(step.partition('/')[0] for step in steps)}"
