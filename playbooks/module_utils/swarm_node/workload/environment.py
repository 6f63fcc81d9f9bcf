"""What is a workload told of the place it runs in: its GPUs, by which names and in which order, and its directories?

A GPU goes by its UUID. Its number depends on which other cards are there and on who counts, a UUID on nothing but the card.
NVML is asked when a unit is made (`remember`) and whenever the machine is observed, so a card that was exchanged is seen as
another one. A card that has never told its UUID goes by its number, in the order of PCI addresses.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from .. import device
from ..concerns import gpus as cards_of
from ..concerns import instances, topology
from ..concerns.directories import KINDS, directory
from ..machine.run import Context, NodeError

#: How the names of variables begin that only we set.
OURS = "SWARM_"
#: Those by which CUDA, and a container's runtime, are told of GPUs.
VISIBLE, IN_CONTAINERS, ORDER = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
#: Where there are none.
_NONE = {VISIBLE: "-1", IN_CONTAINERS: "none"}
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def own(context: Context, allocation: str, gpus: List[device.Plain], links: Any = None) -> Dict[str, str]:
    """The variables of its unit. Cards stand in the order of its topology file: by NUMA node, switch and PCI address."""
    # Inside its slice only these cards can be opened, yet CUDA counts all files; so it is told which.
    found = {f"{OURS}ALLOCATION": allocation, ORDER: "PCI_BUS_ID"}
    found.update(_named(_visible(context, gpus)))
    whole = topology.order(context, [one.plain for one in device.gpus(gpus) if not one.profile])
    found.update({f"{OURS}GPUS": _joined(whole)} if whole else {})
    found.update(topology.environment(context, allocation, gpus, links))
    return {
        **found,
        **_part(context, gpus),
        **{f"{OURS}{kind.upper()}": path for kind, path in folders(context, allocation).items()},
    }


def earlier(gpus: List[device.Plain]) -> Dict[str, str]:
    """What an earlier version wrote of whole cards: their numbers. A unit that still says so is no other one."""
    return _named([str(index) for index in device.cards(gpus)])


def _named(names: List[str]) -> Dict[str, str]:
    return dict.fromkeys(_NONE, _joined(names)) if names else dict(_NONE)


def _joined(names: List[Any]) -> str:
    return ",".join(map(str, names))


def _visible(context: Context, gpus: List[device.Plain]) -> List[str]:
    """By which names CUDA takes them: UUIDs of MIG instances or of cards; numbers, where it is not known of each card."""
    cut = [one for one in device.gpus(gpus) if one.profile]
    order = topology.order(context, gpus)
    if cut:
        ordered = sorted(cut, key=lambda one: (order.index(one.index), one.start))
        return [str(instances.known(context, one).get("uuid", "")) for one in ordered]
    names = [_uuid(context, index) for index in order]
    return [name for name in names if name] if all(names) else [str(index) for index in device.cards(gpus)]


def _uuid(context: Context, index: int) -> Optional[str]:
    """As the driver tells it, where it has just been opened, else as it told it last."""
    live = _ask(context, context.cards, index) if context.cards is not None else None
    return live or _checked(context.ledger.data["gpus_uuid"].get(str(index)))


def _ask(context: Context, found: cards_of.Cards, index: int) -> Optional[str]:
    """Of the card that had this number when it was taken: numbers move when a card dies."""
    pci = context.ledger.data["gpus_pci"].get(str(index))
    card = next((one for one in found.by_index.values() if one.pci == pci), None) if pci else found.by_index.get(index)
    if card is None:
        return None
    try:
        return _checked(card.nvml.nvmlDeviceGetUUID(card.handle))
    except card.nvml.NVMLError:
        return None  # which is said with its other facts


def _checked(name: Any) -> Optional[str]:
    return name if isinstance(name, str) and _UUID.fullmatch(name) else None


def remember(context: Context, gpus: List[device.Plain]) -> None:
    """Record the UUIDs of these cards as the driver tells them now. One of which it does not keeps the one of before."""
    indices = {one.index for one in device.gpus(gpus) if not one.profile}
    if not indices:
        return
    known = context.ledger.data["gpus_uuid"]
    before = dict(known)
    try:
        with cards_of.cards() as found:
            told = {str(index): _ask(context, found, index) for index in indices}
    except NodeError:
        return
    known.update({index: name for index, name in told.items() if name})
    if known != before:
        context.ledger.save()


def _part(context: Context, gpus: List[device.Plain]) -> Dict[str, str]:
    """Of a part of a GPU, how much it is, and of its memory. Nothing holds anyone to that: they share it by good manners."""
    found = {}
    for one in device.gpus(gpus):
        memory = context.ledger.data["gpus_memory"].get(str(one.index))
        if one.part != device.WHOLE and not one.profile:
            found[f"{OURS}GPU_SHARE"] = device.share(one.part)
            known = isinstance(memory, int) and memory > 0
            found.update({f"{OURS}GPU_MEMORY": str(memory * one.part // device.WHOLE)} if known else {})  # [bytes]
    return found


def folders(context: Context, allocation: str) -> Dict[str, str]:
    """Its directories, by kind. They are made, and recorded, before it starts."""
    return {kind: directory(kind, allocation) for kind in KINDS if context.ledger.get("allocations", allocation, kind)}


def theirs(want: Dict[str, Any]) -> Dict[str, str]:
    """The user's own variables."""
    return {name: value for name, value in (want.get("env") or {}).items() if not name.startswith(OURS)}


def check(want: Dict[str, Any]) -> None:
    """NodeError for a variable that only we set. Not asked of what is recorded: that is to be read, whatever it is."""
    for name in want.get("env") or {}:
        if name.startswith(OURS):
            raise NodeError(f"the variable {name[:60]} is set by swarm; give yours a name that does not begin with {OURS}")


def check_new(want: Dict[str, Any], recorded: Optional[Dict[str, Any]]) -> None:
    """NodeError for a variable that would hide which GPUs it was given. One that ran with it before may do so again."""
    before = (recorded or {}).get("env") or {}
    for name in (VISIBLE, IN_CONTAINERS, ORDER):
        if name in (want.get("env") or {}) and name not in before:
            raise NodeError(f"the variable {name} is set by swarm, to the GPUs of the allocation; set it within the command")
