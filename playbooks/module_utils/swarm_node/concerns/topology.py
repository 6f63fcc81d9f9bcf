"""What is a job told of its place: its GPUs, by which names and in which order, and to NCCL, how they hang together?

A GPU goes by its UUID. Its number depends on which other cards are there and on who counts, a UUID on nothing but the card.
NVML is asked when a unit is made (`remember`) and whenever the machine is observed, so a card that was exchanged is seen as
another one. A card that has never told its UUID goes by its number, in the order of PCI addresses.

NCCL gets a file in its own format, which says how its cards hang on the processors and which of them NVLink joins, as its
src/graph/xml.cc reads it (tags system, cpu, pci, gpu, nvlink; version 1, see src/graph/xml.h). NCCL adds what a device lacks
from /sys and NVML, but not to what stands there: it follows no device in /sys that has a parent in the file, and looks for no
NVLink of a GPU that has one. So the switches are those that it would find
itself, every second bridge upwards, and links are counted through NVML; a card of which that tells nothing gets none.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import device
from ..machine.run import Change, Context, NodeError
from ..workload.environment import IN_CONTAINERS, ORDER, OURS, VISIBLE
from . import directories, instances
from . import gpus as cards_of

#: Not in /run/swarm, which is root's alone: jobs read it.
FOLDER = "/run/swarm-topology"
#: Variables that follow from what is found on the machine, and may change without a restart.
FOUND = ("NCCL_IB_HCA", "UCX_NET_DEVICES")
#: Where there are no GPUs.
_NONE = {VISIBLE: "-1", IN_CONTAINERS: "none"}
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BDF = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HCA = re.compile(r"[A-Za-z0-9_-]{1,32}")
#: PCI classes of the other end of a link: a GPU, an NVSwitch.
_GPU, _SWITCH = "0x030200", "0x068000"
_NVLINK = re.compile(rf' *<nvlink target="{_BDF.pattern}" count="[1-9][0-9]?" tclass="(?:{_GPU}|{_SWITCH})"/>\n')
Groups = Sequence[Sequence[int]]
Ends = Dict[int, Dict[str, int]]


def path(allocation: str) -> str:
    """The file of an allocation, whose name is one of the ledger's: letters, digits and '-'."""
    return f"{FOLDER}/{allocation}.xml"


def own(context: Context, allocation: str, gpus: List[device.Plain], links: Any = None) -> Dict[str, str]:
    """The variables of its unit. Cards stand in the order of its topology file: by NUMA node, switch and PCI address."""
    # Inside its slice only these cards can be opened, yet CUDA counts all files; so it is told which.
    found = {f"{OURS}ALLOCATION": allocation, ORDER: "PCI_BUS_ID"}
    found.update(_named(_visible(context, gpus)))
    whole = order(context, [one.plain for one in device.gpus(gpus) if not one.profile])
    found.update({f"{OURS}GPUS": _joined(whole)} if whole else {})
    found.update({**environment(context, allocation, gpus, links), **_part(context, gpus)})
    return {**found, **{f"{OURS}{kind.upper()}": path for kind, path in directories.held(context, allocation).items()}}


def earlier(gpus: List[device.Plain]) -> Dict[str, str]:
    """What an earlier version wrote of whole cards: their numbers. A unit that still says so is no other one."""
    return {} if any(one.profile for one in device.gpus(gpus)) else _named([str(index) for index in device.cards(gpus)])


def same(name: str, value: str, own: Dict[str, str]) -> bool:
    """Does a unit say of this variable what `own` does? The order of cards is that of its start: a card that has left the bus since
    changes what the machine shows, and an earlier version named MIG instances in another one."""
    if name not in (VISIBLE, IN_CONTAINERS, f"{OURS}GPUS"):
        return value == own.get(name)
    return sorted(value.split(",")) == sorted(own.get(name, "").split(","))


def _named(names: List[str]) -> Dict[str, str]:
    return dict.fromkeys(_NONE, _joined(names)) if names else dict(_NONE)


def _joined(names: List[Any]) -> str:
    return ",".join(map(str, names))


def _visible(context: Context, gpus: List[device.Plain]) -> List[str]:
    """By which names CUDA takes them: UUIDs of MIG instances or of cards; numbers, where it is not known of each card."""
    cut = [one for one in device.gpus(gpus) if one.profile]
    numbers = order(context, gpus)
    if cut:
        ordered = sorted(cut, key=lambda one: (numbers.index(one.index), one.start))
        return [str(instances.known(context, one).get("uuid", "")) for one in ordered]
    names = [_uuid(context, index) for index in numbers]
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


def write(context: Context, allocation: str, gpus: List[device.Plain], links: Optional[Groups]) -> None:
    """Put the file there; without `links` it goes."""
    if links is None:
        context.remove(path(allocation))
        return
    context.write(path(allocation), text(context, gpus, links, _ends(gpus)))
    if not context.check:
        os.chmod(context.path(FOLDER), 0o755)


def told(context: Context, allocation: str, gpus: List[device.Plain], links: Optional[Groups]) -> Optional[Groups]:
    """`links`, if the file says what it would say now; how many links lead there is not asked again. Else None."""
    there = context.read(path(allocation))
    if links is None or there is None:
        return None
    return links if _NVLINK.sub("", there + "\n").strip() == text(context, gpus, links, {}).strip() else None


def environment(context: Context, allocation: str, gpus: List[device.Plain], links: Optional[Groups]) -> Dict[str, str]:
    """The variables of NCCL and UCX; none without `links`."""
    if links is None:
        return {}
    near = {_numa(context, address) for address in _addresses(context, gpus).values()}
    home = "/sys/class/infiniband"
    adapters = [name for name in context.names(home) if _HCA.fullmatch(name)]
    mine = [name for name in adapters if (context.read(f"{home}/{name}/device/numa_node") or "-1") in near - {"-1"}]
    found = {"NCCL_TOPO_FILE": path(allocation)}
    if mine:  # the names exactly as they are, each with its first port
        found.update({FOUND[0]: "=" + ",".join(mine), FOUND[1]: ",".join(f"{name}:1" for name in mine)})
    return found


def text(context: Context, gpus: List[device.Plain], links: Groups, ends: Ends) -> str:
    """The file, of cards whose links end so (`_ends`): only those between two of one group are told."""
    addresses = _addresses(context, gpus)
    lines = ['<system version="1">']
    for numa in sorted({_numa(context, address) for address in addresses.values()}, key=lambda text: (len(text), text)):
        lines.append(f'  <cpu numaid="{numa}">')
        here = {index: _chain(context, address) for index, address in addresses.items() if _numa(context, address) == numa}
        lines += _devices(list(here.items()), 0, lambda index: _links(index, links, addresses, ends))
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>"]) + "\n"


def order(context: Context, gpus: List[device.Plain]) -> List[int]:
    """The cards, in the order in which the file has them; last those whose address is not known."""
    addresses = _addresses(context, gpus)

    def key(index: int) -> Tuple[bool, int, str, List[str], int]:
        address = addresses.get(index, "")
        numa = _numa(context, address) if address else ""
        return not address, len(numa), numa, _chain(context, address) if address else [], index

    return sorted(device.cards(gpus), key=key)


def _devices(chains: List[Tuple[int, List[str]]], depth: int, linked: Any) -> List[str]:
    """Switches and GPUs below one of them, each once."""
    lines, pad = [], "  " * (depth + 2)
    for name in sorted({chain[depth] for _, chain in chains}):
        below = [(index, chain) for index, chain in chains if chain[depth] == name]
        lines.append(f'{pad}<pci busid="{name}">')
        ends = [index for index, chain in below if len(chain) == depth + 1]
        for index in ends:
            lines += [f"{pad}  <gpu>", *(f"{pad}    {line}" for line in linked(index)), f"{pad}  </gpu>"]
        lines += _devices([one for one in below if one[0] not in ends], depth + 1, linked)
        lines.append(f"{pad}</pci>")
    return lines


def _links(index: int, links: Groups, addresses: Dict[int, str], ends: Ends) -> List[str]:
    group = next((set(group) for group in links if index in group), set())
    peers = {addresses[one]: _GPU for one in group - {index} if one in addresses}
    found = []
    for target, count in sorted(ends.get(index, {}).items() if peers else ()):
        kind = peers.get(target) or (_SWITCH if target not in addresses.values() else "")
        if kind:
            found.append(f'<nvlink target="{target}" count="{count}" tclass="{kind}"/>')
    return found


def _addresses(context: Context, gpus: List[device.Plain]) -> Dict[int, str]:
    """PCI addresses of its cards, as they are recorded."""
    known = context.ledger.data.get("gpus_pci", {})
    found = {index: str(known.get(str(index)) or "").lower()[-12:] for index in device.cards(gpus)}
    return {index: address for index, address in found.items() if _BDF.fullmatch(address)}


def _numa(context: Context, address: str) -> str:
    found = context.read(f"/sys/bus/pci/devices/{address}/numa_node") or ""
    return found if re.fullmatch(r"[0-9]{1,4}", found) else "-1"


def _chain(context: Context, address: str) -> List[str]:
    """The switches above a card, the topmost first, and the card: every second bridge, as NCCL counts them."""
    real = os.path.realpath(context.path(f"/sys/bus/pci/devices/{address}"))
    bridges = [part for part in real.split("/") if _BDF.fullmatch(part)]
    return bridges[::-1][::2][::-1] if bridges[-1:] == [address] else [address]


def _ends(gpus: List[device.Plain]) -> Ends:
    """By card, how many links are up to which PCI address, as NVML tells; a card of which it does not is left out."""
    try:
        with cards_of.cards() as seen:
            ones = {index: seen.by_index[index] for index in device.cards(gpus) if index in seen.by_index}
            return {index: _of_card(seen.nvml, card.handle) for index, card in ones.items()}
    except NodeError:
        return {}  # NCCL looks itself then


def _of_card(nvml: Any, handle: Any) -> Dict[str, int]:
    ends: Dict[str, int] = {}
    try:
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            if nvml.nvmlDeviceGetNvLinkState(handle, link):
                end = str(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId).lower()[-12:]
                ends[end] = ends.get(end, 0) + 1
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound, nvml.NVMLError_InvalidArgument):
        pass  # it has no such link
    return {end: count for end, count in ends.items() if _BDF.fullmatch(end)}


def release(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """The file goes with its allocation."""
    context.remove(path(allocation))
    return []


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """The folder goes, when it is empty."""
    context.remove_folder(FOLDER)
    return []
