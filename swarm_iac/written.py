"""How does a value that people write as text get into a model, and out of it again?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

T = TypeVar("T")


def reading(parse: Callable[[Any], T]) -> Callable[[Any], T]:
    """The same for pydantic: what `parse` says in its ValueError is the whole message."""

    def validate(value: Any) -> T:
        try:
            return parse(value)
        except ValueError as error:
            raise PydanticCustomError("quantity", "{reason}", {"reason": str(error)}) from None

    return validate


def as_text(parse: Callable[[Any], Any]) -> CoreSchema:
    """The schema of what is read by `parse`, and written by `str`."""
    return core_schema.no_info_plain_validator_function(
        reading(parse), serialization=core_schema.plain_serializer_function_ser_schema(str)
    )
