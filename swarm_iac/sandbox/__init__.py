"""How does one try a fleet without owning one? Three real Debian nodes under QEMU, with stand-ins for their GPUs."""

from swarm_iac.sandbox.command import main
from swarm_iac.sandbox.fleet import NodeStatus, Sandbox
from swarm_iac.sandbox.spec import DEFAULT_BASE_PORT, DEFAULT_NODES, NodeSpec
from swarm_iac.sandbox.tool import SandboxError

__all__ = ["DEFAULT_BASE_PORT", "DEFAULT_NODES", "NodeSpec", "NodeStatus", "Sandbox", "SandboxError", "main"]
