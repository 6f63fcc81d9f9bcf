"""What is a node that is to be drained by a certain moment? Closed to newcomers until then, and drained from then on.

So a job that ends by itself before the moment is never stopped, and planning, solving and judging know only states.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from swarm_iac.model.stack import Node, Stack

_FORM = "%Y-%m-%dT%H:%MZ"


def at(stack: Stack, now: datetime.datetime) -> Stack:
    """The stack as it is meant now: a drain whose moment has not come is a cordon."""
    return _with(stack, {
        name: "cordon" if now < node.drain_by else "drain" for name, node in stack.nodes.items() if node.drain_by
    })  # fmt: skip


def written(stack: Stack) -> Stack:
    """The reverse of `at`: states as the stack file has them."""
    return _with(stack, {name: "drain" for name, node in stack.nodes.items() if node.drain_by})


def waiting(stack: Stack) -> Iterator[Node]:
    """Of a stack as it is meant now, the nodes whose moment has not come."""
    return (node for node in stack.nodes.values() if node.drain_by and node.state == "cordon")


def told(moment: datetime.datetime) -> str:
    """A moment as it is written in a stack file, in UTC and to the minute."""
    return moment.astimezone(datetime.UTC).strftime(_FORM)


def _with(stack: Stack, states: dict[str, str]) -> Stack:
    changed = {name: state for name, state in states.items() if stack.nodes[name].state != state}
    if not changed:
        return stack
    nodes = {
        name: node.model_copy(update={"state": changed[name]}) if name in changed else node
        for name, node in stack.nodes.items()
    }
    return stack.model_copy(update={"nodes": nodes})
