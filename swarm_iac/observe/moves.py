"""What does a node report about memory that it moved between those who borrow? Of its own, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from swarm_iac.model.base import Value
from swarm_iac.printable import printable

#: Of one move, how many allocations are named.
_MOST = 1000
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*-[0-9]+$", max_length=200)]
_Bytes = Annotated[int, Field(ge=0, lt=1 << 60)]


class MemoryMove(Value):
    """One move: of each allocation whose limit changed, memory.max before and after; with the sums that show it can be undone.

    `t`: [s since 1970], by the node's clock; `lent`: what the plan lends all of them; `held`: what they have after it. [bytes]
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    node: str
    t: float = Field(ge=0, le=10**11)
    moved: dict[_Name, Annotated[list[_Bytes], Field(min_length=2, max_length=2)]] = Field(min_length=1, max_length=_MOST)
    numa: str = Field(default="", max_length=100)
    lent: _Bytes = 0
    held: _Bytes = 0
    guaranteed: dict[_Name, _Bytes] = Field(default={}, max_length=_MOST)
    used: dict[_Name, _Bytes] = Field(default={}, max_length=_MOST)


def split(node: str, reported: Any) -> tuple[Any, list[MemoryMove], list[str]]:
    """What else a node told, its moves, and what is wrong with them. A move that is none is left out and counted."""
    if not isinstance(reported, list):
        return reported, [], []
    rest, found, bad, troubles = [], [], 0, []
    for one in reported:
        if isinstance(one, Mapping) and "moved" in one:
            try:
                found.append(MemoryMove.model_validate({**one, "node": node, "numa": printable(str(one.get("numa", "")), 100)}))
            except ValidationError:
                bad += 1
        elif isinstance(one, Mapping) and set(one) == {"unread"}:
            troubles.append(f"its moves of memory cannot be read: {printable(str(one['unread']), 300)}")
        else:
            rest.append(one)
    return rest, found, [*troubles[:1], *([f"{bad} of its moves of memory cannot be read"] if bad else [])]


def newest(found: Iterable[MemoryMove]) -> list[MemoryMove]:
    """All of them, newest first."""
    return sorted(found, key=lambda one: (-one.t, one.node))
