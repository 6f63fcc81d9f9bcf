"""How is the provider started? As `pulumi-resource-swarm`, by the engine."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from swarm_iac.provider.plugin.lazy_imports import LOADING, without_fork_handlers, without_sdk
from swarm_iac.run_options import RunOptions

if TYPE_CHECKING:
    from swarm_iac.provider.operations.machines import Machines


def main() -> None:
    """Serve the provider to the engine that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    without_sdk()
    from swarm_iac.provider.operations.machines import RealMachines

    options = RunOptions.of(os.environ)
    run(RealMachines(options), options)


def run(machines: Machines, options: RunOptions) -> None:
    """Serve with these machines."""
    without_fork_handlers()
    from pulumi.runtime.proto import provider_pb2_grpc

    from swarm_iac.provider.operations.servicer import Servicer
    from swarm_iac.provider.plugin.serve import serve

    asyncio.run(
        serve(
            lambda server, busy: provider_pb2_grpc.add_ResourceProviderServicer_to_server(
                Servicer(machines, busy, options), server
            ),
            options,
            warm=_warm,
        )
    )


def _warm() -> None:
    with LOADING:
        import swarm_iac.provider.operations.fleet_operations  # noqa: F401


if __name__ == "__main__":
    main()
