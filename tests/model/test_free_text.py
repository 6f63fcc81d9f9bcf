"""Which values of a stack file may hold any text? Few, by name; every other is bound by a pattern, a choice or a unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from swarm_iac.model.base import Account, Name
from swarm_iac.model.settings import Tuning
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Run

#: Commands, variables and checks are run as their user with no shell; the others reach no node.
FREE = {
    "Run.command",
    "Run.env.*",
    "Run.healthy",
    "RunPart.command",
    "RunPart.env.*",
    "RunPart.healthy",
    "Scaling.query",
    "LimitException.reason",
    "Node.reason",
    "Node.labels.*",
    "Where.select.*",
    "Where.prefer.*",
}
HOSTILE = (
    "a; reboot",
    "$(reboot)",
    "`reboot`",
    "a\nb",
    "a b",
    "-rf",
    "../x",
    "a/b",
    "a%h",
    "a'b",
    'a"b',
    "A",
    "é",
    "a_b\n",
    "",
)


def texts(name: str, schema: dict[str, Any]) -> Iterator[str]:
    """Where plain text without a bound may stand, within one definition."""
    for key, value in schema.get("properties", {}).items():
        yield from _texts(f"{name}.{key}", value)


def _texts(at: str, schema: dict[str, Any]) -> Iterator[str]:
    for one in schema.get("anyOf", [schema]):
        if one.get("type") == "string" and not one.keys() & {"pattern", "enum", "const", "format", "examples"}:
            yield at
        if one.get("type") == "array" and isinstance(one.get("items"), dict):
            yield from _texts(f"{at}[]", one["items"])
        for inner in [one.get("additionalProperties"), *one.get("patternProperties", {}).values()]:
            if isinstance(inner, dict):
                yield from _texts(f"{at}.*", inner)


def test_text_without_a_bound_stands_only_where_it_may() -> None:
    schema = Stack.model_json_schema(by_alias=False)
    found = {at for name, one in [("Stack", schema), *schema["$defs"].items()] for at in texts(name, one)}
    assert {at for at in found if not at.startswith("Gpus")} == FREE


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("bound", [Name, Account])
def test_no_name_can_be_anything_but_a_name(bound: Any, text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(bound).validate_python(text)


@pytest.mark.parametrize("text", [text for text in HOSTILE if text not in ("A", "a/b")])
def test_no_name_of_a_variable_or_of_a_kernel_setting_can_be_anything_else(text: str) -> None:
    with pytest.raises(ValidationError):
        Run(command="x", env={text: "1"})
    with pytest.raises(ValidationError):
        Tuning(sysctl={text: "1"})


@pytest.mark.parametrize("text", ["|/bin/sh", "$(id)", "a\nb", "", ";", "/sbin/x"])
def test_no_value_of_a_kernel_setting_names_a_program(text: str) -> None:
    with pytest.raises(ValidationError):
        Tuning(sysctl={"kernel.core_pattern": text})
