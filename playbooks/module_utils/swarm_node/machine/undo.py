"""How does a step that sets several values happen whole or not at all?"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence, Tuple

from .run import Context, NodeError


class Value(NamedTuple):
    """One value of the machine. `exact`: it reads as it was written."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None]
    exact: bool = True


@contextlib.contextmanager
def whole(context: Context, values: Sequence[Value]) -> Iterator[None]:
    """When the block fails, every value and every saved original is as it was before. NodeError says what came of that."""
    before = [(value, value.read()) for value in values]
    originals = dict(context.ledger.data["originals"])
    try:
        yield
    except (NodeError, OSError) as error:
        if context.check:
            raise
        changed, stuck = _put_back(before)
        if context.ledger.data["originals"] != originals:
            context.ledger.data["originals"] = originals
            changed = True
            try:
                context.ledger.save()
            except OSError as full:
                stuck.append(f"the ledger ({full.strerror})")
        words = f"; could not be put back: {', '.join(stuck)}" if stuck else "; put back as it was" if changed else ""
        raise NodeError(f"{error}{words}") from None


def _put_back(before: Sequence[Tuple[Value, Any]]) -> Tuple[bool, List[str]]:
    """Whether anything had to be, and what could not be. The last that was set goes first."""
    changed, stuck = False, []
    for value, old in reversed(before):
        try:
            if value.read() == old:
                continue
            changed = True
            value.write(old)
            if value.exact and value.read() != old:
                stuck.append(value.name)
        except Exception as error:  # whatever one value says, the others are put back
            stuck.append(f"{value.name} ({error})")
    return changed, stuck
