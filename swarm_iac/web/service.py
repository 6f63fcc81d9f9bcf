"""What is known at this moment, and what keeps it up to date in the background?"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from swarm_iac.errors import StackFileError, SwarmError
from swarm_iac.web.live import Live
from swarm_iac.web.questions import CommandAnswer, Questions, run
from swarm_iac.web.standing import Reader, Standing

T = TypeVar("T")
#: Files are looked at so often. [s]
LOOK_S = 0.1
#: What is read is shown first, and then judged; files that change often are judged once. [s]
JUDGE_S, JUDGE_PATIENCE_S = 1.0, 60.0
#: An answer of all nodes may take so long. [s]
MEASURE_PATIENCE_S = 120.0


@dataclass(frozen=True)
class LastReading:
    """The document of `swarm top --json`, when it was read, and why there is none."""

    document: dict[str, Any] = field(default_factory=dict)
    at: datetime.datetime | None = None
    error: str = ""

    @property
    def nodes(self) -> dict[str, Any] | None:
        """By name, if nodes were asked."""
        return self.document.get("nodes")


class Service:
    """One stack. `every`: seconds between two readings of the nodes; None: no node is asked."""

    def __init__(self, root: Path, name: str, every: float | None = None) -> None:
        self.reader, self.every = Reader(root, name), every
        self.standing: Standing = self.reader.read()
        self.print, self.day = self.reader.print(), datetime.date.today()
        self.version, self.live, self.measured = 1, Live(), LastReading()
        self.questions = Questions(root, self.live.publish)
        self._kept: dict[tuple[object, ...], Any] = {}

    @property
    def name(self) -> str:
        """NAME of the stack."""
        return self.reader.name

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watches, judges, measures and answers as long as it lasts."""
        works = [self._watch(), self.questions.work(), *([self._measure(self.every)] if self.every else [])]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def ask(self, *words: str) -> CommandAnswer | None:
        """The answer of `swarm WORDS` about the files as they are; None while it is awaited."""
        return self.questions.ask(self.version, *words)

    async def kept(self, work: Callable[[], T], *key: object) -> T:
        """The result of something that depends on what is known alone, worked out in a thread, once."""
        whole = (self.version, self.live.number, *key)
        if whole not in self._kept:
            self._kept = {old: value for old, value in self._kept.items() if old[:2] == whole[:2]}
            self._kept[whole] = await asyncio.to_thread(work)
        found: T = self._kept[whole]
        return found

    async def _watch(self) -> None:
        judging = asyncio.create_task(self._judge(self.standing, self.version))
        try:
            while True:
                found, day = self.reader.print(), datetime.date.today()
                if (found, day) != (self.print, self.day):
                    self.print, self.day = found, day
                    self.standing = await asyncio.to_thread(self._reread)
                    self.version += 1
                    self.questions.forget(self.version)
                    self.live.publish()
                    judging.cancel()
                    judging = asyncio.create_task(self._judge(self.standing, self.version))
                await asyncio.sleep(LOOK_S)
        finally:
            judging.cancel()

    def _reread(self) -> Standing:
        try:
            return self.reader.read()
        except StackFileError as error:
            return replace(self.standing, error="\n".join(map(str, error.problems[:5])))
        except (SwarmError, OSError) as error:
            return replace(self.standing, error=str(error))

    async def _judge(self, standing: Standing, version: int) -> None:
        if standing.error:
            return
        await asyncio.sleep(JUDGE_S)
        words = (str(self.reader.root), self.name)
        answer = await run(self.reader.root, words, JUDGE_PATIENCE_S, "swarm_iac.web.judging")
        found = standing.judged(answer.document or {"stale": [f"this is not known: {answer.error}"], "waiting": None})
        if self.version == version:
            self.standing = found
            self.live.publish()

    async def _measure(self, every: float) -> None:
        while True:
            answer = await run(self.reader.root, ("top", self.name, "--json"), MEASURE_PATIENCE_S)
            now = datetime.datetime.now(datetime.UTC)
            if isinstance(answer.document, dict):
                self.measured = LastReading(answer.document, now)
            else:  # what is old is not shown as if it were new
                self.measured = LastReading({}, now, answer.error or "no answer")
            self.live.publish()
            await asyncio.sleep(every)
