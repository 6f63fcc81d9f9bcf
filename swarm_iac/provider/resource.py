"""How does a Pulumi program ask for a fleet?

from swarm_iac.provider.resource import Fleet

fleet = Fleet("lab", fleet="lab", nodes=desired)
pulumi.export("where", fleet.placement)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pulumi

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Desired
from swarm_iac.provider import spec

if TYPE_CHECKING:
    from swarm_iac.limits import Amounts


def end_quietly() -> None:
    """Let SIGINT end this program without a traceback.

    The engine interrupts the program when a resource fails, and the traceback would bury what the resource says. A
    handler that the program has set itself stays.
    """
    here = threading.current_thread() is threading.main_thread()
    if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class Lineage(pulumi.CustomResource):
    """Whose the machines are: a random name, made once and saved before any machine is touched. Its id is the name."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("swarm:index:Lineage", name, {}, opts)


class Fleet(pulumi.CustomResource):
    """All machines of a fleet as they should be. Nodes and allocations appear below it as rows."""

    placement: pulumi.Output[dict[str, str]]
    """Allocation → node."""
    addresses: pulumi.Output[dict[str, str]]
    """Allocation → host, or host:port for one that serves."""

    def __init__(
        self,
        name: str,
        *,
        fleet: str,
        nodes: Mapping[str, Desired | Mapping[str, Any]],
        lineage: pulumi.Input[str] | None = None,
        stack: Stack | None = None,
        placement: Placement | None = None,
        kept: Iterable[str] = (),
        held: Mapping[str, Amounts] | None = None,
        stood: Mapping[str, str] | None = None,
        source: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`nodes`: the desired state of each, as Desired or as plain data of its shape (bytes, watts, MHz, bit/s).

        With `stack` and `placement` the limits are checked before anything is done. `kept` names the allocations that
        stand where they ran, `held` tells what they held (both as `limits.judge` takes them), `stood` the node on which the
        machines must show each that may stay only therefore; `source` is the stack file that refusals point into.
        A Lineage of the same name is made unless one is given. Raises ValidationError for data that is no Desired.
        """
        end_quietly()
        wanted = {node: value if isinstance(value, Desired) else Desired.model_validate(value) for node, value in nodes.items()}
        text = spec.pack(wanted)
        props: dict[str, Any] = {
            "fleet": fleet,
            "lineage": lineage if lineage is not None else Lineage(name).id,
            "digest": spec.digest(text),
            "spec": text,
            "placement": None,
            "addresses": None,
        }
        if stack is not None and placement is not None:
            props["wish"] = spec.pack_wish(stack, placement, kept, source, held)
        if stack is not None:
            props["guard"] = spec.pack_guard(stack, stood)
        super().__init__("swarm:index:Fleet", name, props, opts)
