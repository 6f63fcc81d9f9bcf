"""How does a node enforce what an allocation holds of a resource? The rows of model.resource say it with this value.

The amount is in AllocationState, at one path or at several whose values add up. One step takes it and gives it back; where
a node has too little for both, who takes waits for who gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swarm_iac.model.step import Verb

if TYPE_CHECKING:
    from swarm_iac.model.state import AllocationState, Facts, NodeState

#: Memory and quotas are kept in whole pages. [bytes]
PAGE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Enforced:
    """What a row says if nodes enforce it."""

    #: Path in AllocationState → key in the rows of a preview.
    at: Mapping[str, str]
    #: The step that takes it, and gives back what is held beyond the new amount.
    step: Verb
    #: What is still held by others, in messages: `disk of gpu-01 is still held by others`.
    noun: str
    #: How much a node has, from its facts and its state before and after; 0: unknown. None: each piece has its holders.
    has: Callable[[Facts, NodeState, NodeState], int] | None = None
    #: The node keeps multiples of this.
    grain: int = 1
    #: The key of hardware without which nothing is enforced.
    needs: str = ""
    #: Does None mean no ceiling? Otherwise it means that nothing is reserved.
    unlimited: bool = False
    #: Other values that fall and rise with it.
    beside: tuple[str, ...] = ()
    #: Can it change while the workload runs?
    live: bool = True
    #: Is it shown in the line of an allocation that comes or goes?
    in_line: bool = True

    def amount(self, state: AllocationState) -> int:
        """What an allocation holds of it."""
        return sum([value_at(state, path) or 0 for path in self.at])

    def rounded(self, amount: int) -> int | None:
        """What a node keeps for an amount of the placement."""
        whole = amount // self.grain * self.grain
        return whole if self.unlimited else whole or None

    def lesser(self, old: AllocationState, new: AllocationState) -> dict[str, Any]:
        """By path, what both states allow. Of several values only the sum counts, so they change together."""
        if len(self.at) > 1:
            sections = {path.partition(".")[0] for path in self.at}
            return {one: getattr(new, one) for one in sections} if self.amount(new) < self.amount(old) else {}
        return {path: self._least(value_at(old, path), value_at(new, path)) for path in (*self.at, *self.beside)}

    def _least(self, *values: int | None) -> int | None:
        known = [value for value in values if value is not None]
        return min(known, default=None) if self.unlimited or len(known) == len(values) else None


def value_at(state: AllocationState, path: str) -> Any:
    """The value at `section.key` or `section`; None if the section is absent."""
    section, _, key = path.partition(".")
    part = getattr(state, section)
    return getattr(part, key) if key and part is not None else part


def with_values(state: AllocationState, values: Mapping[str, Any]) -> AllocationState:
    """The same state with other values at these paths."""
    update: dict[str, Any] = {}
    for path, value in values.items():
        section, _, key = path.partition(".")
        part = update.get(section, getattr(state, section))
        update[section] = part.model_copy(update={key: value}) if key and part is not None else part if key else value
    return state.model_copy(update=update)
