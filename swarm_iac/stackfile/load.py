"""What stack does this file describe, or what is wrong with it?"""

from __future__ import annotations

import datetime
import functools
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from swarm_iac import assets
from swarm_iac.errors import Problem, StackFileError
from swarm_iac.model.service.needs import derived
from swarm_iac.model.stack import Ceiling, Limits, NodeCeiling, Stack
from swarm_iac.stackfile.checks.feasibility import feasibility_problems
from swarm_iac.stackfile.checks.owners import rights_problems
from swarm_iac.stackfile.checks.references import check
from swarm_iac.stackfile.locks import lock
from swarm_iac.stackfile.reading.compose import YamlNode, compose
from swarm_iac.stackfile.reading.messages import problem
from swarm_iac.stackfile.reading.nodes import Nodes, merge
from swarm_iac.stackfile.reading.other_words import hint_for_switch
from swarm_iac.stackfile.reading.salvage import salvage
from swarm_iac.stackfile.reading.shape import PolicyFile, StackFile
from swarm_iac.stackfile.reading.source import Document, Loaded, Source, Step, join
from swarm_iac.stackfile.reading.text import decode, read

Shape = TypeVar("Shape", bound=BaseModel)
Limited = TypeVar("Limited", bound=NodeCeiling)

#: The only values that are true or false; elsewhere pydantic would read true as 1.
SWITCHES = ("pinned", "gpu_persistence", "confined", "movable", "hold", "reclaim", "mig")


def load(path: Path, *, policies: Path | None = None, today: datetime.date) -> Loaded:
    """Read a stack file with the default limits of `policies` (a file or its folder).

    Without `policies` it is policies/limits.yaml in the nearest folder above the file, else the one that the package
    brings. Raises StackFileError with all problems.
    """
    policy = policies or nearest_policy(path)
    return loads(read(path, str(path)), str(path), policies=policy, today=today)


def loads(text: str | bytes, file: str, *, policies: Path | None = None, today: datetime.date) -> Loaded:
    """The same for a text; `file` is what messages call it."""
    default, policy = _policy(policies or nearest_policy(None))
    document = Document(file, compose(decode(text, file), file))
    shape, problems = _shape(document, StackFile, ())
    touched: frozenset[tuple[str, str]] = frozenset()
    if problems:
        shape, touched = salvage(_sections(document))
    if shape is None:
        raise StackFileError(tuple(problems))
    merged = merge(document, shape.nodes)
    broken = any(section == "nodes" for section, _ in touched)
    problems += () if broken else merged.problems
    stack = _stack(shape, merged, default)
    source = Source(document, policy, merged.places)
    problems += check(stack, shape, source, touched)
    stack = stack if problems else derived(stack)
    rights = shape.rights if "rights" in shape.model_fields_set else None
    problems += () if touched else rights_problems(stack, rights, source)
    if not touched and not merged.problems and all(node.hardware in stack.hardware for node in stack.nodes.values()):
        problems += feasibility_problems(stack, source, functools.cache(lambda: lock.beside(file, stack)))
    if problems:
        raise StackFileError(tuple(dict.fromkeys(problems)))
    return Loaded(stack, source, rights)


def nearest_policy(path: Path | None) -> Path | None:
    """policies/limits.yaml in a folder above the stack file, else what the package brings."""
    above = list(path.absolute().parents)[:4] if path else []
    for folder in (*(parent / "policies" for parent in above), assets.policies()):
        found = folder / "limits.yaml"
        if found.is_file():
            return found
    return None


def _policy(path: Path | None) -> tuple[PolicyFile, Document | None]:
    if path is None:
        return PolicyFile(), None
    path = path / "limits.yaml" if path.is_dir() else path
    file = str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    document = Document(file, compose(decode(read(path, file), file), file))
    shape, problems = _shape(document, PolicyFile, ("limits",))
    if shape is None:
        raise StackFileError(tuple(problems))
    return shape, document


def _shape(document: Document, model: type[Shape], prefix: tuple[Step, ...]) -> tuple[Shape | None, list[Problem]]:
    """The file as a value of its model; with problems, perhaps None."""
    data = _sections(document, model)
    problems: list[Problem] = []
    _scan(document, document.root, (), problems, prefix)
    try:
        shape = model.model_validate(data)
    except ValidationError as error:
        problems += [problem(document, one, model, prefix) for one in error.errors(include_url=False)]
        # One value can fail in several parts of a union, or in the scan as well: one sentence is enough.
        return None, list({each.path: each for each in reversed(problems)}.values())
    return (None if problems else shape), problems


def _sections(document: Document, model: type[BaseModel] = StackFile) -> dict[str, Any]:
    """The file's data. A section whose entries are all commented out has no value; that is no mistake."""
    known = set(model.model_fields) - {"fleet"}
    return {key: {} if value is None and key in known else value for key, value in document.root.data.items()}


def _scan(
    document: Document, node: YamlNode, steps: tuple[Step, ...], problems: list[Problem], prefix: tuple[Step, ...]
) -> None:
    """Find what pydantic would read as something else: true as 1, a number as a date, nothing as a default."""
    children: list[tuple[Step, YamlNode]] = [(key, child[2]) for key, child in (node.fields or {}).items()]
    children += list(enumerate(node.items or []))
    for step, child in children:
        data: Any = child.data
        if child.fields is not None or child.items is not None:
            _scan(document, child, (*steps, step), problems, prefix)
            continue
        if isinstance(data, bool) and step not in SWITCHES:
            message, hint = (
                f"{str(data).lower()} does not fit here",
                hint_for_switch(step) or f"only {', '.join(SWITCHES[:-1])} and {SWITCHES[-1]} are true or false",
            )
        elif step == "until" and data is not None and not isinstance(data, str):
            message, hint = f"expected a date such as 2027-01-31, found {data}", ""
        elif data is None and steps:
            message, hint = "there is no value", "write one, or delete the key"
        else:
            continue
        at = (*steps, step)
        problems.append(Problem(document.at(at), join(prefix + at), message, hint))


def _stack(shape: StackFile, merged: Nodes, default: PolicyFile) -> Stack:
    limits = Limits.model_construct(
        user=_replaced(default.user, shape.limits.user),
        node=_replaced(default.node, shape.limits.node),
        cluster=_replaced(default.cluster, shape.limits.cluster),
        team=_replaced(default.team, shape.limits.team),
        exceptions=shape.limits.exceptions,
    )
    return Stack(
        fleet=shape.fleet, teams=shape.teams, limits=limits, tuning=shape.tuning, hardware=shape.hardware,
        racks=shape.racks, sites=shape.sites, power_saving=shape.power_saving, prices=shape.prices, worth=shape.worth,
        nodes=merged.nodes,
        workloads=shape.workloads, solve=shape.solve, telemetry=shape.telemetry,
        past_use=shape.past_use,
    )  # fmt: skip


def _replaced(default: Limited, given: Limited) -> Limited:
    """Each value of `given` in place of the default one; of limits on GPU models, each model by itself."""
    values = {name: getattr(given, name) for name in given.model_fields_set}
    if isinstance(default, Ceiling) and "gpus_by_model" in values:
        values["gpus_by_model"] = {**default.gpus_by_model, **values["gpus_by_model"]}
    return default.model_copy(update=values)
