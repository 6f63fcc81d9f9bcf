"""How does a user follow a decision, and end it? What is done now, and goals improving in place, on a terminal.

The decision is made in a thread of its own: this one draws, and hears Ctrl-C. Before anything is being solved, the first
ends the command: nothing is found yet that could be kept. From then on the first ends the search with the best so far,
and the second ends the command. What is being written is written to its end, which takes a moment. A question is answered
with what is known so far, whatever the other thread is doing then.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from swarm_iac.cli.terminal import interrupt
from swarm_iac.cli.terminal.screen import say
from swarm_iac.decision import WRITING
from swarm_iac.model.placement import Goal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from swarm_iac.solver import Watch

T = TypeVar("T")
HEADS = ("goal", "reached", "at best", "gap")
_REFRESH = 0.1
#: What is done sooner is not worth a line that goes at once. [s]
_SOON = 0.3
#: So long is waited for what is being written, should its disk hang. [s]
_PATIENCE = 1.5
#: So long a question that was ended may take to finish by itself. [s]
_GRACE = 0.7


def gap(goal: Goal) -> str:
    """How far the value can be from the best, at most."""
    if goal.value == goal.bound:
        return "0"
    return f"{100 * abs(goal.bound - goal.value) / max(abs(goal.bound), abs(goal.value)):.1f}%"


def goal_rows(goals: tuple[Goal, ...]) -> list[tuple[str, str, str, str]]:
    """One row per goal, most important first."""
    return [(goal.name, str(goal.value), str(goal.bound), gap(goal)) for goal in goals]


def followed(work: Callable[[Following], T], *, quiet: bool = False) -> T:
    """What `work` gives, shown on stderr where that is a terminal, unless `quiet`.

    Raises what it raises, and Interrupted when Ctrl-C ended it.
    """
    return _Worker(work, quiet).run()


class Following:
    """A Progress whose phases and goals are shown. Made by `followed`; its methods are for the thread that decides."""

    def __init__(self) -> None:
        self.text = ""
        self.since = time.monotonic()
        self.ending = False
        self.solving: Watch | None = None
        self.so_far: Any = None  # what `followed` gives if it is ended now
        self._asking: Watch | None = None
        self._goals: dict[str, Goal] = {}
        self._lock = threading.Lock()

    def phase(self, text: str) -> None:
        """What is done now."""
        with self._lock:
            self.text, self.since = text, time.monotonic()

    def watch(self) -> Watch:
        """The watch of a solve that begins now. From here on an interrupt ends the search, and not the command."""
        from swarm_iac.solver import Watch

        made = Watch(self._tell, phase=self.phase)
        with self._lock:
            self._goals = {}
            self.solving = made
        if self.ending:
            made.stop()
        return made

    def stop(self) -> None:
        """End the search with the best so far; called by the thread that waits."""
        self.ending = True
        for watch in (self.solving, self._asking):
            if watch is not None:
                watch.stop()

    def asks(self, text: str) -> Watch:
        """A question that begins; its watch, of which nothing is shown but what it is told as a phase.

        An interrupt ends the command again, and from the first `found` on the question, with what was found last.
        Raises Interrupted where one came already: the search before it was ended for an answer that is wanted no more.
        """
        if self.ending:
            raise interrupt.Interrupted(f"interrupted before {text}; nothing was written")
        from swarm_iac.solver import Watch

        self.phase(text)
        self.solving, self._asking = None, Watch()
        return self._asking

    def found(self, answer: Any) -> None:
        """What `followed` gives if it is ended now."""
        self.so_far = answer

    def shown(self) -> RenderableType:
        """Phase and goals as they are now."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            text, seconds, rows = self.text, time.monotonic() - self.since, goal_rows(tuple(self._goals.values()))
        keeps = "Ctrl-C keeps the best so far" if self.solving else ""
        known = "Ctrl-C ends with what is known" if self.so_far is not None else ""
        hint = "ending" if self.ending else keeps or known or "Ctrl-C ends"
        line = Text(f"{text or 'starting'}, {seconds:.0f} s; {hint}", style="dim")
        if not rows:
            return line
        made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for head in HEADS:
            made.add_column(head)
        for row in rows:
            made.add_row(*row)
        return Group(line, made)

    def _tell(self, goals: tuple[Goal, ...]) -> None:
        with self._lock:
            self._goals |= {goal.name: goal for goal in goals}


class _Worker(Generic[T]):
    def __init__(self, work: Callable[[Following], T], quiet: bool) -> None:
        self.work = work
        self.following = Following()
        self.terminal = not quiet and sys.stderr.isatty()
        self.interrupts = 0
        self.heard = 0
        self.until = float("inf")
        self.results: list[T] = []
        self.errors: list[BaseException] = []

    def run(self) -> T:
        """Start the work, draw until it ends, and put the handler of Ctrl-C back."""
        thread = threading.Thread(target=self._work, name=interrupt.WORKER, daemon=True)
        here = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self._interrupted) if here else None
        try:
            thread.start()
            thread.join(_SOON if not self.interrupts else 0)
            if self.terminal:
                self._draw(thread)
            while self._goes_on(thread):
                pass
        finally:
            if here:
                signal.signal(signal.SIGINT, before)
        if self.errors:
            raise self.errors[0]
        if self.results:
            return self.results[0]
        answer: T = self.following.so_far
        return answer

    def _work(self) -> None:
        try:
            self.results.append(self.work(self.following))
        except BaseException as error:  # it is raised again in the thread that waits
            self.errors.append(error)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        # Only counted: it may come in the middle of whatever this thread draws, or of what it has locked.
        self.interrupts += 1

    def _goes_on(self, thread: threading.Thread) -> bool:
        """Wait a moment, and heed Ctrl-C. False when the work is done. Raises Interrupted."""
        thread.join(_REFRESH)
        while self.heard < self.interrupts and thread.is_alive():
            self.heard += 1
            self._heed(thread)
        return thread.is_alive() and time.monotonic() < self.until

    def _heed(self, thread: threading.Thread) -> None:
        if self.following.text == WRITING:
            thread.join(_PATIENCE)
            if not thread.is_alive():
                return
        if self.following.ending:
            raise interrupt.Interrupted("ended at once; nothing of this search is kept")
        if self.following.so_far is not None:
            say("ending; what is known so far follows (once more to end at once)")
            self.until = time.monotonic() + _GRACE
            self.following.stop()
            return
        if self.following.solving is None:
            raise interrupt.Interrupted(f"interrupted while {self.following.text or 'starting'}; nothing was written")
        say("ending the search; the best so far is kept (once more to end at once)")
        self.following.stop()

    def _draw(self, thread: threading.Thread) -> None:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            while self._goes_on(thread):
                live.update(self.following.shown(), refresh=True)


@contextmanager
def doing(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal's stderr, unless `quiet`, what the body does; Ctrl-C in it is a KeyboardInterrupt."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(f"{text}; Ctrl-C ends", style="dim")):
        yield
