"""Is this a text that a YAML parser may be shown?

Everything here is decided before parsing, so that a huge or foreign file is refused at once and in plain words.
"""

from __future__ import annotations

import re
from pathlib import Path

from swarm_iac.errors import Place, Problem, StackFileError

#: A fleet of 2,000 nodes and 3,000 workloads needs about 500 kB, and 100,000 workloads 6 to 10 MB.
MAX_BYTES = 16_000_000

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONFLICT = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
_TABBED = re.compile(r"^ *\t", re.MULTILINE)


def read(path: Path, file: str, most: int = MAX_BYTES) -> bytes:
    """The file's bytes. Raises StackFileError when it cannot be read or is larger than `most`."""
    try:
        size = path.stat().st_size
        if size > most:
            raise StackFileError((_too_large(size, file, most),))
        with path.open("rb") as stream:
            return stream.read(most + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StackFileError((Problem(Place(file, 1, 1), "", f"cannot be read: {reason}", _near(path)),)) from None


def decode(raw: bytes | str, file: str, most: int = MAX_BYTES) -> str:
    """UTF-8 bytes to text without control characters. Raises StackFileError."""
    if len(raw) > most:
        raise StackFileError((_too_large(len(raw), file, most),))
    if isinstance(raw, str):
        text = raw
    else:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise StackFileError((_not_utf8(raw, error.start, file),)) from None
    found = _FORBIDDEN.search(text)
    if found:
        place = place_at(text, found.start(), file)
        message = f"the character U+{ord(found[0]):04X} may not stand in a stack file"
        raise StackFileError((Problem(place, "", message, "it cannot be seen in most editors; delete it"),))
    return text


def place_at(text: str, offset: int, file: str) -> Place:
    """The line and column of a character's offset."""
    return Place(file, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def tabs(text: str, file: str, last_line: int) -> tuple[Problem, ...]:
    """One problem for each line up to `last_line` that is indented with a tab; at most ten."""
    problems: list[Problem] = []
    for found in _TABBED.finditer(text):
        place = place_at(text, found.end() - 1, file)
        if place.line > last_line or len(problems) == 10:
            break
        problems.append(Problem(place, "", "a tab is used for indentation", "YAML allows only spaces there; use two per level"))
    return tuple(problems)


def conflicts(text: str, file: str) -> tuple[Problem, ...]:
    """One problem for each mark that git leaves where two branches change the same lines."""
    hint = "choose what stands between the marks, then delete them"
    return tuple(
        Problem(place_at(text, found.start(), file), "", "git left a conflict here", hint) for found in _CONFLICT.finditer(text)
    )[:10]


def _too_large(size: int, file: str, most: int) -> Problem:
    message = f"the file is too large: {size:,} bytes, and at most {most:,} are read"
    return Problem(Place(file, 1, 1), "", message, "write ranges such as gpu-[001-500] in place of one entry a node")


def _not_utf8(raw: bytes, offset: int, file: str) -> Problem:
    line = raw.count(b"\n", 0, offset) + 1
    column = offset - raw.rfind(b"\n", 0, offset)
    message = f"byte {offset} (0x{raw[offset]:02x}) is not UTF-8"
    known = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}.get(raw[:2])
    hint = f"the file is {known}; save it as UTF-8" if known else "save the file as UTF-8"
    return Problem(Place(file, line, column), "", message, hint)


def _near(path: Path) -> str:
    try:
        others = sorted(p.name for p in path.parent.glob("*.yaml") if not p.name.endswith((".lock.yaml", ".proof.yaml")))
    except OSError:
        others = []
    return f"there are {', '.join(others[:5])} in {path.parent}" if others else ""
