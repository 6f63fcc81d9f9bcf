"""How does a browser learn that something changed? By server-sent events, each with the number of the change."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

#: Streams of one person, and of all together.
OF_ONE, OF_ALL = 12, 400
#: A line is sent so often where nothing happens, so that what stands between closes no stream. [s]
BEAT_S = 15.0


@dataclass
class Live:
    """What changed last, and who listens."""

    number: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _open: Counter[str] = field(default_factory=Counter)

    def publish(self) -> None:
        """Something that pages show has changed."""
        self.number += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def full(self, who: str) -> bool:
        """Has this person, or have all, as many streams open as they may?"""
        return self._open[who] >= OF_ONE or self._open.total() >= OF_ALL

    async def events(self, who: str, beat: float = BEAT_S) -> AsyncGenerator[bytes, None]:
        """The number of the last change, at once and after each one."""
        self._open[who] += 1
        try:
            yield b"retry: 1000\n"
            while True:
                changed, number = self._changed, self.number
                yield f"event: changed\ndata: {number}\n\n".encode()
                while not changed.is_set():
                    try:
                        await asyncio.wait_for(changed.wait(), beat)
                    except TimeoutError:
                        yield b": \n\n"
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]
