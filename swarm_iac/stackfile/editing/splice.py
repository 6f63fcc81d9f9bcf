"""How is one key of a YAML mapping set or taken away in the text itself, so that no other character changes?

What is written is found by the parser's marks; comments, order, quotes and spaces around it are nobody's business here.
The caller reads the result again, so a form that nobody thought of is found out and never kept.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

#: Text that means itself without quotes, in flow style too.
_PLAIN = re.compile(r"[A-Za-z/_(](?:[A-Za-z0-9 ./_()+-]*[A-Za-z0-9./_()+-])?")
_WORDS = ("null", "true", "false", "yes", "no", "on", "off")
_COMMA = re.compile(r"\s*,")
_ANCHOR = re.compile(r"\s*:\s*&")
#: Spaces up to what follows, unless that is a comment, which needs one before it.
_GAP = re.compile(r" +(?![ #])")


def put(text: str, path: tuple[str, ...], key: str, value: str) -> str:
    """Set a key of the mapping at `path` to a text that is YAML already; a new one comes last. Raises LookupError."""
    mapping = _mapping(text, path)
    known = next((each for name, each in mapping.value if name.value == key), None)
    if known is not None:
        return text[: known.start_mark.index] + value + text[_end(known) :]
    if mapping.flow_style:
        at = _end(mapping.value[-1][1]) if mapping.value else mapping.start_mark.index + 1
        return f"{text[:at]}{', ' if mapping.value else ''}{key}: {value}{text[at:]}"
    newline = "\r\n" if "\r\n" in text else "\n"
    name, last = mapping.value[-1]
    at = _line_end(text, max(_end(last), name.end_mark.index))  # what an alias stands for was written further up
    gap = "" if text[:at].endswith("\n") else newline
    return f"{text[:at]}{gap}{' ' * mapping.value[0][0].start_mark.column}{key}: {value}{newline}{text[at:]}"


def drop(text: str, path: tuple[str, ...], key: str) -> str:
    """Take a key away: its lines in block style, with one of the commas around it in flow style. Raises LookupError."""
    mapping = _mapping(text, path)
    number = next((i for i, (name, _) in enumerate(mapping.value) if name.value == key), None)
    if number is None:
        raise LookupError(key)
    name, value = mapping.value[number]
    start, end = name.start_mark.index, _end(value)
    if not mapping.flow_style:
        return text[: _line_start(text, start)] + text[_line_end(text, end) :]
    behind = _COMMA.match(text, end)
    if behind:
        end = behind.end()
        end = gap.end() if (gap := _GAP.match(text, end)) else end
    alone = not text[_line_start(text, start) : start].strip()
    if not alone and (not behind or text[end : end + 1] in (" ", "\r", "\n")):
        start = len(text[:start].rstrip(" "))
    if alone and text[end : _line_end(text, end)].strip()[:1] in ("", "#"):  # a line of its own goes with its comment
        start, end = _line_start(text, start), _line_end(text, end)
    text = text[:start] + text[end:]
    before = None if behind or not number else _COMMA.match(text, _end(mapping.value[number - 1][1]))
    return text[: before.start()] + text[before.end() :] if before else text


def keys(text: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the mapping at `path`, in the order of the file. Raises LookupError."""
    return tuple(name.value for name, _ in _mapping(text, path).value)


def scalar(text: str) -> str:
    """A text as YAML, in quotes where it would mean something else without."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _mapping(text: str, path: tuple[str, ...]) -> Any:
    """The mapping that is written at `path` itself, and not somewhere else under an anchor."""
    node: Any = yaml.compose(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for step in path:
        found = next(((name, value) for name, value in node.value if name.value == step), None)
        if found is None or not isinstance(found[1], yaml.MappingNode):
            raise LookupError(step)
        name, node = found
        between = text[name.end_mark.index : node.start_mark.index + 1]
        if node.start_mark.index < name.end_mark.index or _ANCHOR.match(between):
            raise LookupError(step)
    return node


def _end(node: Any) -> int:
    """Behind the last character of a value. The parser's own mark of a block lies behind comments and empty lines."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    """Behind the newline that ends this line; a value of several lines has taken its own along."""
    if index and text[index - 1] == "\n":
        return index
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1
