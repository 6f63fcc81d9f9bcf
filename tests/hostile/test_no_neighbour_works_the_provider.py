"""No other account of the operator's host calls the provider, and no caller says which ssh configuration it uses.

Fails on 3f04825: whoever reached the port could call `Read` with an `sshConfig` of their own, and ssh ran what stood in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi.runtime.proto import provider_pb2_grpc

from swarm_iac.model.state import Desired, Observed
from swarm_iac.provider import spec
from swarm_iac.provider.operations.machines import RealMachines
from swarm_iac.provider.operations.servicer import Servicer
from swarm_iac.provider.plugin.serve import Busy
from swarm_iac.provider.plugin.wire import to_struct
from swarm_iac.run_options import RunOptions

URN = "urn:pulumi:dev::lab::swarm:index:Fleet::lab"


async def called(options: RunOptions, interceptors: tuple[Any, ...], call: Any) -> Any:
    """A real server and a real client."""
    server = grpc.aio.server(interceptors=interceptors)
    servicer = Servicer(RealMachines(options), Busy(), options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)  # type: ignore[arg-type, unused-ignore]
    port = server.add_insecure_port("127.0.0.1:0")
    for each in interceptors:
        each.port = port
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            return await call(provider_pb2_grpc.ResourceProviderStub(channel))
    finally:
        await server.stop(None)


def inputs(**more: Any) -> dict[str, Any]:
    nodes = {"n1": Desired(node="n1", address="root@n1", fleet="lab")}
    return {"fleet": "lab", "lineage": "L", "spec": spec.pack(nodes), **more}


@pytest.mark.parametrize("own", ["", "/own/config"])
def test_a_caller_never_says_how_nodes_are_reached(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[Path | None] = []

    def observe(targets: Mapping[str, str], *, ssh_config: Path | None, **_: Any) -> dict[str, Observed]:
        configs.append(ssh_config)
        return {name: Observed(node=name, error="nobody there") for name in targets}

    monkeypatch.setattr("swarm_iac.observe.observe", observe)
    struct = to_struct(inputs(sshConfig="/tmp/evil"))

    async def ask(stub: Any) -> Any:
        try:
            return await stub.Read(pb.ReadRequest(id="lab", urn=URN, properties=struct, inputs=struct))
        except grpc.aio.AioRpcError as error:  # rows cannot be published: there is no engine
            return error

    asyncio.run(called(RunOptions.of({"SWARM_SSH_CONFIG": own}), (), ask))
    assert configs == [Path(own) if own else None]


def test_a_program_that_gives_one_is_told() -> None:
    async def ask(stub: Any) -> Any:
        return await stub.Check(pb.CheckRequest(urn=URN, news=to_struct(inputs(sshConfig="/x"))))

    (failure,) = asyncio.run(called(RunOptions(), (), ask)).failures
    assert failure.property == "sshConfig" and "SWARM_SSH_CONFIG" in failure.reason


@pytest.mark.parametrize("other", [False, True])
def test_only_the_account_that_runs_the_provider_may_call_it(other: bool) -> None:
    from swarm_iac.provider.plugin.caller import OnlyOwner

    async def ask(stub: Any) -> Any:
        return await stub.Handshake(pb.ProviderHandshakeRequest(engine_address="127.0.0.1:1"))

    guard = OnlyOwner(os.geteuid() + other)
    if not other:
        assert asyncio.run(called(RunOptions(), (guard,), ask)) is not None
        return
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(called(RunOptions(), (guard,), ask))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
