"""Which MIG instances has each GPU? Those that allocations hold, each at its position; a GPU is cut for the first, whole after the last.

An instance is a GPU instance with one compute instance over all of it. One that is there already, where it is wanted, is taken as
it is, and left so. Nothing else is done to an instance that somebody holds, and a GPU on which anybody computes is not cut.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import stat
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .. import device
from ..machine import nvml_users
from ..machine.run import Change, Context, NodeError
from . import gpus

#: Kinds of GPU instances, and of compute instances, of so many compute slices; the last ones of one slice have more memory.
PROFILES = {1: (0, 9), 2: (1,), 3: (2,), 4: (3,), 7: (4,)}
COMPUTE = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
#: No card has more, of one profile or of all.
MOST = 8
CAPABILITIES = "/proc/driver/nvidia/capabilities"


class Instance:
    """One GPU instance that is there. `start`, `size`: the memory slices that it takes."""

    def __init__(self, card: gpus.Card, handle: Any) -> None:
        info = card.nvml.nvmlGpuInstanceGetInfo(handle)
        self.card, self.handle = card, handle
        self.id, self.profile = int(info.id), int(info.profileId)
        self.start, self.size = int(info.placement.start), int(info.placement.size)

    def takes(self, one: device.Device) -> bool:
        """Does it lie where that one is to lie?"""
        return self.start < one.start + one.size and one.start < self.start + self.size


def key(card: gpus.Card) -> str:
    """Of its original mode."""
    return f"mig:{card.pci}"


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """All of them go, and each card has its mode of before."""
    return unmake(context, [device.gpu(plain) for plain in sorted(context.ledger.instances())])


def make(context: Context, ones: List[device.Device]) -> List[Change]:
    """Make these instances where they are not; what is known of each is recorded."""
    wanted = [one for one in ones if one.profile]
    if not wanted:
        return []
    changes: List[Change] = []
    with gpus.cards() as found:
        for one in wanted:
            card = found.card(one.index)
            gpus.same_card(context, card)
            with _spelled(card, one):
                changes += _make(context, card, one)
    return changes


def whole(context: Context, ones: List[device.Device]) -> None:
    """NodeError where one of these cards is cut: nobody can use all of it, nor a part."""
    if context.check or all(one.profile for one in ones):
        return
    with gpus.cards() as found:
        for card in (found.card(one.index) for one in ones if not one.profile):
            if may_be_cut(card):
                raise NodeError(f"{card.name} is in MIG mode; remove its instances, and then `nvidia-smi -mig 0`")


def _make(context: Context, card: gpus.Card, one: device.Device) -> List[Change]:
    profile = _profile_of(card, one)
    cut = _cut(card)
    there = [each for each in instances(card) if each.takes(one)] if cut else []
    if context.check:  # what is ours would have gone by now
        ours = {(each.index, each.start, each.size) for each in map(device.gpu, context.ledger.instances())}
        there = [each for each in there if (card.index, each.start, each.size) not in ours - {(one.index, one.start, one.size)}]
    same = next((each for each in there if (each.start, each.size, each.profile) == (one.start, one.size, profile)), None)
    if there and not same:
        at = ", ".join(f"{each.start}-{each.start + each.size - 1}" for each in there)
        raise NodeError(f"{card.name} has another MIG instance on memory slices {at}; `nvidia-smi mig -lgi` lists it")
    if context.check:
        return [] if same else [{"path": f"gpus[{one.index}].mig", "old": None, "new": one.plain}]
    context.ledger.confirm()
    if not cut:
        _set_mode(context, card, on=True)
    new = same is None
    ours = same is None or _made_here(context, card, same, one)
    if same is None:
        same = _create(context, card, one, profile)
    compute = _compute_of(card, same, one)
    value: Dict[str, Any] = {"ours": ours, "uuid": _uuid(card, same.id, compute)}
    context.ledger.know_instance(str(one.plain), value)  # by its name it is known as ours, whatever comes
    context.ledger.know_instance(str(one.plain), dict(value, files=_files(context, card, same.id, compute)))
    return [{"path": f"gpus[{one.index}].mig", "old": None, "new": one.plain}] if new else []


def _create(context: Context, card: gpus.Card, one: device.Device, profile: int) -> Instance:
    # Recorded before it is there: of a run that is killed in between, it is removed again.
    context.ledger.know_instance(str(one.plain), {"ours": True})
    try:
        placement = card.nvml.c_nvmlGpuInstancePlacement_t(one.start, one.size)
        handle = card.nvml.nvmlDeviceCreateGpuInstanceWithPlacement(card.handle, profile, ctypes.byref(placement))
    except card.nvml.NVMLError:
        context.ledger.know_instance(str(one.plain), None)
        raise
    return Instance(card, handle)


def unmake(context: Context, ones: List[device.Device]) -> List[Change]:
    """Remove those of these instances that were made here, and make each card whole of which nobody holds one any more.

    Also those cards that a run which was killed, or a card that refused, has left cut.
    """
    held = context.ledger.instances()
    gone = [one for one in ones if one.profile and str(one.plain) in held]
    if not gone and not _left_cut(context):
        return []
    changes: List[Change] = []
    with gpus.cards() as found:
        for one in gone:
            card = _card(context, found, one.index)
            if card is not None:
                with _spelled(card, one):
                    changes += _unmake(context, card, one)
            if not context.check:
                context.ledger.know_instance(str(one.plain), None)
        left = {device.gpu(plain).index for plain in context.ledger.instances()}
        used = [_card(context, found, index) for index in left]
        for card in found.by_index.values():
            if not context.check and card not in used and context.ledger.has_original(key(card)):
                with _spelled(card, None):
                    _make_whole(context, card)
    return changes


def unheld(context: Context) -> List[device.Device]:
    """Those that a run which was killed has made, and no allocation holds."""
    held = {one for state in (context.ledger.get("allocations") or {}).values() for one in device.gpus(state.get("gpus") or ())}
    return [one for one in map(device.gpu, sorted(context.ledger.instances())) if one not in held]


def _left_cut(context: Context) -> bool:
    """Is there a card that was cut here, and of which nothing is recorded any more?"""
    known = context.ledger.data["gpus_pci"]
    used = {known.get(str(device.gpu(plain).index)) for plain in context.ledger.instances()}
    return bool(context.ledger.originals("mig:").keys() - used)


def _card(context: Context, found: gpus.Cards, index: int) -> Optional[gpus.Card]:
    """The card that had this index when it was cut; None when it is gone. Indices move when a card dies."""
    pci = context.ledger.data["gpus_pci"].get(str(index))
    return next((card for card in found.by_index.values() if card.pci == pci), None) if pci else found.by_index.get(index)


def _make_whole(context: Context, card: gpus.Card) -> None:
    if not _cut(card):  # a reboot did that
        context.ledger.forget_original(key(card))
    elif not instances(card):  # where somebody else has made one since, the card stays cut
        _set_mode(context, card, on=False)


def _made_here(context: Context, card: gpus.Card, there: Instance, one: device.Device) -> bool:
    """Is the instance that lies there the one that was made here, and not one that somebody made since at the same slices?

    It is known by its MIG-…. Without a compute instance it has none, and nobody can use it: a run that was killed left it so.
    A driver that gives the same name to an instance with the same number makes the two alike: then they cannot be told apart.
    """
    recorded = known(context, one)
    named = {str(card.nvml.nvmlDeviceGetUUID(mig)) for mig in _devices(card) if _instance_of(card, mig) == there.id}
    return bool(recorded.get("ours")) and (not named or recorded.get("uuid") in named)


def _instance_of(card: gpus.Card, mig: Any) -> int:
    return int(card.nvml.nvmlDeviceGetGpuInstanceId(mig))


def _unmake(context: Context, card: gpus.Card, one: device.Device) -> List[Change]:
    there = instances(card) if _cut(card) else []
    same = next((each for each in there if (each.start, each.size) == (one.start, one.size)), None)
    if same is None or not _made_here(context, card, same, one):
        return []
    if not context.check:
        context.ledger.confirm()
        for compute in _computes(card, same):
            card.nvml.nvmlComputeInstanceDestroy(compute)
        card.nvml.nvmlGpuInstanceDestroy(same.handle)
    return [{"path": f"gpus[{one.index}].mig", "old": one.plain, "new": None}]


def _cut(card: gpus.Card) -> bool:
    return bool(card.nvml.nvmlDeviceGetMigMode(card.handle)[0])


def may_be_cut(card: gpus.Card) -> bool:
    """Of any card, also one that has no such mode."""
    nvml = card.nvml
    try:
        return _cut(card)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return False


def _set_mode(context: Context, card: gpus.Card, *, on: bool) -> None:
    """NodeError where the card does not take it at once: some have to be reset for it, and any must be idle."""
    if on:
        context.ledger.save_original(key(card), 0)
    with nvml_users.released(context):
        status = card.nvml.nvmlDeviceSetMigMode(card.handle, int(on))
    if status or _cut(card) != on:
        what = "on" if on else "off"
        raise NodeError(f"{card.name}: MIG mode {what} waits for a reset of the card (NVML status {status}); reboot the node")
    if not on:
        context.ledger.forget_original(key(card))


def instances(card: gpus.Card) -> List[Instance]:
    """All GPU instances of a card, by where they begin."""
    found: Dict[int, Instance] = {}
    for kind in range(int(getattr(card.nvml, "NVML_GPU_INSTANCE_PROFILE_COUNT", 10))):
        info = _info(card, kind)
        if info is None:
            continue
        handles, count = (card.nvml.c_nvmlGpuInstance_t * MOST)(), ctypes.c_uint(MOST)
        card.nvml.nvmlDeviceGetGpuInstances(card.handle, info.id, handles, ctypes.byref(count))
        for handle in list(handles)[: count.value]:
            one = Instance(card, handle)
            found[one.id] = one
    return sorted(found.values(), key=lambda one: one.start)


def layout(card: gpus.Card, unread: List[str]) -> Dict[str, Any]:
    """Of a card that is cut, what is there, whoever made it: compute slices, and memory slices as `first/number`."""
    nvml = card.nvml
    try:
        cut = may_be_cut(card)
    except nvml.NVMLError:
        return {}  # its MIG mode cannot be read, which is said with its other facts
    if not cut:
        return {}
    try:
        kinds = {info.id: slices for slices, ones in PROFILES.items() for kind in ones if (info := _info(card, kind))}
        found = [f"{kinds[one.profile]}g@{one.start}/{one.size}" for one in instances(card) if one.profile in kinds]
    except nvml.NVMLError as error:
        unread.append(f"gpu {card.index}: its MIG instances cannot be read (NVML: {error})")
        return {}
    return {"instances": found} if found else {}


def _info(card: gpus.Card, kind: int) -> Any:
    nvml = card.nvml
    try:
        return nvml.nvmlDeviceGetGpuInstanceProfileInfo(card.handle, kind, 1)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotFound):
        return None


def _profile_of(card: gpus.Card, one: device.Device) -> int:
    """NVML's number of the profile that may lie where this one is to lie, on this very card."""
    nvml = card.nvml
    for kind in PROFILES.get(int(one.profile[0]), ()):
        info = _info(card, kind)
        if info is None:
            continue
        places, count = (nvml.c_nvmlGpuInstancePlacement_t * 16)(), ctypes.c_uint(16)
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(card.handle, info.id, places, ctypes.byref(count))
        if any((place.start, place.size) == (one.start, one.size) for place in list(places)[: count.value]):
            return int(info.id)
    raise NodeError(f"{card.name} has no MIG instance {one.profile} on memory slices {one.position}")


def _computes(card: gpus.Card, one: Instance) -> List[Any]:
    nvml, found = card.nvml, []
    for kind in COMPUTE.values():
        info = _compute_info(card, one, kind)
        if info is None:
            continue
        handles, count = (nvml.c_nvmlComputeInstance_t * MOST)(), ctypes.c_uint(MOST)
        nvml.nvmlGpuInstanceGetComputeInstances(one.handle, info.id, handles, ctypes.byref(count))
        found += list(handles)[: count.value]
    return found


def _compute_info(card: gpus.Card, one: Instance, kind: int) -> Any:
    nvml = card.nvml
    try:
        return nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(one.handle, kind, 0, 1)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotFound):
        return None


def _compute_of(card: gpus.Card, one: Instance, wanted: device.Device) -> int:
    """The number of its compute instance, which is made where there is none."""
    found = _computes(card, one)
    if len(found) > 1:
        raise NodeError(f"{card.name}: its MIG instance {one.id} has {len(found)} compute instances, and one is wanted")
    if not found:
        info = _compute_info(card, one, COMPUTE[int(wanted.profile[0])])
        if info is None:
            raise NodeError(f"{card.name} has no compute instance for {wanted.profile}")
        found = [card.nvml.nvmlGpuInstanceCreateComputeInstance(one.handle, info.id)]
    return int(card.nvml.nvmlComputeInstanceGetInfo(found[0]).id)


def _uuid(card: gpus.Card, instance: int, compute: int) -> str:
    """By which CUDA is told of it: MIG-…"""
    for mig in _devices(card):
        if (_instance_of(card, mig), card.nvml.nvmlDeviceGetComputeInstanceId(mig)) == (instance, compute):
            return str(card.nvml.nvmlDeviceGetUUID(mig))
    raise NodeError(f"{card.name}: NVML does not list its MIG instance {instance}")


def _devices(card: gpus.Card) -> Iterator[Any]:
    nvml = card.nvml
    for i in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(card.handle))):
        with contextlib.suppress(nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, i)


def _files(context: Context, card: gpus.Card, instance: int, compute: int) -> List[str]:
    """The device files of its capabilities: who may open these may use it, and no other instance of the card."""
    folder = f"{CAPABILITIES}/gpu{card.nvml.nvmlDeviceGetMinorNumber(card.handle)}/mig/gi{instance}"
    return [_file(context, f"{folder}/access"), _file(context, f"{folder}/ci{compute}/access")]


def _file(context: Context, capability: str) -> str:
    number = re.search(r"^DeviceFileMinor:\s*([0-9]+)", context.read(capability) or "", re.MULTILINE)
    if not number:
        raise NodeError(f"{capability} is not there, so nobody can be allowed to use this MIG instance")
    path = f"/dev/nvidia-caps/nvidia-cap{number[1]}"
    if not os.path.exists(context.path(path)):
        major = re.search(r"^\s*([0-9]+) nvidia-caps$", context.read("/proc/devices") or "", re.MULTILINE)
        if not major:
            raise NodeError(f"{path} is not there, and the kernel lists no nvidia-caps")
        os.makedirs(os.path.dirname(context.path(path)), exist_ok=True)
        os.mknod(context.path(path), stat.S_IFCHR | 0o600, os.makedev(int(major[1]), int(number[1])))
    return path


@contextlib.contextmanager
def _spelled(card: gpus.Card, one: Optional[device.Device]) -> Iterator[None]:
    """NVML's words with the card and the instance that they are about."""
    try:
        yield
    except card.nvml.NVMLError as error:
        what = f"MIG instance {one.profile} at {one.position}" if one else "MIG mode"
        raise NodeError(f"{card.name}: {what}: {error}") from None


def known(context: Context, one: device.Device) -> Dict[str, Any]:
    """What is recorded of an instance: `uuid`, and the `files` of its capabilities; nothing of any other device."""
    found: Dict[str, Any] = (context.ledger.instances().get(str(one.plain)) or {}) if one.profile else {}
    return found


def live(context: Context, *, else_recorded: bool = False) -> Dict[Tuple[int, int, int], str]:
    """By card, start and size, the instances that are there now: of cards of which any is recorded here, and their MIG-…

    Where a driver fails to tell those of a card: NodeError, or (to observe it) those that are recorded.
    """
    indices = {device.gpu(plain).index for plain in context.ledger.instances()}
    if not indices:
        return {}
    if context.cards is None:
        with gpus.cards() as cards:
            return _live(context, cards, indices, else_recorded)
    return _live(context, context.cards, indices, else_recorded)


def _live(context: Context, cards: gpus.Cards, indices: Any, else_recorded: bool) -> Dict[Tuple[int, int, int], str]:
    found = {}
    for card in (cards.by_index[index] for index in sorted(indices) if index in cards.by_index):
        try:
            found.update(_live_on(card))
        except card.nvml.NVMLError as error:
            words = f"gpu {card.index}: its MIG instances cannot be verified (NVML: {error})"
            if not else_recorded:
                raise NodeError(words) from None
            context.unverified += [words] if words not in context.unverified else []
            found.update(_recorded_on(context, card.index))
    return found


def _live_on(card: gpus.Card) -> Dict[Tuple[int, int, int], str]:
    if not _cut(card):
        return {}
    names = {_instance_of(card, mig): str(card.nvml.nvmlDeviceGetUUID(mig)) for mig in _devices(card)}
    return {(card.index, one.start, one.size): names.get(one.id, "") for one in instances(card)}


def _recorded_on(context: Context, index: int) -> Dict[Tuple[int, int, int], str]:
    every = ((device.gpu(plain), state) for plain, state in context.ledger.instances().items())
    return {(index, one.start, one.size): str(state.get("uuid") or "") for one, state in every if one.index == index}
