"""Who of ours keeps the cards open beside a step? The sampler; a card that is to be cut has to be let go of first."""

from __future__ import annotations

import contextlib
from typing import Iterator

from .run import Context

SAMPLER = "swarm-sampler.service"


@contextlib.contextmanager
def released(context: Context) -> Iterator[None]:
    """Nobody of ours has a card open meanwhile; the sampler's values are absent for that while."""
    if context.check or context.ledger.get("telemetry") is None:
        yield
        return
    context.act(["systemctl", "stop", SAMPLER], timeout=60, ok=(0, 5))
    try:
        yield
    finally:
        # It is not waited for: what is measured holds up nothing.
        context.act(["systemctl", "start", "--no-block", SAMPLER], ok=(0, 5))
