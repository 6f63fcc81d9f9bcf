"""What does a YAML text say, and at which line and column does it say each thing?

Events come from libyaml where PyYAML was built with it; it is 30 times as fast as a parser in Python. The tree is
built here, without recursion, so that depth, aliases and size are bounded before anything is expanded, and scalars
are read as YAML 1.2 does: `on` and `no` are text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from swarm_iac.errors import Place, Problem, StackFileError
from swarm_iac.stackfile.reading.text import conflicts, tabs

MAX_DEPTH = 50
#: Values of a file of any size, and of a large one one for so many characters: aliases may repeat, and not without bound.
MAX_NODES, CHARACTERS = 200_000, 4

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_STANDARD = "tag:yaml.org,2002:"
_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None), "map": dict, "seq": list}

#: What libyaml says, and what a person can do about it.
_ADVICE = (
    ("mapping values are not allowed", "indent this line like its neighbours, and put text that contains ': ' in quotes"),
    ("expected ',' or '}'", "a '{' that was opened before is not closed, or a comma is missing"),
    ("expected ',' or ']'", "a '[' that was opened before is not closed, or a comma is missing"),
    ("expected <block end>", "check the indentation: keys of one mapping begin in the same column"),
    ("did not find expected key", "check the indentation: keys of one mapping begin in the same column"),
    ("could not find expected ':'", "every line of a mapping is written `key: value`"),
    ("did not find expected '-' indicator", "items of one list begin in the same column, with '- '"),
    ("unexpected end of stream", "a quote that was opened before is not closed"),
    ("cannot start any token", "put text that begins with this character in quotes"),
    ("unknown escape character", "use single quotes for text with backslashes"),
    ("unfinished", "a quote or tag is not finished"),
)


@dataclass(slots=True)
class YamlNode:
    """One value: its data, where it begins, and what stands inside with the position of its key."""

    data: Any
    line: int
    column: int
    fields: dict[str, tuple[int, int, YamlNode]] | None = None
    items: list[YamlNode] | None = None
    size: int = 1


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    node: YamlNode
    anchor: str | None
    key: str | None = None
    mark: tuple[int, int] = (0, 0)
    seen: dict[str, int] = field(default_factory=dict)


class _StopError(Exception):
    """Nothing more can be learnt from this text."""


class Composer:
    """Reads one document. `problems` holds all that was found wrong on the way."""

    def __init__(self, text: str, file: str, most: int = MAX_NODES) -> None:
        self.text = text
        self.file = file
        self.most = most
        self.root: YamlNode | None = None
        self.problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, YamlNode | None] = {}
        self._count = 0
        self._documents = 0

    def run(self) -> YamlNode | None:
        """The document's root, or None when there is none."""
        events = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(self.text)
        try:
            while not isinstance(event := events.get_event(), yaml.StreamEndEvent):
                self._take(event)
        except yaml.YAMLError as error:
            self._syntax(error)
        except _StopError:
            pass
        return self.root

    def _take(self, event: Any) -> None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._add(self._scalar(event), event, event.anchor)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._open(event, kind is yaml.MappingStartEvent)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._close()
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._documents += 1
            if self._documents > 1:
                self._stop(event, "a second document begins here", "one file is one stack; remove the `---`")

    def _open(self, event: Any, mapping: bool) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._stop(event, f"this is nested more than {MAX_DEPTH} levels deep", "no value of a stack file lies so deep")
        self._check_tag(event, "map" if mapping else "seq")
        mark = event.start_mark
        node = YamlNode({} if mapping else [], mark.line + 1, mark.column + 1)
        if mapping:
            node.fields = {}
        else:
            node.items = []
        top = self._stack[-1] if self._stack else None
        if top and top.node.fields is not None and top.key is None:
            self._stop(event, "a list or mapping stands in the place of a key", "keys are plain words")
        if event.anchor:
            self._anchors[event.anchor] = None
        self._tick(event, 1)
        self._stack.append(_Open(node, event.anchor))

    def _close(self) -> None:
        done = self._stack.pop()
        if done.anchor:
            self._anchors[done.anchor] = done.node
        self._attach(done.node)

    def _add(self, node: YamlNode, event: Any, anchor: str | None) -> None:
        self._tick(event, 1)
        top = self._stack[-1] if self._stack else None
        if top is not None and top.node.fields is not None and top.key is None:
            self._key(top, event.value, node)
        else:
            self._attach(node)
        if anchor:
            self._anchors[anchor] = node

    def _key(self, top: _Open, key: str, node: YamlNode) -> None:
        mark = (node.line, node.column)
        if key in top.seen:
            message = f"the key {key[:60]!r} stands here for a second time; the first is on line {top.seen[key]}"
            self._problem(mark, message, "keep one of the two, or give them different names")
        else:
            top.seen[key] = node.line
        top.key, top.mark = key, mark

    def _attach(self, node: YamlNode) -> None:
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        top.node.size += node.size
        if top.node.items is not None:
            top.node.items.append(node)
            top.node.data.append(node.data)
        elif top.node.fields is not None and top.key is not None:
            # The first of two equal keys counts, since the second is already a problem.
            if top.key not in top.node.fields:
                top.node.fields[top.key] = (*top.mark, node)
                top.node.data[top.key] = node.data
            top.key = None

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self._anchors:
            self._stop(event, f"*{name} refers to an anchor that is not defined above", f"define it with &{name} first")
        found = self._anchors[name]
        if found is None:
            self._stop(event, f"*{name} stands inside of what it refers to", "a value cannot contain itself")
        found = cast(YamlNode, found)
        self._tick(event, found.size)
        top = self._stack[-1] if self._stack else None
        if top is not None and top.node.fields is not None and top.key is None:
            self._stop(event, f"*{name} stands in the place of a key", "keys are plain words")
        mark = event.start_mark
        self._attach(YamlNode(found.data, mark.line + 1, mark.column + 1, found.fields, found.items, found.size))

    def _tick(self, event: Any, count: int) -> None:
        self._count += count
        if self._count > self.most:
            message = f"with its aliases written out, the file has more than {self.most:,} values"
            self._stop(event, message, "anchors that repeat anchors grow without bound; write the values out")

    def _scalar(self, event: Any) -> YamlNode:
        mark = event.start_mark
        data: Any = event.value
        if event.tag is None or event.tag == "!":
            if event.implicit[0]:
                data = self._plain(event, data)
        else:
            short = self._check_tag(event, None)
            data = data if short == "str" else self._plain(event, data)
            if short and not isinstance(data, _TYPES[short]):
                self._problem((mark.line + 1, mark.column + 1), f"{event.value[:40]!r} is no {short}", "leave the tag out")
        return YamlNode(data, mark.line + 1, mark.column + 1)

    def _plain(self, event: Any, text: str) -> Any:
        """YAML 1.2's core schema."""
        if text in _WORDS:
            return _WORDS[text]
        if text[0] not in "+-.0123456789":
            return text
        if _INT.fullmatch(text):
            if len(text) > 18:
                mark = event.start_mark
                self._problem(
                    (mark.line + 1, mark.column + 1),
                    f"the number {text[:20]}… is too large",
                    "nothing here needs more than 18 digits; use a larger unit",
                )
                return 0
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        return float(text) if _FLOAT.fullmatch(text) and len(text) <= 40 else text

    def _check_tag(self, event: Any, expected: str | None) -> str:
        tag = event.tag
        if tag is None or tag == "!":
            return ""
        short = str(tag).removeprefix(_STANDARD) if str(tag).startswith(_STANDARD) else ""
        if short not in _TYPES or (expected is None) == (short in ("map", "seq")) or (expected and short != expected):
            mark = event.start_mark
            self._problem(
                (mark.line + 1, mark.column + 1), f"the tag {str(tag)[:60]} is not allowed", "write the value without a tag"
            )
            return ""
        return short

    def _path(self) -> str:
        path = ""
        for level in self._stack:
            if level.node.items is not None:
                path += f"[{len(level.node.items)}]"
            elif level.key is not None:
                path += f".{level.key[:60]}" if path else level.key[:60]
        return path if len(path) <= 160 else f"{path[:100]}…"

    def _problem(self, mark: tuple[int, int], message: str, hint: str) -> None:
        if len(self.problems) < 100:
            self.problems.append(Problem(Place(self.file, *mark), self._path(), message, hint))

    def _stop(self, event: Any, message: str, hint: str) -> None:
        self._problem((event.start_mark.line + 1, event.start_mark.column + 1), message, hint)
        raise _StopError

    def _syntax(self, error: yaml.YAMLError) -> None:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        found = conflicts(self.text, self.file) or tabs(self.text, self.file, line)
        if found:
            self.problems.extend(found)
            return
        text = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "this is no YAML")
        context = getattr(error, "context", None)
        start = getattr(error, "context_mark", None)
        hint = next((advice for phrase, advice in _ADVICE if phrase in text), "")
        if mark and self._brace_in_text(mark.line, mark.column):
            hint = "put text that contains '{' in quotes, as in \"root@{name}\""
        if context and start:
            text = f"{text} {context}, which begins on line {start.line + 1}"
        self.problems.append(Problem(Place(self.file, line, column), "", f"this is no YAML: {text}", hint))

    def _brace_in_text(self, line: int, column: int) -> bool:
        """Is that a brace within a word, where one opens a mapping? As in `{ssh: root@{name}}`."""
        lines = self.text.splitlines()
        words = lines[line] if line < len(lines) else ""
        return words[column : column + 1] == "{" and column > 0 and words[column - 1] not in " \t,:[{"


def compose(text: str, file: str, most: int | None = None) -> YamlNode:
    """The root mapping of the one document in `text`. Raises StackFileError with all problems found."""
    composer = Composer(text, file, max(MAX_NODES, len(text) // CHARACTERS) if most is None else most)
    root = composer.run()
    if not composer.problems:
        if root is None or root.data is None:
            hint = "a stack begins with a line such as `fleet: prod`"
            composer.problems.append(Problem(Place(file, 1, 1), "", "the file is empty", hint))
        elif root.fields is None:
            message = f"expected keys such as `fleet:` and `nodes:`, found {describe(root.data)}"
            composer.problems.append(Problem(Place(file, root.line, root.column), "", message, ""))
    if composer.problems:
        raise StackFileError(tuple(composer.problems))
    return cast(YamlNode, root)


def describe(data: object) -> str:
    """A value in words: `the text 'abc'`, `the number 8`, `a list`."""
    if data is None:
        return "nothing"
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, (int, float)):
        return f"the number {str(data)[:30]}"
    if isinstance(data, str):
        return f"the text {data[:40]!r}" + ("…" if len(data) > 40 else "")
    return "a list" if isinstance(data, (list, tuple)) else "a mapping of keys to values"
