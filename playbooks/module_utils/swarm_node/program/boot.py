"""What makes a machine right again after a reboot? Everything that the ledger holds is made so, and started if it may be."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Callable, Dict, List, Tuple

from ..concerns.boot_unit import booted
from ..machine.run import Context, NodeError
from ..records import ledger
from ..table import CONCERNS

#: How long one part may take; the slowest is a disk whose log is replayed. [s]
_PART_S = 150.0


def run(root: str = "/", *, apart: bool = False) -> int:
    """Apply everything the ledger holds; what fails is told and the rest goes on. Exit status 1 when something failed.

    `apart`: each part runs in a process of its own, so that one that hangs does not keep the rest from running.
    """
    try:
        with ledger.opened(check=False, root=root, wait_s=300, whole=False) as book:
            return _restored(book, root, apart=apart)
    except NodeError as error:  # a ledger that cannot be read, or is not to be had
        print(error, file=sys.stderr)
        return 1


def _restored(book: ledger.Ledger, root: str, *, apart: bool) -> int:
    failed, context = 0, Context(book, root=root)
    try:
        for name, act in _actions(context):
            try:
                _apart(context, act) if apart else act()
            except Exception as error:  # one part's surprise must not keep the rest from running
                failed = 1
                words = str(error) if isinstance(error, (NodeError, OSError)) else f"{type(error).__name__}: {error}"
                print(f"{name}: {words}", file=sys.stderr)
    finally:
        booted(context)
    return failed


def _apart(context: Context, act: Callable[[], Any]) -> None:
    from ..machine import watch

    def failure() -> str:
        try:
            act()
        except Exception as error:
            return f"{type(error).__name__}: {error}" if not isinstance(error, (NodeError, OSError)) else str(error)
        return ""

    try:
        words = watch.apart(failure, _PART_S)
    finally:
        context.ledger.data = ledger.load(context.root, check=False, whole=False).data  # it wrote there
    if words:
        raise NodeError(words)


def _actions(context: Context) -> List[Tuple[str, Callable[[], Any]]]:
    """What is to be done after a boot, in the order of the concerns."""
    held = sorted((context.ledger.state.get("allocations") or {}).items())
    damage = {name: ledger.torn(name, whole) for name, whole in held}
    # One that is damaged keeps no other from starting, and is told.
    actions: List[Tuple[str, Callable[[], Any]]] = [(name, partial(_damaged, words)) for name, words in damage.items() if words]
    allocations = {name: whole for name, whole in held if not damage[name]}
    node: Dict[str, Any] = dict(context.ledger.state, allocations=allocations)
    for concern in CONCERNS:
        for name, recorded in ({"": node} if concern.node else allocations).items():
            call = concern.offers("boot") if concern.holds(recorded) else None
            if call:
                actions.append((f"{name}: {concern.name}" if name else concern.name, partial(call, context, name, recorded)))
    return actions


def _damaged(words: str) -> None:
    raise NodeError(f"{ledger.LEDGER} is damaged: {words}")
