"""How does a user watch a decision and stop it? On a terminal: the current phase, and goals as they improve.

The decision is made in a thread of its own; this one draws and handles Ctrl-C. Before the search starts, the first Ctrl-C
stops the command, since there is nothing to keep. After that the first stops the search with the best result so far, and
the second stops the command. A write in progress is completed, which takes a moment. A question is answered with the
results so far, whatever the other thread is doing.
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
from swarm_iac.model.goals.words import goal_texts
from swarm_iac.model.placement import Goal
from swarm_iac.model.stack import Stack

if TYPE_CHECKING:
    from rich.console import RenderableType

    from swarm_iac.solver import Watch

T = TypeVar("T")
HEADS = ("goal", "priority", "reached", "at best", "gap")
_REFRESH = 0.1
#: Anything faster shows no progress. [s]
_SOON = 0.3
#: Longest wait for a write in progress, in case the disk hangs. [s]
_PATIENCE = 1.5
#: Time that an interrupted question has to finish by itself. [s]
_GRACE = 0.7
#: How long the deciding thread keeps the interpreter when the drawing one waits for it. At Python's own 5 ms the first words
#: took a second longer: everything that is loaded to draw them waits so long, again and again. [s]
_TURN = 0.0005


def gap(goal: Goal) -> str:
    """How far the value can be from the best possible, at most."""
    if goal.value == goal.bound:
        return "0"
    return f"{100 * abs(goal.bound - goal.value) / max(abs(goal.bound), abs(goal.value)):.1f}%"


def goal_rows(goals: tuple[Goal, ...], stack: Stack) -> list[tuple[str, ...]]:
    """One row per goal, most important first."""
    texts = goal_texts(goals, stack)
    return [(one.several, one.priority, one.reached, one.best, gap(goal)) for goal, one in zip(goals, texts, strict=True)]


def followed(work: Callable[[Following], T], *, quiet: bool = False) -> T:
    """The result of `work`, with progress on stderr if that is a terminal, unless `quiet`.

    Raises what it raises, and Interrupted if Ctrl-C stopped it.
    """
    return _Worker(work, quiet).run()


class Following:
    """A Progress whose phases and goals are displayed. Created by `followed`; its methods are for the deciding thread."""

    def __init__(self) -> None:
        self.text = ""
        self.since = time.monotonic()
        self.ending = False
        self.solving: Watch | None = None
        self.so_far: Any = None  # what `followed` returns if it is stopped now
        self._asking: Watch | None = None
        self._goals: dict[str, Goal] = {}
        self._stack: Stack | None = None
        self._lock = threading.Lock()

    def phase(self, text: str) -> None:
        """The current phase."""
        with self._lock:
            self.text, self.since = text, time.monotonic()

    def watch(self, stack: Stack) -> Watch:
        """The watch of a solve that starts now. From here on, an interrupt stops the search and not the command."""
        from swarm_iac.solver import Watch

        made = Watch(self._tell, phase=self.phase)
        with self._lock:
            self._goals, self._stack = {}, stack
            self.solving = made
        if self.ending:
            made.stop()
        return made

    def stop(self) -> None:
        """Stop the search with the best so far; called by the waiting thread."""
        self.ending = True
        for watch in (self.solving, self._asking):
            if watch is not None:
                watch.stop()

    def asks(self, text: str) -> Watch:
        """Start a question and return its watch; only its phases are displayed.

        An interrupt stops the command again, and after the first `found` the question, with the last result found.
        Raises Interrupted if one came already: the search before was stopped, and its answer is no longer wanted.
        """
        if self.ending:
            raise interrupt.Interrupted(f"interrupted before {text}; nothing was written")
        from swarm_iac.solver import Watch

        self.phase(text)
        self.solving, self._asking = None, Watch()
        return self._asking

    def found(self, answer: Any) -> None:
        """What `followed` returns if it is stopped now."""
        self.so_far = answer

    def shown(self) -> RenderableType:
        """Current phase and goals."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            text, seconds, goals, stack = self.text, time.monotonic() - self.since, tuple(self._goals.values()), self._stack
        keeps = "Ctrl-C keeps the best so far" if self.solving else ""
        known = "Ctrl-C stops with the results so far" if self.so_far is not None else ""
        hint = "stopping" if self.ending else keeps or known or "Ctrl-C stops"
        line = Text(f"{text or 'starting'}, {seconds:.0f} s; {hint}", style="dim")
        if not goals or stack is None:
            return line
        made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for head in HEADS:
            made.add_column(head)
        for row in goal_rows(goals, stack):
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
        """Start the work, draw until it ends, and restore the handler of Ctrl-C."""
        thread = threading.Thread(target=self._work, name=interrupt.WORKER, daemon=True)
        here = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self._interrupted) if here else None
        turn = sys.getswitchinterval()
        sys.setswitchinterval(_TURN)
        try:
            thread.start()
            thread.join(_SOON if not self.interrupts else 0)
            if self.terminal:
                self._draw(thread)
            while self._goes_on(thread):
                pass
        finally:
            sys.setswitchinterval(turn)
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
        except BaseException as error:  # raised again in the waiting thread
            self.errors.append(error)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        # Only counted: it may arrive while this thread draws or holds a lock.
        self.interrupts += 1

    def _goes_on(self, thread: threading.Thread) -> bool:
        """Wait a moment and handle Ctrl-C. False when the work is done. Raises Interrupted."""
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
            raise interrupt.Interrupted("stopped; nothing from this search was kept")
        if self.following.so_far is not None:
            say("stopping; results so far follow (Ctrl-C again to stop now)")
            self.until = time.monotonic() + _GRACE
            self.following.stop()
            return
        if self.following.solving is None:
            raise interrupt.Interrupted(f"interrupted while {self.following.text or 'starting'}; nothing was written")
        say("stopping the search; the best so far is kept (Ctrl-C again to stop now)")
        self.following.stop()

    def _draw(self, thread: threading.Thread) -> None:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            while self._goes_on(thread):
                live.update(self.following.shown(), refresh=True)


@contextmanager
def doing(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show what the body does, on stderr if that is a terminal, unless `quiet`; Ctrl-C in it is a KeyboardInterrupt."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(f"{text}; Ctrl-C stops", style="dim")):
        yield
