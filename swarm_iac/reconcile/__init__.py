"""What are the machines against what is asked of them, which steps lie between, and may those be taken?

The provider (`swarm up`, `preview`) and the command line (`swarm plan`, `assert`) both ask here, so both give one answer.
"""

from swarm_iac.reconcile.reconcile import Read, Reconciliation
from swarm_iac.reconcile.records import Records
from swarm_iac.reconcile.request import Request, Target
from swarm_iac.reconcile.transition import Transition

__all__ = ["Read", "Reconciliation", "Records", "Request", "Target", "Transition"]
