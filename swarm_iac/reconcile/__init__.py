"""How do the machines differ from the request, which steps lie between, and are they allowed?

The provider (`swarm up`, `preview`) and the command line (`swarm plan`, `assert`) both use this, so their answers agree.
"""

from swarm_iac.reconcile.reconcile import Read, Reconciliation
from swarm_iac.reconcile.records import Records
from swarm_iac.reconcile.request import Request, Target
from swarm_iac.reconcile.transition import Transition

__all__ = ["Read", "Reconciliation", "Records", "Request", "Target", "Transition"]
