"""How much more work is four times as much? Counted in steps of Python, so that no busy machine changes the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

#: Four times the input may take so many times the steps; work that grows with the square takes sixteen.
MOST = 5.0


def steps(work: Callable[[], object]) -> int:
    """Bytecode instructions of `swarm_iac` that `work` runs."""
    count = 0

    def each(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return each

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        if not str(frame.f_globals.get("__name__", "")).startswith("swarm_iac"):
            return None
        frame.f_trace_opcodes = True
        return each

    before = sys.gettrace()
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def grows_evenly(prepared: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Does `prepared(4 · size)` take about four times the steps of `prepared(size)`? Each is run once before, for caches."""
    small, large = prepared(size), prepared(4 * size)
    small()
    return steps(large) <= MOST * steps(small)
