"""What was measured of a workload, and how does it reach the autopilot? From a file, Prometheus, or the nodes.

A value that is missing, not a number, or negative is no reading: nothing follows from it.
"""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swarm_iac.errors import Retryable, SwarmError
from swarm_iac.model.service.scaling import Scaling
from swarm_iac.model.stack import Stack
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable

#: Bytes of an answer of Prometheus, or of a file.
MOST_BYTES = 4_000_000
#: The most that a value may be.
LARGEST = 1e15


@dataclass(frozen=True)
class Reading:
    """One value [requests/s, requests, percent, or as the query says]; None with `why` where there is none.

    `replicas`: of how many it is the mean; None where it is a total, which says nothing of replicas.
    """

    value: float | None
    why: str = ""
    replicas: int | None = None

    def of_all(self, running: int) -> Reading:
        """The same, if it is the mean of all that run: a node that is dark says nothing, and not that it is idle."""
        if self.value is None or self.replicas is None or self.replicas >= running:
            return self
        every = pluralize(running, "replica")
        return Reading(None, pluralize(running - self.replicas, f"of {every} was", f"of {every} were") + " not measured")


def reading(value: object) -> Reading:
    """Of anything that was read."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return Reading(None, "nothing was measured")
    if not math.isfinite(value) or not 0 <= value <= LARGEST:
        return Reading(None, f"{value} is no measurement")
    return Reading(float(value))


def of_file(path: Path, stack: Stack) -> dict[str, Reading]:
    """`{"WORKLOAD": VALUE}`; for tests, and for measures that something else collects. Raises SwarmError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SwarmError(f"{path} has more than {MOST_BYTES:,} bytes")
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise SwarmError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SwarmError(f"{path} is no JSON: {printable(str(error), 100)}", hint='write {"WORKLOAD": VALUE}') from None
    if not isinstance(found, dict):
        raise SwarmError(f"{path} is no mapping", hint='write {"WORKLOAD": VALUE}')
    return {name: reading(found.get(name)) for name, one in stack.workloads.items() if one.scales}


def expression(fleet: str, name: str, scaling: Scaling) -> str:
    """The query for Prometheus. Names of a stack file need no quoting."""
    if scaling.on == "query":
        return scaling.query
    labels = f'fleet="{fleet}",workload="{name}"'
    if scaling.on == "gpu":
        return f"100 * avg({_active(fleet, name)})"
    family = "swarm:requests:rate" if scaling.on == "requests_per_replica" else "swarm:queue:length"
    return f"sum({family}{{{labels}}})"


def _active(fleet: str, name: str) -> str:
    return f'swarm:holder_gpu_active:ratio{{fleet="{fleet}",workload="{name}"}}'


def of_prometheus(address: str, stack: Stack, *, timeout: float = 2.0) -> dict[str, Reading]:
    """One query for each workload. A Prometheus that does not answer is asked once, and nothing is measured. Never raises."""
    found: dict[str, Reading] = {}
    for name, one in sorted(stack.workloads.items()):
        if one.scales and one.scale is not None:
            try:
                query = expression(stack.fleet, name, one.scale)
                found[name] = _value(_asked(address, query, timeout))
                if one.scale.on == "gpu" and found[name].value is not None:
                    counted = _value(_asked(address, f"count(count by (allocation) ({_active(stack.fleet, name)}))", timeout))
                    found[name] = replace(found[name], replicas=int(counted.value or 0))
            except Retryable as error:
                rest = {other: Reading(None, str(error)) for other, each in stack.workloads.items() if each.scales}
                return rest | found
    return found


def address(text: str) -> str:
    """The address of a Prometheus. Raises SwarmError for what is none: no other scheme is opened."""
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.isprintable():
        raise SwarmError(f"{printable(text, 80)!r} is no address of a Prometheus", hint="write http://HOST:9090")
    return text.rstrip("/")


class _Still(urllib.request.HTTPRedirectHandler):
    """No redirect is followed: whom we ask was said by the operator."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _asked(where: str, query: str, timeout: float) -> Any:
    return asked(where, "query", {"query": query}, timeout)


def asked(where: str, what: str, form: Mapping[str, str], timeout: float, most: int = MOST_BYTES) -> Any:
    """What a Prometheus answers to `query` or `query_range`; None where it says no, or it is no answer. Raises Retryable.

    `timeout` [s]; of an answer of more than `most` bytes nothing is used.
    """
    body = urllib.parse.urlencode({**form, "timeout": f"{timeout:g}s"}).encode()
    opener = urllib.request.build_opener(_Still, urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(f"{where}/api/v1/{what}", data=body), timeout=timeout) as answer:
            raw = answer.read(most + 1)
    except urllib.error.HTTPError as error:
        if error.code in (400, 422):
            return None  # the query is wrong, or matches series that cannot be added
        raise Retryable(f"Prometheus answered {error.code}") from None
    except (OSError, ValueError) as error:
        raise Retryable(f"Prometheus did not answer: {printable(str(error), 100)}") from None
    try:
        return json.loads(raw) if len(raw) <= most else None
    except (ValueError, RecursionError):
        return None


def _value(answer: Any) -> Reading:
    """One number of an answer; a vector of more is none, since nobody knows which is meant."""
    data = answer.get("data") if isinstance(answer, Mapping) and answer.get("status") == "success" else None
    result = data.get("result") if isinstance(data, Mapping) else None
    if isinstance(data, Mapping) and data.get("resultType") == "vector":
        if not isinstance(result, list) or len(result) != 1:
            many = len(result) if isinstance(result, list) else 0
            return Reading(None, f"the query gives {many} values, and not one")
        result = result[0].get("value") if isinstance(result[0], Mapping) else None
    if not (isinstance(result, list) and len(result) == 2 and isinstance(result[1], str)):
        return Reading(None, "the query gives no number")
    try:
        return reading(float(result[1]))
    except ValueError:
        return Reading(None, "the query gives no number")
