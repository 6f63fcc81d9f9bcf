"""How are values converted between Python and the engine?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from swarm_iac.errors import Refused

#: What the engine sends in a preview for a value that is not known yet.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

Row = tuple[str, str]
Rows = dict[Row, dict[str, Any]]


def plain(value: Any) -> Any:
    """`value` as it looks after a round trip through the engine: text keys, whole numbers as int, no None in mappings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def to_struct(value: Mapping[str, Any]) -> Struct:
    """`value` as the engine takes it."""
    struct = Struct()
    json_format.ParseDict(plain(value), struct)
    return struct


def from_struct(struct: Struct) -> dict[str, Any]:
    """What the engine sent. Every number arrives as a float, so 20.0 becomes 20 again."""
    with understood("a value of the call"):
        value: dict[str, Any] = plain(json_format.MessageToDict(struct))
    return value


@contextlib.contextmanager
def understood(what: str) -> Iterator[None]:
    """Converts any error of reading malformed input into Refused. `what`: name of the input."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, json_format.Error) as error:
        words = " ".join(str(error).split())[:300] or type(error).__name__
        raise Refused(
            f"{what} cannot be read: {words}",
            hint="inputs come from the program, the rest from the state: `pulumi stack export` shows it",
        ) from None


def from_views(views: Iterable[Any]) -> Rows:
    """The rows of the state, by kind and name."""
    return {(view.type.rsplit(":", 1)[-1], view.name): from_struct(view.outputs) for view in views}
