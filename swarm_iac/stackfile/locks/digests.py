"""From what was an allocation decided? Digests over it: equal ones mean that nothing that matters has changed.

A digest covers what one allocation alone was decided from, so that two branches change different ones without a conflict.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack

#: How a workload runs, how long, how it stops, changes and is called, how urgent it is, whether others may move it, and what
#: its replicas above the guaranteed ones follow: changing these moves nothing.
_LIVE = {"run", "stop", "time", "priority", "on_update", "restart", "on_boot", "movable", "hold", "renamed_from", "scale"}
#: What decides only whether something that wants to grow waits or stops; see `Decided.growth`.
_GROWTH = {"on_grow"}


def digest_of(stack: Stack, workload: str, node: str | None) -> str:
    """12 hex digits over what one allocation is decided from: the request, and the shape of the node that holds it.

    What is in _LIVE and _GROWTH is left out, and a node's state; `validity` looks at that. Raises KeyError when the stack has
    no such workload or node.
    """
    return Decided(stack).digest(workload, node)


class Decided:
    """What allocations of one stack are decided from. Each workload and each node is written out once, for all of them."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self._requests: dict[str, str] = {}
        self._hardware: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, str] = {}
        self._digests: dict[tuple[str, str | None], str] = {}

    def digest(self, workload: str, node: str | None) -> str:
        """See `digest_of`."""
        key = (workload, node)
        if key not in self._digests:
            request = f'"wish":{self.request(workload)}'  # every digest on record has this key
            parts = [request] if node is None else [self.node(node), request]
            self._digests[key] = _sha_of(f"{{{','.join(parts)}}}")
        return self._digests[key]

    def of(self, one: Allocation) -> str:
        """The same of an allocation. A number beyond the replicas is one that only a decision to scale down leaves behind."""
        plain = self.run(one.workload) if one.ended else self.digest(one.workload, one.node)
        return plain if self.numbers(one) else _sha_of(f"{plain} {one.index}")

    def numbers(self, one: Allocation) -> bool:
        """Is its number one of those that replicas of its workload have?"""
        work = self.stack.workloads[one.workload]
        return one.index < (work.gang if work.gang is not None else work.replicas.most)

    def growth(self, workload: str) -> str:
        """Of the request of one that waits to grow, with what becomes of it meanwhile."""
        plain, one = self.digest(workload, None), self.stack.workloads[workload]
        more = one.model_dump(mode="json", include=_GROWTH, exclude_defaults=True)
        return digest([plain, more]) if more else plain

    def variants(self, workload: str) -> str:
        """Of all that a variant is chosen from: what the workload asks for, and each variant with what it changes."""
        one = self.stack.workloads[workload]
        each = [(name, variant.model_dump(mode="json", exclude_unset=True)) for name, variant in one.variants.items()]
        asked = (self.request(workload), str(one.replicas), one.priority, one.lighter_for, one.changes_variant)
        return digest(["variants", *asked, *each])

    def run(self, workload: str) -> str:
        """Of what runs: another command, environment or user is another job, with an end of its own.

        See plan.state.completion.same_run.
        """
        one = self.stack.workloads[workload]
        ran = one.run.model_dump(mode="json", include={"command", "env"}) if one.run else None
        return digest(["run", one.user, ran])

    def request(self, workload: str) -> str:
        """What the workload asks for, without what changes in place."""
        if workload not in self._requests:
            # Ceilings change in place, too: only what is guaranteed has a place.
            one = self.stack.workloads[workload].guaranteed
            request = one.model_dump(mode="json", exclude=_LIVE | _GROWTH, exclude_defaults=True)
            each = request.get("each", {})
            for live in ("tasks", "gpu_clock"):  # changed in place; no other node is better for it
                each.pop(live, None)
            # A range's upper end decides which replicas exist, not where one of them stands.
            request.pop("replicas", None)
            self._requests[workload] = _json(request)
        return self._requests[workload]

    def node(self, node: str) -> str:
        """The shape of a node, its place and its labels."""
        if node not in self._nodes:
            one = self.stack.nodes[node]
            shape = {"hardware": self._shape(one.hardware), "rack": one.rack, "site": one.site, "labels": one.labels}
            self._nodes[node] = f'"node":{_json(shape)}'
        return self._nodes[node]

    def _shape(self, name: str) -> dict[str, Any]:
        if name not in self._hardware:
            hidden = {"interface", "disk"}
            self._hardware[name] = self.stack.hardware[name].model_dump(mode="json", exclude=hidden, exclude_defaults=True)
        return self._hardware[name]


def digest_placement(placement: Placement) -> str:
    """12 hex digits over all allocations and what is unplaced; ties a proof to its lock."""
    unplaced = sorted((one.workload, one.missing) for one in placement.unplaced)
    dumped = (one.model_dump(mode="json", exclude={"user"}) for one in placement.allocations)  # the stack says whose it is
    allocations = sorted(dumped, key=lambda one: str(one["name"]))
    growing = sorted(one.workload for one in placement.growing)
    lighter = sorted((one.workload, one.variant) for one in placement.lighter)
    more = ({"growing": growing} if growing else {}) | ({"lighter": lighter} if lighter else {})
    return digest({"allocations": allocations, "unplaced": unplaced} | more)


def digest(value: object) -> str:
    """12 hex digits over a value that JSON can write."""
    return _sha_of(_json(value))


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _sha_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
