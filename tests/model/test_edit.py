"""Is what stands at a path said as it is written in a stack file, whatever it is?"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from swarm_iac.model.edit import Edit, changed, current
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import load

ROOT = Path(__file__).parents[2]
#: 05 is refused on purpose.
STACKS = [path for path in sorted(ROOT.glob("examples/*/stack.yaml")) if not path.parent.name.startswith("05-")]
STACKS += [path for path in sorted(ROOT.glob("tests/cli/why/*.yaml")) if "." not in path.stem]


def paths(value: Any, at: str) -> Iterator[str]:
    """Each path below a value, and its own."""
    if isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            yield from paths(getattr(value, name), f"{at}.{info.alias or name}")
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from paths(one, f"{at}.{key}")
    yield at


@pytest.mark.parametrize("file", STACKS, ids=lambda path: path.parent.name if path.stem == "stack" else path.stem)
def test_every_value_is_yaml_and_none_is_python(file: Path) -> None:
    stack = load(file, today=datetime.date(2026, 11, 1)).stack
    for section in ("hardware", "nodes", "limits", "teams", "tuning", "racks", "sites", "workloads", "solve"):
        for path in paths(getattr(stack, section), section):
            if path == section:
                continue
            text = current(stack, path)
            assert not any(one in text for one in ("(", "None", "=", "True", "False")) or _given(file, text), f"{path}: {text}"
            if not text.endswith("…}"):
                yaml.safe_load(text)


def _given(file: Path, text: str) -> bool:
    """Is it a command, or a condition, that stands in the file?"""
    return text in " ".join(file.read_text().split())


def test_what_is_said_can_be_typed_back() -> None:
    file = ROOT / "tests/cli/why/two-stores-apart.yaml"
    stack: Stack = load(file, today=datetime.date(2026, 11, 1)).stack
    for path in ("workloads.mirror.place.away_from.node", "workloads.mirror.place.away_from", "teams.product.users"):
        back = yaml.safe_load(current(stack, path))
        assert changed(stack, Edit(path=path, value=back)) == stack, current(stack, path)
