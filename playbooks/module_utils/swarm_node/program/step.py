"""What does one step do on this machine, and what does the ledger keep of it?"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Tuple

from .. import table
from ..machine.run import Change, Context, NodeError, Pending
from ..records import audit, ledger

#: It becomes a part of paths, units and cgroups here; whoever asks has checked it too.
_ALLOCATION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*-[0-9]+")

Want = Dict[str, Any]
Handler = Callable[[Context, str, Want], List[Change]]


def _of(concern: table.Concern, verb: str, context: Context, allocation: str, want: Want) -> List[Change]:
    # Its module is imported here: starting Python is most of what a short step costs.
    steps: Any = concern.offers("STEPS")
    changes: List[Change] = steps[verb](context, allocation, want)
    return changes


def _release(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import restore

    recorded = context.ledger.get("allocations", allocation) or {}
    return restore.release(context, allocation, dict(recorded, waited=want.get("waited")))


def _restore(context: Context, allocation: str, want: Want) -> List[Change]:
    from . import restore

    return restore.apply(context, allocation, want)


#: By verb: those of each concern, and two that walk all of them.
HANDLERS: Dict[str, Handler] = {
    **{verb: partial(_of, concern, verb) for concern in table.CONCERNS for verb in concern.verbs},
    "release": _release,
    "restore": _restore,
}
#: How long one step of each verb may take in all. [s]
LIMITS_S: Dict[str, float] = {
    **{verb: limit for concern in table.CONCERNS for verb, limit in concern.verbs.items()},
    "release": 4500,  # removing millions of files
    "restore": 7200,
}


def perform(request: Dict[str, Any], *, root: str = "/", apart: bool = False) -> Dict[str, Any]:
    """Run steps one after the other: {verb, steps: [{id, allocation, want, after, waited, sets, rollout}], guard, run, check,
    failed} to {results}. A step with a `verb` of its own is of that: starting this program takes longer than most of them.

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
        if _verb(request, one) not in HANDLERS:
            result = _result(one, ok=False, message=f"{_verb(request, one)[:60]!r} is no kind of step")
        elif missing:
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


def _verb(request: Dict[str, Any], one: Dict[str, Any]) -> str:
    return str(one.get("verb") or request.get("verb"))


def _told(error: OSError) -> str:
    """What the kernel refused, and where; of a file that is written beside its place, the folder."""
    path = str(error.filename or "")
    place = os.path.dirname(path) if os.path.basename(path).startswith(".") else path
    words = {errno.ENOSPC: "the disk is full", errno.EROFS: "the file system is read-only"}.get(error.errno or 0)
    return ": ".join(part for part in (place, words or error.strerror or str(error)) if part)


def _result(one: Dict[str, Any], **values: Any) -> Dict[str, Any]:
    return dict({"id": one["id"], "changed": False, "ok": True, "skipped": False, "message": "", "changes": []}, **values)


def _published(context: Context) -> None:
    """What is measured here bears the names of what is recorded now, whether the step failed or not."""
    if context.ledger.get("telemetry") is not None:
        from ..concerns.telemetry import published

        published(context)


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
        HANDLERS["settings"](context, "", {"settings": before})
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
            verb = _verb(request, one)
            with _remembered(context, verb, one):
                try:
                    changes = HANDLERS[verb](context, one.get("allocation") or "", want)
                finally:
                    _published(context)
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
    from ..machine import watch

    began, limit = time.monotonic(), LIMITS_S[_verb(request, one)]
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
