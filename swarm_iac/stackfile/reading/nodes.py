"""Which nodes do the entries of `nodes:` make, and which line set each value?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from swarm_iac.errors import Place, Problem
from swarm_iac.model.stack import Node
from swarm_iac.stackfile.reading.messages import COMPARED, nearest, problem
from swarm_iac.stackfile.reading.ranges import MAX_NAMES, expand, refusal
from swarm_iac.stackfile.reading.shape import NodeEntry
from swarm_iac.stackfile.reading.source import Document


@dataclass
class Nodes:
    """What came of merging. `places` gives for each node the place of each of its values, and of itself under ''."""

    nodes: dict[str, Node] = field(default_factory=dict)
    places: dict[str, dict[str, Place]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    reported: set[Place] = field(default_factory=set)

    def once(self, found: Problem) -> None:
        """Add what is wrong at a place that nothing was said about: one entry is a mistake in each node of its range."""
        if found.place not in self.reported:
            self.reported.add(found.place)
            self.problems.append(found)


def merge(document: Document, entries: dict[str, NodeEntry]) -> Nodes:
    """Expand all entries and merge them in the file's order: an entry with `hardware` makes nodes, others refine."""
    result = Nodes()
    values: dict[str, dict[str, Any]] = {}
    makers: dict[str, str] = {}
    names = _expand(document, entries, result)
    declared = {name: key for key, entry in entries.items() if entry.hardware for name in names.get(key, ())}
    for key, entry in entries.items():
        targets = names.get(key, ())
        if entry.hardware is None:
            targets = _known(document, key, targets, (makers, declared), result)
        else:
            targets = _fresh(document, key, targets, makers, result)
        written = entry.model_dump(exclude_unset=True)
        where = {name: document.at(("nodes", key, name)) for name in written}
        at = document.at(("nodes", key), key=True)
        for name in targets:
            mine = values.setdefault(name, {"name": name})
            if "state" in written:  # a state of its own has its own reason and deadline
                mine = values[name] = {key: value for key, value in mine.items() if key not in ("reason", "drain_by")}
            tables = {table: mine.get(table, {}) | written.get(table, {}) for table in ("labels", "taints")}
            mine |= written | {table: found for table, found in tables.items() if found}
            places = result.places.setdefault(name, {"": at})
            places |= where
            for label in written.get("labels", ()):
                places[f"labels.{label}"] = document.at(("nodes", key, "labels", label))
            for taint in written.get("taints", ()):
                places[f"taints.{taint}"] = document.at(("nodes", key, "taints", taint))
    _build(document, values, makers, result)
    return result


def _expand(document: Document, entries: dict[str, NodeEntry], result: Nodes) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    total = 0
    for key in entries:
        try:
            names[key] = expand(key)
        except ValueError as error:
            _say(result, document, key, refusal(key, error), "")
            continue
        total += len(names[key])
        if total > 4 * MAX_NAMES:
            _say(result, document, key, f"the entries up to here name more than {4 * MAX_NAMES:,} nodes", "split the fleet")
            del names[key]
            break
    return names


def _known(
    document: Document, key: str, targets: tuple[str, ...], made: tuple[dict[str, str], dict[str, str]], result: Nodes
) -> tuple[str, ...]:
    """Those of a refinement's targets that exist above; the others are one problem.

    `made` gives for each node the entry that makes it: so far, and in the whole file.
    """
    makers, declared = made
    missing = [name for name in targets if name not in makers]
    if missing:
        shown = _some(missing)
        later = declared.get(missing[0])
        if later:
            line = document.at(("nodes", later), key=True).line
            _say(result, document, key, f"refines {shown} before line {line} makes it", f"move this entry below line {line}")
        else:
            near = nearest(missing[0], declared) if len(result.problems) < COMPARED else ""
            hint = f"give it a `hardware:` to make it a node of its own; {near}" if near else "give it a `hardware:`"
            _say(result, document, key, f"no entry above makes {shown}, and this one has no hardware", hint)
    return tuple(name for name in targets if name in makers)


def _fresh(document: Document, key: str, targets: tuple[str, ...], makers: dict[str, str], result: Nodes) -> tuple[str, ...]:
    """Those of an entry's targets that no entry made before; the others overlap, which is one problem."""
    taken = [name for name in targets if name in makers]
    if taken:
        first = makers[taken[0]]
        line = document.at(("nodes", first), key=True).line
        message = f"overlaps {first} on line {line}: both give hardware to {_some(taken)}"
        _say(result, document, key, message, "let the ranges not meet, or leave `hardware` out here to refine what is above")
    fresh = tuple(name for name in targets if name not in makers)
    makers |= dict.fromkeys(fresh, key)
    return fresh


def _build(document: Document, values: dict[str, dict[str, Any]], makers: dict[str, str], result: Nodes) -> None:
    without_ssh: dict[str, list[str]] = {}
    for name, mine in values.items():
        ssh = mine.get("ssh")
        if ssh is None:
            without_ssh.setdefault(makers[name], []).append(name)
            continue
        mine["ssh"] = ssh.replace("{name}", name)
        if mine.get("drain_by") and mine.get("state") != "drain":
            place = result.places[name]["drain_by"]
            message = f"there is a deadline, and {name} is not drained"
            hint = "add `state: drain`, or delete it"
            result.once(Problem(place, f"nodes.{makers[name]}.drain_by", message, hint))
        try:
            result.nodes[name] = Node.model_validate(mine)
        except ValidationError as error:
            wrong = error.errors(include_url=False)
            for one in [one for one in wrong if one["loc"][0] == "name"] or wrong:
                _refused(document, name, makers[name], one, result)
    for key, names in without_ssh.items():
        hint = "ssh: user@host, or local for this machine; `{name}` stands for the node's name"
        _say(result, document, key, f"{_some(names)} {'has' if len(names) == 1 else 'have'} no `ssh`", hint)


def _refused(document: Document, name: str, key: str, error: Any, result: Nodes) -> None:
    """Pydantic's error about a merged node, told once at the entry that set the value."""
    reported = problem(document, error | {"loc": ()}, Node)
    part = str(error["loc"][0])
    place = document.at(("nodes", key), key=True) if part == "name" else result.places[name].get(part, result.places[name][""])
    path = f"nodes.{key}" if part == "name" else f"nodes.{name}.{part}"
    result.once(Problem(place, path, reported.message, reported.hint))


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _say(result: Nodes, document: Document, key: str, message: str, hint: str) -> None:
    place = document.at(("nodes", key), key=True)
    result.reported.add(place)
    result.problems.append(Problem(place, f"nodes.{key[:60]}", message, hint))
