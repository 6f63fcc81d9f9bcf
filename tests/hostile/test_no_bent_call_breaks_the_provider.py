"""No call of the engine, whatever its inputs, outputs and rows hold, ends in anything but an answer or words.

A state file is edited by hand, a program writes its own resource, another version wrote the last run. Fails on 9edab55:
a `request`, `spec`, `known` or `leaving` that is not one ended the call as a bug of the provider, in Check and Diff without
any words at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime.proto import provider_pb2 as pb

from swarm_iac.model.state import Observed
from swarm_iac.provider import spec
from swarm_iac.provider.operations import fleet_operations, servicer
from swarm_iac.provider.operations.servicer import Servicer
from swarm_iac.provider.plugin.serve import Busy
from swarm_iac.reconcile import Request
from swarm_iac.run_options import RunOptions
from tests.hostile.bent import RAW_JSON, as_json, bent, cases, harmless
from tests.plan.test_render import scene
from tests.provider.pretend import act

URN = "urn:pulumi:dev::lab::swarm:index:Fleet::lab"
CONTEXT, SEEN = scene()
REQUEST = Request(CONTEXT.stack, CONTEXT.after, frozenset({"tidy-0"}), source="stacks/lab.yaml")


class Machines:
    """As the last run left them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Any] = {name: json.loads(one.model_dump_json()) for name, one in SEEN.items()}

    def agent(self) -> str:
        return ""

    def observe(self, targets: Mapping[str, str]) -> dict[str, Observed]:
        found = {name: self.nodes.get(name) or {"node": name, "error": "nobody there"} for name in targets}
        return {name: Observed.model_validate({"node": name, "state": node.get("state") or {}, "ledger": node.get("ledger"),
                                               "error": node.get("error", "")}) for name, node in found.items()}  # fmt: skip

    def claimed(self, nodes: Any, **_: Any) -> contextlib.AbstractContextManager[str]:
        return contextlib.nullcontext("a-run")

    def converge(self, plan: Any, desired: Any, *, lineage: str, serial: int, **_: Any) -> dict[str, Any]:
        return {step.id: act(self.nodes, step, desired[step.node], lineage, serial) for step in plan.steps}


class Call:
    """What gRPC hands to a method; how the call ended in `words`."""

    words = ""

    async def abort(self, code: Any, words: str) -> None:
        self.words = words
        raise grpc.aio.AbortError

    async def abort_with_status(self, status: Any) -> None:
        self.words = status.details
        raise grpc.aio.AbortError


def parts() -> dict[str, Any]:
    """Inputs, outputs and rows of a Fleet as the state holds them after a run."""
    asked = {"lineage": "l", "request": spec.pack_request(REQUEST), **spec.derived(REQUEST)}
    done = fleet_operations.apply(
        Machines(),
        asked,
        fleet_operations.Before(),
        RunOptions(),
        on_progress=lambda _: None,
        stop=threading.Event(),
        guarded=False,
    )
    known = {name: json.loads(one.model_dump_json(exclude_defaults=True)) for name, one in SEEN.items()}
    leaving = {"n9": {"node": "n9", "address": "root@n9", "fleet": "f"}}
    outputs = {**done.outputs, "known": known, "leaving": leaving, "drift": ["n1/gpus"]}
    rows = [{"kind": kind, "name": name, "outputs": row} for (kind, name), row in done.rows.items()]
    return {"inputs": asked, "outputs": outputs, "rows": rows}


@pytest.fixture(scope="module")
def valid() -> dict[str, Any]:
    return parts()


#: Texts of the inputs that hold JSON, so that it is bent inside.
INNER = ("spec", "request", "guard")


@st.composite
def calls(draw: st.DrawFn, valid: dict[str, Any]) -> tuple[str, bool, dict[str, Any]]:
    """A method, whether it is a preview, and the parts of the call."""
    verb = draw(st.sampled_from(("Check", "Diff", "Create", "Update", "Read", "Delete")))
    part = draw(st.sampled_from(("inner", "inner", "inner", "inputs", "outputs", "outputs", "rows")))
    if part != "inner":
        return verb, draw(st.booleans()), {**valid, part: draw(bent(valid[part]))}
    name = draw(st.sampled_from(INNER))
    text = draw(bent(json.loads(valid["inputs"][name]), RAW_JSON).map(as_json))
    return verb, draw(st.booleans()), {**valid, "inputs": {**valid["inputs"], name: text}}


def struct(value: Any) -> Any:
    """As the engine sends it: what no protobuf holds never comes."""
    found = Struct()
    if isinstance(value, dict):
        for key, each in value.items():
            try:
                single = Struct()
                single.update({key: each})
                found.MergeFrom(Struct.FromString(single.SerializeToString()))
            except (ValueError, TypeError, UnicodeError, RecursionError):
                continue
    return found


def request(verb: str, preview: bool, old: dict[str, Any], new: dict[str, Any]) -> Any:
    views = [
        pb.View(
            type=f"swarm:index:{row.get('kind')}"[:200], name=str(row.get("name"))[:200], outputs=struct(row.get("outputs"))
        )
        for row in (new["rows"] if isinstance(new["rows"], list) else [])
        if isinstance(row, dict) and str(row.get("name")).isprintable() and str(row.get("kind")).isprintable()
    ]
    asked, was, out = struct(new["inputs"]), struct(old["inputs"]), struct(new["outputs"])
    return {
        "Check": lambda: pb.CheckRequest(urn=URN, olds=was, news=asked),
        "Diff": lambda: pb.DiffRequest(urn=URN, id="f", olds=out, news=asked, old_inputs=was),
        "Create": lambda: pb.CreateRequest(urn=URN, properties=asked, preview=preview),
        "Update": lambda: pb.UpdateRequest(
            urn=URN, id="f", olds=out, news=was, old_inputs=asked, preview=preview, old_views=views
        ),
        "Read": lambda: pb.ReadRequest(urn=URN, id="f", properties=out, inputs=asked, old_views=views),
        "Delete": lambda: pb.DeleteRequest(urn=URN, id="f", properties=out, old_inputs=asked, old_views=views),
    }[verb]()


def test_no_bent_call_ends_without_words(valid: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = RunOptions(state_home=tmp_path)
    published: list[str] = []

    async def publish(request: Any, steps: Any) -> None:
        published.extend(str(step) for step in steps)

    monkeypatch.setattr(servicer, "publish", publish)
    ends: dict[str, int] = {}

    @given(calls(valid))
    @cases(3000, 60)
    def each(call: tuple[str, bool, dict[str, Any]]) -> None:
        verb, preview, new = call

        async def ask() -> tuple[Any, str]:
            context = Call()
            try:
                return await getattr(Servicer(Machines(), Busy(), options), verb)(
                    request(verb, preview, valid, new), context
                ), ""  # type: ignore[arg-type]
            except grpc.aio.AbortError:
                return None, context.words

        answer, words = asyncio.run(ask())
        assert "this is a bug" not in words, words
        assert answer is not None or words
        harmless(words)
        if verb == "Check" and answer is not None:
            harmless("".join(each.reason for each in answer.failures))
        ends["answer" if answer is not None else "words"] = ends.get("answer" if answer is not None else "words", 0) + 1

    each()
    assert min(ends.get("answer", 0), ends.get("words", 0)) >= 5, ends
