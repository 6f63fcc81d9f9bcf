"""What should each node be, which steps lead there from what it is, and how is that shown?"""

from swarm_iac.plan.planning import steps
from swarm_iac.plan.show.rows import rows
from swarm_iac.plan.state.desired import desired
from swarm_iac.plan.state.diff import diff

__all__ = ["desired", "diff", "rows", "steps"]
