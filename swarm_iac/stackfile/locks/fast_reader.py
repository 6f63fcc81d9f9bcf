"""Is this lock just as we write it, and what does it say then?

Nearly every lock that is read was written by `lock.dump`, and nobody has touched it since: its blocks are read by one
pattern, in a sixth of the time that YAML takes. Whatever does not fit it to the letter is read as YAML is.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from swarm_iac.model.base import CPUS
from swarm_iac.model.device import Device
from swarm_iac.model.placement import Allocation, Unplaced
from swarm_iac.model.resources.row import Resource
from swarm_iac.model.resources.table import SIZES
from swarm_iac.units import Cpus, Quantity

#: Allocations, what is unplaced, and the digests of both.
Read = tuple[list[Allocation], list[Unplaced], dict[str, str], dict[str, str]]

_NAME = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_ACCOUNT = r"[a-z_][a-z0-9_-]{0,31}"
#: A part of a GPU is "3:0.25", a MIG instance "3:1g.10gb@0/8".
_GPU = r'(?:[0-9]{1,5}|"[0-9]{1,5}:(?:0\.[0-9]{1,3}|[1-7]g\.[0-9]{1,3}gb@[0-7](?:-[0-7])?/[48])")'
_GPUS = rf"\[({_GPU}(?:, {_GPU})*)\]"
_LIST = r"\[([0-9]{1,5}(?:, [0-9]{1,5})*)\]"
#: Whole ones, vCPUs, and text with a unit: as a bare number that would be read as YAML reads numbers.
_WHOLE, _CPUS = r"(0|[1-9][0-9]{0,14})", r"([0-9]{1,6}(?:\.[0-9]{1,3})?)"
_SIZE = r"(0|[0-9]{1,15}(?:\.[0-9]{1,9})? [A-Za-z/]{1,8})"
_DIGEST = r'    digest: "([0-9a-f]{12})"\n'


def _line(row: Resource) -> str:
    value = {int: _WHOLE, Cpus: _CPUS}.get(row.unit, _SIZE)
    line = f"    {row.name}: {value}\n"
    return line if row.zero == "lock and JSON" else f"(?:{line})?"


_BLOCK = re.compile(
    rf"\n  ({_NAME})-(0|[1-9][0-9]{{0,4}}):\n    workload: \1\n    node: ({_NAME})\n(?:    user: ({_ACCOUNT})\n)?"
    rf"(?:    gpus: {_GPUS}\n)?(?:    cpus: {_LIST}\n)?(?:    numa: {_LIST}\n)?"
    rf"{''.join(map(_line, SIZES))}(    ended: true\n)?{_DIGEST}"
)
#: Where the amounts begin in what _BLOCK finds, and what comes after them.
_FIRST, _LAST = 7, 7 + len(SIZES)
_MISSING = re.compile(rf"\n  ({_NAME}):\n    missing: {_LIST}\n{_DIGEST}")
_UNPLACED = "\nunplaced:\n"
#: Names that YAML reads as something else.
WORDS = frozenset({"true", "false", "null"})
_LONGEST = 40


def read(text: str, head: str) -> Read | None:
    """What the lock says, in the file's order; None where it is not, after `head`, exactly what we write."""
    if not text.startswith(head):
        return None
    amounts = cache(_amounts)  # ten thousand replicas have few sizes
    devices = cache(_devices)
    allocations: dict[str, Allocation] = {}
    digests: dict[str, str] = {}
    names: set[str] = set()
    at, count = len(head), 0
    try:
        while match := _BLOCK.match(text, at):
            at, count = match.end(), count + 1
            groups = match.groups()
            workload, index, node, user, gpus, pins, numa = groups[:_FIRST]
            ended, digest = groups[_LAST:]
            name = f"{workload}-{index}"
            names.update((workload, node, user or node))
            digests[name] = digest
            allocations[name] = Allocation.model_construct(
                name=name, workload=workload, index=int(index), node=node, user=user,
                gpus=devices(gpus or ""), cpus=_numbers(pins, CPUS), numa=_numbers(numa, CPUS),
                **amounts(groups[_FIRST:_LAST]), ended=bool(ended),
            )  # fmt: skip
    except ValueError:
        return None
    unplaced: dict[str, Unplaced] = {}
    missing: dict[str, str] = {}
    if text.startswith(_UNPLACED, at):
        at += len(_UNPLACED)
        while match := _MISSING.match(text, at):
            at, count = match.end(), count + 1
            workload, indices, digest = match.groups()
            unplaced[workload], missing[workload] = Unplaced(workload=workload, missing=_numbers(indices)), digest
    names |= unplaced.keys()
    well = names.isdisjoint(WORDS) and max(map(len, names), default=0) <= _LONGEST
    if at != len(text) or count != len(allocations) + len(unplaced) or not well:
        return None
    return list(allocations.values()), list(unplaced.values()), digests, missing


def _numbers(text: str | None, end: int = 100_000) -> tuple[int, ...]:
    """Raises ValueError for one that is `end` or more: of what is wrong, only YAML's reading knows the line."""
    found = tuple(map(int, text.split(", "))) if text else ()
    if found and max(found) >= end:
        raise ValueError(text)
    return found


def _devices(text: str) -> tuple[Device, ...]:
    """Raises ValueError for what is no GPU."""
    words = text.split(", ") if text else ()
    return tuple(Device.parse(word.strip('"') if word.startswith('"') else int(word)) for word in words)


def _amounts(texts: tuple[str | None, ...]) -> dict[str, Any]:
    """An amount for each of SIZES; None: it has no line."""
    return {row.name: _parsed(row.unit, text or "0") for row, text in zip(SIZES, texts, strict=True)}


def _parsed(unit: type[int], text: str) -> int:
    return unit.parse(text) if issubclass(unit, Quantity) else unit(text)
