"""Is each place of the walk needed: does a test say so by name when one is left out? (docs/architecture.md, *A resource*)

Each place of each row of the table is taken out of a copy of the repository, and the tests beside this file are run there.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from swarm_iac.model.resources.row import Enforced, Resource
from swarm_iac.model.resources.table import RESOURCES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TABLE, CASES = Path("swarm_iac/model/resources/table.py"), Path("tests/model/test_resource.py")
WISH, MACHINE = Path("swarm_iac/model/workload.py"), Path("swarm_iac/model/hardware.py")
STATE, CONCERNS = Path("swarm_iac/model/state.py"), Path("playbooks/module_utils/swarm_node/concerns")
OF_CONCERNS = Path("tests/node/test_concerns.py")
#: Section of AllocationState → its class, and the concern of a node that keeps it.
KEPT = {
    "gpus": ("AllocationState", "devices"), "slice": ("SliceState", "slices"), "scratch": ("DirectoryState", "directories"),
    "cache": ("DirectoryState", "directories"), "bandwidth": ("BandwidthState", "traffic"),
}  # fmt: skip
#: The classes of a workload's sections.
SECTIONS = {"each": "Each", "each.io": "DiskIo", "network": "Network"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and the tests of its model."""
    to = tmp_path_factory.mktemp("walk")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "swarm_iac", to / "swarm_iac", ignore=skip)
    shutil.copytree(ROOT / "playbooks", to / "playbooks", ignore=skip)
    for tests in ("model", "node"):
        shutil.copytree(ROOT / "tests" / tests, to / "tests" / tests, ignore=skip)
    (to / "tests" / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", to)
    return to


def without(text: str, nodes: Sequence[ast.expr | ast.stmt | ast.keyword], what: str) -> str:
    """The text without these pieces of it, each with the comma behind it."""
    assert nodes, what
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    for node in nodes:
        assert node.end_lineno is not None and node.end_col_offset is not None
        first, last = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        text = text[:first] + re.sub(r"\A\s*,", "", text[last:])
    return text


def row_of(tree: ast.Module, name: str) -> list[ast.expr | ast.stmt]:
    """The row of the table."""
    calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "Resource")
    return [one for one in calls if isinstance(one.args[2], ast.Constant) and one.args[2].value == name]


def field_of(tree: ast.Module, owner: str, name: str) -> list[ast.expr | ast.stmt]:
    """A field of a class."""
    (found,) = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == owner)
    return [one for one in found.body if isinstance(one, ast.AnnAssign) and getattr(one.target, "id", "") == name]


def case_of(text: str, name: str) -> str:
    """The text without the case of a row."""
    first = text.index(f'    "{name}": {{\n')
    return text[:first] + text[text.index("\n    },\n", first) + len("\n    },\n") :]


def mutants(row: Resource) -> Iterator[tuple[Path, str]]:
    """Each file of the walk, without the row's place in it."""
    for path in (TABLE, *(() if row.itself else (WISH,)), *([MACHINE] if row.capacity else ())):
        text, tree = (ROOT / path).read_text(), ast.parse((ROOT / path).read_text())
        if path == TABLE:
            yield path, without(text, row_of(tree, row.name), row.name)
        elif path == WISH:
            section, _, key = row.key.rpartition(".")
            yield path, without(text, field_of(tree, SECTIONS[section], key), row.key)
        elif row.capacity:
            yield path, without(text, field_of(tree, "Hardware", row.capacity.key), row.capacity.key)
    yield CASES, case_of((ROOT / CASES).read_text(), row.name)


def enforced_mutants(row: Resource, how: Enforced) -> Iterator[tuple[Path, str]]:
    """What the walk adds for a resource that nodes enforce: how they do, where the state says it, and who keeps it there."""
    text = (ROOT / TABLE).read_text()
    (call,) = row_of(ast.parse(text), row.name)
    assert isinstance(call, ast.Call)
    yield TABLE, without(text, [one for one in call.keywords if one.arg == "enforced"], row.name)
    for path in filter(None, (*how.at, how.ceiling)):
        section, _, key = path.partition(".")
        owner, concern = KEPT[section]
        text = (ROOT / STATE).read_text()
        yield STATE, without(text, field_of(ast.parse(text), owner, key or section), path)
        module = CONCERNS / f"{concern}.py"
        yield module, re.sub(rf"(['\"]){key or section}\1", r"\1other\1", (ROOT / module).read_text())


def told(copy: Path) -> tuple[int, str]:
    """How the tests of the table end, and the names of those that fail."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", str(CASES), str(OF_CONCERNS)]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_the_copy_is_well(copy: Path) -> None:
    code, said = told(copy)
    assert code == 0, said


@pytest.mark.parametrize("name", [row.name for row in RESOURCES])
def test_a_place_that_is_left_out_fails_by_name(name: str, copy: Path) -> None:
    row = next(row for row in RESOURCES if row.name == name)
    paths = (*row.enforced.at, row.enforced.ceiling) if row.enforced else ()
    keys = [path.rpartition(".")[2] for path in paths if path]
    for path, text in (*mutants(row), *(enforced_mutants(row, row.enforced) if row.enforced else ())):
        assert text != (ROOT / path).read_text(), path
        (copy / path).write_text(text)
        code, said = told(copy)
        (copy / path).write_text((ROOT / path).read_text())
        assert code != 0, path
        named = re.findall(r"^(?:FAILED|ERROR) \S*test_(?:resource|concerns)\.py\S*", said, re.MULTILINE)
        ends = (f"[{name}]", "test_every_row_has_a_case_and_every_size_a_row", *(f"{key}]" for key in keys))
        assert any(one.endswith(ends) for one in named), (path, said)
