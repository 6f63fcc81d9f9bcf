"""Which GPUs of one machine are joined by NVLink, and which are behind the same PCIe switch?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from swarm_iac.model.base import Core, Value

#: GPUs by number; each two of a group are joined.
Group = tuple[int, ...]
Groups = tuple[Group, ...]
_Declared = Annotated[Literal["all"] | tuple[tuple[Core, ...], ...], Field(union_mode="left_to_right")]


class Links(Value):
    """Groups of GPUs that are joined more closely than over the processor. A GPU is in at most one group of each kind."""

    nvlink: _Declared = Field(
        default=(),
        description="Groups in which NVLink joins each two GPUs: `[[0, 1], [2, 3]]` for two bridges, `all` for an NVSwitch.",
    )
    pcie: _Declared = Field(default=(), description="Groups behind one PCIe switch, as in `[[0, 1], [2, 3]]`.")

    @model_validator(mode="after")
    def _groups_are_apart(self) -> Links:
        for groups in (self.nvlink, self.pcie):
            seen: set[int] = set()
            for group in () if groups == "all" else groups:
                if len(group) < 2:
                    raise ValueError(f"{list(group)} links nothing; a group has two GPUs or more")
                again = sorted(seen.intersection(group)) or sorted(i for i in {*group} if group.count(i) > 1)
                if again:
                    raise ValueError(f"GPU {again[0]} is named twice; it is in one group")
                seen.update(group)
        return self

    def of(self, groups: _Declared, count: int) -> Groups:
        """Groups of a machine with so many GPUs, each sorted, the first first."""
        if groups == "all":
            return (tuple(range(count)),) if count > 1 else ()
        return tuple(sorted(tuple(sorted(group)) for group in groups))

    @property
    def highest(self) -> int:
        """The highest number of a GPU that is named; -1 where none is."""
        return max((i for groups in (self.nvlink, self.pcie) if groups != "all" for group in groups for i in group), default=-1)


def within(groups: Iterable[Collection[int]], gpus: Collection[int]) -> bool:
    """Are all of these GPUs in one of the groups? A single one is joined with itself."""
    return len(gpus) < 2 or any(all(i in group for i in gpus) for group in groups)


def partition(peers: Sequence[Collection[int]]) -> Groups:
    """Groups in which each two GPUs are joined, from the GPUs that each of them is joined with. The largest is taken first.

    A machine may have GPUs that are joined with two others that are not joined with each other: such a GPU is in one group.
    """
    joined = [{j for j in range(len(peers)) if j != i and j in peers[i] and i in peers[j]} for i in range(len(peers))]
    left, found = set(range(len(peers))), []
    while left:
        best = max((_clique(i, joined, left) for i in sorted(left)), key=len)
        left.difference_update(best)
        if len(best) > 1:
            found.append(best)
    return tuple(sorted(found))


def _clique(first: int, joined: Sequence[set[int]], left: set[int]) -> Group:
    """GPUs that are all joined with each other, grown from one, the most joined first."""
    group, could = [first], joined[first] & left
    while could:
        best = min(could, key=lambda i: (-len(joined[i] & could), i))
        group.append(best)
        could = could & joined[best]
    return tuple(sorted(group))
