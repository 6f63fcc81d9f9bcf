"""Is what a hint says to write right? Each snippet of each hint, put where it belongs, is read without a mistake."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from swarm_iac.stackfile.reading import other_words
from swarm_iac.stackfile.reading.messages import known_keys
from swarm_iac.stackfile.reading.shape import StackFile

STACK: dict[str, Any] = {
    "fleet": "lab",
    "teams": {"x": {"users": ["ada"]}},
    "limits": {},
    "hardware": {"x": {"vcpus": 8, "memory": "64 GB"}},
    "nodes": {"x": {"hardware": "x"}},
    "workloads": {"x": {"user": "ada"}},
}
#: Anything that some hint belongs to: where the word stood, or beside it.
PLACES = (
    "",
    "limits",
    "solve",
    "teams.x",
    "hardware.x",
    "nodes.x",
    "workloads.x",
    "workloads.x.each",
    "workloads.x.run",
    "workloads.x.place",
)
HINTS = sorted({hint for table in other_words._KEY.values() for hint in table.values()})


def snippets(hint: str) -> list[Any]:
    """What the hint shows as YAML; a word alone is the name of a key, and names of places follow an anchor in one document."""
    found = re.findall(r"`([^`]*)`", hint)
    return [yaml.safe_load(one) for one in found if ": " in one and "*small" not in one and "&small" not in one]


def with_it(place: str, snippet: dict[str, Any]) -> dict[str, Any]:
    stack: dict[str, Any] = yaml.safe_load(yaml.safe_dump(STACK))
    at = stack
    for step in place.split(".") if place else ():
        at = at.setdefault(step, {})
    at.update(snippet)
    if place.endswith("run"):
        at.setdefault("command", "x")
    if place == "workloads.x" and "scale" in snippet:
        at["replicas"] = "2..6"
    return stack


def is_read(place: str, snippet: dict[str, Any]) -> bool:
    try:
        StackFile.model_validate(with_it(place, snippet))
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("hint", HINTS)
def test_what_a_hint_shows_can_be_written(hint: str) -> None:
    for snippet in snippets(hint):
        assert isinstance(snippet, dict), snippet
        assert any(is_read(place, snippet) for place in PLACES), snippet


def test_no_key_of_ours_is_taken_for_a_word_of_others() -> None:
    for path, table in other_words._KEY.items():
        ours = known_keys(StackFile, tuple(path.split(".")) if path else ())
        assert ours, path
        assert not {key.replace("_", "") for key in ours} & table.keys(), path


@pytest.mark.parametrize(
    ("known", "word", "said"),
    [
        (["train", "serve", "batch"], "Interactive", "write `serve`"),
        (["low", "normal", "high"], "best-effort", "write `low`"),
        (["ready", "cordon", "drain", "lost"], "DOWN", "a machine that is off for sure is `lost`"),
        (["node", "rack", "site"], "interactive", ""),
    ],
)
def test_values_of_others(known: list[str], word: str, said: str) -> None:
    hint = other_words.hint_for_value(word, known)
    assert hint.startswith(said) and bool(hint) == bool(said)
