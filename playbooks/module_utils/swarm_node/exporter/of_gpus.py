"""What do the cards do, and how are they? Through NVML, from a session that stays open.

Only the sampler calls NVML, never the server: a driver that hangs makes these values vanish, and delays nobody. A value that
a card does not tell is left out.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from ..concerns import gpus
from ..machine.run import NodeError
from .families import Sample
from .labels import Labels, of_cards

_MEGA, _MILLI = 10**6, 1000
#: nvml.h: why a clock is held down. Idleness and clocks that somebody set are no reasons to worry.
REASONS = {
    "power_cap": 0x4, "hardware_slowdown": 0x8, "sync_boost": 0x10, "thermal_software": 0x20, "thermal_hardware": 0x40,
    "power_brake": 0x80,
}  # fmt: skip
#: nvml.h: NVML_GPM_METRIC_SM_UTIL and NVML_GPM_METRIC_DRAM_BW_UTIL, in per cent.
GPM = {2: "swarm_gpu_sm_active_ratio", 10: "swarm_gpu_memory_bandwidth_ratio"}
_XID, _MEMORY_TEMPERATURE, _LIFE = 0x8, 82, 1
_CORRECTED, _UNCORRECTED = 0, 1
#: So many events are taken at once: a card that is dying may write them without end.
_EVENTS = 1000
#: nvml.h: uninitialized, driver not loaded, GPU is lost, reset required, unknown: a session may be no good after them.
_BAD = (1, 9, 15, 16, 999)
#: A session that went bad is opened anew so often at most: one lost card must not take GPM from the others for ever. [s]
_AGAIN_S = 60.0


class Activity:
    """GPM of one card, or of one MIG instance: two samples, and what lies between them."""

    def __init__(self, nvml: Any, take: Callable[[Any], Any]) -> None:
        self.nvml, self.take = nvml, take
        self.before: Any = None
        self.now: Any = None

    def read(self) -> Dict[str, float]:
        """Ratios since the call before; nothing at the first one. Raises NVMLError."""
        nvml = self.nvml
        if self.now is None:
            self.before, self.now = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
            self.take(self.now)
            return {}
        self.before, self.now = self.now, self.before
        self.take(self.now)
        query = nvml.c_nvmlGpmMetricsGet_t()
        query.version, query.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(GPM)
        query.sample1, query.sample2 = self.before, self.now
        for place, number in enumerate(GPM):
            query.metrics[place].metricId = number
        nvml.nvmlGpmMetricsGet(query)
        found = (query.metrics[place] for place in range(len(GPM)))
        return {name: one.value / 100 for name, one in zip(GPM.values(), found) if not one.nvmlReturn and 0 <= one.value <= 100}

    def free(self) -> None:
        """Give the samples back."""
        for sample in (self.before, self.now):
            if sample is not None:
                with contextlib.suppress(self.nvml.NVMLError):
                    self.nvml.nvmlGpmSampleFree(sample)


class Session:
    """NVML while it is open: its cards, their samples, and the events that they told."""

    def __init__(self, found: gpus.Cards) -> None:
        self.cards, self.nvml = found, found.nvml
        #: By card, and MIG- name of an instance; None: it has no GPM.
        self.activity: Dict[Tuple[int, str], Optional[Activity]] = {}
        self.events: Any = None
        self.watched: Dict[str, int] = {}
        self.began = time.monotonic()
        self.bad = False
        if self.nvml:
            self._watch()

    def _watch(self) -> None:
        nvml = self.nvml
        with contextlib.suppress(nvml.NVMLError):
            self.events = nvml.nvmlEventSetCreate()
            for index, card in self.cards.by_index.items():
                with contextlib.suppress(nvml.NVMLError):
                    nvml.nvmlDeviceRegisterEvents(card.handle, _XID, self.events)
                    self.watched[card.pci] = index

    def xids(self) -> Iterator[Tuple[int, int]]:
        """(card, number) of the Xid errors since the last call. Waits for none."""
        nvml = self.nvml
        for _ in range(_EVENTS if self.watched else 0):
            try:
                told = nvml.nvmlEventSetWait_v2(self.events, 0)
                pci = nvml.nvmlDeviceGetPciInfo(told.device).busId.lower()
            except nvml.NVMLError:  # a time-out: there is none
                return
            if told.eventType == _XID and pci in self.watched:
                yield self.watched[pci], int(told.eventData)

    def ask(self, call: Callable[[], Any]) -> Any:
        """What NVML answers, or None."""
        try:
            return call()
        except self.nvml.NVMLError as error:
            self.bad |= getattr(error, "value", None) in _BAD
            return None

    @property
    def over(self) -> bool:
        """Is it to be opened anew? A driver, or a card, that has come back is found that way."""
        return not self.nvml or (self.bad and time.monotonic() - self.began > _AGAIN_S)

    def gpm(self, index: int, instance: str, supported: Callable[[], bool], take: Callable[[Any], Any]) -> Dict[str, float]:
        """Ratios of a card or an instance; nothing where it has no GPM."""
        key = (index, instance)
        if key not in self.activity:
            has = self.ask(supported)
            self.activity[key] = Activity(self.nvml, take) if has else None
        one = self.activity[key]
        found = None if one is None else self.ask(one.read)
        return found or {}

    def forget(self, index: int, seen: Set[str]) -> None:
        """Give back the samples of a card's instances that are gone."""
        for key in [key for key in self.activity if key[0] == index and key[1] not in seen]:
            one = self.activity.pop(key)
            if one is not None:
                one.free()

    def close(self) -> None:
        """Give back what was taken."""
        for one in self.activity.values():
            if one is not None:
                one.free()
        if self.events is not None:
            with contextlib.suppress(self.nvml.NVMLError):
                self.nvml.nvmlEventSetFree(self.events)


class Gpus:
    """The collector. Xid errors are counted over all sessions."""

    def __init__(self) -> None:
        self.session: Optional[Session] = None
        self._open: Any = None
        self.errors: Dict[int, int] = {}
        self.last: Dict[int, int] = {}

    def collect(self, labels: Labels) -> List[Sample]:
        """Samples of every card. NodeError where NVML itself fails; a machine without a driver has no cards, and no samples."""
        session = self.session or self._opened()
        try:
            found = list(self._of_all(session, labels))
        except BaseException:
            self.close()
            raise
        if session.over:
            self.close()
        return found

    def _opened(self) -> Session:
        self._open = gpus.cards()
        self.session = Session(self._open.__enter__())
        for index in self.session.watched.values():
            self.errors.setdefault(index, 0)
        return self.session

    def close(self) -> None:
        """End the session."""
        session, opened = self.session, self._open
        self.session = self._open = None
        if session is not None:
            with contextlib.suppress(NodeError):
                session.close()
                opened.__exit__(None, None, None)

    def _of_all(self, session: Session, labels: Labels) -> Iterator[Sample]:
        for one, who in of_cards(labels):
            yield "swarm_gpu_allocated_ratio", {**_name(one.index, _position(one)), **who}, one.part / 1000
        for index in session.cards.silent:
            yield "swarm_gpu_up", _name(index), 0
        if not session.nvml:
            return
        for index, xid in session.xids():
            self.errors[index], self.last[index] = self.errors.get(index, 0) + 1, xid
        for index, card in session.cards.by_index.items():
            yield from self._of_one(session, card, labels)
            if index in session.watched.values():
                yield "swarm_gpu_xid_errors_total", _name(index), self.errors[index]
            if index in self.last:
                yield "swarm_gpu_last_xid", _name(index), self.last[index]

    def _of_one(self, session: Session, card: gpus.Card, labels: Labels) -> Iterator[Sample]:
        nvml, handle, ask, at = session.nvml, card.handle, session.ask, _name(card.index)
        uuid = ask(lambda: nvml.nvmlDeviceGetUUID(handle))
        yield "swarm_gpu_up", at, int(uuid is not None)
        if uuid is None:
            return
        model = ask(lambda: nvml.nvmlDeviceGetName(handle))
        yield "swarm_gpu_info", {**at, "uuid": str(uuid), "model": str(model or gpus.UNKNOWN), "pci": card.pci}, 1
        cut = ask(lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
        active = session.gpm(card.index, "", lambda: bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice),
                             lambda sample: nvml.nvmlGpmSampleGet(handle, sample))  # fmt: skip
        for name, ratio in active.items():
            yield name, at, ratio
        busy = None if cut else ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        if busy is not None:
            yield "swarm_gpu_busy_ratio", at, busy.gpu / 100
            if session.activity.get((card.index, "")) is None:
                yield "swarm_gpu_memory_busy_ratio", at, busy.memory / 100
        yield from _memory(session, handle, at)
        yield from _power(session, card, at)
        yield from _health(session, card, at)
        if cut:
            yield from _instances(session, card, labels)


def _name(index: int, mig: str = "") -> Dict[str, str]:
    return {"gpu": str(index), **({"mig": mig} if mig else {})}


def _position(one: Any) -> str:
    return f"{one.profile}@{one.position}" if one.profile else ""


def _memory(session: Session, handle: Any, at: Dict[str, str]) -> Iterator[Sample]:
    """As `nvidia-smi` has it. An old driver counts what it keeps for itself as used, and knows no other answer."""
    nvml, ask = session.nvml, session.ask
    found = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2))
    found = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle)) if found is None else found
    if found is not None:
        yield "swarm_gpu_memory_used_bytes", at, int(found.used)
        yield "swarm_gpu_memory_size_bytes", at, int(found.total)


def _power(session: Session, card: gpus.Card, at: Dict[str, str]) -> Iterator[Sample]:
    nvml, handle, ask = session.nvml, card.handle, session.ask
    for name, call in (
        ("swarm_gpu_power_watts", lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
        ("swarm_gpu_power_limit_watts", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
        ("swarm_gpu_energy_joules_total", lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle)),
    ):
        found = ask(call)
        if found is not None:
            yield name, at, int(found) / _MILLI
    for clock, kind in (("sm", 1), ("memory", 2)):
        found = ask(lambda kind=kind: nvml.nvmlDeviceGetClockInfo(handle, kind))
        if found is not None:
            yield "swarm_gpu_clock_hertz", {**at, "clock": clock}, int(found) * _MEGA
    reasons = ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    if reasons is not None:
        for reason, bit in REASONS.items():
            yield "swarm_gpu_throttled", {**at, "reason": reason}, int(bool(int(reasons) & bit))


def _health(session: Session, card: gpus.Card, at: Dict[str, str]) -> Iterator[Sample]:
    nvml, handle, ask = session.nvml, card.handle, session.ask
    found = ask(lambda: nvml.nvmlDeviceGetTemperature(handle, 0))
    if found is not None:
        yield "swarm_gpu_temperature_celsius", {**at, "sensor": "gpu"}, int(found)
    fields = ask(lambda: nvml.nvmlDeviceGetFieldValues(handle, [_MEMORY_TEMPERATURE]))
    if fields and not fields[0].nvmlReturn:
        yield "swarm_gpu_temperature_celsius", {**at, "sensor": "memory"}, int(fields[0].value.uiVal)
    for kind, number in (("corrected", _CORRECTED), ("uncorrected", _UNCORRECTED)):
        found = ask(lambda number=number: nvml.nvmlDeviceGetTotalEccErrors(handle, number, _LIFE))
        if found is not None:
            yield "swarm_gpu_ecc_errors_total", {**at, "kind": kind}, int(found)


def _instances(session: Session, card: gpus.Card, labels: Labels) -> Iterator[Sample]:
    """Of each MIG instance. One that is not of an allocation goes by NVML's own name."""
    nvml, seen = session.nvml, {""}
    most = session.ask(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(card.handle)) or 0
    for place in range(most):
        try:
            mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, place)
            uuid, number = str(nvml.nvmlDeviceGetUUID(mig)), int(nvml.nvmlDeviceGetGpuInstanceId(mig))
        except nvml.NVMLError:  # there is none
            continue
        known = labels.instances.get(uuid)
        at = _name(card.index, _position(known) if known else uuid)
        yield from _memory(session, mig, at)
        supported = session.activity.get((card.index, "")) is not None

        def take(sample: Any, number: int = number) -> Any:
            return nvml.nvmlGpmMigSampleGet(card.handle, number, sample)

        seen.add(f"{uuid} {number}")  # the driver may give the name of one that is gone to another
        for name, ratio in session.gpm(card.index, f"{uuid} {number}", lambda supported=supported: supported, take).items():
            yield name, at, ratio
    session.forget(card.index, seen)
