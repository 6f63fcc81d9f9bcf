"""What do all values of the model have in common? They are frozen, closed, and equal by content."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)

#: Names reach paths, unit names and cgroups, so they are bound tightly.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=40)]
#: A unix account.
Account = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]*$", max_length=32)]

#: More CPUs than any kernel counts, and more cards than any machine holds: what is above is no number of one.
CPUS, CARDS = 1 << 16, 1 << 12
#: Number of a card on its machine, and of a CPU or NUMA node.
Card = Annotated[int, Field(ge=0, lt=CARDS)]
Core = Annotated[int, Field(ge=0, lt=CPUS)]

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})")


def _read_moment(value: Any) -> Any:
    """pydantic alone would take a number for seconds since 1970.

    A moment at either end of the calendar has no name in another zone.
    """
    year = value.year if isinstance(value, datetime.datetime) else 0
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        year = int(value[:4])
    if 1970 <= year <= 9000:
        return value
    raise ValueError(f"{str(value)[:40]!r} is no moment; write it with its zone, such as 2027-01-31T08:00Z")


#: A moment with its zone: two operators may sit in two zones.
Moment = Annotated[
    AwareDatetime,
    BeforeValidator(_read_moment),
    WithJsonSchema({"type": "string", "pattern": f"^{_MOMENT.pattern}$", "examples": ["2027-01-31T08:00Z"]}),
]


#: A network with fewer bits than that is almost every machine there is.
_LEAST_BITS = 8


def _network(text: str) -> str:
    """An address or a network in its shortest form. Raises ValueError for what is none, or is everybody."""
    try:
        found = ipaddress.ip_network(text, strict=True)
    except ValueError:
        words = "write 10.0.0.5, 10.1.0.0/16 or fd00:1::/64, without bits of a host"
        raise ValueError(f"{text[:60]!r} is no address or network; {words}") from None
    if found.prefixlen < _LEAST_BITS:
        raise ValueError(f"{text[:60]!r} is almost every machine there is; name those that are meant")
    return str(found.network_address) if found.num_addresses == 1 else str(found)


#: An address, or a network.
Network = Annotated[
    str, AfterValidator(_network), WithJsonSchema({"type": "string", "maxLength": 60, "examples": ["10.0.0.5"]})
]

#: Key → its name in former versions, under which files and states are still read.
FORMER = {"renamed_from": "formerly", "reason": "why"}


def with_former(key: str) -> Callable[[Any], Any]:
    """For a validator before all others: a mapping that has the key under its former name alone, with its present one."""
    old = FORMER[key]

    def renamed(data: Any) -> Any:
        if isinstance(data, Mapping) and old in data and key not in data:
            return {key if name == old else name: value for name, value in data.items()}
        return data

    return renamed


class Value(BaseModel):
    """A frozen value with no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Itself: pydantic copies a default that holds a table for every value made, and a frozen one needs no copy."""
        return self


def value_at(value: Value, path: str) -> Any:
    """The value at `section.key`, however deep, or `section`; None if a section is absent."""
    section, _, key = path.partition(".")
    part = getattr(value, section)
    if not key or part is None:
        return part
    return value_at(part, key) if "." in key else getattr(part, key)


_Some = TypeVar("_Some", bound=Value)


def with_value(value: _Some, path: str, other: object) -> _Some:
    """The same with another value at `section.key`, however deep; no section of it may be absent."""
    section, _, key = path.partition(".")
    part = with_value(getattr(value, section), key, other) if key else other
    return value.model_copy(update={section: part})


def with_values(value: _Some, values: Mapping[str, Any]) -> _Some:
    """The same with others at these paths."""
    update: dict[str, Any] = {}
    for path, other in values.items():
        section, _, key = path.partition(".")
        part = update.get(section, getattr(value, section))
        update[section] = part.model_copy(update={key: other}) if key and part is not None else part if key else other
    return value.model_copy(update=update)
