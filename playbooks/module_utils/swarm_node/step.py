"""What does one step do on this machine, and what does the ledger keep of it?

Each concern offers, for a `Context`:
    apply(context, allocation, want)       make it so; the list of changes (what would change, in check mode)
    read(context, allocation, recorded)    the true value, read from the machine, in the shape of NodeState
    release(context, allocation, recorded) give back what belongs to one allocation; the list of changes
    restore(context, "", recorded)         give back what belongs to the node itself; the list of changes
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

from . import audit, ledger
from .run import Change, Context, NodeError, Pending

#: It becomes a part of paths, units and cgroups here; whoever asks has checked it too.
_ALLOCATION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*-[0-9]+")

Want = Dict[str, Any]
Handler = Callable[[Context, str, Want], List[Change]]


def _prepare(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import boot

    changes = boot.apply(context, allocation, want)
    if any(one["path"] == "agent" for one in changes):
        from . import units

        changes += units.renew(context)
    return changes


def _stop(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import units

    recorded = _of(context, allocation, want).get("unit") or {}
    changes = units.stop(context, allocation, dict(recorded, waited=want.get("waited")))
    if context.ledger.get("allocations", allocation, "unit") is not None:
        context.ledger.record("allocations", allocation, "unit", "active", value=False)
    return changes


def _release(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import restore

    recorded = context.ledger.get("allocations", allocation) or {}
    return restore.release(context, allocation, dict(recorded, waited=want.get("waited")))


def _settings(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import settings

    wanted = want.get("settings") or {}
    changes = settings.apply(context, allocation, wanted)
    context.ledger.record("settings", value=wanted)
    return changes


def _gpus(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import gpus

    wanted = {str(index): state or {} for index, state in (want.get("gpus") or {}).items()}
    changes = gpus.apply(context, allocation, wanted)
    for index, state in wanted.items():
        context.ledger.record("gpus", index, value=state if gpus.managed(state) else None)
    return changes


def _storage(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import storage

    if not want.get("disk"):
        changes = storage.restore(context, "", {"disk": context.ledger.get("disk") or ""})
        context.ledger.record("disk", value=None)
        return changes
    changes = storage.apply(context, allocation, {"disk": want["disk"]})
    context.ledger.record("disk", value=want["disk"])
    return changes


def _slice(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import devices, gpus, slices

    whole = _of(context, allocation, want)
    _nobody_elses(context, allocation, whole)
    held = set(context.ledger.get("allocations", allocation, "gpus") or ())
    claimed = context.ledger.get("allocations", allocation, "slice") is not None
    taken = [index for index in whole.get("gpus") or () if not claimed or index not in held]
    gpus.vacant(context, taken, slices.unit(allocation))
    # Claimed before it is made, so that a run killed half-way leaves nothing that nobody knows of.
    _claim(context, allocation, whole)
    part = {"slice": whole.get("slice") or {}, "gpus": list(whole.get("gpus") or ())}
    changes = slices.apply(context, allocation, part)
    changes += devices.apply(context, allocation, part)
    context.ledger.record("allocations", allocation, "slice", value=part["slice"])
    context.ledger.record("allocations", allocation, "gpus", value=part["gpus"])
    return changes


def _of(context: Context, allocation: str, want: Want) -> Want:
    """The allocation's whole state as wanted, else as recorded."""
    return (want.get("allocations") or {}).get(allocation) or context.ledger.get("allocations", allocation) or {}


def _nobody_elses(context: Context, allocation: str, whole: Want) -> None:
    """Refuse a GPU that another allocation holds."""
    for other, state in (context.ledger.get("allocations") or {}).items():
        both = sorted(set(state.get("gpus", ())) & set(whole.get("gpus") or ()))
        if other != allocation and both:
            raise NodeError(f"gpu {both[0]} is held by {other}; it must be released first")


def _claim(context: Context, allocation: str, whole: Want) -> None:
    """Record that the allocation exists here, unless another one holds a GPU of it."""
    _nobody_elses(context, allocation, whole)
    if context.ledger.get("allocations", allocation) is None:
        workload = whole.get("workload") or allocation.rsplit("-", 1)[0]
        context.ledger.record("allocations", allocation, value={"workload": workload, "gpus": list(whole.get("gpus") or ())})


def _directories(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import directories

    whole = _of(context, allocation, want)
    _claim(context, allocation, {"workload": whole.get("workload")})
    changes = directories.apply(context, allocation, {kind: whole.get(kind) for kind in ("scratch", "cache")})
    for kind in ("scratch", "cache"):
        context.ledger.record("allocations", allocation, kind, value=whole.get(kind))
    return changes


def _traffic(context: Context, allocation: str, want: Want) -> List[Change]:
    """The interface is shaped as a whole: what the ledger knows, with this step's allocation in it."""
    from . import traffic

    interface = want["interface"] if "interface" in want else context.ledger.get("interface") or ""
    bps = want.get("interface_bps") or context.ledger.get("interface_bps") or 0
    known = {name: state.get("bandwidth") for name, state in (context.ledger.get("allocations") or {}).items()}
    if allocation:
        known[allocation] = _of(context, allocation, want).get("bandwidth")
    classes = {name: state for name, state in known.items() if state and any(state.values())}
    if not interface:
        changes = traffic.restore(context, "", context.ledger.state)
        context.ledger.record("interface", value=None)
        context.ledger.record("interface_bps", value=None)
        return changes
    if allocation:
        _claim(context, allocation, {})
    changes = traffic.apply(context, allocation, {"interface": interface, "interface_bps": bps, "allocations": classes})
    context.ledger.record("interface", value=interface)
    context.ledger.record("interface_bps", value=bps)
    if allocation:
        context.ledger.record("allocations", allocation, "bandwidth", value=known[allocation])
    return changes


def _start(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import units

    whole = _of(context, allocation, want)
    _claim(context, allocation, whole)
    unit = dict(whole["unit"])
    told = {"gpus": list(whole.get("gpus") or ()), "workload": whole.get("workload"), "waited": want.get("waited")}
    changes = units.apply(context, allocation, dict(unit, **told))
    context.ledger.record("allocations", allocation, "unit", value=unit)
    context.ledger.record("allocations", allocation, "workload", value=whole.get("workload"))
    return changes


def _health(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import units

    unit = _of(context, allocation, want).get("unit") or {}
    return units.health(context, allocation, dict(unit, waited=want.get("waited")))


def _restore(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import restore

    return restore.apply(context, allocation, want)


#: Concerns are imported where they are used: starting Python is most of what a short step costs.
HANDLERS: Dict[str, Handler] = {
    "prepare": _prepare,
    "stop": _stop,
    "release": _release,
    "settings": _settings,
    "gpus": _gpus,
    "storage": _storage,
    "slice": _slice,
    "directories": _directories,
    "traffic": _traffic,
    "start": _start,
    "health": _health,
    "restore": _restore,
}


def perform(request: Dict[str, Any], *, root: str = "/", apart: bool = False) -> Dict[str, Any]:
    """Run the steps of one verb: {verb, steps: [{id, allocation, want, after, waited, sets, rollout}], guard, run, check,
    failed} to {results}.

    A step that fails is told in its own result; the others go on, but for those that wait for it (or for one of
    `failed`, the ids that failed before). A step that is `pending` has begun and wants to be asked again; `waited` says
    for how long it has been asked. [s] `sets`: the values that it sets, by path; `rollout`: others get them after it. `run`: {who, commit}, for the record. Each step takes the ledger's lock and its guard.

    `apart`: each step runs in a process of its own and ends at the limit of its kind.
    """
    failed = set(request.get("failed") or ())
    results = []
    stuck = ""
    for one in request["steps"]:
        missing = sorted(failed.intersection(one.get("after") or ()))
        if missing:
            result = _result(one, ok=False, skipped=True, message=f"waits for {', '.join(missing)}, which failed")
        elif stuck:
            result = _result(
                one, ok=False, skipped=True, message=f"{stuck} hangs on this machine, so nothing else is begun here"
            )
        elif apart:
            result, ended = _watched(request, one, root)
            stuck = "" if ended else one["id"]
        else:
            result = _one(request, one, root)
        if not result["ok"]:
            failed.add(one["id"])
        results.append(result)
    if not request.get("check"):
        # A disk that is full must not hide what became of the steps.
        with contextlib.suppress(OSError), ledger.alone(root) as alone:
            audit.note(root, request["guard"], request.get("run") or {}, results, alone=alone)
    return {"results": results}


def _told(error: OSError) -> str:
    """What the kernel refused, and where; of a file that is written beside its place, the folder."""
    path = str(error.filename or "")
    place = os.path.dirname(path) if os.path.basename(path).startswith(".") else path
    words = {errno.ENOSPC: "the disk is full", errno.EROFS: "the file system is read-only"}.get(error.errno or 0)
    return ": ".join(part for part in (place, words or error.strerror or str(error)) if part)


def _result(one: Dict[str, Any], **told: Any) -> Dict[str, Any]:
    return dict({"id": one["id"], "changed": False, "ok": True, "skipped": False, "message": "", "changes": []}, **told)


@contextlib.contextmanager
def _remembered(context: Context, verb: str, one: Dict[str, Any]) -> Iterator[None]:
    """What a roll-out failed with here stays in the ledger until it succeeds: nobody shall repeat it unawares.

    Settings that the same run had set before it are put back, so that the node is as it was before the roll-out.
    """
    book, sets, rollout = context.ledger, one.get("sets") or {}, bool(one.get("rollout"))
    before = dict(book.get("settings") or {})
    try:
        yield
    except (NodeError, OSError) as error:
        if not rollout or isinstance(error, Pending):
            raise
        words = _words(error) + _undo_settings(context)
        with contextlib.suppress(OSError):  # a full disk, perhaps: the failure itself is what counts
            book.set_back(sets, words)
        raise NodeError(words) from None
    book.settled(sets)
    if rollout and verb == "settings":
        book.begin_rollout(before)


def _words(error: Exception) -> str:
    return _told(error) if isinstance(error, OSError) else str(error)


def _undo_settings(context: Context) -> str:
    """Words about it, or nothing when this run had set none."""
    before = context.ledger.begun_rollout()
    if before is None:
        return ""
    try:
        _settings(context, "", {"settings": before})
    except (NodeError, OSError) as error:
        return f"; its settings could not be put back: {error}"
    return "; its settings put back too"


def _one(request: Dict[str, Any], one: Dict[str, Any], root: str) -> Dict[str, Any]:
    began = time.monotonic()
    check = bool(request.get("check"))
    try:
        if one.get("allocation") and not _ALLOCATION.fullmatch(one["allocation"]):
            raise NodeError(f"{one['allocation'][:60]!r} is no name of an allocation")
        with ledger.opened(check=check, root=root) as book:
            book.guard(**request["guard"])
            context = Context(book, check=check, root=root)
            want = dict(one.get("want") or {}, waited=one.get("waited") or 0)
            with _remembered(context, request["verb"], one):
                changes = HANDLERS[request["verb"]](context, one.get("allocation") or "", want)
        result = _result(one, changed=bool(changes), changes=changes)
    except Pending as error:
        result = _result(one, ok=False, pending=True, message=str(error))
    except (NodeError, OSError) as error:
        result = _result(one, ok=False, message=_words(error))
    except Exception as error:  # one step's surprise must not hide the others' results
        result = _result(one, ok=False, message=f"{type(error).__name__}: {error}")
    result["seconds"] = round(time.monotonic() - began, 3)
    return result


def _watched(request: Dict[str, Any], one: Dict[str, Any], root: str) -> Tuple[Dict[str, Any], bool]:
    """What became of it, and whether it is over: one that cannot be ended holds the ledger's lock."""
    from . import watch

    began, limit = time.monotonic(), watch.LIMITS_S[request["verb"]]
    try:
        found: Dict[str, Any] = watch.apart(lambda: _one(request, one, root), limit)
        return found, True
    except NodeError as error:
        ended = getattr(error, "ended", True)
        if one.get("rollout") and ended and not request.get("check"):
            # As a failure would: nobody shall repeat it unawares.
            with contextlib.suppress(NodeError, OSError), ledger.opened(check=False, root=root, wait_s=5) as book:
                book.guard(**request["guard"])
                book.set_back(one.get("sets") or {}, str(error))
        return _result(one, ok=False, message=str(error), seconds=round(time.monotonic() - began, 3)), ended
