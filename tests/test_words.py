"""Does the product speak the field's language? Words and phrases of its own that the field has a word for are kept out.

Checked: the prose of all pages, every `--help`, and the text that code shows (string literals with a space). Output quoted in a
page is text of the package that writes it. Docstrings are checked, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from swarm_iac.cli.application import application

ROOT = Path(__file__).resolve().parents[1]
#: What is not written, and what is.
WORDS = {
    r"mend(s|ed|ing)?": "fix, apply, reconcile",
    r"whoever": "anyone who, a user",
    r"(is|are|was|were|be|been) told": "is shown",
    r"map of the house": "code map",
    r"rooms?": "free capacity; packages",
    r"(find|finds|make|makes|made) room": "fits; frees capacity",
    r"wish(es|ed)?": "request",
    r"detours?": "temporary placement",
    r"giv(es?|en|ing) (\w+ )?back": "destroy, release, restore",
    r"(go|goes|went) dark|dark (node|machine)s?": "unreachable",
    r"promis(e|es|ed|ing)": "availability, guarantee",
    r"setbacks?": "rollout failure",
    r"foresee\w*": "preview",
    r"st(and|ands|ood|anding) there": "is placed there",
    r"for \S+ sake|for the sake of": "because of",
    r"homeward": "undo moves",
    r"(came|come|comes|coming) to (its|their|an) end": "finished",
    r"anew": "again",
    r"for ever": "forever",
    r"asked for any more": "requested",
    r"formerly": "renamed_from",
    r"as wanted": "in the desired state",
    r"did not end well": "failed",
    r"what is wanted there": "changes deferred",
    r"by a user's own hand|by whose hand": "by whom",
    r"gave its place up": "lost its slot",
    r"holds the room": "cannot preempt workloads of equal priority",
    r"wait for each other's place": "deadlock: each needs the other's slot",
    r"both cannot be": "contradicts",
    r"say `?state: lost": "set `state: lost`",
}
FOUND = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS), re.IGNORECASE)
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "swarm_iac" / "cli" / "template" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]


def wrong(text: str) -> list[str]:
    """The words in it that are not written. What stands in backticks is a name."""
    return [match.group() for match in FOUND.finditer(re.sub(r"`[^`]*`", "`…`", text))]


def prose(page: str) -> str:
    """A page without its code blocks."""
    page = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^    .*$", "", page, flags=re.MULTILINE)


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every string in the code that reads as a sentence."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    assert wrong(prose(page.read_text())) == []


def packages() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "swarm_iac").rglob("*.py")):
        found.setdefault(path.relative_to(ROOT / "swarm_iac").with_suffix("").parts[0], []).append(path)
    return found


@pytest.mark.parametrize("package", sorted(packages()))
def test_text_in_code(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}": words
        for path in packages()[package]
        for line, text in literals(ast.parse(path.read_text()))
        if (words := wrong(text))
    }
    assert found == {}


def commands(group: object, *above: str) -> Iterator[tuple[str, ...]]:
    """The commands of a group and of the groups in it, as they are typed."""
    yield above
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, *above, name)


APPLICATION = application()


@pytest.mark.parametrize("command", [*commands(typer.main.get_command(APPLICATION))], ids=" ".join)
def test_help(command: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(APPLICATION, [*command, "--help"])
    assert shown.exit_code == 0
    assert "usage: swarm" in shown.output.lower()
    assert wrong(shown.output) == []


@pytest.mark.parametrize(
    "text",
    [
        "Mend every difference.",
        "it is told whoever asks",
        "waits until there is room",
        "what is wanted there waits for the next `swarm up`; of a machine that is gone, say `state: lost`",
        "did not end well; what was done stands",
    ],
)
def test_former_sentences_are_found(text: str) -> None:
    assert wrong(text)


def test_names_and_quoted_output_are_not() -> None:
    assert wrong("States of earlier versions have `wish` in its place.") == []
    assert wrong(prose("See:\n\n    4 find room\n\n```\nmend\n```\nno more")) == []
