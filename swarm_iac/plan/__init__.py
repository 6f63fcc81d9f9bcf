"""What should each node be, which steps lead there from what it is, and how is that shown?"""

from swarm_iac.plan.desired import desired
from swarm_iac.plan.diff import diff
from swarm_iac.plan.rows import rows
from swarm_iac.plan.steps import steps

__all__ = ["desired", "diff", "rows", "steps"]
