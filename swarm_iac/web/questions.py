"""How is what takes long answered, such as `swarm why`? By that command in a process of its own, one at a time.

So the page has the command's own answer, nothing blocks the page, and what hangs is ended. Answers are kept until the files of
the stack change.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: A question is asked to finish with what it found after the first, and ended after the second. [s]
PATIENCE, GRACE = 45.0, 10.0
#: So many may wait, answers are kept, and bytes are read of one.
WAITING, KEPT, ANSWER_BYTES = 32, 512, 32 << 20
_LINE = 400
#: What is worked out comes after the page itself, on a machine of few cores too.
BEHIND = ("nice", "-n", "5")


@dataclass(frozen=True)
class CommandAnswer:
    """What a command printed as JSON, or why there is nothing."""

    document: Any = None
    error: str = ""
    hint: str = ""


@dataclass
class Questions:
    """Commands of `swarm` about one stack, asked in the folder `root`. `answered` is called after each."""

    root: Path
    answered: Callable[[], None] = lambda: None
    patience: float = PATIENCE
    _answers: OrderedDict[tuple[int, tuple[str, ...]], CommandAnswer] = field(default_factory=OrderedDict)
    _queue: OrderedDict[tuple[int, tuple[str, ...]], None] = field(default_factory=OrderedDict)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self, version: int, *words: str) -> CommandAnswer | None:
        """The answer about this version of the files, if it is there; else it is asked, and None. Full: an error at once."""
        key = (version, words)
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        if key not in self._queue:
            if len(self._queue) >= WAITING:
                return CommandAnswer(error="too many questions wait for an answer", hint="look again in a minute")
            self._queue[key] = None
            self._more.set()
        return None

    def forget(self, version: int) -> None:
        """Nobody asks about other versions any more."""
        for kept in (self._answers, self._queue):
            for key in [key for key in kept if key[0] != version]:
                del kept[key]

    async def work(self) -> None:
        """Answers, one after the other, until it is cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._queue:
                key = next(iter(self._queue))
                found = await run(self.root, key[1], self.patience)
                if self._queue.pop(key, key) is None:  # else its files have changed meanwhile
                    self._answers[key] = found
                    while len(self._answers) > KEPT:
                        self._answers.popitem(last=False)
                self.answered()


async def run(root: Path, words: tuple[str, ...], patience: float, module: str = "swarm_iac.cli") -> CommandAnswer:
    """Run `swarm WORDS`, which prints JSON, and end it if it takes too long. Its standard input is empty.

    Nothing of the repository stands in for a module of ours: Python does not look there.
    """
    variables = {key: value for key, value in os.environ.items() if not key.startswith("SWARM_FORGE")}  # it only reads
    variables |= {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        *BEHIND, sys.executable, "-P", "-m", module, *words, cwd=root, env=variables, start_new_session=True,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout and process.stderr
    reading = asyncio.gather(_read(process.stdout), _read(process.stderr))
    try:
        for wait, then in ((patience, signal.SIGINT), (GRACE, signal.SIGKILL)):
            done, _ = await asyncio.wait({reading}, timeout=wait)
            if done:
                break
            _end(process, then)
        out, err = await reading
        code = await process.wait()
    finally:  # also where the page is closed meanwhile
        _end(process, signal.SIGKILL)
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await reading
    return understood(out, err, code)


def _end(process: asyncio.subprocess.Process, how: signal.Signals) -> None:
    """Its whole group: it is the leader of one. A process that was waited for has none of ours any more."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)


async def _read(stream: asyncio.StreamReader) -> bytes:
    """All of it up to the limit; the rest is read and dropped, so that nothing waits."""
    found = bytearray()
    while data := await stream.read(1 << 16):
        found += data[: max(0, ANSWER_BYTES - len(found))]
    return bytes(found)


def understood(out: bytes, err: bytes, code: int) -> CommandAnswer:
    """A command's JSON; of a failure its message and hint."""
    document = None
    with contextlib.suppress(ValueError):
        document = json.loads(out)
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        wrong = document["error"]
        return CommandAnswer(error=str(wrong.get("message", "")), hint=str(wrong.get("hint", "")))
    if document is None:
        said = err.decode("utf-8", "replace").strip().splitlines()
        why = said[-1][:_LINE] if said else "no answer in the time that one may take" if code < 0 else f"exit code {code}"
        return CommandAnswer(error=why)
    return CommandAnswer(document)
