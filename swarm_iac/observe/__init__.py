"""What are the nodes really like, and what was done to them?"""

from swarm_iac.observe.asleep import but_asleep
from swarm_iac.observe.ended import Ended
from swarm_iac.observe.history import PastRun, history
from swarm_iac.observe.measurements import Measured, measurements
from swarm_iac.observe.observe import observe

__all__ = ["Ended", "Measured", "PastRun", "but_asleep", "history", "measurements", "observe"]
