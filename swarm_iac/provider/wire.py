"""How do values cross between Python and the engine?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

#: What the engine sends in a preview in place of a value that is not known yet.
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
    value: dict[str, Any] = plain(json_format.MessageToDict(struct))
    return value


def from_views(views: Iterable[Any]) -> Rows:
    """The rows that the state holds, by kind and name."""
    return {(view.type.rsplit(":", 1)[-1], view.name): from_struct(view.outputs) for view in views}
