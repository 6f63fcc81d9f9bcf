"""How does a Pulumi program declare a fleet?

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
    """Let SIGINT stop this program without a traceback.

    The engine interrupts the program when a resource fails, and a traceback would bury the resource's message. A handler set
    by the program stays.
    """
    here = threading.current_thread() is threading.main_thread()
    if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class Lineage(pulumi.CustomResource):
    """The owner of the machines: a random name, created once and saved before any machine is changed. Its id is the name."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("swarm:index:Lineage", name, {}, opts)


class LiveLayer(pulumi.CustomResource):
    """What is live beside the lock, for all clones. Its inputs are those of swarm_iac.live.shared.Shared."""

    version: pulumi.Output[str]
    """Its version, once it is written."""

    def __init__(self, name: str, inputs: Mapping[str, str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("swarm:index:Live", name, dict(inputs), opts)


class Fleet(pulumi.CustomResource):
    """All machines of a fleet in their desired state. Nodes and allocations appear below it as rows."""

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

        From a request the provider derives what each node should be, after checking it against the limits. `nodes` are the
        desired states themselves, as Desired or as plain data of its shape (bytes, watts, MHz, bit/s), without limits;
        `solve` is the budget of their change, and `lost` lists nodes that are given up. A Lineage of the same name is created
        unless one is given. Raises ValidationError for data that is not a Desired.
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
