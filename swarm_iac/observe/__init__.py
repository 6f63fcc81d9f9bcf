"""What are the nodes really like?"""

from swarm_iac.observe.observe import observe

__all__ = ["observe"]
