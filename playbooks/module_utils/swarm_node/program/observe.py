"""What is this machine, and what is really set on what we manage here? JSON in the shape of Observed."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

from ..concerns import boot_unit, gpus, loans
from ..machine import install
from ..machine.run import Context, NodeError, unit_name
from ..records import ledger
from ..table import CONCERNS
from . import health
from .facts import facts

#: With less than this nothing of ours is sure to be written. [bytes]
_ROOM = 1 << 20
#: Whoever observes waits for 20 s in all. By then every workload has been asked, though the machine had just booted. [s]
_ASKED_S, _ASKED_LEAST_S = 12.0, 4.0
#: How long one that is asked for by hand may take. [s]
_ALONE_S = 60.0
#: Where none is there, or can be read.
_NO_UNIT = {"user": "", "active": False}


def watched(wait_s: float = 0, root: str = "/") -> Dict[str, Any]:
    """`observe`, ended when it hangs: by then whoever asked (for twice `wait_s`) still hears why."""
    from ..machine import watch

    try:
        found: Dict[str, Any] = watch.apart(lambda: observe(root, wait_s), 1.6 * wait_s or _ALONE_S, grace=0)
        return found
    except NodeError as error:
        return {"agent": install.installed(root), "error": f"this machine cannot be read: {error}"}


def observe(root: str = "/", wait_s: float = 0) -> Dict[str, Any]:
    """Facts, ledger head, true state, health and what nobody recorded. `error` names what could not be read, `troubles`
    what is wrong with the machine although it could be read, `unverified` the values of the state that stand as recorded, since a
    driver failed to tell them; `clock` is its own time. [s since 1970]

    `wait_s`: how long a machine that has just booted may take to finish what its boot unit puts right. [s]
    """
    began = time.monotonic()
    errors: List[str] = []
    troubles: List[str] = []
    result: Dict[str, Any] = {"agent": install.installed(root)}
    try:
        book = ledger.load(root)
    except NodeError as error:
        return dict(result, error=str(error))
    context = Context(book, check=True, root=root)
    if wait_s:
        boot_unit.wait(context, wait_s)
        book = ledger.load(root)
        context = Context(book, check=True, root=root)
    if book.renewing:  # a run that was killed at it: none, so that the next does it
        result["agent"] = ""
    result["ledger"] = book.head()
    result["rollout_failures"] = book.data["rollout_failures"]
    try:
        with gpus.cards() as cards:
            troubles = list(cards.silent.values())
            result["facts"] = facts(context, cards, troubles)
            context.cards = cards
            result["state"] = _state(context, errors)
    except NodeError as error:
        errors.append(str(error))
    result["health"] = health.all_of(context, max(_ASKED_LEAST_S, _ASKED_S - (time.monotonic() - began)))
    result["started"], result["ends"] = health.runs(context)
    result["booted"] = health.booted(context)
    if now := loans.lent(context):
        result["lent"] = now
    result["foreign"] = _foreign(context)
    result["troubles"] = troubles + _unwritable(context)
    result["unverified"] = context.unverified
    result["clock"] = time.time()
    if errors:
        result["error"] = "; ".join(errors)
    return result


def _unwritable(context: Context) -> List[str]:
    """Why the ledger could not be written here. Nothing is changed without it."""
    folder = os.path.dirname(ledger.LEDGER)
    place = context.path(folder)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    held = os.statvfs(place)
    if held.f_flag & os.ST_RDONLY:
        return [f"the file system of {folder} is read-only, so nothing can be changed here"]
    free = held.f_bavail * held.f_frsize
    if free < _ROOM:
        return [f"the file system of {folder} is full ({free >> 10} KiB free), so changes here may fail"]
    return []


def _state(context: Context, errors: List[str]) -> Dict[str, Any]:
    """NodeState: the true value of everything that the ledger says we manage. What is not managed here is not imported."""
    recorded = context.ledger.state
    held = recorded.get("allocations") or {}
    allocations: Dict[str, Dict[str, Any]] = {
        name: {"workload": whole["workload"], "gpus": whole.get("gpus") or [], "unit": _NO_UNIT} for name, whole in held.items()
    }
    state: Dict[str, Any] = {"gpus": {}, "settings": {}, "allocations": allocations}
    for concern in CONCERNS:
        for name, whole in ({"": recorded} if concern.node else held).items():
            call = concern.offers("observed") if concern.holds(whole) else None
            try:
                found: Dict[str, Any] = call(context, name, whole) if call else {}
            except (NodeError, OSError, ValueError) as error:
                errors.append(f"{name}: {concern.name}: {error}" if name else f"{concern.name}: {error}")
                continue
            for one, part in ({name: found} if name else found.pop("allocations", {})).items():
                allocations.get(one, {}).update({key: value for key, value in part.items() if value is not None})
            state.update({} if name else found)
    return state


def _foreign(context: Context) -> List[str]:
    """Units and slices that bear our prefix and are in no ledger."""
    ours = {unit_name(name) for name in context.ledger.get("allocations") or {}} | {"swarm-boot", "swarm"}
    if not context.ledger.head():
        ours.discard("swarm-boot")
    if loans.borrowers(context):
        ours.add("swarm-lender")
    if context.ledger.get("telemetry") is not None:
        ours |= {"swarm-sampler", "swarm-exporter"}
    found = set()
    for home in ("/etc/systemd/system", "/sys/fs/cgroup/swarm.slice"):
        for name in context.names(home):
            stem, kind = os.path.splitext(name)
            if name.startswith("swarm-") and kind in (".service", ".slice") and stem not in ours:
                found.add(name)
    return sorted(found)
