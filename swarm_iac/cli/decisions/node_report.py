"""Why does a node carry what it carries? Its state, what stands on it, and what is free."""

from __future__ import annotations

from typing import Any

from swarm_iac.decision import Decision
from swarm_iac.model.device import WHOLE, Device
from swarm_iac.model.device import told as told_of
from swarm_iac.units import Bytes, Cpus


def as_json(decision: Decision, node: str) -> dict[str, Any]:
    """The answer for machines; memory in bytes, CPUs in thousandths."""
    stack = decision.stack
    found, has, here = stack.nodes[node], stack.hardware_of(node), decision.placement.on(node)
    milli = has.gpus.count * WHOLE - sum(one.gpu_milli for one in here)
    return {
        "node": node,
        "state": found.state,
        "why": found.why,
        "place": _place(decision, node),
        "allocations": [{**one.model_dump(mode="json"), "user": stack.workloads[one.workload].user} for one in here],
        "free": {
            "gpus": milli / WHOLE if milli % WHOLE else milli // WHOLE,
            "vcpus": int(has.vcpus) - sum(int(one.vcpus) for one in here),
            "memory": int(has.memory) - sum(int(one.memory) for one in here),
        },
    }


def lines(decision: Decision, node: str) -> list[str]:
    """The answer for people."""
    found = as_json(decision, node)
    state, free = found["state"] + (f" ({found['why']})" if found["why"] else ""), found["free"]
    told = [
        f"{node}: {state}, {sum('ended' not in one for one in found['allocations'])} allocations",
        f"  {found['place']}  nodes.{node}",
    ]
    if found["allocations"]:
        told.append("\nWhat stands there")
    for one in found["allocations"]:
        if one.get("ended"):
            files = f", and keeps {one['storage']} of files" if one["storage"] != str(Bytes(0)) else ""
            told.append(f"  {one['name']} of {one['user']}: finished{files} (swarm why {one['workload']})")
            continue
        gpus = _gpus([Device.parse(gpu) for gpu in one["gpus"]])
        told.append(f"  {one['name']} of {one['user']}: {gpus}{one['memory']} of memory (swarm why {one['workload']})")
    told.append("\nWhat is free")
    told.append(f"  {free['gpus']} GPUs, {Cpus(free['vcpus'])} vCPUs, {Bytes(free['memory'])} of memory")
    if found["state"] in ("cordon", "drain", "lost"):
        words = {"cordon": "cordoned", "drain": "draining", "lost": "lost"}[found["state"]]
        told.append(f"  nothing new comes while it is {words}; swarm ready {node} ends that")
    return told


def _gpus(devices: list[Device]) -> str:
    head = f"GPU{'s'[: len(devices) != 1]} " if all(one.whole for one in devices) else ""
    return f"{head}{told_of(devices)}, " if devices else ""


def _place(decision: Decision, node: str) -> str:
    place = decision.source.place(f"nodes.{node}")
    return f"{place.file}:{place.line}"
