"""Which keys does a stack file have, and what values do they take? The schema as Markdown: docs/stack-file.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from swarm_iac.cli import reference_prose
from swarm_iac.model.base import Account, Name
from swarm_iac.model.hardware import GPU_MEMORY
from swarm_iac.model.service.speed import Rate
from swarm_iac.price import Price
from swarm_iac.units import (
    BitsPerSecond,
    Bytes,
    BytesPerSecond,
    Cpus,
    Factor,
    GpuCount,
    Hertz,
    Iops,
    Quantity,
    Seconds,
    Watts,
)

_QUANTITIES: tuple[type[Quantity], ...] = (
    Bytes,
    BitsPerSecond,
    BytesPerSecond,
    Watts,
    Hertz,
    Seconds,
    Cpus,
    GpuCount,
    Iops,
    Factor,
)
_BY_EXAMPLE = {quantity.example: quantity for quantity in _QUANTITIES}
_NAMES = {get_args(Name)[1].pattern: "a name", get_args(Account)[1].pattern: "an account"}
_LEVELS = ("user", "team", "node", "cluster")
Schema = Mapping[str, Any]


def markdown(schema: Schema, defaults: Mapping[str, Mapping[str, Any]]) -> str:
    """The whole reference. `defaults`: policies/limits.yaml as data, by level and resource."""
    parts = [reference_prose.HEAD + _units(), "## Sections\n\n" + _table(schema)]
    for key, value in schema["properties"].items():
        if key != "fleet":
            parts.append("\n".join(_section(schema, key, value, defaults)))
    return "\n".join([*parts, reference_prose.TAIL])


def _section(schema: Schema, key: str, value: Schema, defaults: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"## `{key}`\n\n{value['description']}\n"
    if key == "limits":
        yield reference_prose.LIMITS % _ceilings(defaults)
    elif key in reference_prose.SECTIONS:
        yield reference_prose.SECTIONS[key]
    if key not in ("prices", "worth"):  # a plain value per name, described in its prose
        yield from _shape(schema, *_inner(schema, key, value), top=True)


def _inner(schema: Schema, path: str, value: Schema) -> tuple[str, Schema]:
    """Path and shape of a section's value, or of one entry where the section is a table by name."""
    of_each = next(iter(value.get("patternProperties", {}).values()), None) or value.get("additionalProperties")
    if of_each:
        return f"{path}.NAME", _resolved(schema, of_each)
    return path, _resolved(schema, value)


def _shape(schema: Schema, path: str, shape: Schema, *, top: bool = False) -> Iterator[str]:
    """The table of one shape, then those of the shapes in it. Equal shapes side by side are shown once."""
    if not top:
        yield f"### `{path}`\n\n{shape['description']}\n"
    elif path.endswith(".NAME"):
        yield f"Keys of one entry, `{path}`:\n"
    yield _table(shape)
    below: dict[str, list[str]] = {}
    for key, value in shape["properties"].items():
        reference = _reference(value)
        if reference:
            below.setdefault(reference, []).append(f"{path}.{key}" + ("[]" if value.get("type") == "array" else ""))
        elif entry := _reference(_entries(value)):
            below.setdefault(entry, []).append(f"{path}.{key}.KEY")
    for reference, paths in below.items():
        yield from _shape(schema, "`, `".join(paths), schema["$defs"][reference])


def _reference(value: Schema) -> str:
    """Name of the shape that a value is, or that each of its items is; empty for a plain value."""
    parts = [value, value.get("items", {}), *value.get("anyOf", ())]
    return next((part["$ref"].rpartition("/")[2] for part in parts if "$ref" in part), "")


def _entries(value: Schema) -> Schema:
    """What each entry of a table by name is."""
    found = next(iter(value.get("patternProperties", {}).values()), value.get("additionalProperties", {}))
    return found if isinstance(found, Mapping) else {}


def _resolved(schema: Schema, value: Schema) -> Schema:
    shape: Schema = schema["$defs"][_reference(value)]
    return shape


def _table(shape: Schema) -> str:
    """key | takes | default | meaning"""
    required = shape.get("required", ())
    rows = [("key", "takes", "default", "meaning"), ("---", "---", "---", "---")]
    for key, value in shape["properties"].items():
        default = "**required**" if key in required else _default(value.get("default"))
        rows.append((f"`{key}`", _takes(value), default, value["description"]))
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def _default(value: Any) -> str:
    """A default as it would be written in the file; a dash where it is nothing."""
    if isinstance(value, Mapping):
        if value.keys() == {"least", "most"}:
            return f"`{value['least']}`"
        return f"`{value['count']}`" if "count" in value else "-"
    if value is None or value in ("", [], 0, "0 B", "0 bit/s"):
        return "`false`" if value is False else "-"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _takes(value: Schema) -> str:
    """What may be written there, in words."""
    kinds = [part for part in value.get("anyOf", (value,)) if part.get("type") != "null"]
    examples = [example for part in kinds for example in part.get("examples", ())]
    if "8 x H100" in examples:
        plain = "GPUs: `2`, `8 x H100`, or `{count: 8, model: H100, memory: 80 GB}`"
        part = "; a part of one: `0.25 x H100`, or `{share: 0.25, memory: 80 GB}`; MIG instances: `2 x H100/1g.10gb`"
        return plain + part * ("0.25 x H100" in examples)
    if Rate.example in examples:
        return f"a rate in a unit of your own, as in `{Rate.example}`, or a number"
    quantity = next((_BY_EXAMPLE[example] for example in examples if example in _BY_EXAMPLE), None)
    if quantity:
        table = ", or a table, see below" if _reference(value) else ""
        ranges = "".join(f", or a range, `{example}`" for example in examples if ".." in example)
        return f"[{quantity.kind}](#units), as in `{quantity.example}`{ranges}{table}"
    if value.get("type") == "array":
        return (
            f"a list of {_takes(value['items']).partition(' ')[2] or 'text'}s"
            if "$ref" not in value["items"]
            else "a list, see below"
        )
    if _reference(value):
        words = ", ".join(_plain(part) for part in kinds if "enum" in part)
        return f"{words}, or a table, see below" if words else "a table, see below"
    return " or ".join(dict.fromkeys(_plain(part) for part in kinds))


def _plain(part: Schema) -> str:
    kind = part.get("type")
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        return ", ".join(f"`{choice}`" for choice in part["enum"])
    if kind == "integer":
        return "a whole number" + _range(part.get("minimum"), part.get("maximum"))
    if kind == "object":
        return "a table by name, see below" if _reference(_entries(part)) else "a table of names and values"
    if kind == "array" and part["items"].get("type") == "array":
        return "a list of lists"
    return "`true`, `false`" if kind == "boolean" else _text(part)


def _text(part: Schema) -> str:
    pattern = part.get("pattern", "")
    if part.get("format") == "date":
        return "a date, `2027-01-31`"
    if r"\.\." in pattern:
        return "a range, `2..6`"
    if "10.0.0.5" in part.get("examples", ()):
        return "an address or network"
    most = f" of at most {part['maxLength']:,} characters" if "maxLength" in part else ""
    return _NAMES.get(pattern) or f"text{most}"


def _range(least: int | None, most: int | None) -> str:
    if least is None:
        return ""
    return f", {least:,} to {most:,}" if most is not None else f", at least {least:,}"


def _units() -> str:
    """Every quantity with its units, from the types themselves."""
    rows = ["## Units\n", "Every quantity has a unit; only 0, vCPUs and GPUs are written without one. The space is optional.\n"]
    rows += ["| quantity | units | example |", "|---|---|---|"]
    for quantity in _QUANTITIES:
        units = ", ".join(f"`{unit}`" for unit in quantity.units if unit)
        also = ("none, or " if units else "none") if quantity.bare else ""
        rows.append(f"| {re.sub('^an? ', '', quantity.kind)} | {also}{units} | `{quantity.example}` |")
    rows.append(f"| {Price.kind.removeprefix('a ')} | a currency of three letters and `/h` | `{Price.example}` |")
    rows.append(
        "\n`kB` is 1000 bytes and `KiB` is 1024. `m` is a thousandth of a vCPU or GPU: `500m` is `0.5`. The value must be a"
    )
    rows.append("whole number of base units (bytes, bit/s, W, Hz, s, thousandths). The memory of known GPU models:")
    rows.append(", ".join(f"{model} {memory}" for model, memory in GPU_MEMORY.items()) + ".\n")
    return "\n".join(rows)


def _ceilings(defaults: Mapping[str, Mapping[str, Any]]) -> str:
    """The default ceilings as a table."""
    names = list(dict.fromkeys(name for level in _LEVELS for name in defaults.get(level, {})))
    rows = [["level", *names], ["---"] * (len(names) + 1)]
    rows += [[f"`{level}`", *(str(defaults.get(level, {}).get(name, "-")) for name in names)] for level in _LEVELS]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
