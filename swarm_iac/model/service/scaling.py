"""By what does the number of replicas follow the load, within the range that the stack file gives?"""

from __future__ import annotations

from operator import not_
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator

from swarm_iac.model.base import Value
from swarm_iac.units import Seconds

#: What is measured. `gpu`: how busy its GPUs are, in percent; the others are totals over all replicas.
Measure = Literal["requests_per_replica", "gpu", "queue", "query"]


class Up(Value):
    """How replicas are added."""

    after: Seconds = Field(
        default=Seconds(30), description="Time since the last change, up or down, before replicas are added."
    )
    by: int | None = Field(default=None, ge=1, le=100_000, description="At most so many at once. Default: as many as needed.")


class Down(Value):
    """How replicas are taken away."""

    after: Seconds = Field(
        default=Seconds(300),
        description="Time since the last change, and for which the load has to be low, before replicas are taken away.",
    )
    by: int | None = Field(default=None, ge=1, le=100_000, description="At most so many at once. Default: as many as possible.")


def _number(value: Any) -> Any:
    """A number as YAML has it: a text, or true, is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected a number such as 40")
    return value


class Scaling(Value):
    """What the number of replicas follows."""

    on: Measure = Field(
        description="requests_per_replica: requests per second; gpu: percent of busy time; queue: waiting requests; query: "
        "what `query` gives. docs/autopilot.md has the rules that record the first and the third."
    )
    query: str = Field(
        default="",
        max_length=1000,
        exclude_if=not_,
        description="PromQL that gives one number: the total over all replicas, of which each is to have `target`.",
    )
    target: Annotated[float, BeforeValidator(_number), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})] = Field(
        gt=0, le=1e12, allow_inf_nan=False, description="How much of it each replica is to have."
    )
    up: Up = Field(default=Up(), description="How replicas are added.")
    down: Down = Field(default=Down(), description="How replicas are taken away.")
    tolerance: Annotated[float, BeforeValidator(_number), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 0.9})] = (
        Field(default=0.1, ge=0, le=0.9, description="Nothing changes while the load is within this part of the target.")
    )

    @field_validator("query")
    @classmethod
    def _one_line(cls, query: str) -> str:
        if query and (not query.isprintable() or not query.strip()):
            raise ValueError("a query is one line of printable characters")
        return query

    def __str__(self) -> str:
        return f"{self.on} {self.target:g}"
