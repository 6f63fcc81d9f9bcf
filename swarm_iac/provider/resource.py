"""How does a Pulumi program ask for a fleet?

from swarm_iac.provider.resource import Fleet
from swarm_iac.reconcile import Request

fleet = Fleet("lab", request=Request(stack, placement))
pulumi.export("where", fleet.placement)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pulumi

from swarm_iac.model.stack import Solve
from swarm_iac.model.state import Desired
from swarm_iac.provider import spec
from swarm_iac.reconcile import Request


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
        request: Request | None = None,
        fleet: str = "",
        nodes: Mapping[str, Desired | Mapping[str, Any]] | None = None,
        solve: Solve | None = None,
        lost: Iterable[str] = (),
        lineage: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Either a `request` (a stack, its placement, and what ran before), or `nodes` of the fleet of that name.

        Of a request the provider derives what each node should be, once it has judged it by the limits. `nodes` are the
        desired state of each, as Desired or as plain data of its shape (bytes, watts, MHz, bit/s), and no limit is judged;
        `solve` is the budget of a change to them, and `lost` names nodes that are given up. A Lineage of the same name is
        made unless one is given. Raises ValidationError for data that is no Desired.
        """
        end_quietly()
        props: dict[str, Any] = {
            "fleet": request.stack.fleet if request else fleet,
            "lineage": lineage if lineage is not None else Lineage(name).id,
            "placement": None,
            "addresses": None,
        }
        if request is not None:
            props["request"] = spec.pack_request(request)
        if nodes is not None:
            states = {node: one if isinstance(one, Desired) else Desired.model_validate(one) for node, one in nodes.items()}
            props["spec"] = spec.pack(states)
        if solve is not None or lost:
            props["guard"] = spec.guard(solve or Solve(), lost)
        super().__init__("swarm:index:Fleet", name, props, opts)
