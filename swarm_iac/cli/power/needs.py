"""On which nodes is something, or is about to be? They are not powered off, and are powered on first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from swarm_iac.cli import engine
from swarm_iac.cli.power.hooks import Hooks
from swarm_iac.cli.power.powering import Powering, Say
from swarm_iac.live.layer import Layer
from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Observed
from swarm_iac.stackfile.locks.companions import Files, read_candidate


def needed(layer: Layer, files: Files, *placed: Iterable[Allocation]) -> dict[str, str]:
    """Node → what it is needed for: allocations of these, of a candidate, live ones, and changes that are not applied yet."""
    candidate = read_candidate(files, needed=True).placement.allocations
    live = tuple(one.allocation for one in layer.grants)
    found = {node: "a change there is not applied yet" for node in layer.unapplied if node not in layer.power}
    return found | {one.node: f"{one.name} is placed there" for ones in (*placed, candidate, live) for one in ones}


def powering(root: Path, name: str, hooks: Hooks, say: Say) -> Powering:
    """Powers nodes of a stack on and off, and reads them as all commands in `root` do."""
    path = Files.of(root, name).live
    assert path is not None, "a stack of a fleet repository has one"

    def look(targets: Mapping[str, str]) -> Mapping[str, Observed]:
        from swarm_iac.observe import observe  # loaded only if a node is asked

        run = engine.options(root)
        return observe(targets, ssh_config=run.ssh_config, timeout=run.node_timeout)

    return Powering(root, name, path, hooks, say, look)


def awake(stack: Stack, asleep: Iterable[str]) -> Stack:
    """The stack without nodes that are powered off: nobody is asked there."""
    off = {*asleep}
    return stack.model_copy(update={"nodes": {name: one for name, one in stack.nodes.items() if name not in off}})
