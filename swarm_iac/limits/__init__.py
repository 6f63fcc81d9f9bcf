"""Does a placement keep every rule? Pure, and independent of the solver."""

from swarm_iac.limits.called_back import called_back
from swarm_iac.limits.came import BESIDES, Came, besides, came, gain, torn
from swarm_iac.limits.ceilings import Usage, above, usage, usage_before_and_after
from swarm_iac.limits.company import joins
from swarm_iac.limits.gpu_models import limited_models
from swarm_iac.limits.index import Amounts, Violation, amounts
from swarm_iac.limits.judge import NAMES, RULES, excused, judge

__all__ = [
    "BESIDES",
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
    "joins",
    "judge",
    "limited_models",
    "torn",
    "usage",
    "usage_before_and_after",
]
