"""How does the policy pack answer the engine? As an analyzer that checks every Fleet against the limits.

Our own analyzer instead of pulumi-policy, whose protobuf version conflicts with the solver's. It exits silently on SIGINT:
its traceback would end up in the user's preview.
"""

# The names of the methods are those of the protocol.
# ruff: noqa: N802

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from swarm_iac.provider.plugin.lazy_imports import without_sdk
from swarm_iac.run_options import RunOptions

_PACK = "swarm-limits"
_POLICY = "limits"
_ABOUT = "No placement exceeds a limit of a user, a team, a node or the cluster, or the capacity of a machine."


def main() -> None:
    """Serve the policy pack to the engine that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    without_sdk()
    from pulumi.runtime.proto import analyzer_pb2_grpc

    from swarm_iac.provider.plugin.serve import serve

    options = RunOptions.of(os.environ)
    asyncio.run(serve(lambda server, busy: analyzer_pb2_grpc.add_AnalyzerServicer_to_server(_analyzer(), server), options))


def _analyzer() -> Any:
    """An instance of the analyzer; made here, because its messages may only be loaded after `without_sdk`."""
    from google.protobuf import empty_pb2
    from pulumi.runtime.proto import analyzer_pb2 as pb
    from pulumi.runtime.proto import analyzer_pb2_grpc, plugin_pb2

    from swarm_iac import __version__
    from swarm_iac.provider.operations.checks import check
    from swarm_iac.provider.plugin.wire import from_struct

    class Analyzer(analyzer_pb2_grpc.AnalyzerServicer):
        async def Handshake(self, request: Any, context: Any) -> Any:
            return pb.AnalyzerHandshakeResponse()

        async def GetPluginInfo(self, request: Any, context: Any) -> Any:
            return plugin_pb2.PluginInfo(version=__version__)

        async def GetAnalyzerInfo(self, request: Any, context: Any) -> Any:
            policy = pb.PolicyInfo(name=_POLICY, description=_ABOUT, enforcementLevel=pb.MANDATORY)
            return pb.AnalyzerInfo(name=_PACK, displayName="Limits of the fleet", version=__version__, policies=[policy])

        async def Configure(self, request: Any, context: Any) -> Any:
            return empty_pb2.Empty()

        async def ConfigureStack(self, request: Any, context: Any) -> Any:
            return pb.AnalyzerStackConfigureResponse()

        async def Cancel(self, request: Any, context: Any) -> Any:
            return empty_pb2.Empty()

        async def Remediate(self, request: Any, context: Any) -> Any:
            return pb.RemediateResponse()

        async def AnalyzeStack(self, request: Any, context: Any) -> Any:
            return pb.AnalyzeResponse()

        async def Analyze(self, request: Any, context: Any) -> Any:
            answer = pb.AnalyzeResponse()
            if request.type != "swarm:index:Fleet":
                return answer
            checked = await asyncio.to_thread(check, from_struct(request.properties))
            for message in checked.refusals:
                answer.diagnostics.add(
                    policyName=_POLICY,
                    policyPackName=_PACK,
                    policyPackVersion=__version__,
                    description=_ABOUT,
                    message=message,
                    enforcementLevel=pb.MANDATORY,
                    urn=request.urn,
                )
            return answer

    return Analyzer()


if __name__ == "__main__":
    main()
