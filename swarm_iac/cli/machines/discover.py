"""What is the hardware section of a stack file for machines that exist already?"""

from __future__ import annotations

import json
import re
from pathlib import Path

from swarm_iac.cli.engine import options
from swarm_iac.model.gpus.links import partition
from swarm_iac.model.gpus.mig import SLICES, profiles_of
from swarm_iac.model.hardware import GPU_MEMORY, gpu_model
from swarm_iac.model.state import Facts, GpuFacts
from swarm_iac.units import BitsPerSecond, Bytes

#: Above the layouts that exist.
LAYOUTS = "# MIG instances that are there, as a lock file writes them. One that serves at its position is kept as it is."
#: Words that YAML reads as something other than text.
_MEANT = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def found(addresses: list[str]) -> tuple[str, dict[str, str]]:
    """The hardware section of a stack file, and errors by node. Read-only."""
    from swarm_iac.observe import observe

    targets: dict[str, str] = {}
    for text in addresses:
        name, _, address = text.rpartition("=")
        targets[name or _name(address)] = address
    run = options(Path.cwd())
    seen = observe(targets, ssh_config=run.ssh_config, timeout=run.node_timeout)
    shapes: dict[str, str] = {}
    lines: dict[str, list[str]] = {"hardware:": [], "nodes:": []}
    cut: list[str] = []
    for name, one in seen.items():
        if one.error:
            continue
        shape = _hardware(one.facts)
        if shape not in shapes:
            shapes[shape] = f"{_shape_name(one.facts)}-{len(shapes) + 1}"
            lines["hardware:"].append(f"  {shapes[shape]}: {{{shape}}}")
        cut += [f"#   {_text(name)}, GPU {card.index}: {', '.join(_layout(card))}" for card in one.facts.gpus if card.instances]
        lines["nodes:"].append(f"  {_text(name)}: {{hardware: {shapes[shape]}, ssh: {json.dumps(targets[name])}}}")
    text = "".join(f"{head}\n{chr(10).join(body)}\n" for head, body in lines.items() if body)
    text += "\n".join([LAYOUTS, *cut, ""]) if cut else ""
    return text, {name: one.error.strip() for name, one in seen.items() if one.error}


def _name(address: str) -> str:
    host = address.rpartition("@")[2].partition(":")[0].partition(".")[0].lower()
    return host if host and host[0].isalpha() else "node-" + host.replace(".", "-")


def _shape_name(facts: Facts) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", gpu_model(facts.gpus[0].model).lower()).strip("-") if facts.gpus else "cpu"
    return name[:30].strip("-") if name[:1].isalpha() else "gpu"


def _hardware(facts: Facts) -> str:
    """One machine shape as YAML flow. Sizes are rounded down, so that a plan never relies on more than there is."""
    words = []
    if facts.gpus:
        card = facts.gpus[0]
        model = gpu_model(card.model)
        count, size = len(facts.gpus), _round(card.memory)
        # Written plainly only for a model that we know, of the size that it has then.
        known = model in GPU_MEMORY and abs(card.memory - GPU_MEMORY[model]) * 10 <= GPU_MEMORY[model]
        table = f"{{count: {count}, model: {_text(model)}, memory: {size}}}"
        words.append(f"gpus: {count} x {model}" if known else f"gpus: {table}")
        words += ["mig: true"] if any(each.mig for each in facts.gpus) and profiles_of(model, card.memory) else []
    words += [f"vcpus: {facts.cpus}", f"memory: {_round(facts.memory)}"]
    disk = max(facts.disks.items(), key=lambda pair: pair[1], default=None)
    if disk:
        words += [f"nvme: {_round(disk[1])}", f"disk: {_text(disk[0])}"]
    nic = max(facts.interfaces.items(), key=lambda pair: pair[1], default=None)
    if nic and nic[1] > 0:
        words += [f"nic: {BitsPerSecond(nic[1])}", f"interface: {_text(nic[0])}"]
    if len(facts.numa) > 1:
        words.append(f"numa: {len(facts.numa)}")
    words += _links(facts)
    return ", ".join(words)


def _layout(card: GpuFacts) -> list[str]:
    """The MIG instances of one card as a lock file writes them: their profile, and the memory slices that they take."""
    profiles = profiles_of(gpu_model(card.model), card.memory)
    found = []
    for one in card.instances:
        slices, _, position = one.partition("@")
        start, size = map(int, position.split("/"))
        last = f"-{start + size - 1}" if size > 1 else ""
        sized = (kind for kind in profiles.values() if kind.size == size and start in kind.starts)
        kind = next((kind for kind in sized if kind.name.startswith(f"{slices}.")), None)
        found.append(f"{kind.name if kind else slices}@{start}{last}/{kind.of if kind else SLICES}")
    return found


def _links(facts: Facts) -> list[str]:
    """The groups of GPUs that NVLink joins, and those behind one PCIe switch."""
    groups = {
        "nvlink": partition([card.nvlink or () for card in facts.gpus]),
        "pcie": partition([card.pcie for card in facts.gpus]),
    }
    every = (tuple(range(len(facts.gpus))),)
    known = [f"{key}: {'all' if found == every else [*map(list, found)]}" for key, found in groups.items() if found]
    return [f"links: {{{', '.join(known)}}}"] if known else []


def _text(words: str) -> str:
    """A machine's word as YAML: plain if it is certainly text, else quoted, so that it cannot add a key."""
    return words if re.fullmatch(r"[A-Za-z/][A-Za-z0-9/._-]*", words) and words.lower() not in _MEANT else json.dumps(words)


def _round(size: int) -> Bytes:
    unit = 10**9 if size >= 10 * 10**9 else 10**6
    return Bytes(size // unit * unit)
