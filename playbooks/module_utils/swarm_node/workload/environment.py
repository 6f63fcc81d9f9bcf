"""Which variables of a workload are swarm's, and which its user's?"""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..machine.run import NodeError

#: How the names of variables begin that only we set.
OURS = "SWARM_"
#: Those by which CUDA, and a container's runtime, are told of GPUs.
VISIBLE, IN_CONTAINERS, ORDER = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


def theirs(want: Dict[str, Any]) -> Dict[str, str]:
    """The user's own variables."""
    return {name: value for name, value in (want.get("env") or {}).items() if not name.startswith(OURS)}


def check(want: Dict[str, Any]) -> None:
    """NodeError for a variable that only we set. Not asked of what is recorded: that is to be read, whatever it is."""
    for name in want.get("env") or {}:
        if name.startswith(OURS):
            raise NodeError(f"the variable {name[:60]} is set by swarm; give yours a name that does not begin with {OURS}")


def check_new(want: Dict[str, Any], recorded: Optional[Dict[str, Any]]) -> None:
    """NodeError for a variable that would hide which GPUs it was given. One that ran with it before may do so again."""
    before = (recorded or {}).get("env") or {}
    for name in (VISIBLE, IN_CONTAINERS, ORDER):
        if name in (want.get("env") or {}) and name not in before:
            raise NodeError(f"the variable {name} is set by swarm, to the GPUs of the allocation; set it within the command")
