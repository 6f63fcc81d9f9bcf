"""Which characters of someone else's words reach a terminal? All but those that steer it, or turn the order of reading.

And no password that is part of an address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: C0 without tab and line end, DEL and C1, what separates lines or turns them, and halves of characters.
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb]")

_USER = re.compile("(://[^:/@\\s\"']*):[^\\s\"']*@")
_OPTION = re.compile("([?&](?:ssl)?password=)[^&\\s\"']+")


def printable(text: str, most: int = 0) -> str:
    """`text` with such characters written as `\\x1b` or `\\u202e`; `most`: cut after so many, if any. [characters]"""
    if not text.isprintable():
        text = _STEERS.sub(_shown, text.replace("\r\n", "\n"))
    return f"{text[:most]} …" if most and len(text) > most else text


def printable_all(value: Any) -> Any:
    """The same for every text in a value as JSON has them, keys too."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable_all(key): printable_all(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable_all(each) for each in value]
    return value


def without_passwords(text: str) -> str:
    """`text` with `***` for the password in an address such as postgres://user:password@host/name."""
    return _OPTION.sub(r"\1***", _USER.sub(r"\1:***@", text))


def _shown(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
