"""How does Prometheus read its text format 0.0.4? A parser from the format's description, which knows nothing of how we write it."""

from __future__ import annotations

from dataclasses import dataclass, field

_UNESCAPED = {"\\": "\\", "n": "\n", '"': '"'}


@dataclass
class Read:
    """All that a page says: kind and text of each family, and the value of each series."""

    kinds: dict[str, str] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    series: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)


def parse(text: str) -> Read:
    """The page. Raises ValueError for a line that is none, a series that comes twice, and a family that is torn apart."""
    found, done, now = Read(), set(), ""
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no end")
    for line in text.split("\n")[:-1]:
        if line.startswith("# "):
            kind, name, words = line[2:].split(" ", 2)
            into = {"HELP": found.helps, "TYPE": found.kinds}[kind]
            if name in into:
                raise ValueError(f"{kind} of {name} twice")
            into[name] = words
        else:
            name, labels, value = _series(line)
            key = (name, frozenset(labels))
            if key in found.series or len({one for one, _ in labels}) != len(labels):
                raise ValueError(f"{line!r} twice")
            found.series[key] = value
        if name != now:
            if name in done:
                raise ValueError(f"the lines of {name} do not stand together")
            done.add(now)
            now = name
    return found


def _series(line: str) -> tuple[str, list[tuple[str, str]], float]:
    name, labels, at = "", [], 0
    while at < len(line) and line[at] not in "{ ":
        at += 1
    name = line[:at]
    if not name.isascii() or not name.replace("_", "a").replace(":", "a").isalnum():
        raise ValueError(f"{name!r} is no name")
    if line[at : at + 1] == "{":
        at += 1
        while line[at] != "}":
            end = line.index("=", at)
            key, at = line[at:end], end + 2
            if line[end + 1] != '"':
                raise ValueError("no quote")
            value = ""
            while line[at] != '"':
                if line[at] == "\\":
                    value, at = value + _UNESCAPED[line[at + 1]], at + 2
                else:
                    value, at = value + line[at], at + 1
            labels.append((key, value))
            at += 1
            if line[at] == ",":
                at += 1
        at += 1
    if line[at] != " ":
        raise ValueError("no space before the value")
    return name, labels, float(line[at + 1 :])
