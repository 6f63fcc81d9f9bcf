"""What keeps new work off a node, unless the work tolerates it?

As taints of Kubernetes with the effect NoSchedule: what runs there already stays.
"""

from __future__ import annotations

from operator import not_
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, StringConstraints, field_validator
from pydantic_core import CoreSchema

from swarm_iac.model.base import Name, Value

_WORD = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
#: Tolerates any value of a key.
ANY = "*"
#: The value of a taint, and what a workload tolerates.
TaintValue = Annotated[str, StringConstraints(pattern=rf"^{_WORD}$")]
Tolerated = Annotated[str, StringConstraints(pattern=rf"^({_WORD}|\*)$")]


class Taint(Value):
    """Keeps new work off the node, unless the work tolerates it. With `teams` only work of these may."""

    value: TaintValue = Field(description="Its value, which `place.tolerate` repeats.")
    teams: tuple[Name, ...] = Field(
        default=(),
        exclude_if=not_,
        description="Who may tolerate it: these teams and those inside them. Without the key: all.",
    )

    @field_validator("teams")
    @classmethod
    def _somebody(cls, teams: tuple[Name, ...]) -> tuple[Name, ...]:
        if not teams:  # who takes the last name out of the list would open the node to everybody
            raise ValueError("no team is named; name one, or leave `teams` out if everybody may tolerate the taint")
        return teams

    def admits(self, teams: tuple[str, ...]) -> bool:
        """May workloads of a user in these teams, one inside the other, tolerate it?"""
        return not self.teams or not {*self.teams}.isdisjoint(teams)


def read_taint(value: Any) -> Any:
    """`research` is the value; else what Taint takes."""
    return value if isinstance(value, (Taint, dict)) else {"value": value}


class _OrValue:
    """Lets the schema take the value alone, too."""

    def __get_pydantic_json_schema__(self, source: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(source), {"type": "string", "pattern": f"^{_WORD}$"}]}


TaintField = Annotated[Taint, BeforeValidator(read_taint), _OrValue()]
