"""On which line of which file does a value stand?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from swarm_iac.errors import Place
from swarm_iac.model.base import FORMER
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.reading.compose import YamlNode
from swarm_iac.stackfile.reading.rights import Rights

Step: TypeAlias = str | int


@dataclass(frozen=True)
class Document:
    """One parsed file."""

    file: str
    root: YamlNode

    def at(self, steps: tuple[Step, ...], *, key: bool = False) -> Place:
        """Where the value (or with `key`, its key) stands; its nearest parent when it is not in the file."""
        return self.find(steps, key=key)[0]

    def find(self, steps: tuple[Step, ...], *, key: bool = False) -> tuple[Place, int]:
        """The place, and how many of the steps were found."""
        node, line, column = self.root, self.root.line, self.root.column
        for done, step in enumerate(steps):
            if (child := _field(node, str(step))) is not None:
                line, column, node = child
            elif node.items is not None and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
                line, column = node.line, node.column
            else:
                return Place(self.file, line, column), done
        if not key and node is not self.root:
            line, column = node.line, node.column
        return Place(self.file, line, column), len(steps)

    def split(self, path: str) -> tuple[Step, ...]:
        """A dotted path to its steps. Keys that contain dots or brackets are recognised by what the file holds."""
        steps: list[Step] = []
        node: YamlNode | None = self.root
        rest = path
        while rest:
            if rest.startswith("[") and "]" in rest and (inner := rest[1 : rest.index("]")]).isdecimal():
                step: Step = int(inner)
                rest = rest[rest.index("]") + 1 :].removeprefix(".")
            else:
                step = _key(node, rest)
                rest = rest[len(step) :].removeprefix(".")
            steps.append(step)
            node = _child(node, step)
        return tuple(steps)


@dataclass(frozen=True)
class Loaded:
    """A stack and where each of its values stands. `rights`: who may change it; no part of the fleet, so not of the stack."""

    stack: Stack
    source: Source
    rights: Rights | None = None


def _field(node: YamlNode, key: str) -> tuple[int, int, YamlNode] | None:
    """A key of a mapping, or what is there under its former name."""
    if node.fields is None:
        return None
    return node.fields.get(key) or node.fields.get(FORMER.get(key, key))


def _key(node: YamlNode | None, rest: str) -> str:
    first = rest.split(".", 1)[0]
    if node is None or node.fields is None or first in node.fields:
        return first.split("[", 1)[0] if first.endswith("]") and (node is None or first not in (node.fields or {})) else first
    known = [key for key in node.fields if key and rest.startswith(key) and rest[len(key) : len(key) + 1] in ("", ".", "[")]
    return max(known, key=len, default=first)


def _child(node: YamlNode | None, step: Step) -> YamlNode | None:
    if node is None:
        return None
    if node.fields is not None and step in node.fields:
        return node.fields[str(step)][2]
    if node.items is not None and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


def join(steps: tuple[Step, ...]) -> str:
    """Steps to the path that people read: `limits.except[0].user`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


@dataclass(frozen=True)
class Source:
    """Where each value of a stack came from: the stack file, its node ranges, or the default limits."""

    document: Document
    policy: Document | None = None
    nodes: dict[str, dict[str, Place]] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The stack file as it was named."""
        return self.document.file

    def place(self, path: str) -> Place:
        """The place of a dotted path such as `workloads.chat.each.gpus`, `nodes.gpu-03.hardware` or `limits.user.gpus`.

        What is not written anywhere has the place of its nearest parent; an unknown path that of the file's start.
        """
        section, _, rest = path.partition(".")
        if section == "nodes" and rest:
            name, _, key = rest.partition(".")
            if name in self.nodes:
                places = self.nodes[name]
                return places.get(key) or places.get(key.split(".", 1)[0]) or places[""]
        steps = self.document.split(path)
        place, found = self.document.find(steps)
        if section == "limits" and found < len(steps) and self.policy is not None:
            default, there = self.policy.find(self.policy.split(rest))
            if there + 1 > found:
                return default
        return place
