"""Which jobs have finished, according to their machines? Each machine is asked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Observed
from swarm_iac.plan.state.completion import came_to_end, could_end


@dataclass
class Ended:
    """Asks machines and keeps their answers, which count as simultaneous for a decision.

    `ask`: node → address to the nodes as they are. `every`: if one has to be asked, ask all of the stack, for a caller that
    needs them all anyway.
    """

    ask: Callable[[Mapping[str, str]], dict[str, Observed]]
    every: bool = False
    seen: dict[str, Observed] = field(default_factory=dict)

    def __call__(self, stack: Stack, placement: Placement) -> frozenset[str]:
        """Names of finished jobs of a placement. A node that does not answer reports none."""
        jobs = could_end(stack, placement)
        every = (name for name, node in stack.nodes.items() if node.state != "lost")
        if jobs:
            self.read(stack, every if self.every else {one.node for one in jobs})
        return came_to_end(stack, placement, self.seen)

    def read(self, stack: Stack, nodes: Iterable[str]) -> dict[str, Observed]:
        """These nodes; each is asked only once."""
        return self.at({name: stack.nodes[name].ssh for name in nodes})

    def at(self, targets: Mapping[str, str]) -> dict[str, Observed]:
        """The same by address: node → address."""
        new = {name: targets[name] for name in sorted(targets) if name not in self.seen}
        if new:
            self.seen |= self.ask(new)
        return {name: self.seen[name] for name in targets}
