"""How are the steps of a plan carried out on the nodes?"""

from swarm_iac.converge.claim import claimed
from swarm_iac.converge.converge import converge
from swarm_iac.reach.node_program import agent_digest

__all__ = ["agent_digest", "claimed", "converge"]
