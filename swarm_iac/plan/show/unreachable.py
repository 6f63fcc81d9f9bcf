"""Which nodes did not answer a plan, and how is that told of many?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from swarm_iac.model.stack import Stack
from swarm_iac.model.step import Plan
from swarm_iac.ranges import ranges

#: What the warning about one of them begins with.
_HEAD = "unreachable: "


def unreachable(plan: Plan) -> dict[str, str]:
    """By node, what was heard of it."""
    words = (one.removeprefix(_HEAD) for one in plan.warnings if one.startswith(_HEAD))
    return {node: error for node, _, error in (one.partition(": ") for one in words)}


def warnings(plan: Plan, stack: Stack) -> Iterator[str]:
    """The plan's warnings; nodes of which the same was heard together, in the place of the first."""
    heard = unreachable(plan)
    alike: dict[str, list[str]] = {}
    for node, error in heard.items():
        alike.setdefault(_nameless(error, node, stack), []).append(node)
    by_first = {ones[0]: ones for ones in alike.values()}
    for warning in plan.warnings:
        node = warning.removeprefix(_HEAD).partition(": ")[0] if warning.startswith(_HEAD) else ""
        ones = by_first.get(node, [])
        if len(ones) > 1:
            yield f"{_HEAD}{ranges(ones)} ({len(ones)} nodes); {node}: {heard[node]}"
        elif ones or not node:
            yield warning


def _nameless(error: str, node: str, stack: Stack) -> str:
    """What was heard without the node's own name, its host's and numbers, by which alone two errors may differ."""
    host = stack.nodes[node].ssh.rpartition("@")[2].partition(":")[0] if node in stack.nodes else ""
    names = "|".join(re.escape(name) for name in (host, node) if name)
    return re.sub("[0-9]+", "#", re.sub(rf"(?<![\w.-])({names})(?![\w-])", "*", error))
