"""Does a placement keep every rule? Pure, and independent of the solver."""

from swarm_iac.limits.came import Came, besides, came, gain, torn
from swarm_iac.limits.ceilings import Usage, above, usage
from swarm_iac.limits.gpu_models import limited
from swarm_iac.limits.index import Amounts, Violation, amounts
from swarm_iac.limits.judge import NAMES, RULES, excused, judge
from swarm_iac.limits.shares import called_back, stops_are_due

__all__ = [
    "NAMES",
    "RULES",
    "Amounts",
    "Came",
    "Usage",
    "Violation",
    "above",
    "amounts",
    "besides",
    "called_back",
    "came",
    "excused",
    "gain",
    "judge",
    "limited",
    "stops_are_due",
    "torn",
    "usage",
]
