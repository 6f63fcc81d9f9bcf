"""What may stand in a stack file, before node ranges are expanded and defaults filled in?"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import Field, model_validator

from swarm_iac.model.base import Moment, Name, Value, with_former
from swarm_iac.model.gpus.past_use import PastUse
from swarm_iac.model.gpus.worth import Worth
from swarm_iac.model.hardware import Hardware, Model, Rack, Site
from swarm_iac.model.place.taints import TaintField
from swarm_iac.model.service.power_saving import PowerSaving
from swarm_iac.model.settings import Tuning
from swarm_iac.model.stack import Ceiling, Limits, NodeCeiling, NodeState, Solve, Team, Telemetry
from swarm_iac.model.workload import Workload
from swarm_iac.price import Price
from swarm_iac.stackfile.reading.rights import Rights


class NodeEntry(Value):
    """One node, or a range of nodes such as `gpu-[01-08]`. Entries without `hardware` refine those above them."""

    hardware: Name | None = Field(default=None, description="Name of its shape under `hardware`.")
    rack: Name | None = Field(default=None, description="Name of its rack under `racks`.")
    site: Name | None = Field(default=None, description="Where the node is.")
    tuning: Name | None = Field(default=None, description="Name of its settings under `tuning`.")
    power_saving: Name | None = Field(
        default=None, description="Name under `power_saving` of when it may be powered off; omitted: never."
    )
    ssh: str | None = Field(
        default=None,
        description="How it is reached: user@host[:port], or `local` for this machine. `{name}`: the node's name.",
    )
    labels: dict[Name, str] = Field(
        default={}, description="Labels that `place.select` can ask for; entries add to each other."
    )
    taints: dict[Name, TaintField] = Field(
        default={},
        description="Keep new work off that does not tolerate them, as in `{dedicated: research}`; entries add to each other.",
    )
    state: NodeState | None = Field(
        default=None, description="ready | cordon (no new work) | drain (all work leaves) | lost (given up)."
    )
    drain_by: Moment | None = Field(
        default=None,
        description="With `state: drain`: until this time no new work, and jobs may finish; then all work leaves.",
    )
    reason: str | None = Field(default=None, max_length=200, description="Why it is in this state.")

    _former = model_validator(mode="before")(with_former("reason"))


class StackFile(Value):
    """A fleet of GPU machines and what is to run on it."""

    fleet: Name = Field(description="Name of the fleet.")
    teams: dict[Name, Team] = Field(default={}, description="Who shares the fleet, by team.")
    limits: Limits = Field(default=Limits(), description="Limits; a value here replaces the default in policies/limits.yaml.")
    tuning: dict[Name, Tuning] = Field(default={}, description="Named settings that nodes can ask for.")
    hardware: dict[Name, Hardware] = Field(default={}, description="Named machine shapes.")
    racks: dict[Name, Rack] = Field(default={}, description="Racks by name.")
    sites: dict[Name, Site] = Field(default={}, description="Sites by name, and the links between them.")
    power_saving: dict[Name, PowerSaving] = Field(
        default={}, description="When idle nodes may be powered off, by name. See docs/autopilot.md."
    )
    prices: dict[Model, Price] = Field(default={}, description="What one GPU costs per hour, by its model.")
    worth: dict[Model, Worth] = Field(
        default={}, description="How many GPUs one counts as where teams share them, by its model; 1 if omitted."
    )
    past_use: PastUse | None = Field(
        default=None, description="What teams used before; their shares count less by it. `swarm usage --past-use` writes it."
    )
    nodes: dict[str, NodeEntry] = Field(
        default={}, description="Machines by name or range (`gpu-[01-08]`); later entries refine earlier ones."
    )
    workloads: dict[Name, Workload] = Field(default={}, description="What is to run, by name.")
    solve: Solve = Field(default=Solve(), description="Budgets of one change.")
    telemetry: Telemetry | None = Field(
        default=None, description="Measure the nodes between two runs; omitted: nothing is measured. See docs/telemetry.md."
    )
    rights: Rights = Field(
        default=Rights(), description="Who may change what by a pull request; read from its base. See docs/pull-requests.md."
    )


class PolicyFile(Value):
    """policies/limits.yaml: the ceilings that hold where a stack file says nothing."""

    user: Ceiling = Field(default=Ceiling(), description="Limits of each user over the whole fleet.")
    node: NodeCeiling = Field(default=NodeCeiling(), description="Limits of what is placed on each node.")
    cluster: Ceiling = Field(default=Ceiling(), description="Limits of the whole fleet.")
    team: Ceiling = Field(default=Ceiling(), description="Limits of each team with the teams inside it.")


#: Fields of GPUs that are given as a mapping; their schema is written by hand in the model.
_GPUS = {
    "count": "How many whole GPUs.",
    "model": "The model, such as H100; any when left out.",
    "memory": "Least memory of each GPU, such as 80 GB.",
}


def schema() -> dict[str, Any]:
    """The JSON Schema of a stack file, with a description on every field."""
    shape = StackFile.model_json_schema()
    shape["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    shape["title"] = "swarm-iac stack file"
    _describe(shape, shape["$defs"])
    return shape


def _describe(part: Any, named: dict[str, Any]) -> None:
    if isinstance(part, list):
        for item in part:
            _describe(item, named)
    if not isinstance(part, dict):
        return
    fields = part.get("properties")
    if isinstance(fields, dict):
        for name, value in fields.items():
            # pydantic leaves a description out where it equals that of the shape referred to.
            shape = named.get(str(value.get("$ref", "")).rpartition("/")[2], {})
            value.setdefault("description", shape.get("description") or _GPUS.get(name, ""))
            value.pop("title", None)
    for value in part.values():
        _describe(value, named)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n")
