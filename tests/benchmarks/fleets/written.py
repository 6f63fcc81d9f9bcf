"""How is a drawn fleet written as a stack file, and what does the product read in it?

A fleet is drawn as the file's own data: sections of plain values, with every node by its own name. The text has ranges of
nodes and one line for each entry, as people write it; states stand in entries of their own, as `swarm drain` writes them.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from swarm_iac.model import deadline
from swarm_iac.model.gpus.mig import MODELS, profile_names, profiles_of
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.load import loads
from swarm_iac.units import GpuCount

#: Text that means itself without quotes, in flow style too.
_PLAIN = re.compile(r"[A-Za-z0-9/_](?:[A-Za-z0-9 ./_+-]*[A-Za-z0-9./_+-])?")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0x[0-9a-fA-F]+|0o[0-7]+")
_WORDS = ("null", "true", "false", "yes", "no", "on", "off")
_DIGITS = re.compile(r"(.*?)([0-9]+)$")
_STATE = ("state", "drain_by", "why")

Data = dict[str, Any]


@dataclass
class Drawn:
    """One fleet: the file's data, and what a file cannot say yet.

    `shares`: thousandths of its GPU that a workload asks for; `models`: several GPU models that it may have; `profiles`: it asks
    for a MIG instance of its model instead, of one of its profiles, and all cards may be cut that can be.
    """

    data: Data
    today: datetime.date
    shares: dict[str, int] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    profiles: dict[str, int] = field(default_factory=dict)

    def stack(self, file: str = "stacks/drawn.yaml") -> Stack:
        """What the product reads in the written file, with deadlines resolved. Raises StackFileError."""
        stack = loads(text_of(self.data), file, today=self.today).stack
        noon = datetime.datetime.combine(self.today, datetime.time(12), datetime.UTC)
        stack = deadline.at(stack, noon)
        changed = {}
        for name in {*self.shares, *self.models} & set(stack.workloads):
            workload = stack.workloads[name]
            update: Data = {}
            if name in self.shares and workload.each.gpus.count == 1:
                update["share"] = GpuCount(self.shares[name])
            if name in self.models and workload.each.gpus.count:
                update["model"] = self.models[name]
            gpus = workload.each.gpus.model_copy(update=update)
            changed[name] = workload.model_copy(update={"each": workload.each.model_copy(update={"gpus": gpus})})
        stack = stack.model_copy(update={"workloads": stack.workloads | changed}) if changed else stack
        return self._cut(stack) if self.profiles else stack

    def _cut(self, stack: Stack) -> Stack:
        able = {
            name for name, one in stack.hardware.items() if one.gpus.count and profiles_of(one.gpus.model or "", one.gpu_memory)
        }
        hardware = {name: one.model_copy(update={"mig": name in able}) for name, one in stack.hardware.items()}
        workloads = dict(stack.workloads)
        for name, turn in self.profiles.items():
            one = workloads.get(name)
            model = one.each.gpus.model if one is not None else None
            if one is None or model not in MODELS or not one.each.gpus.whole or one.each.gpus.count > 2:
                continue
            shapes = [hardware[key] for key in sorted(able) if hardware[key].gpus.model == model]
            names = [each for each in profile_names(model) if any(each in shape.profiles for shape in shapes)]
            if names:
                gpus = one.each.gpus.model_copy(update={"profile": names[turn % len(names)], "memory": None})
                each = one.each.model_copy(update={"gpus": gpus, "gpu_power": None, "gpu_clock": None})
                place = one.place.model_copy(update={"numa": None, "links": None})
                workloads[name] = one.model_copy(update={"each": each, "place": place, "movable": True})
        return stack.model_copy(update={"hardware": hardware, "workloads": workloads})


def text_of(data: Data) -> str:
    """The stack file's text."""
    lines = [f"fleet: {data['fleet']}"]
    for section in ("teams", "limits", "tuning", "hardware", "racks", "sites", "prices", "nodes", "workloads"):
        entries = data.get(section) or {}
        if entries:
            lines.append(f"{section}:")
        lines += _nodes(entries) if section == "nodes" else (f"  {key}: {flow(value)}" for key, value in entries.items())
    if data.get("solve"):
        lines.append(f"solve: {flow(data['solve'])}")
    return "\n".join(lines) + "\n"


def flow(value: Any) -> str:
    """A value in YAML's flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    text = str(value)
    plain = _PLAIN.fullmatch(text) and not _NUMBER.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text)


def _nodes(nodes: Data) -> Iterator[str]:
    """Neighbours with the same entry as one range; their states below."""
    made = {name: {key: value for key, value in entry.items() if key not in _STATE} for name, entry in nodes.items()}
    for key, entry in _ranges(made):
        yield f"  {flow(key) if '[' not in key else key}: {flow(entry)}"
    states = {name: {key: entry[key] for key in _STATE if key in entry} for name, entry in nodes.items()}
    for name, state in states.items():
        if state:  # one name in brackets, since the plain one may stand above
            stem, digits = _split(name)
            yield f"  {stem}[{digits}]: {flow(state)}" if digits else f"  {name}: {flow(state)}"


def _ranges(nodes: Data) -> Iterator[tuple[str, Data]]:
    run: list[str] = []
    for name in (*nodes, None):
        if run and (name is None or not _next(run[-1], name) or nodes[name] != nodes[run[0]]):
            stem, low = _split(run[0])
            yield (f"{stem}[{low}-{_split(run[-1])[1]}]" if len(run) > 1 else run[0]), nodes[run[0]]
            run = []
        if name is not None:
            run.append(name)


def _split(name: str) -> tuple[str, str]:
    found = _DIGITS.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def _next(one: str, other: str) -> bool:
    (stem, low), (other_stem, high) = _split(one), _split(other)
    return bool(low and high) and stem == other_stem and len(low) == len(high) and int(high) == int(low) + 1
