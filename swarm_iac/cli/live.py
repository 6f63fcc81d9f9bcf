"""How does a person watch a solve, and end it? Goals improving in place on a terminal, else a line for each step.

The search runs in a thread of its own: this one draws, and hears Ctrl-C. The first ends the search and keeps the best so
far, also where it comes before the first answer; the second ends the command.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Generic, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from swarm_iac.cli.screen import say
from swarm_iac.model.placement import Goal
from swarm_iac.solver import Watch

T = TypeVar("T")
HEADS = ("goal", "reached", "at best", "gap")
_REFRESH = 0.1


def gap(goal: Goal) -> str:
    """How far the value can be from the best, at most."""
    if goal.value == goal.bound:
        return "0"
    return f"{100 * abs(goal.bound - goal.value) / max(abs(goal.bound), abs(goal.value)):.1f}%"


def goal_rows(goals: tuple[Goal, ...]) -> list[tuple[str, str, str, str]]:
    """One row per goal, most important first."""
    return [(goal.name, str(goal.value), str(goal.bound), gap(goal)) for goal in goals]


def watched(work: Callable[[Watch], T], *, lines: bool = True) -> T:
    """What `work` gives, shown on stderr while it is solved; `lines`: also where that is no terminal. Raises what it raises."""
    return _Worker(work, lines).run()


class _Worker(Generic[T]):
    def __init__(self, work: Callable[[Watch], T], lines: bool) -> None:
        self.work = work
        self.lines = lines
        self.goals: dict[str, Goal] = {}
        self.lock = threading.Lock()
        self.terminal = sys.stderr.isatty()
        self.ending = False
        self.watch = Watch(self.tell)
        self.results: list[T] = []
        self.errors: list[BaseException] = []

    def tell(self, goals: tuple[Goal, ...]) -> None:
        """Called in the search's thread."""
        with self.lock:
            fresh = [goal for goal in goals if self.goals.get(goal.name) != goal]
            self.goals |= {goal.name: goal for goal in goals}
        if self.lines and not self.terminal:
            for goal in fresh:
                say(f"{goal.name}: {goal.value}, at best {goal.bound}, gap {gap(goal)}")

    def run(self) -> T:
        """Start the search, draw until it ends, and put the handler of Ctrl-C back."""
        search = threading.Thread(target=self._search, daemon=True)
        here = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self._interrupted) if here else None
        try:
            search.start()
            if self.terminal:
                self._draw(search)
            while search.is_alive():
                search.join(_REFRESH)
        finally:
            if here:
                signal.signal(signal.SIGINT, before)
        if self.errors:
            raise self.errors[0]
        return self.results[0]

    def _search(self) -> None:
        try:
            self.results.append(self.work(self.watch))
        except BaseException as error:  # it is raised again in the thread that waits
            self.errors.append(error)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self.ending:
            say("ended at once; nothing of this search is kept")
            raise KeyboardInterrupt
        self.ending = True
        say("ending the search; the best so far is kept (once more to end at once)")
        # In a thread, because the handler may have interrupted the very code that holds the watch's lock.
        threading.Thread(target=self.watch.stop, daemon=True).start()

    def _draw(self, search: threading.Thread) -> None:
        with Live(console=Console(stderr=True), refresh_per_second=1 / _REFRESH, transient=True) as live:
            while search.is_alive():
                live.update(self._shown())
                search.join(_REFRESH)

    def _shown(self) -> RenderableType:
        made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for head in HEADS:
            made.add_column(head)
        with self.lock:
            rows = goal_rows(tuple(self.goals.values()))
        for row in rows:
            made.add_row(*row)
        return Group(Text("solving; Ctrl-C keeps the best so far", style="dim"), made)
