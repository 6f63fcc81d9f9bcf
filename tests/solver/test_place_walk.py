"""Is each place of the walk needed, and each value of a rule tested? (docs/architecture.md, *A rule of placement*)

Each is left out of a copy of the repository, or changed there, and the tests of the rules are run on it.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.model.place.groups import GroupRule
from swarm_iac.model.place.where import GROUP_RULES
from swarm_iac.solver.snapshot.suitability import FIT, NodeRule

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
WHERE, GROUPS = Path("swarm_iac/model/place/where.py"), Path("swarm_iac/model/place/groups.py")
SUITABILITY = Path("swarm_iac/solver/snapshot/suitability.py")
REQUESTS = Path("swarm_iac/limits/requests.py")
JUDGED, TOLD = Path("tests/limits/test_rules.py"), Path("tests/solver/test_place.py")
#: What is said where a row of the table is wrong in itself.
AT_IMPORT = "each key of `place` has a rule"
#: Told by more than these tests look at: a NUMA node is looked at by `limits` and by tests of its own.
NODE_ROWS = [one for one in FIT if one.path == "place.select"]
Mutant = tuple[str, Path, str]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, and the tests of the rules."""
    to = tmp_path_factory.mktemp("walk")
    skip = shutil.ignore_patterns("__pycache__")
    for folder in ("swarm_iac", "tests/limits", "tests/solver"):
        shutil.copytree(ROOT / folder, to / folder, ignore=skip)
    for file in ("tests/__init__.py", "tests/sized.py", "pyproject.toml"):
        shutil.copy(ROOT / file, to / file)
    return to


def failing(copy: Path, path: Path, text: str) -> str:
    """What the tests say with another text of this file; empty where they pass."""
    (copy / path).write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-rfE", str(JUDGED), str(TOLD)]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    (copy / path).write_text((ROOT / path).read_text())
    return ended.stdout + ended.stderr if ended.returncode else ""


def read(path: Path) -> str:
    """The file as it is."""
    return (ROOT / path).read_text()


def pieces(text: str, node: ast.AST) -> tuple[int, int]:
    """Where a piece of the text begins and ends."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    assert isinstance(node, (ast.expr, ast.stmt, ast.keyword)) and node.end_lineno and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def replaced(text: str, node: ast.AST, by: str) -> str:
    """The text with something else there; nothing takes the comma along."""
    first, last = pieces(text.encode().decode("latin-1"), node)
    raw = text.encode()
    rest = raw[last:] if by else re.sub(rb"\A\s*,", b"", raw[last:])
    return (raw[:first] + by.encode() + rest).decode()


def row_of(rule: GroupRule | NodeRule) -> tuple[Path, ast.Call]:
    """The row of the table, and its file."""
    path, kind = (GROUPS, "GroupRule") if isinstance(rule, GroupRule) else (SUITABILITY, "NodeRule")
    name = rule.rule if isinstance(rule, GroupRule) else rule.name
    calls = (
        one for one in ast.walk(ast.parse(read(path))) if isinstance(one, ast.Call) and getattr(one.func, "id", "") == kind
    )
    named = {
        ast.unparse(word.value).strip("'"): call for call in calls for word in call.keywords if word.arg in ("rule", "fits")
    }
    return path, named[name]


def changed(word: ast.keyword) -> str:
    """Another value of the same kind."""
    if isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
        return f'{word.arg}="other{word.value.value}"'
    if isinstance(word.value, ast.Constant) and isinstance(word.value.value, bool):
        return f"{word.arg}={not word.value.value}"
    if isinstance(word.value, ast.Constant):
        return f"{word.arg}={int(str(word.value.value)) + 1}"
    if isinstance(word.value, ast.Tuple):
        return f"{word.arg}={tuple(f'other {ast.literal_eval(one)}' for one in word.value.elts)}"
    return f"{word.arg}=lambda *_: True" if word.arg == "fits" else f'{word.arg}=lambda *_: "other"'


def mutants(rule: GroupRule | NodeRule) -> Iterator[Mutant]:
    """The places of the walk, each without the rule; then each value of its row, changed."""
    name = rule.rule if isinstance(rule, GroupRule) else rule.name
    path, row = row_of(rule)
    if isinstance(rule, GroupRule):
        # What reads a value of another form stays.
        row_of_key = re.search(rf"    {rule.key}: Annotated\[(.*?), [A-Z_]+\] = ", read(WHERE))
        assert row_of_key is not None, rule.key
        kind = f"Annotated[{row_of_key[1]}]" if "(" in row_of_key[1] else row_of_key[1]
        yield "its row", WHERE, read(WHERE).replace(row_of_key[0], f"    {rule.key}: {kind} = ")
    else:
        yield "its row", path, replaced(read(path), row, "")
    yield "its rule in limits", REQUESTS, re.sub(rf"^    {rule.judged},\n", "", read(REQUESTS), flags=re.MULTILINE)
    cases = re.sub(rf'^    \("{rule.judged}", .*\n', "", read(JUDGED), flags=re.MULTILINE)
    yield (
        "its case in limits",
        JUDGED,
        re.sub(rf'^    \(\n        "{rule.judged}",\n(        .*\n)*    \),\n', "", cases, flags=re.M),
    )
    first = read(TOLD).index(f'    "{name}": [')
    last = read(TOLD).index("\n    ],\n", first) + len("\n    ],\n")
    yield "its case", TOLD, read(TOLD)[:first] + read(TOLD)[last:]
    for word in row.keywords:
        yield f"its {word.arg}", path, replaced(read(path), word, changed(word))


RULES = {one.rule: one for one in GROUP_RULES} | {one.name: one for one in NODE_ROWS}


def test_the_copy_is_well(copy: Path) -> None:
    assert failing(copy, TOLD, read(TOLD)) == ""


@pytest.mark.parametrize("name", RULES)
def test_what_is_left_out_or_changed_fails_by_name(name: str, copy: Path) -> None:
    for what, path, text in mutants(RULES[name]):
        assert text != read(path) and ast.parse(text), what
        said = failing(copy, path, text)
        assert AT_IMPORT in said or re.search(r"^(FAILED|ERROR) tests/(limits/test_rules|solver/test_place)", said, re.M), (
            what,
            said,
        )
