"""What is the Fleet resource given, and what does it give back?

Inputs on the wire: `fleet`, `lineage`, `digest`, `spec`, `wish` and `guard`. `spec` (the desired
state of every node), `wish` (stack and placement, for the limits) and `guard` (the budget of a change) are JSON in text:
the SDK takes seconds to walk a nested value of 1,000 nodes, and none for a text.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Solve, Stack
from swarm_iac.model.state import Desired, Observed
from swarm_iac.plan.order.temporary_placement import Fits, may_stand
from swarm_iac.plan.planning import anywhere
from swarm_iac.provider.plugin.wire import understood

if TYPE_CHECKING:
    from swarm_iac.limits import Amounts

_NODES = TypeAdapter(dict[str, Desired])
_HELD = TypeAdapter(dict[str, Annotated[tuple[int, ...], Field(min_length=6, max_length=6)]])
Named = TypeVar("Named", Desired, Observed)


def pack(nodes: Mapping[str, Desired]) -> str:
    """The desired state of every node as the text of `spec`. Sorted, so equal wishes are equal texts."""
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


def unpack_nodes(nodes: Mapping[str, Any]) -> dict[str, Desired]:
    """The nodes of a mapping that came through the engine. Raises Refused when it holds something else."""
    with understood("`leaving` of the Fleet"):
        return _named(_NODES.validate_python(nodes))


def unpack_known(known: Any) -> dict[str, Observed]:
    """What was last seen of nodes, of the same kind. Raises Refused when it holds something else."""
    with understood("`known` of the Fleet"):
        return _named({str(name): Observed.model_validate(value) for name, value in (known or {}).items()})


def _named(nodes: dict[str, Named]) -> dict[str, Named]:
    """Each under its own name: a plan asks for both, and they are one."""
    for name, node in nodes.items():
        if node.node != name:
            raise ValueError(f"{name}: it is said of {node.node}")
    return nodes


@dataclass(frozen=True)
class Inputs:
    """One set of inputs, read."""

    nodes: dict[str, Desired] = field(default_factory=dict)
    lineage: str = ""
    solve: Solve = field(default_factory=Solve)
    lost: frozenset[str] = frozenset()
    stood: Mapping[str, str] = field(default_factory=dict)
    fits: Fits = anywhere
    stack: Callable[[], Stack | None] = lambda: None

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Inputs:
        """What the engine sent. It says nothing of how nodes are reached: that is of the run alone (RunOptions.ssh_config).

        Any account of this host can call the provider's port, and ssh runs what stands in its configuration.
        """
        return cls(
            nodes=unpack(raw.get("spec")),
            lineage=str(raw.get("lineage") or ""),
            **_unpack_guard(raw.get("guard"), raw.get("wish")),
        )


def pack_guard(stack: Stack, stood: Mapping[str, str] | None = None) -> str:
    """What a change may cost, which nodes are given up, and who must have run on which node, as the text of `guard`."""
    lost = sorted(name for name, node in stack.nodes.items() if node.state == "lost")
    value = {"solve": stack.solve.model_dump(mode="json"), "lost": lost, **({"stood": dict(stood)} if stood else {})}
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _unpack_guard(guard: Any, wish: Any) -> dict[str, Any]:
    """Without one the defaults of a stack file hold. The wish is read only when a detour asks where one may stand."""
    with understood("`guard` of the Fleet"):
        given = json.loads(guard) if guard else {}
        found = {
            "solve": Solve.model_validate(given.get("solve") or {}),
            "lost": frozenset(map(str, given.get("lost") or ())),
            "stood": {str(name): str(node) for name, node in dict(given.get("stood") or {}).items()},
        }

    @functools.cache
    def stack() -> Stack:
        return unpack_wish(wish).stack

    if not wish:
        return found
    return {**found, "fits": lambda workload, node: may_stand(stack(), workload, node), "stack": stack}


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


def pack_wish(
    stack: Stack, placement: Placement, kept: Iterable[str], source: str, held: Mapping[str, Amounts] | None = None
) -> str:
    """What the limits are judged by, as the text of `wish`. `kept` and `held` are as `limits.judge` takes them."""
    return json.dumps(
        {
            "source": source,
            "kept": sorted(kept),
            "held": dict(held or {}),
            "stack": stack.model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "placement": placement.model_dump(mode="json", exclude_defaults=True),
        },
        sort_keys=True,
        separators=(",", ":"),
    )


@dataclass(frozen=True)
class Wish:
    """What the limits are judged by."""

    stack: Stack
    placement: Placement
    kept: frozenset[str]
    held: dict[str, Amounts]
    source: str


def unpack_wish(wish: str) -> Wish:
    """The reverse of pack_wish. Raises Refused when it is something else."""
    with understood("`wish` of the Fleet"):
        raw = json.loads(wish)
        return Wish(
            stack=Stack.model_validate(raw["stack"]),
            placement=Placement.model_validate(raw["placement"]),
            kept=frozenset(map(str, raw.get("kept") or ())),
            held=_HELD.validate_python(raw.get("held") or {}),
            source=str(raw.get("source") or ""),
        )
