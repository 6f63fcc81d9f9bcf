"""Is the lock of two changes that were made beside each other valid or refused, and never silently wrong? On drawn fleets.

Both changes are edits of one drawn fleet, each solved by itself. SWARM_MERGES: how many pairs, and from which seed.
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli.decisions.merge import MergeOutcome, decided
from swarm_iac.cli.decisions.merge_versions import Versions
from swarm_iac.errors import LimitExceeded, Refused, StackFileError
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.stackfile.load import loads
from swarm_iac.stackfile.locks import lock
from swarm_iac.stackfile.locks.merge import merge
from tests.benchmarks.fleets.checker import broken
from tests.benchmarks.fleets.draw_where import more
from tests.benchmarks.fleets.draw_workloads import filled
from tests.benchmarks.fleets.edits import edited
from tests.benchmarks.fleets.written import Data, Drawn, text_of

FIRST, COUNT = map(int, os.environ.get("SWARM_MERGES", "9000,16").split(","))
_MISSING = object()


class Clash(Exception):
    """Both edits changed one value of the file: git would leave a conflict in it."""


def joined(base: Any, one: Any, other: Any) -> Any:
    """The merge of three versions of a file's data, key by key. Raises Clash."""
    if other in (one, base):
        return one
    if one == base:
        return other
    if not all(isinstance(each, dict) for each in (base, one, other)):
        raise Clash
    found = {}
    for key in dict.fromkeys((*one, *other)):
        value = joined(*(each.get(key, _MISSING) for each in (base, one, other)))
        if value is not _MISSING:
            found[key] = value
    return found


@dataclass
class Pair:
    """Two changes of a fleet and what they are together."""

    drawn: Drawn
    data: Data
    locks: tuple[lock.Lock, lock.Lock, lock.Lock]
    what: str

    def versions(self, *, theirs_first: bool = False) -> Versions:
        base, ours, theirs = (lock.dump(each).encode() for each in self.locks)
        return Versions("lab", base, ours, theirs, text_of(self.data).encode(), None, theirs_first)

    @property
    def stack(self) -> Stack:
        return _stack(self.data, self.drawn)


def _stack(data: Data, drawn: Drawn) -> Stack:
    return loads(text_of(data), "stacks/lab.yaml", today=drawn.today).stack


def _locked(data: Data, drawn: Drawn, last: Placement) -> lock.Lock:
    stack = _stack(data, drawn)
    made = lock.dump(lock.make(stack, solve(stack, last, today=drawn.today, reasons=False).placement))
    return lock.parse(made, "lab.lock.yaml")


def pairs(first: int, count: int) -> Iterator[Pair]:
    for seed in range(first, first + count):
        drawn = more(filled(seed, 3 + seed % 6), seed)
        if seed % 2:  # a fleet with free capacity: nothing waits
            drawn.data["workloads"] = dict(list(drawn.data["workloads"].items())[::4])
        edits = [edited(drawn, seed, number) for number in (1, 2)]
        try:
            base = _locked(drawn.data, drawn, Placement())
            ours, theirs = (_locked(after.data, drawn, base.placement) for after, _ in edits)
            data = joined(*(copy.deepcopy(each) for each in (drawn.data, edits[0][0].data, edits[1][0].data)))
            pair = Pair(drawn, data, (base, ours, theirs), f"seed {seed}: {edits[0][1]} | {edits[1][1]}")
            assert pair.stack.fleet
        except (Clash, StackFileError):
            continue
        yield pair


def _wrong(pair: Pair, found: MergeOutcome, first: lock.Lock) -> list[str]:
    """What is wrong with a merged lock, by its text alone."""
    stack, made = pair.stack, lock.parse(found.lock, "lab.lock.yaml")
    ran = lock.renamed(first, stack).placement
    wrong = [one.text for one in broken(found.decision.stack, made.placement, ran, pair.drawn.today)]
    wrong += lock.validity(made, found.decision.stack)
    if not found.again:
        wrong += (
            []
            if made == merge(pair.locks[0], first, next(one for one in pair.locks[1:] if one is not first)).lock
            else ["taken"]
        )
    return wrong


def _moved(pair: Pair, found: MergeOutcome) -> set[str]:
    """What neither change touched, and the merge did."""
    base, ours, theirs = (each.placement.by_name() for each in pair.locks)
    now = lock.parse(found.lock, "lab.lock.yaml").placement.by_name()
    return {name for name, one in base.items() if one == ours.get(name) == theirs.get(name) and now.get(name) != one}


def test_a_merged_lock_is_valid_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: list[str] = []
    seen: Counter[str] = Counter()
    for pair in pairs(FIRST, COUNT):
        for theirs_first in (False, True):
            first = pair.locks[2 if theirs_first else 1]
            try:
                found = decided(tmp_path, pair.versions(theirs_first=theirs_first), pair.drawn.today)
            except LimitExceeded as error:
                wrong.append(f"{pair.what}: {error}")
            except Refused:
                seen["refused"] += 1
            else:
                seen["decided again" if found.again else "taken as they are"] += 1
                wrong += [f"{pair.what}: {text}" for text in _wrong(pair, found, first)]
                seen["blocks"] += len(pair.locks[0].placement.allocations)
                seen["touched"] += len(_moved(pair, found))
    with capsys.disabled():
        print(f"\n{dict(seen)}")
    assert wrong == []
    assert min(seen["decided again"], seen["taken as they are"]) > 0


def test_no_change_on_one_side_gives_the_other() -> None:
    for pair in pairs(FIRST, min(COUNT, 15)):
        base, ours, theirs = pair.locks
        for one in (ours, theirs):
            assert merge(base, base, one).lock == one == merge(base, one, base).lock == merge(base, one, one).lock
            assert not merge(base, base, one).contested
