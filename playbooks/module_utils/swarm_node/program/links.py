"""Which GPUs of this machine does NVLink join, and which are behind one PCIe switch? Everything through NVML."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from ..concerns import gpus

#: NVML's level of two cards that meet in one or several PCIe switches, before any bridge of a processor.
_SWITCHES = 20


def peers(cards: gpus.Cards, unread: List[str]) -> Dict[int, Dict[str, List[int]]]:
    """By index: the GPUs that each is joined with (`nvlink`), and those behind the same switch (`pcie`).

    Empty where the driver fails to tell: then nobody knows, which `unread` says, and that is no sign of a broken link.
    """
    nvml, ones = cards.nvml, cards.by_index
    if nvml is None or len(ones) < 2:
        return {}
    try:
        ends = {index: _ends(nvml, card.handle) for index, card in ones.items()}
        of_gpus = {card.pci for card in ones.values()}
        found: Dict[int, Dict[str, List[int]]] = {index: {"nvlink": [], "pcie": []} for index in ones}
        for i in ones:
            for j in ones:
                if i == j:
                    continue
                if _joined(nvml, ones[i], ones[j], ends[i], ends[j], of_gpus):
                    found[i]["nvlink"].append(j)
                if _behind_one(nvml, ones[i], ones[j]):
                    found[i]["pcie"].append(j)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return {}
    except nvml.NVMLError as error:
        unread.append(f"links between GPUs cannot be read (NVML: {error})")
        return {}
    return found


def _ends(nvml: Any, handle: Any) -> Set[str]:
    """PCI addresses at the other ends of a card's links that are up: of other cards, and of NVLink switches."""
    found: Set[str] = set()
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link):
                found.add(str(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId).lower())
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound, nvml.NVMLError_InvalidArgument):
            break  # it has no such link
    return found


def _behind_one(nvml: Any, one: Any, other: Any) -> bool:
    """Do they meet below any bridge of a processor? Not where the driver cannot say, as in some virtual machines."""
    try:
        return bool(nvml.nvmlDeviceGetTopologyCommonAncestor(one.handle, other.handle) <= _SWITCHES)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return False


def _joined(nvml: Any, one: Any, other: Any, ends: Set[str], others: Set[str], of_gpus: Set[str]) -> bool:
    """Does a link lead from one to the other, directly or through one switch, and may they use it?"""
    if other.pci not in ends and not (ends & others) - of_gpus:
        return False
    try:
        return bool(nvml.nvmlDeviceGetP2PStatus(one.handle, other.handle, nvml.NVML_P2P_CAPS_INDEX_NVLINK) == 0)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return True
