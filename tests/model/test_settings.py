"""Can a part of a node's setting be forgotten? Each is left out in turn, and what is missing is named."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path

import pytest

from swarm_iac.model import settings
from swarm_iac.model.settings import HELD, KERNEL, SettingsState, Tuning

SOURCE = Path(settings.__file__).read_text(encoding="utf-8")


def _fields(tree: ast.Module, name: str) -> dict[str, ast.AnnAssign]:
    """The fields of a class of the module, as written."""
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    lines = [line for line in found.body if isinstance(line, ast.AnnAssign)]
    return {line.target.id: line for line in lines if isinstance(line.target, ast.Name)}


def _load(tree: ast.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("bent_settings")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(ast.unparse(tree), "bent_settings.py", "exec"), module.__dict__)


def test_the_module_as_it_is_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(ast.parse(SOURCE), monkeypatch)
    assert {*HELD, *KERNEL} < Tuning.model_fields.keys()


@pytest.mark.parametrize("key", [*HELD, *KERNEL])
def test_a_key_that_does_not_say_how_it_is_held_is_named(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse(SOURCE)
    line = _fields(tree, "Tuning")[key]
    assert isinstance(line.annotation, ast.Subscript) and isinstance(line.annotation.slice, ast.Tuple)
    line.annotation = line.annotation.slice.elts[0]
    with pytest.raises(AssertionError, match=f"'{key}'"):
        _load(tree, monkeypatch)


@pytest.mark.parametrize("field", sorted(SettingsState.model_fields.keys() - {"sysctl"}))
def test_a_field_that_a_key_is_held_in_is_never_missing(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse(SOURCE)
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "SettingsState")
    found.body.remove(_fields(tree, "SettingsState")[field])
    with pytest.raises(AssertionError, match=f"'{field}'"):
        _load(tree, monkeypatch)


@pytest.mark.parametrize("key", [key for key, held in HELD.items() if held.read is not str])
def test_a_unit_that_is_not_read_is_named(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse(SOURCE)
    line = _fields(tree, "Tuning")[key]
    for call in (node for node in ast.walk(line) if isinstance(node, ast.Call)):
        call.keywords = [one for one in call.keywords if one.arg != "read"]
    with pytest.raises(AssertionError, match=f"'{key}'"):
        _load(tree, monkeypatch)
