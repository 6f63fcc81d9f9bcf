"""How is a refusal of the shape shown to a person: where, what, and how to fix it?"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from swarm_iac.errors import Problem
from swarm_iac.model.gpus.mig import profile_names, profiles_of
from swarm_iac.model.hardware import Gpus, GpusField, memory_of
from swarm_iac.pluralize import pluralize
from swarm_iac.stackfile.reading.compose import describe
from swarm_iac.stackfile.reading.other_words import hint_for_key, hint_for_value
from swarm_iac.stackfile.reading.source import Document, Step, join
from swarm_iac.units import Seconds

_NAME_RULE = "a name has small letters, digits and single dashes, begins with a letter, and has at most 40 characters"
#: By the pattern that did not match: what the value should have been, and an example.
_PATTERNS = (
    ("^[a-z][a-z0-9]*(-", "is no name", _NAME_RULE),
    ("^[a-z_][a-z0-9_-]*$", "is no unix account", "an account has small letters, digits, _ and -, and begins with a letter"),
    ("^(local|", "is no address", "write user@host, user@host:port, or local"),
    ("^([a-z0-9.@_-]{1,15})", "is no network interface", "write its name, such as eth1"),
    ("^(/dev/", "is no disk", "write its device, such as /dev/nvme0n1"),
    ("^[A-Za-z_][A-Za-z0-9_]*$", "is no name of an environment variable", "use letters, digits and _, such as HF_HOME"),
    ("^[a-z0-9_]+([./]", "is no kernel setting", "write its full name, such as net.core.rmem_max"),
    ("^[A-Za-z0-9][A-Za-z0-9-]{0,31}", "is no GPU model", "write it as in the hardware's `gpus`, such as H100"),
    ("^[0-9a-f]{12}$", "is no digest", "`swarm solve` writes this file; do not edit it by hand"),
    ("^[A-Za-z0-9 ._-]+$", "is no value of a kernel setting", "use letters, digits, spaces, dots and dashes"),
)
_GPUS: TypeAdapter[Gpus] = TypeAdapter(GpusField)
#: A range of names as a shell and others write it.
_RANGE = re.compile(r"([a-z][a-z0-9-]*?)[\[{]?(\d+)(?:\.\.+|:)(?:\1)?(\d+)[\]}]?$")
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_EXPECTED = {
    "model_type": "expected keys with values",
    "model_attributes_type": "expected keys with values",
    "dict_type": "expected keys with values",
    "string_type": "expected text",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_parsing_size": "expected a smaller number",
    "finite_number": "expected a number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "tuple_type": "expected a list such as [a, b]",
    "list_type": "expected a list such as [a, b]",
    "date_type": "expected a date such as 2027-01-31",
    "date_parsing": "expected a date such as 2027-01-31",
    "date_from_datetime_parsing": "expected a date such as 2027-01-31",
    "datetime_parsing": "expected a moment such as 2027-01-31T08:00Z",
    "datetime_from_date_parsing": "expected a moment such as 2027-01-31T08:00Z",
    "date_from_datetime_inexact": "expected a date such as 2027-01-31, without a time",
}

#: By key, an entry of each table whose values are no tables.
_TABLES = {
    "gpus_by_model": ("H100", "8"),
    "prices": ("H100", "3.00 EUR/h"),
    "worth": ("H100", "2"),
    "speed": ("H100", "25 kTok/s"),
    "sysctl": ("net.core.somaxconn", "4096"),
    "links": ("paris", "100 Gbit/s"),
    "gpu_hours": ("research", "900"),
    "labels": ("pool", "research"),
    "taints": ("dedicated", "research"),
    "select": ("site", "berlin"),
    "prefer": ("rack", "r1"),
    "tolerate": ("dedicated", "research"),
    "away_from": ("rack", "[chat]"),
    "prefer_with": ("rack", "[cache]"),
    "only_with": ("rack", "[cache]"),
    "env": ("HF_HOME", "/cache"),
    "accounts": ("ada", "ada-lovelace"),
}
#: The names among these that no other word can replace.
_FIXED = ("H100", "net.core.somaxconn", "site", "rack", "HF_HOME")

#: So many mistakes of one file are told with what was probably meant: to compare every wrong name of a large file with
#: every right one takes minutes, and the first few tell what is wrong with the rest.
COMPARED = 50
#: So many of a file that a command writes.
_SHOWN = 10


def nearest(word: str, known: Iterable[str], what: str = "") -> str:
    """A hint naming what was probably meant, else what there is."""
    names = sorted(set(known))
    longer = [name for name in names if name.startswith(word)] if len(word) > 2 else []
    close = longer[:1] if len(longer) == 1 else get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if not names:
        return f"there are no {what} yet" if what else ""
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"{what or 'known'}: {listed}" if what else f"use one of {listed}"


def problem(document: Document, error: Mapping[str, Any], model: type[BaseModel], prefix: tuple[Step, ...] = ()) -> Problem:
    """One of pydantic's errors as a Problem. `prefix` is shown before the path (`limits` for the policy file)."""
    kind: str = error["type"]
    loc = tuple(step for step in error["loc"])
    of_key = bool(loc) and loc[-1] == "[key]"
    loc = loc[:-1] if of_key else loc
    found = document.find(loc)[1]
    # Beyond what the file holds there is only a missing key; the rest are pydantic's names for parts of a union.
    steps = loc if kind == "missing" else loc[:found]
    place = document.at(steps, key=of_key or kind == "extra_forbidden")
    message, hint = _words(kind, error, loc, model, str(loc[-1]) if of_key and loc else error["input"])
    if kind == "extra_forbidden":
        hint = _of_one(document, loc) or hint
    if found_out := re.match(r"(\S+ is no MIG profile of (\S+)); it has ", message):
        here = _profiles_here(document, found_out[2])
        message = f"{found_out[1]}; those of this fleet have {here}" if here else message
    return Problem(place, join(prefix + steps), message, hint)


def _of_one(document: Document, loc: tuple[Step, ...]) -> str:
    """A hint where limits of one team, or of one user, stand among those of each."""
    level, name = loc[:-1], str(loc[-1])[:60]
    teams = document.root.data.get("teams")
    teams = teams if isinstance(teams, dict) else {}
    if level == ("limits", "team") and name in teams:
        return f"`team` holds for each team; its own limits are `teams: {{{name}: {{limits: {{gpus: 32}}}}}}`"
    users = [team.get("users") for team in teams.values() if isinstance(team, dict)]
    if level == ("limits", "user") and any(name in some for some in users if isinstance(some, list)):
        other = f"`except: [{{user: {name}, gpus: 24, until: 2027-01-31, reason: paper}}]`"
        return f"`user` holds for each user; another value is {other}"
    return ""


def _profiles_here(document: Document, model: str) -> str:
    """The MIG profiles of the cards of this model that the file has, small ones first: a model has others by its memory."""
    hardware = document.root.data.get("hardware")
    names: set[str] = set()
    for one in hardware.values() if isinstance(hardware, dict) else ():
        try:
            gpus = _GPUS.validate_python(one.get("gpus", 0) if isinstance(one, dict) else 0)
        except ValidationError:  # told by itself
            continue
        if gpus.model == model and gpus.count:
            names.update(profiles_of(model, int(gpus.memory or memory_of(model))))
    return ", ".join(name for name in profile_names(model) if name in names)


def problems(document: Document, error: ValidationError, model: type[BaseModel]) -> tuple[Problem, ...]:
    """The first of pydantic's errors, for a file that people do not write: they generate it again, and need no list."""
    found = [problem(document, one, model) for one in error.errors(include_url=False)[:_SHOWN]]
    if error.error_count() > _SHOWN:
        last = found[-1]
        rest = error.error_count() - _SHOWN
        more = f"there {'is' if rest == 1 else 'are'} {pluralize(f'{rest:,}', 'more mistake')} in this file"
        found.append(Problem(replace(last.place, column=last.place.column + 1), "", more, "`swarm solve` writes it again"))
    return tuple(found)


def _words(kind: str, error: Mapping[str, Any], loc: tuple[Step, ...], model: type[BaseModel], given: Any) -> tuple[str, str]:
    """What is wrong, and a hint."""
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "extra_forbidden" and loc[-1] == "<<":
        words = (
            "merge keys (`<<`) are not read",
            "write the keys out, or give the entry an anchor and use it whole: `each: *small`",
        )
    elif kind == "extra_forbidden":
        words = f"the key {str(loc[-1])[:60]!r} is not known here", _known(str(loc[-1]), model, loc[:-1])
    elif kind == "missing":
        words = _missing(model, loc)
    elif given is None:
        words = "there is no value", "write one, or delete the key"
    elif kind == "quantity":
        words = str(context["reason"]), _unit(str(context["reason"]))
    elif kind == "value_error":
        reason = str(context.get("error", error["msg"]))
        words = _too_many_gpus(reason), _moment(str(given)) if " is no moment" in reason else ""
    elif kind in _BOUNDS:
        words = f"must be {_BOUNDS[kind][0]} {context[_BOUNDS[kind][1]]}, and is {given}", ""
    elif kind == "string_pattern_mismatch":
        words = _pattern(str(context["pattern"]), given)
    else:
        words = _text(kind, context, loc, given) or _type(kind, model, loc, given)
    return words


def _known(key: str, model: type[BaseModel], loc: tuple[Step, ...]) -> str:
    """The nearest key of this mapping, else of one inside of it, else all there are."""
    keys = known_keys(model, loc)
    if meant := hint_for_key(loc, key):
        return meant
    if not get_close_matches(key, keys, n=1, cutoff=0.6):
        for inner in keys:
            close = get_close_matches(key, known_keys(model, (*loc, inner)), n=1, cutoff=0.7)
            if close:
                return f"did you mean {close[0]!r} inside of {inner!r}?"
    return nearest(key, keys)


def _unit(reason: str) -> str:
    """A hint where the unit is nearly right: `gb` for GB, bytes for a bandwidth or bits for a disk, 12:00:00 for a duration."""
    clock = re.match(r"'([0-9:-]+)' is not a duration", reason)
    if clock and (seconds := _clock(clock[1])):
        return f"write {Seconds(seconds)}"
    match = re.match(r"'([^']+)' is no unit of (.*); use one of (.*)", reason)
    if not match:
        return ""
    unit, kind, units = match[1], match[2], match[3].split(", ")
    if kind == "a bandwidth" and re.fullmatch(r"[kMGT]?B(/s)?", unit):
        return "a bandwidth counts bits: 1 GB/s is 8 Gbit/s"
    # Not `gb/s`: whoever writes all small means GB/s.
    if kind == "a throughput" and (bits := re.fullmatch(r"([kMGT]?)(?:bits?(?:/s|ps)?|bps|b/s)", unit)) and unit != "b/s":
        size = bits[1].replace("T", "G")
        return f"a throughput counts bytes: 8 {size}bit/s is 1 {size}B/s"
    same = [known for known in units if known.lower() == unit.lower()]
    return f"did you mean {same[0]!r}?" if same else _close(unit, units)


def _too_many_gpus(reason: str) -> str:
    """The same reason; of a number of GPUs that is only too large, that it is, as pydantic says of smaller ones."""
    number = re.match(r"'\s*([1-9][0-9]{4,})(\s*x\s*[A-Za-z0-9][^']*)?' is no number of GPUs", reason)
    most = next(one.le for one in Gpus.model_fields["count"].metadata if hasattr(one, "le"))
    return f"must be at most {most} GPUs, and is {number[1][:20]}" if number else reason


def _clock(text: str) -> int:
    """A time as Slurm writes it: min:sec, hours:min:sec, days-hours, days-hours:min, days-hours:min:sec. 0: it is none. [s]"""
    if found := re.fullmatch(r"([0-9]{1,3})-([0-9]{1,3})(?::([0-9]{2}))?(?::([0-9]{2}))?", text):
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    if found := re.fullmatch(r"(?:([0-9]{1,3}):)?([0-9]{1,3}):([0-9]{2})", text):
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return hours * 3600 + minutes * 60 + seconds
    return 0


def _text(kind: str, context: Mapping[str, Any], loc: tuple[Step, ...], given: Any) -> tuple[str, str] | None:
    """Refusals of text, and of what should be text."""
    if kind == "literal_error" and loc[-2:-1] in (("nvlink",), ("pcie",)):
        return _links(given)
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", str(context["expected"]))
        meant = hint_for_value(str(given), known) or _close(str(given), known)
        return f"{describe(given)} is not one of {', '.join(known)}", meant
    if kind == "string_too_long":
        return f"is longer than {context['max_length']} characters", "shorten it"
    if kind == "string_too_short":
        return "is empty", "write something, or delete the key"
    if kind == "string_type" and isinstance(given, (bool, int, float)):
        return f"expected text, found {describe(given)}", f'put it in quotes: "{str(given).lower()[:30]}"'
    return None


def _links(given: Any) -> tuple[str, str]:
    """Of the two that a value of `links` may be, pydantic names the word alone."""
    flat = isinstance(given, list) and 1 < len(given) <= 16 and all(type(one) is int and one >= 0 for one in given)
    groups = json.dumps([given]) if flat else "[[0, 1], [2, 3]]"
    what = json.dumps(given, default=str)[:40] if isinstance(given, list) else describe(given)
    hint = f"write a list of lists of their numbers, as in {groups}"
    return f"{what} is neither groups of GPUs nor `all`", _close(str(given), ["all"]) or hint


def _moment(given: str) -> str:
    """A hint where a day or a duration stands for a moment."""
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", given):
        return f"as the day begins: {given}T00:00Z"
    if found := re.fullmatch(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)", given):
        return f"say of which zone: {found[1]}T{found[2]}Z is UTC, {found[1]}T{found[2]}+01:00 is an hour ahead of it"
    if re.fullmatch(r"[0-9]+ *[a-z]+", given):
        return f'a file has no "from now on"; `swarm drain NODE --by "{given}"` writes the moment'
    return ""


def _pattern(pattern: str, given: Any) -> tuple[str, str]:
    for start, message, hint in _PATTERNS:
        if pattern.startswith(start):
            ends = _RANGE.match(str(given)[:100]) if hint is _NAME_RULE else None
            return f"{_quoted(given)} {message}", f"a range is written {ends[1]}[{ends[2]}-{ends[3]}]" if ends else hint
    return f"{_quoted(given)} does not fit", f"it must match {pattern}"


def _type(kind: str, model: type[BaseModel], loc: tuple[Step, ...], given: Any) -> tuple[str, str]:
    hint = ""
    if kind == "string_type" and isinstance(given, list) and loc[-1] == "command":
        hint = f"write one line, split as a shell does: {shlex.join(map(str, given))[:60]}"
    elif loc[-2:] == ("gpus", "count") and isinstance(given, float):
        hint = f"a part of one GPU is `share: {given}`" if 0 < given < 1 else "whole GPUs, or `share: 0.25` for a part of one"
    elif kind in ("model_type", "model_attributes_type") and loc[-1:] == ("run",) and given and isinstance(given, (str, list)):
        line = given if isinstance(given, str) else shlex.join(map(str, given))
        hint = f"write {{command: {json.dumps(line[:60], ensure_ascii=False)}}}"
    elif kind in ("model_type", "model_attributes_type"):
        keys = known_keys(model, loc)
        hint = f"its keys are {', '.join(keys[:12])}" if keys else ""
    elif kind == "dict_type" and loc[-1] in ("away_from", "prefer_with", "only_with") and isinstance(given, str):
        hint = f"write a list: [{given[:40]}]"
    elif kind == "dict_type":
        hint = _table(str(loc[-1]) if loc else "", given)
    return f"{_EXPECTED.get(kind, 'this value does not fit')}, found {describe(given)}", hint


def _table(key: str, given: Any) -> str:
    """A hint where a table is wanted: of values an example, with the name that is given where it is one."""
    if key not in _TABLES:
        return "write `name: {…}` for each"
    name, value = _TABLES[key]
    first = given[0] if isinstance(given, list) and given else given
    if isinstance(first, str) and name not in _FIXED and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", first[:40]):
        name = first[:40]
    return f"write a table, as in {{{name}: {value}}}"


def _missing(model: type[BaseModel], loc: tuple[Step, ...]) -> tuple[str, str]:
    owner = _owner(model, loc[:-1])
    key = str(loc[-1])
    info = owner.model_fields.get(key) if owner else None
    return f"the key {key!r} is missing", f"{key}: {info.description}" if info and info.description else ""


def _close(word: str, words: list[str]) -> str:
    close = get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else ""


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text[:60]) + ("…" if len(text) > 60 else "")


def known_keys(model: type[BaseModel], loc: tuple[Step, ...]) -> list[str]:
    """The keys that the mapping at `loc` may have, as they are written in the file."""
    owner = _owner(model, loc)
    return [info.alias or name for name, info in owner.model_fields.items()] if owner else []


def _owner(model: type[BaseModel], loc: tuple[Step, ...]) -> type[BaseModel] | None:
    """The model that describes the mapping at `loc`."""
    current: Any = model
    for step in loc:
        if isinstance(current, type) and issubclass(current, BaseModel):
            fields = {info.alias or name: info for name, info in current.model_fields.items()}
            if step not in fields:
                return None
            current = fields[str(step)].annotation
        else:  # a dict or tuple: its values' type
            arguments = [a for a in getattr(current, "__args__", ()) if a is not Ellipsis]
            current = arguments[-1] if arguments else None
        current = _inner(current)
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _inner(annotation: Any) -> Any:
    """The model inside of Annotated[…] and of `… | None`."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    for argument in getattr(annotation, "__args__", ()):
        if type(None) in annotation.__args__ and argument is not type(None):
            return _inner(argument)
    return annotation
