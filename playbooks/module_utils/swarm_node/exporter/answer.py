"""What is answered to whoever asks for this node's values? The sampler's files, as far as they are young enough."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List, Tuple

from ..machine.install import installed
from .families import COLLECTORS, Sample, checked
from .sampler import FOLDER, TIMES

#: The largest file that is read. [bytes] 16 cards and 200 allocations are a tenth of it.
_MOST = 8 << 20


def samples(folder: str = FOLDER, root: str = "/", now: float = -1) -> List[Sample]:
    """All values that are young enough, and how old each collector's are. `now`: on the monotonic clock, which all processes share. [s]"""
    return _answered(folder, root, now)[0]


def _answered(folder: str, root: str, now: float) -> Tuple[List[Sample], List[Sample]]:
    """The samples, and by how much counters grow in a second."""
    now = time.monotonic() if now < 0 else now
    rates: List[Sample] = []
    found: List[Sample] = [("swarm_exporter_info", {"program": installed(root)}, 1)]
    cpu = {"server": time.process_time()}
    for name in COLLECTORS:
        label = {"collector": name}
        found.append(("swarm_exporter_collector_max_age_seconds", label, TIMES[name].most))
        try:
            began, took, failures, used, values, grew = _read(os.path.join(folder, f"{name}.json"))
        except (OSError, ValueError, KeyError, TypeError):
            found.append(("swarm_exporter_collector_fresh", label, 0))
            continue
        age = now - began
        fresh = 0 <= age <= TIMES[name].most
        found += [
            ("swarm_exporter_collector_fresh", label, int(fresh)),
            ("swarm_exporter_collector_age_seconds", label, round(age, 3)),
            ("swarm_exporter_collector_duration_seconds", label, round(took, 6)),
            ("swarm_exporter_collector_failures_total", label, failures),
        ]
        cpu["sampler"] = max(used, cpu.get("sampler", 0.0))
        found += values if fresh else []
        rates += grew if fresh else []
    cpus: List[Sample] = [("swarm_exporter_cpu_seconds_total", {"process": name}, used) for name, used in cpu.items()]
    return found + cpus, rates


def _read(path: str) -> Tuple[float, float, int, float, List[Sample], List[Sample]]:
    with open(path, encoding="utf-8") as file:
        found: Dict[str, Any] = json.loads(file.read(_MOST))
    samples, rates = checked(found["samples"]), checked(found.get("rates") or [])
    return float(found["began"]), float(found["took"]), int(found["failures"]), float(found["cpu"]), samples, rates


def asked(folder: str = FOLDER, root: str = "/") -> Dict[str, Any]:
    """The same for `swarm top`, over ssh: {samples, rates: [[name, labels, value]]}; `error` where nothing is measured here."""
    if not os.path.isdir(folder):
        return {"samples": [], "rates": [], "error": "nothing is measured here: no sampler runs"}
    found, grew = _answered(folder, root, -1)
    return {"samples": [list(one) for one in found], "rates": [list(one) for one in grew]}
