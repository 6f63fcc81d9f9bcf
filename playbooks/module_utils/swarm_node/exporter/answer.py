"""What is answered to whoever asks for this node's values? The sampler's files, as far as they are young enough."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List, NamedTuple, Tuple

from ..machine.install import installed
from .families import COLLECTORS, Sample, checked, render
from .sampler import FOLDER, TIMES

#: The largest file that is read. [bytes] 16 cards and 200 allocations are a tenth of it.
_MOST = 8 << 20


class Told(NamedTuple):
    """One file of the sampler. `began`: on the monotonic clock, which all processes share [s]; `rates`: of counters, per second."""

    began: float
    took: float
    failures: int
    cpu: float
    samples: List[Sample]
    rates: List[Sample]
    text: str


class Files:
    """The sampler's files. Each is read, and written out as text, once for each sample, however many ask."""

    def __init__(self, folder: str = FOLDER, root: str = "/") -> None:
        self.folder, self.root = folder, root
        self._known: Dict[str, Tuple[Tuple[int, int], Told]] = {}

    def page(self, now: float = -1) -> str:
        """All values as text. `now`: [s], the monotonic clock's."""
        own, fresh = self._answered(now)
        return "".join(told.text for told in fresh) + render(own)

    def samples(self, now: float = -1) -> List[Sample]:
        """The same as values."""
        own, fresh = self._answered(now)
        return [one for told in fresh for one in told.samples] + own

    def rates(self, now: float = -1) -> List[Sample]:
        """By how much counters grow in a second."""
        return [one for told in self._answered(now)[1] for one in told.rates]

    def _answered(self, now: float) -> Tuple[List[Sample], List[Told]]:
        """What there is to say of the exporter itself, and the files that are young enough."""
        now = time.monotonic() if now < 0 else now
        own: List[Sample] = [("swarm_exporter_info", {"program": installed(self.root)}, 1)]
        young: List[Told] = []
        cpu = {"server": time.process_time()}
        for name in COLLECTORS:
            label = {"collector": name}
            own.append(("swarm_exporter_collector_max_age_seconds", label, TIMES[name].most))
            try:
                told = self._read(name)
            except (OSError, ValueError, KeyError, TypeError):
                own.append(("swarm_exporter_collector_fresh", label, 0))
                continue
            age = now - told.began
            fresh = 0 <= age <= TIMES[name].most
            own += [
                ("swarm_exporter_collector_fresh", label, int(fresh)),
                ("swarm_exporter_collector_age_seconds", label, round(age, 3)),
                ("swarm_exporter_collector_duration_seconds", label, round(told.took, 6)),
                ("swarm_exporter_collector_failures_total", label, told.failures),
            ]
            cpu["sampler"] = max(told.cpu, cpu.get("sampler", 0.0))
            young += [told] if fresh else []
        own += [("swarm_exporter_cpu_seconds_total", {"process": name}, used) for name, used in cpu.items()]
        return own, young

    def _read(self, name: str) -> Told:
        path = os.path.join(self.folder, f"{name}.json")
        seen = os.stat(path)
        mark = (seen.st_ino, seen.st_mtime_ns)
        if name not in self._known or self._known[name][0] != mark:
            self._known.pop(name, None)
            self._known[name] = (mark, _told(path))
        return self._known[name][1]


def _told(path: str) -> Told:
    with open(path, encoding="utf-8") as file:
        found: Dict[str, Any] = json.loads(file.read(_MOST))
    values, rates = checked(found["samples"]), checked(found.get("rates") or [])
    times = float(found["began"]), float(found["took"]), int(found["failures"]), float(found["cpu"])
    return Told(*times, values, rates, render(values))


def asked(folder: str = FOLDER, root: str = "/") -> Dict[str, Any]:
    """The same for `swarm top`, over ssh: {samples, rates: [[name, labels, value]]}; `error` where nothing is measured here."""
    if not os.path.isdir(folder):
        return {"samples": [], "rates": [], "error": "nothing is measured here: no sampler runs"}
    files = Files(folder, root)
    return {"samples": [list(one) for one in files.samples()], "rates": [list(one) for one in files.rates()]}
