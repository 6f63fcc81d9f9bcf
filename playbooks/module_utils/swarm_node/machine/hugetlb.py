"""How many huge pages may a cgroup use? The kernel's controller, of which systemd knows nothing and which it leaves alone.

Each size has two limits: .max, of what is used, and .rsvd.max, of what is mapped as well. Both are set: without the second, who
may use none could still keep the pages of others by mapping them.
"""

from __future__ import annotations

import contextlib
import os
from typing import Dict, Optional

from .run import Context, NodeError

CONTROLLER = "hugetlb"
#: How the ledger calls what was there before us.
ORIGINAL = "cgroup.hugetlb"
ENDS = (".rsvd.max", ".max")


def limit(context: Context, above: str, folder: str, wanted: Dict[str, Optional[int]]) -> None:
    """Set the most of each size (`hugetlb.2MB` → bytes; None: no limit) in a cgroup below `above`.

    NodeError where the kernel cannot, or where more is in use.
    """
    for name, most in wanted.items():
        if most is not None:
            _count(context, above)
        text = "max" if most is None else str(int(most))
        found = {f"{folder}/{name}{end}": context.read(f"{folder}/{name}{end}") for end in ENDS}
        if None in found.values() and most is not None and not context.check:
            raise NodeError(f"this kernel cannot limit huge pages: {folder} has no {name}.max")
        try:
            for file, was in found.items():
                if was not in (None, text):
                    context.poke(file, text)
        except NodeError as error:
            words = f"more huge pages are in use than the new limit of {text} bytes allows, and nothing was killed ({error})"
            raise NodeError(f"{words}; try again when it needs less, or restart it") from None


def _count(context: Context, above: str) -> None:
    """Let the kernel count them in all cgroups below."""
    root = os.path.dirname(above)
    for folder in (root, above):
        if CONTROLLER not in (context.read(f"{folder}/cgroup.subtree_control") or "").split():
            if CONTROLLER not in (context.read(f"{folder}/cgroup.controllers") or "").split():
                raise NodeError(f"this kernel cannot limit huge pages: {folder} has no controller {CONTROLLER}")
            if folder == root:
                context.ledger.save_original(ORIGINAL, "off")
            context.poke(f"{folder}/cgroup.subtree_control", f"+{CONTROLLER}")


def read(context: Context, folder: str, name: str, was: Optional[int]) -> Optional[int]:
    """The most of one size; None without a limit. Of two limits that differ the one that is not as recorded (`was`)."""
    texts = [context.read(f"{folder}/{name}{end}") for end in ENDS]
    found = [None if text in (None, "", "max") else int(text or 0) for text in texts]
    return found[0] if found[0] != was else found[1]


def restore(context: Context, above: str) -> None:
    """As it was before. Who uses the controller by now keeps it."""
    if context.ledger.has_original(ORIGINAL):
        with contextlib.suppress(NodeError):
            context.poke(f"{os.path.dirname(above)}/cgroup.subtree_control", f"-{CONTROLLER}")
        context.ledger.forget_original(ORIGINAL)
