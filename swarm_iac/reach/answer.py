"""What may a node answer? JSON within bounds; anything else is no answer, and is so of this node alone."""

from __future__ import annotations

import json
import re
from typing import Any

#: Of one answer: its size, how deep values lie within values, how many there are, and how large a number is.
MOST = 4 << 20
_DEPTH, _VALUES, _LARGEST = 32, 200_000, 1 << 63
#: Of one list or mapping the entries, of one text the characters: each entry may become a line of a plan, and steps.
#: The kernel takes no variable of a program that is longer.
_ENTRIES, _CHARACTERS = 10_000, 1 << 18
#: How JSON writes half of a character, or half of a pair that is one.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def decode(answer: bytes, most: int = MOST) -> Any:
    """The value of an answer. Raises ValueError saying which bound it breaks, or that it is no JSON."""
    if len(answer) > most:
        raise ValueError(f"the node's answer is larger than {most >> 20} MiB")
    text = answer.decode(errors="replace")
    try:
        value = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("the node's answer is nested too deep") from None
    except ValueError:
        raise ValueError(f"the node's answer is not JSON: {text[:200]!r}") from None
    _check(value)
    return _whole(value) if _HALF.search(text) else value


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _check(value: Any) -> None:
    """Level by level: a deep value would end a function that calls itself."""
    level, count = [value], 0
    for _ in range(_DEPTH):
        below: list[Any] = []
        for each in level:
            if isinstance(each, (dict, list)) and len(each) > _ENTRIES:
                raise ValueError(f"the node's answer holds a list of more than {_ENTRIES:,} entries")
            if isinstance(each, dict):
                below += each
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, str):
                if len(each) > _CHARACTERS:
                    raise ValueError(f"the node's answer holds a text of more than {_CHARACTERS >> 10} Ki characters")
            elif isinstance(each, (int, float)) and not -_LARGEST < each < _LARGEST:
                raise ValueError("the node's answer holds a number that is none of a machine's")
        count += len(level)
        if count + len(below) > _VALUES:
            raise ValueError("the node's answer holds too many values")
        if not below:
            return
        level = below
    raise ValueError("the node's answer is nested too deep")


def _whole(value: Any) -> Any:
    """Replaces each lone surrogate: it would raise an error wherever it is written."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(each) for key, each in value.items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value
