"""May this run act? A few nodes are asked for a claim first, so that of two runs from one state only one acts anywhere.

The nodes are the first that answer, by name, so two runs ask the same ones; the very first alone, so that one run is ahead
of the other. On a node one run at a time has the claim (swarm_node/records/claim.py), until its connection ends; a run that is
killed holds nobody up. When a run has its claims it has its serial recorded there: one that read the machines before that,
and asks later, is refused too.

Of three or four nodes one may refuse: a node that someone else owns must not stop the others. Any two runs that ask the
same nodes meet on enough of them that one of the two is refused more often. See docs/security.md for what is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from swarm_iac.errors import Refused
from swarm_iac.model.base import Value
from swarm_iac.printable import printable
from swarm_iac.reach import ask
from swarm_iac.reach.answer import decode
from swarm_iac.reach.node_program import archive
from swarm_iac.run_options import NODE_TIMEOUT

#: Nodes whose answer counts, and nodes that are tried for that: one that does not answer decides nothing.
_COUNT, _TRIED = 4, 8
#: How long the run that has the first node's claim may take to ask the others. [s]
_AHEAD = 2.0
#: A program that waits for its question for longer than this may end before it hears it. [s]
_FRESH = 10.0
#: A sign of life each so often; the node waits six times as long. [s]
_ALIVE = 5.0
#: The longest line of an answer. [bytes]
_LONGEST = 1 << 14


class _Holder(Value):
    """Who has a claim, as a node says."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    who: str = Field(default="", max_length=500)
    serial: int = Field(default=0, ge=0, le=1 << 50)
    since: float = Field(default=0, ge=0, le=10**11, description="[s since 1970], by the node's clock")


class _Answer(Value):
    model_config = ConfigDict(strict=True, extra="ignore")

    granted: bool = False
    recorded: bool = False
    held: _Holder | None = None
    refused: str = Field(default="", max_length=4000)

    @property
    def why(self) -> str:
        """Words of a refusal; empty: none."""
        if self.held is None:
            return printable(self.refused, 500)
        when = f", since {datetime.fromtimestamp(self.held.since, UTC):%Y-%m-%d %H:%M:%S} UTC" if self.held.since else ""
        return f"{printable(self.held.who) or 'another run'} is changing this fleet (serial {self.held.serial}{when})"


Targets = Mapping[str, tuple[str, Mapping[str, Any]]]  # node → address and request


@contextlib.contextmanager
def claimed(
    targets: Targets,
    *,
    ssh_config: Path | None = None,
    timeout: float = NODE_TIMEOUT,
    on_progress: Callable[[str], None] = lambda line: None,
) -> Iterator[None]:
    """Holds the claim on the deciding nodes. Raises Refused, naming the holder, before anything is changed.

    `targets`: node → address and request ({lineage, serial, fleet, run, who}) of all nodes that can be asked. `timeout`: a
    node that says nothing for so long has not answered. [s]
    """
    talks: list[_Talk] = []
    over = threading.Event()
    waiting = [_Talk(node, *targets[node], ssh_config, timeout) for node in sorted(targets)[:_TRIED]]
    begun = waiting[:_COUNT]
    try:
        for talk in begun:  # so that the others' programs start while the first is asked
            with contextlib.suppress(OSError, ValueError):
                talk.open()
        while waiting and sum(talk.answered for talk in talks) < _COUNT:
            count = _COUNT - sum(talk.answered for talk in talks) if any(talk.answered for talk in talks) else 1
            some, waiting = waiting[:count], waiting[count:]
            talks += some
            _all(_Talk.begin, some, timeout)
            if count == 1 and some[0].answer.held:
                time.sleep(_AHEAD)
        threading.Thread(target=_live, args=(talks, over), daemon=True).start()
        _decide(talks)
        _all(_Talk.go, [talk for talk in talks if talk.answer.granted], timeout)
        for line in _decide(talks):
            on_progress(line)
        yield
    finally:
        over.set()
        _all(_Talk.end, {talk.node: talk for talk in (*begun, *talks)}.values(), timeout)


def _decide(talks: list[_Talk]) -> list[str]:
    """Words of the one node that refuses alone. Raises Refused."""
    refused = {talk.node: talk.answer.why for talk in talks if talk.answer.why}
    if len(refused) > (1 if sum(talk.answered for talk in talks) >= 3 else 0):
        whys: dict[str, list[str]] = {}
        for node, why in refused.items():
            whys.setdefault(why, []).append(node)
        raise Refused(
            "; ".join(f"{', '.join(nodes)}: {why}" for why, nodes in whys.items()),
            hint="nothing was changed; retry when that run has ended. If a node keeps reporting this: `swarm lost NODE`",
        )
    return [f"{node}: {why}; no other node reports it, so the run continues" for node, why in refused.items()]


def _all(what: Callable[[_Talk], None], talks: Iterable[_Talk], timeout: float) -> None:
    """At once. A node that hangs is cut off, and has not answered."""
    doing = [(talk, threading.Thread(target=what, args=(talk,), daemon=True)) for talk in talks]
    for _, thread in doing:
        thread.start()
    until = time.monotonic() + timeout
    for talk, thread in doing:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            talk.cut()
            thread.join()


def _live(talks: list[_Talk], over: threading.Event) -> None:
    while not over.wait(_ALIVE):
        for talk in talks:
            talk.say("")


class _Talk:
    """One node's claim, for as long as its process runs."""

    def __init__(self, node: str, address: str, request: Mapping[str, Any], ssh_config: Path | None, timeout: float) -> None:
        self.node = node
        self.address = address
        self.request = request
        self.ssh_config = ssh_config
        self.timeout = timeout
        self.answer = _Answer()
        self.process: subprocess.Popen[bytes] | None = None
        self.opened = 0.0
        self.lock = threading.Lock()

    @property
    def answered(self) -> bool:
        """Does it count?"""
        return self.answer.granted or bool(self.answer.why)

    def open(self) -> None:
        """Start the program there, which waits for what it is asked."""
        self._start(ask.installed(self.address, self.ssh_config, "claim"))

    def begin(self) -> None:
        """Ask for it."""
        if self.process is None or time.monotonic() - self.opened > _FRESH:
            self.open()
        self._ask(b"")
        if self.process and self.process.poll() == ask.ABSENT:
            program = archive()
            self._start(ask.sent(self.address, self.ssh_config, "claim", len(program)))
            self._ask(program)

    def go(self) -> None:
        """Have the serial recorded. A node that cannot say so just now keeps its claim, and does not count."""
        self.say("go")
        answer = self._read()
        self.answer = answer if answer.recorded or answer.why else _Answer()
        if answer.recorded:
            self.answer = _Answer(granted=True)

    def _start(self, words: tuple[str, ...]) -> None:
        self.end()
        # A session of its own: an interrupt at the terminal is for the command that asked, which ends us in its own way.
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.opened = time.monotonic()

    def _ask(self, first: bytes) -> None:
        self.say(json.dumps(dict(self.request)), first)
        self.answer = self._read()
        if not self.answered and self.process:
            with contextlib.suppress(subprocess.TimeoutExpired):  # its status says whether the program is there
                self.process.wait(1)

    def say(self, line: str, before: bytes = b"") -> None:
        """Send a line. Whether anybody hears it shows in the answer."""
        with self.lock, contextlib.suppress(OSError, ValueError):
            assert self.process and self.process.stdin
            self.process.stdin.write(before + line.encode() + b"\n")
            self.process.stdin.flush()

    def _read(self) -> _Answer:
        """The next line; what is none is no answer."""
        assert self.process and self.process.stdout
        handle, found, until = self.process.stdout.fileno(), b"", time.monotonic() + self.timeout
        while not found.endswith(b"\n") and len(found) < _LONGEST:
            if not select.select([handle], [], [], max(0.0, until - time.monotonic()))[0]:
                return _Answer()
            if not (piece := os.read(handle, 4096)):
                return _Answer()
            found += piece
        try:
            return _Answer.model_validate(decode(found))
        except (ValidationError, ValueError, TypeError):
            return _Answer()

    def cut(self) -> None:
        """End it now."""
        if self.process:
            self.process.kill()

    def end(self) -> None:
        """Give the claim back."""
        if self.process is None:
            return
        assert self.process.stdin and self.process.stdout
        with self.lock, contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
