"""How does the provider answer the engine's calls?

Three resources: `swarm:index:Lineage`, a random name created once, `swarm:index:Live`, what is live beside the lock, where
anything is, and `swarm:index:Fleet`, all machines. With
`refresh_before_update` in every answer, preview and up call Read first, and so show drift without `pulumi refresh`.
"""

# The names of the methods are those of the protocol.
# ruff: noqa: N802

from __future__ import annotations

import asyncio
import contextlib
import traceback
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc.aio
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2_grpc
from pulumi.runtime.proto import provider_pb2 as pb

from swarm_iac import __version__
from swarm_iac.errors import SwarmError
from swarm_iac.printable import printable
from swarm_iac.provider.operations import live_layer
from swarm_iac.provider.plugin.engine_log import EngineLog, publish
from swarm_iac.provider.plugin.lazy_imports import LOADING
from swarm_iac.provider.plugin.serve import Busy
from swarm_iac.provider.plugin.wire import UNKNOWN, from_struct, from_views, to_struct
from swarm_iac.run_options import RunOptions

if TYPE_CHECKING:
    from swarm_iac.provider.operations.fleet_operations import Before, Outcome
    from swarm_iac.provider.operations.machines import Machines

_LINEAGE, _LIVE = "swarm:index:Lineage", "swarm:index:Live"
#: Inputs that define the desired state. The others (`request`, `guard`) say why, and what the change may cost.
_MEANT = ("fleet", "lineage", "spec")
RpcContext: TypeAlias = Any  # the stubs of grpc.aio know no ServicerContext


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """One process of the plugin. `busy` keeps it alive during a change."""

    def __init__(self, machines: Machines, busy: Busy, options: RunOptions) -> None:
        self._machines = machines
        self._busy = busy
        self._options = options
        self._engine = ""
        self._fresh_lineage = False
        self._told: set[str] = set()

    async def Handshake(self, request: Any, context: RpcContext) -> Any:
        self._engine = request.engine_address
        return pb.ProviderHandshakeResponse(accept_secrets=False, accept_resources=False, accept_outputs=False)

    async def Attach(self, request: Any, context: RpcContext) -> Any:
        self._engine = request.address
        return empty_pb2.Empty()

    async def GetPluginInfo(self, request: Any, context: RpcContext) -> Any:
        return plugin_pb2.PluginInfo(version=__version__)

    async def GetSchema(self, request: Any, context: RpcContext) -> Any:
        return pb.GetSchemaResponse(schema="{}")

    async def CheckConfig(self, request: Any, context: RpcContext) -> Any:
        return pb.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: Any, context: RpcContext) -> Any:
        return pb.DiffResponse()

    async def Configure(self, request: Any, context: RpcContext) -> Any:
        return pb.ConfigureResponse(supportsPreview=True)

    async def Cancel(self, request: Any, context: RpcContext) -> Any:
        self._busy.stop.set()
        return empty_pb2.Empty()

    async def Check(self, request: Any, context: RpcContext) -> Any:
        answer = pb.CheckResponse(inputs=request.news)
        if _is_live(request.urn):
            async with _in_words(context):
                live_layer.check(from_struct(request.news))
        elif not _is_lineage(request.urn):
            from swarm_iac.provider.operations.checks import check

            if "sshConfig" in request.news:
                answer.failures.add(property="sshConfig", reason=_NO_CONFIG)
            for mistake in self._options.mistakes:
                answer.failures.add(property="", reason=printable(mistake))
            async with _in_words(context):
                checked = await asyncio.to_thread(check, from_struct(request.news))
            for reason in checked.refusals:
                answer.failures.add(property="", reason=printable(reason))
            for key, value in checked.derived.items():
                answer.inputs.fields[key].string_value = value
        return answer

    async def Diff(self, request: Any, context: RpcContext) -> Any:
        if _is_lineage(request.urn):
            return pb.DiffResponse(changes=pb.DiffResponse.DIFF_NONE)
        async with _in_words(context):
            old, new, olds = from_struct(request.old_inputs), from_struct(request.news), from_struct(request.olds)
        if _is_live(request.urn):
            return _live_diff(live_layer.changed(old, new))
        answer = pb.DiffResponse(changes=pb.DiffResponse.DIFF_NONE, hasDetailedDiff=True)
        if any(old.get(key) != new.get(key) for key in _MEANT):
            answer.detailedDiff["digest"].kind = pb.PropertyDiff.UPDATE
            answer.detailedDiff["digest"].inputDiff = True
        if olds.get("drift"):
            answer.detailedDiff["drift"].kind = pb.PropertyDiff.DELETE
        if answer.detailedDiff:
            answer.changes = pb.DiffResponse.DIFF_SOME
            answer.diffs.extend(sorted(answer.detailedDiff))
        return answer

    async def Create(self, request: Any, context: RpcContext) -> Any:
        if _is_lineage(request.urn):
            self._fresh_lineage = not request.preview
            return pb.CreateResponse(id="" if request.preview else self._options.adopt or str(uuid.uuid4()))
        if _is_live(request.urn):
            return pb.CreateResponse(id="" if request.preview else "live", properties=request.properties)
        if self._fresh_lineage and self._options.skip_checkpoints:
            await _refuse(context, "the lineage is not saved yet, and PULUMI_SKIP_CHECKPOINTS is set", _LINEAGE_HINT)
        with LOADING:
            from swarm_iac.provider.operations.fleet_operations import Before

        async with _in_words(context):
            news = from_struct(request.properties)
            id = str(news.get("fleet"))

        outputs = await self._change(request, context, id, news, Before())
        return pb.CreateResponse(id=id, properties=to_struct(outputs), refresh_before_update=True)

    async def Update(self, request: Any, context: RpcContext) -> Any:
        if _is_lineage(request.urn):
            return pb.UpdateResponse(properties=request.olds)
        if _is_live(request.urn):
            async with _in_words(context):
                if not request.preview:
                    live_layer.replace(from_struct(request.old_inputs), from_struct(request.news))
            return pb.UpdateResponse(properties=request.news)
        with LOADING:
            from swarm_iac.provider.operations.fleet_operations import Before

        async with _in_words(context):
            news = from_struct(request.news)
            before = Before(from_struct(request.old_inputs), from_struct(request.olds), from_views(request.old_views))
        outputs = await self._change(request, context, request.id, news, before)
        return pb.UpdateResponse(properties=to_struct(outputs), refresh_before_update=True)

    async def Read(self, request: Any, context: RpcContext) -> Any:
        if _is_lineage(request.urn) or not request.HasField("inputs") or "spec" not in request.inputs:
            return pb.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)
        with LOADING:
            from swarm_iac.provider.operations import fleet_operations
            from swarm_iac.provider.operations.views import view_steps

        async with self._logging(request.urn, context) as log:
            before = fleet_operations.Before(
                from_struct(request.inputs), from_struct(request.properties), from_views(request.old_views)
            )
            found = await asyncio.to_thread(fleet_operations.read, self._machines, before, self._options)
            await publish(request, view_steps(before.rows, found.rows, found=True))
            await self._tell(log, found)
        return pb.ReadResponse(
            id=request.id, properties=to_struct(found.outputs), inputs=request.inputs, refresh_before_update=True
        )

    async def Delete(self, request: Any, context: RpcContext) -> Any:
        if _is_lineage(request.urn) or _is_live(request.urn):
            return empty_pb2.Empty()
        with LOADING:
            from swarm_iac.provider.operations import fleet_operations
            from swarm_iac.provider.operations.failures import reasons
            from swarm_iac.provider.operations.views import view_steps

        async with self._logging(request.urn, context) as log:
            before = fleet_operations.Before(
                from_struct(request.old_inputs), from_struct(request.properties), from_views(request.old_views)
            )
            with self._busy.working():
                done = await asyncio.to_thread(
                    fleet_operations.destroy, self._machines, before, self._options, **self._watched(log)
                )
            # Deletions only: a row that is updated while its parent is not would precede it in the state, which the engine then
            # calls invalid. The Fleet reports what failed.
            await publish(request, view_steps(before.rows, done.rows))
            await self._tell(log, done)
        if done.failures:
            await _refuse(context, "\n".join(reasons(done.failures)))
        return empty_pb2.Empty()

    async def _change(self, request: Any, context: RpcContext, id: str, news: dict[str, Any], before: Before) -> dict[str, Any]:
        """Preview or apply, publish the changed rows, and return the outputs. Aborts the call if a row failed."""
        with LOADING:
            from swarm_iac.provider.operations import fleet_operations
            from swarm_iac.provider.operations.failures import abort_in_part
            from swarm_iac.provider.operations.views import view_steps

        async with self._logging(request.urn, context) as log:
            if request.preview:
                known = {key: "" if value == UNKNOWN else value for key, value in news.items()}
                done = await asyncio.to_thread(fleet_operations.preview, self._machines, known, before, self._options)
            else:
                with self._busy.working():
                    done = await asyncio.to_thread(
                        fleet_operations.apply, self._machines, news, before, self._options, **self._watched(log)
                    )
            await publish(request, view_steps(before.rows, done.rows, failures=done.failures))
            await self._tell(log, done)
            if done.refused:
                raise done.refused
        if done.failures:
            await abort_in_part(context, id=id, inputs=news, outputs=done.outputs, failures=done.failures)
        return done.outputs

    def _watched(self, log: EngineLog) -> dict[str, Any]:
        return {"on_progress": log.progress, "stop": self._busy.stop}

    async def _tell(self, log: EngineLog, outcome: Outcome) -> None:
        """Log each warning once, although Read and Update both produce it."""
        for warning in outcome.warnings:
            if warning not in self._told:
                self._told.add(warning)
                await log.warn(warning)

    @contextlib.asynccontextmanager
    async def _logging(self, urn: str, context: RpcContext) -> AsyncIterator[EngineLog]:
        """A log on the resource's row; our errors end the call with a plain message."""
        log = EngineLog(self._engine, urn)
        try:
            async with _in_words(context):
                yield log
        finally:
            await log.close()


@contextlib.asynccontextmanager
async def _in_words(context: RpcContext) -> AsyncIterator[None]:
    """Our errors end the call with a plain message, and others with the place where they happened."""
    try:
        yield
    except SwarmError as error:
        await _refuse(context, error.message, error.hint)
    except Exception as error:
        if isinstance(error, grpc.aio.AbortError):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        bug = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        await _refuse(context, bug, "this is a bug of the provider; please report it")


_NO_CONFIG = "is read from the environment of the run only: set SWARM_SSH_CONFIG instead"
_LINEAGE_HINT = (
    "run once without it, or first `pulumi up --target '**Lineage**'`: a run that is killed before its lineage is saved "
    "would leave machines that no one may change"
)


def _is_lineage(urn: str) -> bool:
    return f"::{_LINEAGE}::" in urn


def _is_live(urn: str) -> bool:
    return f"::{_LIVE}::" in urn


def _live_diff(changed: bool) -> Any:
    """Only its version is shown: the rest is long, and for machines."""
    if not changed:
        return pb.DiffResponse(changes=pb.DiffResponse.DIFF_NONE)
    answer = pb.DiffResponse(changes=pb.DiffResponse.DIFF_SOME, diffs=["version"], hasDetailedDiff=True)
    answer.detailedDiff["version"].kind = pb.PropertyDiff.UPDATE
    answer.detailedDiff["version"].inputDiff = True
    return answer


async def _refuse(context: RpcContext, message: str, hint: str = "") -> None:
    text = f"{message}\n  hint: {hint}" if hint else message
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, printable(text))
