"""What was decided, from what, and does that still hold? The lock file `stacks/NAME.lock.yaml`.

One block per allocation, sorted and set apart by blank lines, each with the digest of what it alone was decided from,
and nothing about the whole: two branches that change different allocations merge without a conflict.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, ValidationError, create_model

from swarm_iac.errors import Problem, StackFileError
from swarm_iac.model.base import Account, Core, Name, Value
from swarm_iac.model.device import Device
from swarm_iac.model.placement import Allocation, Growing, Lighter, Placement, Unplaced
from swarm_iac.model.resources.table import SIZES, sizes
from swarm_iac.model.service.variants import applied, chosen
from swarm_iac.model.stack import Stack
from swarm_iac.pluralize import pluralize
from swarm_iac.stackfile.locks import fast_reader
from swarm_iac.stackfile.locks.digests import Decided
from swarm_iac.stackfile.reading.compose import compose
from swarm_iac.stackfile.reading.messages import problems as wrong
from swarm_iac.stackfile.reading.source import Document
from swarm_iac.stackfile.reading.text import decode, read

#: A block has about 200 bytes and 25 values; this is enough for 50,000 allocations.
MAX_BYTES = 64_000_000
MAX_NODES = 5_000_000

#: Of a replica, as it ends an allocation's name; `isdigit` is true of other digits too.
_INDEX = re.compile("0|[1-9][0-9]{0,4}")
_HEAD = "# Where everything runs. Written by `swarm solve` and `swarm up`; committed with the stack file.\n"
_ALLOCATIONS = "allocations:\n"
#: Amounts as they are written, and whether they are where there is none.
_SIZES = tuple((row.name, row.zero == "lock and JSON") for row in SIZES)
#: Of an end that is not one of what the stack file asks for now.
ANOTHER = "it has ended, and is another job now"


@dataclass(frozen=True)
class Lock:
    """A placement, and by allocation (or workload: unplaced, growing, lighter) the digest of what it was decided from."""

    placement: Placement = field(default_factory=Placement)
    digests: dict[str, str] = field(default_factory=dict)
    unplaced_digests: dict[str, str] = field(default_factory=dict)
    growing_digests: dict[str, str] = field(default_factory=dict)
    lighter_digests: dict[str, str] = field(default_factory=dict)


class _Replica(Value):
    """Which replica an allocation is of, where it stands, and on which pieces of its node."""

    workload: Name = Field(description="The workload.")
    node: Name = Field(description="The node.")
    user: Account | None = Field(default=None, description="Whose it is.")
    gpus: tuple[Device, ...] = Field(
        default=(), description='GPUs by number; "3:0.25" is a part of one, "3:1g.10gb@0/8" a MIG instance.'
    )
    cpus: tuple[Core, ...] = Field(default=(), description="Pinned CPUs.")
    numa: tuple[Core, ...] = Field(default=(), description="NUMA nodes.")


if TYPE_CHECKING:

    class _Sized(_Replica):
        """An amount of each of `resource.SIZES`."""

else:
    _Sized = create_model("_Sized", __base__=_Replica, __module__=__name__, **sizes())


class _Block(_Sized):
    """One allocation as it is written."""

    ended: bool = Field(default=False, description="A finished job, which holds nothing but its storage.")
    digest: str = Field(pattern="^[0-9a-f]{12}$", description="Of what it was decided from; of an end, of what ran.")


class _Missing(Value):
    """One unplaced workload as it is written."""

    missing: tuple[Annotated[int, Field(ge=0, lt=100_000)], ...] = Field(description="Replicas without a place.")
    digest: str = Field(pattern="^[0-9a-f]{12}$", description="Of what it was decided from.")


class _Growing(Value):
    """One workload that waits to grow as it is written."""

    digest: str = Field(pattern="^[0-9a-f]{12}$", description="Of the request that does not fit yet.")


class _Lighter(Value):
    """One workload that does not run in its first variant as it is written."""

    variant: Name = Field(description="The variant that it runs in.")
    digest: str = Field(pattern="^[0-9a-f]{12}$", description="Of the variants that it was chosen from.")


class _File(Value):
    """A lock file."""

    allocations: dict[str, _Block] = Field(default={}, description="What has a place.")
    unplaced: dict[Name, _Missing] = Field(default={}, description="What has none.")
    growing: dict[Name, _Growing] = Field(default={}, description="What runs in its old size.")
    lighter: dict[Name, _Lighter] = Field(default={}, description="What runs in another variant than its first.")


def make(stack: Stack, placement: Placement, written: Stack | None = None) -> Lock:
    """The lock of a placement that was just decided from `stack`; `written`: where it differs, what the stack file says.

    Reasons stay out: their figures are of the whole, and would change with every neighbour.
    """
    decided = Decided(stack)
    digests = {one.name: decided.of(one) for one in placement.allocations}
    unplaced = {one.workload: decided.digest(one.workload, None) for one in placement.unplaced}
    bare = tuple(Unplaced(workload=one.workload, missing=one.missing) for one in placement.unplaced)
    plain = tuple(Growing(workload=one.workload) for one in placement.growing)
    light = tuple(Lighter(workload=one.workload, variant=one.variant) for one in placement.lighter)
    written = written or stack
    requests = Decided(applied(written, placement))
    growing = {one.workload: requests.growth(one.workload) for one in placement.growing}
    varied = Decided(written)
    lighter = {one.workload: varied.variants(one.workload) for one in placement.lighter}
    bare_placement = placement.model_copy(update={"unplaced": bare, "growing": plain, "lighter": light})
    return Lock(bare_placement, digests, unplaced, growing, lighter)


def dump(lock: Lock) -> str:
    """The file's text; the same lock gives the same bytes."""
    parts = [_HEAD + _ALLOCATIONS]
    for one in sorted(lock.placement.allocations, key=lambda one: one.name):
        lines = [f"  {one.name}:", f"    workload: {one.workload}", f"    node: {one.node}"]
        lines += [f"    user: {json.dumps(one.user) if one.user in fast_reader.WORDS else one.user}"] if one.user else []
        for name in ("gpus", "cpus", "numa"):
            if numbers := getattr(one, name):
                lines.append(f"    {name}: [{', '.join(map(_flow, numbers))}]")
        lines += [f"    {name}: {value}" for name, always in _SIZES if (value := getattr(one, name)) or always]
        lines += ["    ended: true"] if one.ended else []
        parts.append("\n".join([*lines, f'    digest: "{lock.digests[one.name]}"', ""]))
    if lock.placement.unplaced:
        parts.append("unplaced:\n")
    for gone in sorted(lock.placement.unplaced, key=lambda gone: gone.workload):
        lines = [f"  {gone.workload}:", f"    missing: [{', '.join(map(str, gone.missing))}]"]
        if gone.reasons:
            lines.append("    reasons:")
            lines += [
                f"      - {json.dumps(one.model_dump(exclude_defaults=True), ensure_ascii=False)}" for one in gone.reasons
            ]
        parts.append("\n".join([*lines, f'    digest: "{lock.unplaced_digests[gone.workload]}"', ""]))
    if lock.placement.growing:
        parts.append("growing:\n")
    for name in sorted(one.workload for one in lock.placement.growing):
        parts.append(f'  {name}: {{digest: "{lock.growing_digests[name]}"}}\n')
    if lock.placement.lighter:
        parts.append("lighter:\n")
    for light in sorted(lock.placement.lighter, key=lambda light: light.workload):
        of = f'variant: {_word(light.variant)}, digest: "{lock.lighter_digests[light.workload]}"'
        parts.append(f"  {light.workload}: {{{of}}}\n")
    return "\n".join(parts)


def _word(name: str) -> str:
    """A name, in quotes where YAML reads something else."""
    return json.dumps(name) if name in fast_reader.WORDS else name


def _flow(one: Device | int) -> str:
    return json.dumps(one.plain if isinstance(one, Device) else one)


def parse(text: str | bytes, file: str) -> Lock:
    """A lock file's text. Raises StackFileError with all problems."""
    text = decode(text, file, MAX_BYTES)
    found = fast_reader.read(text, _HEAD + _ALLOCATIONS)
    return _read(text, file) if found is None else _lock(*found)


def _read(text: str, file: str) -> Lock:
    """The same for any YAML."""
    document = Document(file, compose(text, file, MAX_NODES))
    data = {key: {} if value is None else value for key, value in document.root.data.items()}
    try:
        shape = _File.model_validate(data)
    except ValidationError as error:
        raise StackFileError(wrong(document, error, _File)) from None
    problems: list[Problem] = []
    allocations: list[Allocation] = []
    for name, block in shape.allocations.items():
        workload, _, index = name.rpartition("-")
        if workload != block.workload or not _INDEX.fullmatch(index):
            place = document.at(("allocations", name), key=True)
            message = f"{name[:60]!r} is no replica of {block.workload}"
            hint = f"a block is named {block.workload}-0, {block.workload}-1 and so on; `swarm solve` writes this file"
            problems.append(Problem(place, f"allocations.{name}", message, hint))
            continue
        # Each value is of the same type there as here, and valid already.
        held = {key: value for key, value in block if key != "digest"}
        allocations.append(Allocation.model_construct(name=name, index=int(index), **held))
    if problems:
        raise StackFileError(tuple(problems[:10]))
    unplaced = [Unplaced(workload=name, missing=one.missing) for name, one in shape.unplaced.items()]
    digests = {name: block.digest for name, block in shape.allocations.items()}
    growing = {name: one.digest for name, one in shape.growing.items()}
    if lone := growing.keys() - {one.workload for one in allocations if not one.ended}:
        place = document.at(("growing", min(lone)), key=True)
        hint = "take the line out; `swarm solve` writes this file"
        problem = Problem(place, f"growing.{min(lone)}", f"{min(lone)} runs nowhere, so it cannot wait to grow", hint)
        raise StackFileError((problem,))
    missing = {name: one.digest for name, one in shape.unplaced.items()}
    return _lock(allocations, unplaced, digests, missing, growing, shape.lighter)


def _lock(
    allocations: list[Allocation],
    unplaced: list[Unplaced],
    digests: dict[str, str],
    unplaced_digests: dict[str, str],
    growing: Mapping[str, str] = MappingProxyType({}),
    lighter: Mapping[str, _Lighter] = MappingProxyType({}),
) -> Lock:
    placement = Placement(
        allocations=tuple(sorted(allocations, key=lambda one: one.name)),
        unplaced=tuple(sorted(unplaced, key=lambda one: one.workload)),
        growing=tuple(Growing(workload=name) for name in sorted(growing)),
        lighter=tuple(Lighter(workload=name, variant=one.variant) for name, one in sorted(lighter.items())),
    )
    chosen_from = {name: one.digest for name, one in lighter.items()}
    return Lock(placement, digests, unplaced_digests, dict(growing), chosen_from)


def renamed(lock: Lock, stack: Stack) -> Lock:
    """The lock with every workload that has another name now under that name, as `renamed_from` in the stack says.

    What an older lock does not say of users is taken from the stack. What ran in its first variant, which is not the first
    any more, runs in that one still.
    """
    return _in_variants(_named(_owned(lock, stack), stack), stack)


def _named(lock: Lock, stack: Stack) -> Lock:
    names = {one.renamed_from: name for name, one in stack.workloads.items() if one.renamed_from}
    found = {one.name: (names[one.workload], one) for one in lock.placement.allocations if one.workload in names}
    if not found and not any(one.workload in names for one in lock.placement.unplaced):
        return lock
    fresh = {old: one.model_copy(update={"workload": to, "name": f"{to}-{one.index}"}) for old, (to, one) in found.items()}
    unplaced = (one.model_copy(update={"workload": names.get(one.workload, one.workload)}) for one in lock.placement.unplaced)
    placement = Placement(
        allocations=tuple(sorted((fresh.get(one.name, one) for one in lock.placement.allocations), key=lambda one: one.name)),
        unplaced=tuple(sorted(unplaced, key=lambda one: one.workload)),
        growing=tuple(Growing(workload=name) for name in sorted(names.get(name, name) for name in lock.growing_digests)),
        lighter=tuple(
            sorted(
                (one.model_copy(update={"workload": names.get(one.workload, one.workload)}) for one in lock.placement.lighter),
                key=lambda one: one.workload,
            )
        ),
    )
    digests = {fresh[name].name if name in fresh else name: digest for name, digest in lock.digests.items()}
    unplaced_digests, growing, lighter = (
        {names.get(name, name): digest for name, digest in each.items()}
        for each in (lock.unplaced_digests, lock.growing_digests, lock.lighter_digests)
    )
    return Lock(placement, digests, unplaced_digests, growing, lighter)


def _in_variants(lock: Lock, stack: Stack) -> Lock:
    """With the variant of what runs in none that is recorded: the first one of the digests that it was decided from."""
    recorded = {one.workload for one in lock.placement.lighter}
    running: dict[str, list[Allocation]] = {}
    for one in lock.placement.going():
        if one.node in stack.nodes and one.workload not in recorded and _forms(stack, one.workload):
            running.setdefault(one.workload, []).append(one)
    found: dict[str, str] = {}
    for k in range(max((len(_forms(stack, name)) for name in running), default=0)):
        forms = {name: _forms(stack, name)[k] for name in running.keys() - found.keys() if k < len(_forms(stack, name))}
        current = Decided(chosen(stack, forms))
        same = (name for name in forms if all(lock.digests.get(one.name) == current.of(one) for one in running[name]))
        found |= {name: forms[name] for name in same}
    more = [Lighter(workload=name, variant=form) for name, form in found.items() if form != _forms(stack, name)[0]]
    if not more:
        return lock
    light = sorted((*lock.placement.lighter, *more), key=lambda one: one.workload)
    return replace(lock, placement=lock.placement.model_copy(update={"lighter": tuple(light)}))


def _forms(stack: Stack, workload: str) -> list[str]:
    return list(stack.workloads[workload].variants) if workload in stack.workloads else []


def _owned(lock: Lock, stack: Stack) -> Lock:
    ones = lock.placement.allocations
    if all(one.user for one in ones):
        return lock
    users = {name: one.user for name, one in stack.workloads.items()}
    users |= {one.renamed_from: one.user for one in stack.workloads.values() if one.renamed_from}
    owned = (one if one.user else one.model_copy(update={"user": users.get(one.workload)}) for one in ones)
    return replace(lock, placement=lock.placement.model_copy(update={"allocations": tuple(owned)}))


def beside(file: str, stack: Stack) -> Placement:
    """What runs by the lock beside a stack file; nothing where there is none that can be read."""
    path = Path(file)
    path = path.with_name(f"{path.stem}.lock.yaml")
    with contextlib.suppress(OSError, StackFileError, ValueError):
        if path.is_file():
            return renamed(parse(read(path, str(path), MAX_BYTES), str(path)), stack).placement
    return Placement()


def outgrown(lock: Lock, stack: Stack) -> tuple[str, ...]:
    """What waits to grow, or runs in a lighter variant, and asks for something else now, a sentence each.

    `stack`: as it is written.
    """
    request, of = Decided(applied(stack, lock.placement)).growth, Decided(stack).variants
    gone = [name for name, digest in lock.growing_digests.items() if name not in stack.workloads or request(name) != digest]
    other = [
        one.workload
        for one in lock.placement.lighter
        if one.workload not in stack.workloads
        or one.variant not in list(stack.workloads[one.workload].variants)[1:]  # the first is lighter than none
        or of(one.workload) != lock.lighter_digests.get(one.workload)
    ]
    return (
        *(f"{name}: its request has changed since it could not grow" for name in sorted(gone)),
        *(f"{name}: its variants have changed since one was chosen" for name in sorted(other)),
    )


def validity(lock: Lock, stack: Stack) -> tuple[str, ...]:
    """Why the lock is stale, a sentence each; empty when it stands. What `limits` finds is for the caller to add."""
    reasons: list[str] = []
    current = Decided(stack)
    decided: dict[str, set[int]] = {}
    for one in lock.placement.allocations:
        decided.setdefault(one.workload, set()).add(one.index)
        if wrong := _stale(one, lock, stack, current):
            reasons.append(f"{one.name}: {wrong}")
    for gone in lock.placement.unplaced:
        decided.setdefault(gone.workload, set()).update(gone.missing)
        if gone.workload not in stack.workloads:
            reasons.append(f"{gone.workload}: the stack has no such workload")
        elif lock.unplaced_digests.get(gone.workload) != current.digest(gone.workload, None):
            reasons.append(f"{gone.workload}: it has changed since it found no place")
    for name, workload in stack.workloads.items():
        known = decided.get(name, set())
        missing = [str(i) for i in range(workload.members) if i not in known][: max(0, workload.members - len(known))]
        if missing:
            reasons.append(f"{name}: nothing is decided about replica {', '.join(missing[:10])}")
        elif len(known) > workload.members and not reasons:
            wanted = pluralize(workload.members, "of its replicas is wanted", "of its replicas are wanted")
            reasons.append(f"{name}: {wanted}, and {pluralize(len(known), 'was', 'were')} decided")
    return tuple(reasons)


def _stale(one: Allocation, lock: Lock, stack: Stack, current: Decided) -> str:
    """Why an allocation of the lock does not stand; empty where it does."""
    if one.workload not in stack.workloads:
        return f"the stack has no workload {one.workload}"
    if one.ended:  # wherever that was, and whatever became of the node
        beyond = not current.numbers(one)
        same = lock.digests.get(one.name) == current.of(one)
        return f"{one.workload} has no replica {one.index}" if beyond else "" if same else ANOTHER
    if one.node not in stack.nodes:
        return f"the stack has no node {one.node}"
    if (state := stack.nodes[one.node].state) in ("drain", "lost"):
        return f"{one.node} is in state {state}"
    if one.user not in (None, owner := stack.workloads[one.workload].user):
        return f"it is of {owner} now, and was of {one.user}"
    beyond = not current.numbers(one)
    changed = (
        f"{one.workload} has no replica {one.index}" if beyond else f"{one.workload} or the shape of {one.node} has changed"
    )
    return "" if lock.digests.get(one.name) == current.of(one) else changed
