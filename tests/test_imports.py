"""Does the import picture hold: no circle, no folder too large, no two modules or classes of one name where one would say it?

`lint-imports` holds the layers; this holds what it has no contract for.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "swarm_iac"
MOST = 15
#: Classes of one name, and why.
SAME_CLASSES = {
    "Problem": "a mistake in a file; a problem of linear programming",
}


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of ours that this one imports: anywhere, also within functions, but not for types alone."""

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            yield child
            yield from walk(child)

    found: set[str] = set()
    for node in walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                f"{node.module}.{each.name}" if f"{node.module}.{each.name}" in known else node.module for each in node.names
            }
    return (found & known.keys()) - {name}


def circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """Groups of modules that reach each other (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = set()
            while name not in group:
                group.add(stack.pop())
            if len(group) > 1:
                found.append(frozenset(group))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {name: imported(name, path, known) for name, path in known.items()}
    assert sum(map(len, graph.values())) > 1000, "the imports were found"
    assert circles(graph) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [frozenset({"b", "c"})]


def test_no_folder_has_more_modules_than_one_can_look_over() -> None:
    counts = {folder: len(list(folder.glob("*.py"))) for folder in (PACKAGE, *PACKAGE.rglob("*")) if folder.is_dir()}
    assert {str(folder): count for folder, count in counts.items() if count > MOST} == {}


def test_no_two_modules_below_one_package_have_one_name() -> None:
    """`cli/engine.py` and `cli/commands/engine.py`: a newcomer opens the wrong one first."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, path in modules().items():
        package, *rest = name.removeprefix("swarm_iac.").split(".")
        if rest and path.stem not in ("__init__", "__main__"):
            found[package, path.stem].append(name)
        elif len(rest) == 1 and not path.with_name(f"{rest[0]}.py").exists():
            found[package, rest[0]].append(name)  # a package beside modules; one named after its main module is fine
    assert {key: names for key, names in found.items() if len(names) > 1} == {}


def test_classes_of_one_name_have_a_reason() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    twice = {key: names for key, names in found.items() if len(names) > 1}
    assert {key: names for key, names in twice.items() if key not in SAME_CLASSES} == {}
    assert SAME_CLASSES.keys() <= twice.keys(), "no reason outlives its classes"
