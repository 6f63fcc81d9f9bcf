"""How is a running virtual machine controlled from outside (QMP)?"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from swarm_iac.sandbox.tool import SandboxError


def tell(path: Path, command: str, **arguments: Any) -> Any:
    """Send one command to the machine whose monitor listens at `path`; its answer."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(15)
            link.connect(str(path))
            with link.makefile("rw") as stream:
                stream.readline()  # the greeting
                _ask(stream, {"execute": "qmp_capabilities"})
                return _ask(stream, {"execute": command, "arguments": arguments})
    except OSError as error:
        raise SandboxError(f"the machine's monitor does not answer: {error}", "is the node powered on?") from None


def _ask(stream: Any, message: dict[str, Any]) -> Any:
    stream.write(json.dumps(message) + "\n")
    stream.flush()
    for line in stream:
        answer = json.loads(line)
        if "error" in answer:
            raise SandboxError(f"{message['execute']}: {answer['error']['desc']}")
        if "return" in answer:
            return answer["return"]
    return None  # `quit` may close the line first
