"""What are the inputs and outputs of the Fleet resource?

A program sends `fleet`, `lineage` and either `request` (stack, placement, and what ran before) or `spec` (the desired state
of every node as plain data). Check derives the rest: from a request its `spec`, `guard` (the budget of the change) and
`digest`. So what is checked against the limits and what is applied are the same, and the state keeps both: `spec` says how
each node was left, in a shape that every later version reads, and `request` says why.

`request`, `spec` and `guard` are JSON text: the SDK takes seconds to walk a nested value of 1,000 nodes, and no time for a
string.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter

from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Placement
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.stack import Solve, Stack
from swarm_iac.model.state import Desired, LedgerHead, Observed
from swarm_iac.plan.order.temporary_placement import may_be_placed
from swarm_iac.provider.plugin.wire import understood
from swarm_iac.reconcile import Records, Request, Target

_NODES = TypeAdapter(dict[str, Desired])
#: What is held of the resources that `limits` count where a state does not say it, and how many of them every state has.
_UNSAID, _ALWAYS = tuple(int(row.itself) for row in RESOURCES if row.limit), 6


def _completed(held: tuple[int, ...]) -> tuple[int, ...]:
    """Resources that an older state does not count were not held; what ran was a replica all the same."""
    return (*held, *_UNSAID[len(held) :])


def _in_whole_gpus(held: Any) -> Any:
    """States of versions before this one count whole GPUs, and name what was held otherwise."""
    with contextlib.suppress(AttributeError, TypeError, IndexError):
        return {name: (amounts[0] * WHOLE, *amounts[1:]) for name, amounts in (held or {}).items()}
    return held


_Amounts = Annotated[tuple[int, ...], Field(min_length=_ALWAYS, max_length=len(_UNSAID)), AfterValidator(_completed)]
_HELD = TypeAdapter(dict[str, _Amounts])
Named = TypeVar("Named", Desired, Observed)


def derived(request: Request) -> dict[str, str]:
    """The inputs that follow from a request. Raises Refused if its parts contradict each other."""
    with understood("`request` of the Fleet"):
        spec = pack(request.nodes())
    budget = guard(request.stack.solve, request.lost, request.stood)
    return {"fleet": request.stack.fleet, "spec": spec, "digest": digest(spec), "guard": budget}


def pack(nodes: Mapping[str, Desired]) -> str:
    """The desired state of every node as the text of `spec`. Sorted, so equal states are equal texts."""
    return json.dumps(
        {name: nodes[name].model_dump(mode="json", exclude_defaults=True) for name in sorted(nodes)},
        sort_keys=True,
        separators=(",", ":"),
    )


def digest(spec: str) -> str:
    """Short name of a `spec`, for the eye."""
    return hashlib.sha256(spec.encode()).hexdigest()[:12]


def unpack(spec: Any) -> dict[str, Desired]:
    """The nodes of a `spec`. Raises Refused when it is not one."""
    with understood("`spec` of the Fleet"):
        return _named(_NODES.validate_json(spec)) if spec else {}


def _unpack_leaving(nodes: Mapping[str, Any]) -> dict[str, Desired]:
    with understood("`leaving` of the Fleet"):
        return _named(_NODES.validate_python(nodes))


def _unpack_known(known: Any) -> dict[str, Observed]:
    with understood("`known` of the Fleet"):
        return _named({str(name): Observed.model_validate(value) for name, value in (known or {}).items()})


def _named(nodes: dict[str, Named]) -> dict[str, Named]:
    """Checks that each is under its own name, since plans use both."""
    for name, node in nodes.items():
        if node.node != name:
            raise ValueError(f"{name}: it is said of {node.node}")
    return nodes


def target(inputs: Mapping[str, Any]) -> Target:
    """What a set of inputs asks for. Raises Refused if they cannot be read.

    They do not say how nodes are reached: that is up to the run alone (RunOptions.ssh_config). Any account of this host can
    call the provider's port, and ssh runs the commands in its configuration.
    """
    text = request_text(inputs)

    @functools.cache
    def stack() -> Stack:
        return unpack_request(text).stack

    more: dict[str, Any] = {}
    if text:  # parsed only if a temporary placement is considered
        more = {"fits": lambda *where: may_be_placed(stack(), *where), "stack": stack}
    return Target(unpack(inputs.get("spec")), _lineage(inputs), **_unpack_guard(inputs.get("guard")), **more)


def records(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Records:
    """What the state says of earlier runs: inputs and outputs of the last. Raises Refused if they cannot be read."""
    with understood("`serial` of the Fleet"):
        serial = LedgerHead(lineage="", fleet="", serial=int(outputs.get("serial") or 0)).serial
    return Records(
        lineage=_lineage(inputs),
        serial=serial,
        applied=unpack(inputs.get("spec")),
        leaving=_unpack_leaving(outputs.get("leaving") or {}),
        seen=_unpack_known(outputs.get("known")),
    )


def _lineage(inputs: Mapping[str, Any]) -> str:
    return str(inputs.get("lineage") or "")


def guard(solve: Solve, lost: Iterable[str] = (), stood: Mapping[str, str] | None = None) -> str:
    """The budget of a change, the lost nodes, and what must have run on which node, as the text of `guard`."""
    value: dict[str, Any] = {"solve": solve.model_dump(mode="json"), "lost": sorted(lost)}
    return json.dumps(value | ({"stood": dict(stood)} if stood else {}), sort_keys=True, separators=(",", ":"))


def _unpack_guard(guard: Any) -> dict[str, Any]:
    """Without one the defaults of a stack file apply."""
    with understood("`guard` of the Fleet"):
        given = json.loads(guard) if guard else {}
        return {
            "solve": Solve.model_validate(given.get("solve") or {}),
            "lost": frozenset(map(str, given.get("lost") or ())),
            "stood": {str(name): str(node) for name, node in dict(given.get("stood") or {}).items()},
        }


def host_of(address: str) -> str:
    """Host part of user@host[:port]; `local` is this machine."""
    host = address.rsplit("@", 1)[-1].split(":", 1)[0]
    return "localhost" if host == "local" else host


def outputs(nodes: Mapping[str, Desired]) -> dict[str, dict[str, str]]:
    """`placement`: allocation → node; `addresses`: allocation → host, with the port where it serves one."""
    placement: dict[str, str] = {}
    addresses: dict[str, str] = {}
    for node, desired in nodes.items():
        for name, allocation in desired.state.allocations.items():
            port = allocation.unit.port
            placement[name] = node
            addresses[name] = host_of(desired.address) + (f":{port}" if port else "")
    return {"placement": dict(sorted(placement.items())), "addresses": dict(sorted(addresses.items()))}


def request_text(inputs: Mapping[str, Any]) -> Any:
    """The request in a set of inputs, as text. States of earlier versions have it under another name."""
    return inputs.get("request") or inputs.get("wish")


def pack_request(request: Request) -> str:
    """A request as the text of `request`."""
    return json.dumps(
        {
            "source": request.source,
            "kept": sorted(request.kept),
            "amounts": dict(request.held),
            "stood": dict(request.stood),
            "stack": request.stack.model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "placement": request.placement.model_dump(mode="json", exclude_defaults=True),
        },
        sort_keys=True,
        separators=(",", ":"),
    )


def unpack_request(text: Any) -> Request:
    """The reverse of pack_request. Raises Refused when it is something else."""
    with understood("`request` of the Fleet"):
        raw = json.loads(text)
        return Request(
            stack=Stack.model_validate(raw["stack"]),
            placement=Placement.model_validate(raw["placement"]),
            kept=frozenset(map(str, raw.get("kept") or ())),
            held=_HELD.validate_python(raw.get("amounts") or _in_whole_gpus(raw.get("held"))),
            stood={str(name): str(node) for name, node in dict(raw.get("stood") or {}).items()},
            source=str(raw.get("source") or ""),
        )
