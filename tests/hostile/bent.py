"""How is a valid input bent into a hostile one? Valid data of the border's own shape, one to four places of it changed.

Random bytes are refused at the first character and try nothing behind it; what was valid up to one place reaches far.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

#: `make test-full` tries all cases of a property, others each time; `make test` the same few.
_FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
#: What steers a terminal or turns the order of reading, as it must never reach one.
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def cases(full: int, few: int) -> settings:
    """So many cases in the long run, the same few each time in the short one."""
    return settings(
        max_examples=full if _FULL else few,
        derandomize=not _FULL,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )


def repository(folder: Path) -> Path:
    """A fleet repository with the sandbox's stack file."""
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    shutil.copy(Path(__file__).parents[2] / "stacks" / "dev.yaml", folder / "stacks")
    return folder


def harmless(text: str) -> None:
    """Nothing in it steers a terminal."""
    found = STEERS.search(text)
    assert not found, repr(text[max(0, found.start() - 80) : found.end() + 80])


@dataclass(frozen=True)
class Raw:
    """Text that stands in the file as it is, where a value should."""

    text: str


#: Texts that try to be more than text, in names and values.
WORDS = (
    "", " ", "a", "chat-0", "chat-9", "chat", "gpu-03", "nobody-0", "-1", "../../etc/passwd", "a/b", "²", "x-²", "x-٣", "x-00", "é", "💥",
    "\x1b[2J\x1b]52;c;cm0=\x07", "\x9b31m", "\u202egpj", "\u2028", "\r", "\n", "a\nb", "\t", "\x00", "[red]x[/]", "{{ 7 * 7 }}", "| a | b |",
    "%n%s", "${HOME}", "null", "true", "x" * 41, "y" * 5000, "0-3,8", "3-1", "0-99999", "9" * 30, "1 GB", "-1 GB", "1e9 GB", "nan", "inf",
    "2027-01-31", "2027-02-31", "9999-12-31T23:59+14:00", "secret:a/../b", "__class__", "__ansible_unsafe", "SWARM_X", "gpu-[01-99]",
)  # fmt: skip
#: Numbers beside the ones that a machine has.
NUMBERS = (0, 1, -1, 2, 7, 255, 4096, 65536, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63) + 1, 10**17, 0.5, -0.0, 1e-300, 1e17)
KINDS = (
    "kin",
    "kin",
    "kin",
    "kin",
    "swap",
    "swap",
    "value",
    "value",
    "drop",
    "key",
    "twice",
    "twice",
    "wrap",
    "text",
    "add",
    "large",
)
PLAIN: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [{}],
    {"": ""},
    {"a": {"b": []}},
    [None],
    ["a"],
    [0, 0],
    *NUMBERS,
    *WORDS,
)


def _deep(times: int) -> Any:
    value: Any = 1
    for number in range(times):
        value = [value] if number % 2 else {"a": value}
    return value


LARGE: tuple[Any, ...] = (_deep(10), _deep(30), _deep(60), list(range(2000)), ["x"] * 3000, {f"k{n}": n for n in range(500)})
#: What only JSON's writing can hold. Half a character, no number, more than one value under a key, no end.
RAW_JSON = tuple(
    Raw(text)
    for text in (
        "NaN", "-Infinity", "1e999", "1" + "0" * 400, "1" + "0" * 5000, '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '{"a":1,"a":2}',
        "[" * 200 + "]" * 200, "[" * 100_000, '{"a":' * 2000 + "1" + "}" * 2000, "", "}", "'a'", "0x10", "01", "\ufeff1", '"a', "undefined",
    )
)  # fmt: skip
#: The same of YAML.
RAW_YAML = tuple(
    Raw(text)
    for text in (
        "~", ".nan", "-.inf", "1e999", "9" * 30, "0x1f", "0o17", "01", "1_000", "yes", "2027-01-31", "'a'", '"\\e[2J"', '"\\x9b31m"', '"\\u202e"',
        '"\\ud800"', '"\\0"', "*none", "&a [*a]", "&a 1", "!!int x", "!!python/object/apply:os.system [id]", "!x 1", "{a: 1, a: 2}", "? [a]\n: 1",
        "|\n  x", "<<: 1", "[" * 200 + "]" * 200, "[" * 30 + "]" * 30, "}", "]", "\t", "\x1b", "\u2028", "\ufeff", "%", "@", "`", "---\n", "# c",
        "{" * 60, '"a', "- - - -",
    )
)  # fmt: skip


@st.composite
def bent(draw: st.DrawFn, valid: Any, more: tuple[Any, ...] = ()) -> Any:
    """`valid` with one to four changes; `more`: further values to put in (Raw ones want `as_json` or `as_yaml`)."""
    value = valid
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3, 4)))):
        value = _changed(draw, value, more)
    return value


def _changed(draw: st.DrawFn, value: Any, more: tuple[Any, ...]) -> Any:
    places = list(_places(value, ()))
    place = draw(st.sampled_from(places))
    kind = draw(st.sampled_from(KINDS))
    if not place:
        return draw(st.sampled_from((*PLAIN, *more))) if kind == "value" and draw(st.booleans()) else value
    old, owner, step = _at(value, place), _at(value, place[:-1]), place[-1]
    fresh: Any = draw(st.sampled_from(LARGE if kind == "large" else (*PLAIN, *more)))
    if kind == "drop":
        return _with(value, place, drop=True)
    if kind in ("key", "twice") and isinstance(step, str):
        name = draw(st.sampled_from((*WORDS, *_names(value))))
        others = {name if key == step else key: each for key, each in owner.items()}
        return _with(value, place[:-1], {**owner, name: old} if kind == "twice" else others)
    if kind == "twice":
        place, fresh = place[:-1], [*owner[:step], *[old] * draw(st.integers(2, 5)), *owner[step:]]
    elif kind == "kin":
        fresh = _kin(draw, old, value)
    elif kind == "swap":
        fresh = _at(value, draw(st.sampled_from(places)))
    elif kind == "wrap":
        fresh = draw(st.sampled_from(([old], {"a": old}, [old, old], {str(old)[:40]: old})))
    elif kind == "text" and isinstance(old, str):
        at = draw(st.integers(0, len(old)))
        fresh = old[:at] + draw(st.sampled_from(WORDS)) + old[at + draw(st.integers(0, 2)) :]
    elif kind == "add" and isinstance(old, dict):
        place = (*place, draw(st.sampled_from(WORDS)))
    return _with(value, place, fresh)


def _kin(draw: st.DrawFn, old: Any, whole: Any) -> Any:
    """Another value of the same type: it is read, and what follows has to judge it."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, (int, float)):
        return draw(st.sampled_from(NUMBERS))
    if isinstance(old, str):
        return draw(st.sampled_from((*_texts(whole), *WORDS)))
    if isinstance(old, list):
        kin = [_kin(draw, each, whole) for each in old] or [draw(st.sampled_from(NUMBERS))]
        return draw(st.sampled_from(([*old, *kin], kin, old[:-1], [*old, *old], [])))
    if isinstance(old, dict) and old:
        others = [_at(whole, place) for place in _places(whole, ()) if isinstance(_at(whole, place), dict)]
        return {**old, **draw(st.sampled_from(others))}
    return draw(st.sampled_from(PLAIN))


def _texts(value: Any) -> list[str]:
    return sorted({each for place in _places(value, ()) if isinstance(each := _at(value, place), str)} | set(_names(value)))


def _places(value: Any, at: tuple[Any, ...]) -> Any:
    yield at
    if isinstance(value, dict) and len(value) < 300:
        for key, each in value.items():
            yield from _places(each, (*at, key)) if len(at) < 12 else ()
    elif isinstance(value, list) and len(value) < 300:
        for number, each in enumerate(value):
            yield from _places(each, (*at, number)) if len(at) < 12 else ()


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def _with(value: Any, place: tuple[Any, ...], fresh: Any = None, *, drop: bool = False) -> Any:
    """A copy with another value there; nothing is shared that is changed."""
    if not place:
        return fresh
    step, rest = place[0], place[1:]
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[step] = _with(copy[step], rest, fresh, drop=drop)
    elif drop:
        del copy[step]
    else:
        copy[step] = fresh
    return copy


def _names(value: Any) -> list[str]:
    return sorted({step for place in _places(value, ()) for step in place if isinstance(step, str)})


def as_json(value: Any) -> str:
    """JSON text, with what is Raw as it stands."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {as_json(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_json, value)) + "]"
    return json.dumps(value)


def as_yaml(value: Any, depth: int = 0) -> str:
    """YAML text, block style above and flow style below, as people write it."""
    if isinstance(value, dict) and value and depth < 2:
        lines = []
        for key, each in value.items():
            inner = as_yaml(each, depth + 1)
            lines.append(f"{'  ' * depth}{_key(key)}:{inner if inner.startswith(chr(10)) else ' ' + inner}")
        return ("\n" if depth else "") + "\n".join(lines)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {as_yaml(each, 9)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(as_yaml(each, 9) for each in value) + "]"
    return as_json(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[a-z][a-z0-9_-]*", key) else json.dumps(key)


@st.composite
def torn(draw: st.DrawFn, text: str, tokens: tuple[str, ...] = tuple(one.text for one in RAW_YAML)) -> bytes:
    """A file's own text, changed as editors, merges and bad disks do."""
    raw = text.encode(errors="surrogatepass")
    for _ in range(draw(st.integers(1, 3))):
        lines = raw.split(b"\n")
        at = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(("flip", "drop", "again", "value", "insert", "cut", "indent", "move")))
        if kind == "flip" and raw:
            spot = draw(st.integers(0, len(raw) - 1))
            raw = raw[:spot] + bytes([raw[spot] ^ (1 << draw(st.integers(0, 7)))]) + raw[spot + 1 :]
            continue
        if kind == "cut":
            raw = raw[: draw(st.integers(0, len(raw)))]
            continue
        token = draw(st.sampled_from(tokens)).encode()
        if kind == "drop":
            del lines[at]
        elif kind == "again":
            lines.insert(draw(st.integers(0, len(lines))), lines[at])
        elif kind == "value":
            lines[at] = lines[at].partition(b":")[0] + b": " + token
        elif kind == "insert":
            spot = draw(st.integers(0, len(lines[at])))
            lines[at] = lines[at][:spot] + token + lines[at][spot:]
        elif kind == "indent":
            lines[at] = b" " * draw(st.integers(0, 8)) + lines[at].lstrip()
        else:
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        raw = b"\n".join(lines)
    return raw
