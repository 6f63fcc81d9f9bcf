"""What is a placement of a large fleet worth? Its goals as one sum, with exchange rates.

On a fleet that one model can decide, the goals of `goals` are strictly in order. On a large one that buys scraps (many
moves for a part of a GPU), so there they are added up: the columns and their bound maximise this sum, and a neighbourhood
is taken only where it raises it. Within a neighbourhood the strict order holds, so nothing is stopped for its equals.

    term                                     in thousandths of a GPU of the lowest priority
    a replica placed                         LEVEL ** priority · (1000 · GPUs held, or 1 if it holds none)
    a replica that leaves its node           − MOVE
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.snapshot.layout import GPUS, MACHINE
from swarm_iac.solver.snapshot.snapshot import Ask, Scene

if TYPE_CHECKING:
    from swarm_iac.solver.snapshot.tasks import Pairs

#: One GPU of a priority for so many of the next lower one.
LEVEL = 1000
#: What a move costs: a quarter of a GPU of the lowest priority.
MOVE = 250
#: What all the fleet has of one resource, in the unit of `loads`.
PARTS = 10_000


def size(ask: Ask) -> int:
    """Thousandths of GPUs that one replica holds."""
    return ask.gpus * ask.share


def worth(ask: Ask) -> int:
    """What one replica is worth when it is placed."""
    return int(LEVEL**ask.priority) * (size(ask) or 1)


def total(scene: Scene, counts: Pairs) -> int:
    """What everything that is placed is worth."""
    return sum(worth(scene.asks[name]) * count for (name, _), count in counts.items())


def loads(scene: Scene) -> dict[str, int]:
    """What one replica of each workload takes of the fleet: ten-thousandths of each resource, added up; at least 1."""
    bins = scene.bins.values()
    counted = [i for i, row in enumerate(MACHINE) if not row.part_of]
    have = [sum(bin_.room[i] for bin_ in bins) for i in counted]

    def load(ask: Ask) -> int:
        use = [ask.gpus * ask.share / WHOLE if i == GPUS else ask.need[i] for i in counted]
        return max(1, round(sum(PARTS * each / of for each, of in zip(use, have, strict=True) if of)))

    return {name: load(ask) for name, ask in scene.asks.items()}
