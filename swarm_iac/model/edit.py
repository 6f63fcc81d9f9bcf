"""What would a stack be with another value at one path?"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter

from swarm_iac.model.base import Value
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Replicas

_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")
#: Tables whose keys may contain dots; below them, the rest of a path is one key.
_FREE_KEYS = ("sysctl", "labels", "env", "select")
#: Tables whose values are words, also where one looks like a number.
_WORDS = ("labels", "env", "select", "tolerate")


class Edit(Value):
    """One value in place of another; None stands for nothing, which is the default."""

    path: str
    value: Any = None

    def __str__(self) -> str:
        """As it is typed: `limits.user.gpus=24`."""
        if isinstance(self.value, str) and not {*_WORDS}.isdisjoint(self.path.split(".")):
            return f"{self.path}={_typed(self.value)}"
        return f"{self.path}={as_yaml(self.value)}"


def as_yaml(value: object) -> str:
    """A value on one line, as in a stack file: `true`, `{over: rack, skew: 2}`; empty where there is none."""
    if isinstance(value, (bool, dict, list, tuple)):
        plain = list(value) if isinstance(value, tuple) else value
        return yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=math.inf).removesuffix("...\n").strip()
    return "" if value is None else str(value)


def _typed(value: str) -> str:
    """A text in quotes where YAML reads something else without: `"2025"`, `"*"`."""
    try:
        same = isinstance(yaml.safe_load(value), str)
    except yaml.YAMLError:
        same = False
    return value if same else json.dumps(value)


def steps_of(path: str) -> tuple[str | int, ...]:
    """`limits.except[0].gpus` to its steps. Raises ValueError where it is no path."""
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        if steps and steps[-1] in _FREE_KEYS:
            return (*steps, path[position:])
        match = _STEP.match(path, position)
        if not match:
            raise ValueError(f"{path!r} is no path")
        steps.append(match[1] if match[1] else int(match[2]))
        position = match.end()
        if path[position : position + 1] == ".":
            position += 1
            if position == len(path):
                raise ValueError(f"{path!r} is no path")
    return tuple(steps)


def changed(stack: Stack, edit: Edit) -> Stack:
    """The stack with the edit. Whether its names and requests still agree is for `stackfile` to say.

    Raises LookupError naming what the path does not find, ValueError for no path, and pydantic's ValidationError, whose
    locations begin below the section, for a value that does not fit.
    """
    section, *rest = steps_of(edit.path)
    if not isinstance(section, str) or section not in Stack.model_fields or section == "fleet":
        raise LookupError(str(section))
    if not rest:
        raise ValueError(f"{edit.path!r} is a whole section; name what in it is to change")
    current = getattr(stack, section)
    if isinstance(current, BaseModel):
        data = _plain(current)
        _put(data, rest, edit.value)
        return stack.model_copy(update={section: type(current).model_validate(data)})
    name = str(rest[0])
    entries = dict(current)
    if len(rest) > 1 or edit.value is None:
        if name not in entries:
            raise LookupError(name)
        entry = _plain(entries.pop(name))
    if len(rest) == 1 and edit.value is None:
        return stack.model_copy(update={section: entries})
    if len(rest) == 1:
        entry = {**edit.value, "name": name} if section == "nodes" and isinstance(edit.value, dict) else edit.value
    else:
        _put(entry, rest[1:], edit.value)
    table: Any = Stack.model_fields[section].annotation
    made = TypeAdapter(table).validate_python({name: entry})
    # The order of the file, which nothing else keeps, stays.
    order = dict.fromkeys((*current, name))
    return stack.model_copy(update={section: {key: (entries | made)[key] for key in order}})


def current(stack: Stack, path: str) -> str:
    """What stands at a path, as it is written in the file; empty for nothing. Raises LookupError, ValueError."""
    value: Any = stack
    for step in steps_of(path):
        if isinstance(value, BaseModel):
            named = {info.alias or name: name for name, info in type(value).model_fields.items()}
            if step not in named:
                raise LookupError(str(step))
            value = getattr(value, named[str(step)])
        elif isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(step, int) and step < len(value or ()):
            value = value[step]
        else:
            raise LookupError(str(step))
    if isinstance(value, Replicas):
        return str(value.least) if value.least == value.most else f"{value.least}..{value.most}"
    if (keys := _keys(value)) is not None:  # a whole table is too long for a line
        return f"{{{', '.join(sorted(keys))}: …}}" if keys else ""
    if isinstance(value, (dict, tuple)):
        return as_yaml(_written(value)) if value else ""
    return _typed(value) if isinstance(value, str) else as_yaml(value)


def _plain(value: Any) -> Any:
    """A value of the model as data that validates to itself; only what was given."""
    return value.model_dump(by_alias=True, exclude_unset=True) if isinstance(value, BaseModel) else value


def _keys(value: Any) -> set[str] | None:
    """The keys given of a table; None for what is written as one text, and for a table of texts."""
    if isinstance(value, dict):
        return {str(key) for key in value} if any(isinstance(one, BaseModel) for one in value.values()) else None
    text: Any = type(value).__str__
    return value.model_fields_set if isinstance(value, BaseModel) and text is BaseModel.__str__ else None


def _written(value: Any) -> Any:
    """Lists and tables of what YAML knows: units and names as text, numbers as numbers."""
    if isinstance(value, dict):
        return {str(key): _written(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(one) for one in value]
    return str(value) if isinstance(value, str) or value is None else yaml.safe_load(str(value))


def _put(data: Any, steps: list[str | int], value: Any) -> None:
    """Set the value below `data`, or take it away; tables on the way are made."""
    *way, last = steps
    for step in way:
        if isinstance(data, dict):
            if not isinstance(data.get(str(step)), dict | list | tuple):
                data[str(step)] = {}
            if isinstance(data[str(step)], tuple):
                data[str(step)] = list(data[str(step)])
            data = data[str(step)]
        elif isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            raise LookupError(str(step))
    if isinstance(data, list):
        if not isinstance(last, int) or last >= len(data):
            raise LookupError(str(last))
        if value is None:
            del data[last]
        else:
            data[last] = value
    elif value is None:
        data.pop(str(last), None)
    else:
        data[str(last)] = value
