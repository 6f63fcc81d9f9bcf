"""When may idle nodes be powered off, and how many stay on?

The terms are those of Slurm's power saving (SuspendTime, ResumeTimeout, SuspendTimeout, and the count of SuspendExcNodes).
"""

from __future__ import annotations

from pydantic import Field, field_validator

from swarm_iac.model.base import Value
from swarm_iac.units import Seconds


class PowerSaving(Value):
    """Nodes that name it are powered off while nothing is placed there, and on again when something is."""

    suspend_time: Seconds = Field(
        default=Seconds(900), description="A node without work for so long is powered off; it is also on for at least so long."
    )
    keep: int = Field(default=0, ge=0, le=100_000, description="At least so many of these nodes stay powered on.")
    resume_timeout: Seconds = Field(
        default=Seconds(600), description="A node that does not answer so long after it was powered on has failed."
    )
    suspend_timeout: Seconds = Field(
        default=Seconds(120), description="A node that is on so long after it was to be powered off stays on."
    )
    retry: Seconds = Field(
        default=Seconds(3600), description="A node that failed to power on is tried again after so long, if it is needed."
    )

    @field_validator("suspend_time", "resume_timeout", "suspend_timeout", "retry")
    @classmethod
    def _some_time(cls, value: Seconds) -> Seconds:
        if value < 1:
            raise ValueError("must be at least 1 s")
        return value
