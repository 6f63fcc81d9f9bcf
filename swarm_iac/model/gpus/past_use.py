"""What does a team's share count once it is known what the teams used before?

    counted_t = share_t / (1 + (use_t / Σ use) / (share_t / Σ share))       Σ: over the teams that are beside each other

A team that used nothing counts in full, one that used just its share a half, one that used twice as much a third. Slurm's
fair-share factor, 2^-(use / share), is about the same; a quotient is exact.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, ValidationError, field_validator

from swarm_iac.errors import SwarmError
from swarm_iac.model.base import Name, Value
from swarm_iac.model.device import WHOLE
from swarm_iac.units import Seconds

#: No team used more GPU-hours than this.
MOST = 10**12
HOUR, LONGEST = 3600, 10 * 365 * 86400

Hours = Annotated[int, Field(ge=0, le=MOST)]


class PastUse(Value):
    """What teams used up to a day, older hours counting less: each half as much as one a half-life later."""

    until: datetime.date = Field(description="Hours before this day (UTC) are counted.")
    half_life: Seconds = Field(
        default=Seconds(7 * 86400), description="An hour counts half as much as one that is so much later."
    )
    gpu_hours: dict[Name, Hours] = Field(
        default={}, description="GPU-hours of each team with the teams inside it, so counted; 0 if it is not named."
    )

    @field_validator("half_life")
    @classmethod
    def _some_time(cls, value: Seconds) -> Seconds:
        if not HOUR <= value <= LONGEST:
            raise ValueError("must be at least 1 h, and at most 10 years")
        return value


def life(text: str) -> Seconds:
    """A half-life as people write it: 7d, 12 h. Raises SwarmError."""
    try:
        return PastUse.model_validate({"until": "2000-01-01", "half_life": text}).half_life
    except ValidationError as error:
        words = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise SwarmError(f"--half-life {text[:40]!r}: {words}", hint="write 7 d or 12 h") from None


def counted(shares: Mapping[str, int], use: Mapping[str, int]) -> dict[str, int]:
    """What the share of each team counts, in thousandths, at least one: of teams that are beside each other."""
    whole, used = sum(shares.values()), sum(use.get(team, 0) for team in shares)
    found = {}
    for team, share in shares.items():
        parts = share * used + use.get(team, 0) * whole
        found[team] = max(1, (2 * WHOLE * share * share * used + parts) // (2 * parts)) if parts else WHOLE * share
    return found
