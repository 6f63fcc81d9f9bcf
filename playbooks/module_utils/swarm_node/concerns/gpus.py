"""What is set on the GPUs, and what are they? Everything through NVML."""

from __future__ import annotations

import contextlib
import pwd
from functools import partial
from typing import Any, Dict, Iterator, List, Optional

from ..machine.run import Change, Context, NodeError, change
from ..machine.undo import Value, whole

#: The model of a card that does not tell it: it is never the one that a stack file declares.
UNKNOWN = "unknown"
FIELDS = ("persistence", "power_w", "clock_mhz")


class Card:
    """One GPU. Indices count in the order of PCI addresses, whatever NVML's own order is."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle
        self.index = -1
        self.pci: str = nvml.nvmlDeviceGetPciInfo(handle).busId.lower()

    @property
    def name(self) -> str:
        """'gpu 3 (NVIDIA H100 80GB HBM3)', as in messages."""
        return f"gpu {self.index} ({self.nvml.nvmlDeviceGetName(self.handle)})"

    def power_range(self) -> List[int]:
        """Least and most power limit that the card itself allows. [W]"""
        return [int(value) // 1000 for value in self.nvml.nvmlDeviceGetPowerManagementLimitConstraints(self.handle)]

    def read(self, field: str) -> Any:
        """The true value of one field of GpuState.

        NVML has no getter for a clock lock. We lock least = most, so a locked card shows that clock even when idle,
        and the current graphics clock stands for the lock. A card that throttles for heat or power shows less for
        that while, and an unlocked one may stand at the very clock by chance: both are read wrongly here.
        """
        if field == "persistence":
            return bool(self.nvml.nvmlDeviceGetPersistenceMode(self.handle))
        if field == "power_w":
            return int(self.nvml.nvmlDeviceGetPowerManagementLimit(self.handle)) // 1000
        return int(self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_GRAPHICS))

    def judge(self, field: str, value: Any) -> None:
        """NodeError when the card cannot take it, with the card's own range."""
        if field == "power_w":
            least, most = self.power_range()
            if not least <= value <= most:
                raise NodeError(f"power_limit {value} W is outside {least}-{most} W of {self.name}")
        if field == "clock_mhz":
            clocks = self._clocks()
            if clocks and value not in clocks:
                if not min(clocks) <= value <= max(clocks):
                    raise NodeError(f"gpu_clock {value} MHz is outside {min(clocks)}-{max(clocks)} MHz of {self.name}")
                near = min(clocks, key=lambda clock: abs(clock - value))
                raise NodeError(f"gpu_clock {value} MHz is no step of {self.name}; the nearest is {near} MHz")

    def _clocks(self) -> List[int]:
        nvml = self.nvml
        try:
            memory = nvml.nvmlDeviceGetSupportedMemoryClocks(self.handle)
            return sorted(nvml.nvmlDeviceGetSupportedGraphicsClocks(self.handle, memory[0])) if memory else []
        except nvml.NVMLError_NotSupported:
            return []  # the set itself will tell

    def write(self, field: str, value: Any) -> None:
        """Set one field; None unlocks the clock."""
        nvml = self.nvml
        if field == "persistence":
            nvml.nvmlDeviceSetPersistenceMode(self.handle, int(value))
        elif field == "power_w":
            nvml.nvmlDeviceSetPowerManagementLimit(self.handle, int(value) * 1000)
        elif value is None:
            nvml.nvmlDeviceResetGpuLockedClocks(self.handle)
        else:
            nvml.nvmlDeviceSetGpuLockedClocks(self.handle, int(value), int(value))

    def facts(self, unread: List[str]) -> Dict[str, Any]:
        """GpuFacts. What the driver fails to tell is named in `unread`, and is as if the card had none of it."""
        nvml, handle = self.nvml, self.handle

        def ask(what: str, call: Any, otherwise: Any) -> Any:
            try:
                return _or(call, otherwise, nvml)
            except nvml.NVMLError as error:
                unread.append(f"gpu {self.index}: its {what} cannot be read (NVML: {error})")
                return otherwise

        least, most = ask("range of power", self.power_range, [0, 0])
        default = ask("default power", lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle), 0)
        processes = ask("processes", lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle), [])
        cut = ask("MIG mode", lambda: nvml.nvmlDeviceGetMigMode(handle)[0], 0)
        return {
            "index": self.index, "pci": self.pci, "uuid": ask("UUID", lambda: nvml.nvmlDeviceGetUUID(handle), UNKNOWN),
            "model": ask("model", lambda: nvml.nvmlDeviceGetName(handle), UNKNOWN), "memory": ask("memory", self.memory, 0),
            "numa": ask("NUMA node", self._numa, -1), "power_min_w": least, "power_max_w": most, "power_default_w": default // 1000,
            "processes": [describe(process.pid) for process in processes], **({"mig": True} if cut else {}),
        }  # fmt: skip

    def memory(self) -> int:
        """What it has, or 0 where it has none of its own. [bytes]"""
        return int(_or(lambda: self.nvml.nvmlDeviceGetMemoryInfo(self.handle).total, 0, self.nvml))

    def _numa(self) -> int:
        # sysfs writes the PCI domain with four digits, NVML with eight
        path = f"/sys/bus/pci/devices/{self.pci[-12:]}/numa_node"
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            node = int(file.read())
            if node >= 0:
                return node
        # A virtual machine's kernel may not know. NVML's NumaNodeId is of a card's own memory, not of what it is near.
        masks = _or(lambda: self.nvml.nvmlDeviceGetMemoryAffinity(self.handle, 16, 0), [], self.nvml)
        near = [64 * word + bit for word, mask in enumerate(masks) for bit in range(64) if mask >> bit & 1]
        return near[0] if len(near) == 1 else -1


def _or(call: Any, otherwise: Any, nvml: Any) -> Any:
    try:
        return call()
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return otherwise


def describe(pid: int) -> str:
    """'PID USER COMMAND' of a process, as far as it can still be seen."""
    user = command = "?"
    with contextlib.suppress(OSError, KeyError, ValueError):
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            command = file.read().strip()
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            uid = int(next(line for line in file if line.startswith("Uid:")).split()[1])
        user = pwd.getpwuid(uid).pw_name
    return f"{pid} {user} {command}"


class Cards:
    """All GPUs of this machine, by index. Empty where there is no driver. `lost`: indices that have fallen off the bus;
    `mute`: those that do not answer for another reason, which may still be at work. To each what is said of it.
    """

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.by_index: Dict[int, Card] = {}
        self.lost: Dict[int, str] = {}
        self.mute: Dict[int, str] = {}
        if nvml is None:
            return
        found: List[Card] = []
        for number in range(nvml.nvmlDeviceGetCount()):
            try:
                found.append(Card(nvml, nvml.nvmlDeviceGetHandleByIndex(number)))
            except nvml.NVMLError_GpuIsLost:
                self.lost[number] = fallen(number)
            except nvml.NVMLError as error:
                self.mute[number] = f"gpu {number} does not answer (NVML: {error}); reboot the node, or drain it"
        silent = self.silent
        ordered = sorted(found, key=lambda card: card.pci)
        # A lost card tells no address, so its place among the others is known only where NVML lists by address.
        if silent and ordered != found:
            what = "has fallen off the bus" if self.lost else "does not answer"
            raise NodeError(f"a GPU {what}, and NVML does not tell which; reboot the node, or declare it lost")
        free = (index for index in range(len(found) + len(silent)) if index not in silent)
        for index, card in zip(free, ordered):
            card.index = index
            self.by_index[index] = card

    @property
    def silent(self) -> Dict[int, str]:
        """Both, lost and mute."""
        return {**self.lost, **self.mute}

    @property
    def driver(self) -> str:
        """Version of the driver; empty without one."""
        return str(self.nvml.nvmlSystemGetDriverVersion()) if self.nvml else ""

    def card(self, index: Any) -> Card:
        """The card with this index, or NodeError."""
        if int(index) in self.silent:
            raise NodeError(self.silent[int(index)])
        if int(index) not in self.by_index:
            raise NodeError(f"gpu {index} is not there: this machine has {len(self.by_index)} GPUs")
        return self.by_index[int(index)]


@contextlib.contextmanager
def cards() -> Iterator[Cards]:
    """NVML, opened and closed. NodeError in NVML's own words."""
    try:
        import pynvml
    except ImportError as error:
        raise NodeError(f"pynvml.py is missing beside the node program: {error}") from None
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        yield Cards(None)
        return
    except pynvml.NVMLError as error:
        raise NodeError(f"NVML: {error}") from None
    try:
        yield Cards(pynvml)
    except pynvml.NVMLError as error:
        raise NodeError(f"NVML: {error}") from None
    finally:
        pynvml.nvmlShutdown()


def fallen(index: int) -> str:
    """What is said of a card that does not answer any more."""
    return f"gpu {index} has fallen off the bus (NVML: GPU is lost); reboot the node, or drain it"


def managed(state: Optional[Dict[str, Any]]) -> bool:
    """Does this GpuState manage anything?"""
    return bool(state) and any(state.get(field) is not None for field in FIELDS) if state else False


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Make `want` ({index: GpuState}) so, for these GPUs alone, or leave all as it was; null: the original back."""
    with cards() as found:
        for index, state in want.items():
            same_card(context, found.card(index))
            for field in FIELDS:
                if state.get(field) is not None:
                    found.card(index).judge(field, state[field])
        ordered = [(found.card(index), state) for index, state in sorted(want.items(), key=lambda item: int(item[0]))]
        with whole(context, [value for card, state in ordered for value in _values(context, card, state)]):
            return [
                each for card, state in ordered for field in FIELDS for each in _set(context, card, field, state.get(field))
            ]


def _step(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    wanted = {str(index): state or {} for index, state in (want.get("gpus") or {}).items()}
    changes = apply(context, allocation, wanted)
    for index, state in wanted.items():
        context.ledger.record("gpus", index, value=state if managed(state) else None)
    return changes


STEPS = {"gpus": _step}


def boot(context: Context, allocation: str, recorded: Dict[str, Any]) -> None:
    """Set them again."""
    if recorded["gpus"]:
        apply(context, "", recorded["gpus"])


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{gpus}."""
    return {"gpus": read(context, "", recorded["gpus"], context.cards)}


def _set(context: Context, card: Card, field: str, wanted: Any) -> List[Change]:
    try:
        return _settle(context, card, field, wanted)
    except card.nvml.NVMLError as error:
        raise NodeError(f"{card.name}: {_spelled(field, wanted)}: {error}") from None


def _values(context: Context, card: Card, want: Dict[str, Any]) -> List[Value]:
    """What `want` may change on one card. A clock without an original was not locked by us: it is unlocked again."""
    locked = context.ledger.has_original(f"gpu:{card.pci}:clock_mhz")

    def write(field: str, old: Any) -> None:
        _write(context, card, field, None if field == "clock_mhz" and not locked else old)

    return [
        Value(f"{card.name}: {field}", partial(card.read, field), partial(write, field), exact=field != "clock_mhz")
        for field in FIELDS
        if want.get(field) is not None or context.ledger.has_original(f"gpu:{card.pci}:{field}")
    ]


def _spelled(field: str, value: Any) -> str:
    """A field as the stack file spells it."""
    key, unit = {"power_w": ("gpu_power", "W"), "clock_mhz": ("gpu_clock", "MHz")}.get(field, ("gpu_persistence", ""))
    return f"{key} given back" if value is None else f"{key} {str(value).lower()} {unit}".strip()


def vacant(context: Context, groups: Dict[int, List[str]]) -> None:
    """NodeError when one of these cards is not there, is another card than before, or is used from outside its groups.

    `groups`: of each card, the slices of the allocation that takes it and of those that hold other parts of it. A process that some earlier owner, or a person past our
    back, has on the card would share it with the new owner.
    """
    if not groups:
        return
    with cards() as found:
        for index, inside in groups.items():
            card = found.card(index)
            same_card(context, card)
            _measure(context, card)
            for process in _or(lambda card=card: card.nvml.nvmlDeviceGetComputeRunningProcesses(card.handle), [], card.nvml):
                where = context.read(f"/proc/{process.pid}/cgroup") or ""
                if not any(group in where for group in inside):
                    pid, user, command = describe(process.pid).split(" ", 2)
                    raise NodeError(f"{card.name} is in use by pid {pid} ({user}, {command}), which is not of this allocation")


def same_card(context: Context, card: Card) -> None:
    """Indices move when a card dies; who held gpu 3 must not silently hold another one."""
    known = context.ledger.data["gpus_pci"].get(str(card.index))
    if known and known != card.pci:
        raise NodeError(f"gpu {card.index} was at {known} and is now at {card.pci}: a card was moved or lost")
    if not known:
        context.ledger.data["gpus_pci"][str(card.index)] = card.pci
        context.ledger.save()


def _measure(context: Context, card: Card) -> None:
    """Who gets a part of a card is told how much memory that is, also at boot, and when NVML is not there."""
    known = context.ledger.data["gpus_memory"]
    if str(card.index) not in known:
        known[str(card.index)] = card.memory()
        context.ledger.save()


def _settle(context: Context, card: Card, field: str, wanted: Any) -> List[Change]:
    key = f"gpu:{card.pci}:{field}"
    path = f"gpus[{card.index}].{field}"
    if wanted is None:
        return _give_back(context, card, field) if context.ledger.has_original(key) else []
    found = card.read(field)
    if found == wanted:
        if field == "clock_mhz" and not context.ledger.has_original(key):
            # It may stand there by chance: lock it all the same, which is no visible change.
            context.ledger.save_original(key, None)
            _write(context, card, field, wanted)
        return []
    # NVML cannot tell how the clock was locked before us; unlocked is how a driver starts.
    context.ledger.save_original(key, None if field == "clock_mhz" else found)
    _write(context, card, field, wanted)
    now = wanted if context.check else card.read(field)
    if now != wanted:
        raise NodeError(f"{card.name}: {field} was set to {wanted}, and reads {now}")
    return [change(path, found, wanted)]


def _give_back(context: Context, card: Card, field: str) -> List[Change]:
    key = f"gpu:{card.pci}:{field}"
    original, found = context.ledger.original(key), card.read(field)
    changed = found != original
    if changed:
        _write(context, card, field, original)
    context.ledger.forget_original(key)
    return [change(f"gpus[{card.index}].{field}", found, original)] if changed else []


def _write(context: Context, card: Card, field: str, value: Any) -> None:
    if not context.check:
        context.ledger.confirm()
        card.write(field, value)


def read(context: Context, allocation: str, recorded: Dict[str, Any], found: Optional[Cards] = None) -> Dict[str, Any]:
    """The true values of what `recorded` ({index: GpuState}) manages. A card that is gone is left out; of one that does not
    answer what is recorded stands, for it may still draw that power."""
    if found is None:
        with cards() as opened:
            return read(context, allocation, recorded, opened)
    result: Dict[str, Any] = {}
    for index, state in recorded.items():
        card = found.by_index.get(int(index))
        if card:
            result[index] = {
                field: _read(context, card, field, state[field]) for field in FIELDS if state.get(field) is not None
            }
        elif int(index) in found.mute:
            result[index] = {field: state[field] for field in FIELDS if state.get(field) is not None}
    return result


def _read(context: Context, card: Card, field: str, recorded: Any) -> Any:
    """The true value, or the recorded one where the driver fails to tell it: that is no reason to set it again."""
    try:
        return card.read(field)
    except card.nvml.NVMLError as error:
        context.unverified.append(f"gpu {card.index}: {_spelled(field, recorded)} cannot be verified (NVML: {error})")
        return recorded


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Every original back."""
    touched = {key.rsplit(":", 1)[0] for key in context.ledger.originals("gpu:")}
    if not touched:
        return []
    changes: List[Change] = []
    with cards() as found:
        for card in found.by_index.values():
            for field in FIELDS if card.pci in touched else ():
                changes += _settle(context, card, field, None)
    return changes
