"""What does `swarm why NODE` show? The state of a node, its allocations and its free capacity."""

from __future__ import annotations

from typing import Any

from swarm_iac.decision import Decision
from swarm_iac.model.device import WHOLE, Device, marked
from swarm_iac.model.placement import Placement
from swarm_iac.pluralize import pluralize
from swarm_iac.units import Bytes, Cpus


def as_json(decision: Decision, node: str) -> dict[str, Any]:
    """The answer as JSON; memory in bytes, CPUs in thousandths."""
    stack = decision.stack
    found, has, here = stack.nodes[node], stack.hardware_of(node), decision.placement.on(node)
    milli = has.gpus.count * WHOLE - sum(one.gpu_milli for one in here)
    return {
        "node": node,
        "state": found.state,
        "reason": found.reason,
        "place": _place(decision, node),
        "allocations": [{**one.model_dump(mode="json"), "user": stack.workloads[one.workload].user} for one in here],
        "coming": sorted(one.name for one in here if not one.ended and _home(decision.last, one.name) != node),
        "leaving": {
            one.name: _home(decision.placement, one.name)
            for one in decision.last.going()
            if one.node == node and _home(decision.placement, one.name) != node
        },
        "free": {
            "gpus": milli / WHOLE if milli % WHOLE else milli // WHOLE,
            "vcpus": int(has.vcpus) - sum(int(one.vcpus) for one in here),
            "memory": int(has.memory) - sum(int(one.memory) for one in here),
        },
    }


def lines(decision: Decision, node: str) -> list[str]:
    """The answer as text."""
    found = as_json(decision, node)
    state, free = found["state"] + (f" ({found['reason']})" if found["reason"] else ""), found["free"]
    count = sum("ended" not in one for one in found["allocations"])
    leaves = f", {len(found['leaving'])} leaving" if found["leaving"] else ""
    report = [
        f"{node}: {state}, {pluralize(count, 'allocation')}{leaves}",
        f"  {found['place']}  nodes.{node}",
    ]
    if found["allocations"]:
        report.append("\nAllocations")
    for one in found["allocations"]:
        if one.get("ended"):
            files = f", and keeps {one['storage']} of files" if one["storage"] != str(Bytes(0)) else ""
            report.append(f"  {one['name']} of {one['user']}: finished{files} (swarm why {one['workload']})")
            continue
        gpus = _gpus([Device.parse(gpu) for gpu in one["gpus"]])
        comes = "; arrives with the next `swarm up`" if one["name"] in found["coming"] else ""
        report.append(f"  {one['name']} of {one['user']}: {gpus}{one['memory']} of memory{comes} (swarm why {one['workload']})")
    if found["leaving"]:
        report.append("\nLeaving with the next `swarm up`")
        report += [f"  {name}: {f'moves to {to}' if to else 'stops'}" for name, to in found["leaving"].items()]
    report.append("\nFree capacity")
    report.append(
        f"  {pluralize(free['gpus'], 'GPU')}, {pluralize(Cpus(free['vcpus']), 'vCPU')}, {Bytes(free['memory'])} of memory"
    )
    if found["state"] in ("cordon", "drain", "lost"):
        words = {"cordon": "cordoned", "drain": "draining", "lost": "lost"}[found["state"]]
        report.append(f"  takes no new work while it is {words}; to reopen it: swarm ready {node}")
    return report


def _gpus(devices: list[Device]) -> str:
    head = f"GPU{'s'[: len(devices) != 1]} " if all(one.whole for one in devices) else ""
    return f"{head}{marked(devices)}, " if devices else ""


def _home(placement: Placement, name: str) -> str | None:
    """The node of an allocation that has not finished."""
    return next((one.node for one in placement.going() if one.name == name), None)


def _place(decision: Decision, node: str) -> str:
    place = decision.source.place(f"nodes.{node}")
    return f"{place.file}:{place.line}"
