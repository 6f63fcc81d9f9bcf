"""What are the nodes really like, and what was done to them?"""

from swarm_iac.observe.asleep import but_asleep
from swarm_iac.observe.ended import Ended
from swarm_iac.observe.history import Past, PastRun, history
from swarm_iac.observe.measurements import Measured, measurements
from swarm_iac.observe.moves import MemoryMove
from swarm_iac.observe.observe import observe

__all__ = ["Ended", "Measured", "MemoryMove", "Past", "PastRun", "but_asleep", "history", "measurements", "observe"]
