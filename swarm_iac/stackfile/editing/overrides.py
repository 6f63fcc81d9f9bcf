"""What would a stack file say with some of its values changed? `workloads.chat.replicas=4`, checked like the file itself."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from swarm_iac.errors import Place, Problem, StackFileError
from swarm_iac.model.edit import Edit, changed, steps_of
from swarm_iac.model.service.needs import derived, written
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.checks.feasibility import feasibility_problems
from swarm_iac.stackfile.checks.references import check
from swarm_iac.stackfile.load import SWITCHES
from swarm_iac.stackfile.locks import lock
from swarm_iac.stackfile.reading.compose import compose
from swarm_iac.stackfile.reading.messages import nearest, problem
from swarm_iac.stackfile.reading.ranges import expand, refusal
from swarm_iac.stackfile.reading.shape import NodeEntry, StackFile
from swarm_iac.stackfile.reading.source import Loaded, Source

_FORM = "write PATH=VALUE, as in workloads.chat.replicas=4 or nodes.gpu-[01-04].state=drain; nothing after = removes it"


def parse(text: str) -> tuple[Edit, ...]:
    """`PATH=VALUE` as edits, one for each node of a range. The value is YAML. Raises StackFileError."""
    path, sign, value = text.partition("=")
    path = path.strip()
    if not sign or not path:
        raise _wrong(text, "this changes nothing")
    try:
        data = compose(f"value: {value}", "").data["value"] if value.strip() else None
    except StackFileError as error:
        raise _wrong(text, f"{value.strip()[:40]!r} is no value: {error.problems[0].message}") from None
    if isinstance(data, bool) and path.rpartition(".")[2] not in SWITCHES:
        raise _wrong(text, f"{value.strip()} does not fit here: only {' and '.join(SWITCHES)} are true or false")
    section, _, rest = path.partition(".")
    if section != "nodes" or not rest:
        return (Edit(path=path, value=data),)
    head, bracket, tail = rest.rpartition("]")
    name, _, key = tail.partition(".")
    try:
        names = expand(head + bracket + name)
    except ValueError as error:
        raise _wrong(text, refusal(head + bracket + name, error)) from None
    return tuple(Edit(path=".".join(filter(None, ("nodes", one, key))), value=_named(data, one)) for one in names)


def edited(loaded: Loaded, edits: Iterable[Edit]) -> Loaded:
    """The stack with all edits, one after the other. Raises StackFileError, with the lines of what was to be changed."""
    stack, source = written(loaded.stack), loaded.source
    for edit in edits:
        stack = _with(stack, source, edit)
    entries = {
        name: NodeEntry(hardware=node.hardware, rack=node.rack, tuning=node.tuning, power_saving=node.power_saving)
        for name, node in stack.nodes.items()
    }
    problems = check(stack, StackFile(fleet=stack.fleet, nodes=entries), source)
    stack = derived(stack)
    if all(node.hardware in stack.hardware for node in stack.nodes.values()):
        problems += feasibility_problems(stack, source, functools.cache(lambda: lock.beside(source.file, stack)))
    if problems:
        raise StackFileError(tuple(dict.fromkeys(problems)))
    return Loaded(stack, source)


def _with(stack: Stack, source: Source, edit: Edit) -> Stack:
    try:
        return changed(stack, edit)
    except ValidationError as error:
        section = steps_of(edit.path)[0]
        found = [_told(source, str(section), one) for one in error.errors(include_url=False)]
        raise StackFileError(tuple({each.message: each for each in reversed(found)}.values())) from None
    except LookupError as error:
        raise StackFileError((_unknown(stack, source, edit, str(error.args[0])),)) from None
    except ValueError as error:
        raise _wrong(str(edit), str(error)) from None


def _told(source: Source, section: str, error: Mapping[str, Any]) -> Problem:
    """Pydantic's error about the changed part, at its place in the file."""
    return problem(source.document, dict(error) | {"loc": (section, *error["loc"])}, StackFile)


def _unknown(stack: Stack, source: Source, edit: Edit, name: str) -> Problem:
    section = str(steps_of(edit.path)[0])
    if section not in Stack.model_fields or section == "fleet":
        known = [key for key in Stack.model_fields if key != "fleet"]
        return Problem(Place(source.file), edit.path, f"there is no section {section!r} to change", nearest(section, known))
    entries = getattr(stack, section)
    hint = nearest(name, entries) if isinstance(entries, dict) else ""
    return Problem(source.place(section), edit.path, f"there is no {name!r} under {section}", hint)


def _named(data: Any, node: str) -> Any:
    """`{name}` in a node's address is its name, as in the file."""
    if isinstance(data, dict) and isinstance(data.get("ssh"), str):
        return {**data, "ssh": data["ssh"].replace("{name}", node)}
    return data.replace("{name}", node) if isinstance(data, str) else data


def _wrong(text: str, message: str) -> StackFileError:
    return StackFileError((Problem(Place(text), "", message, _FORM),))
