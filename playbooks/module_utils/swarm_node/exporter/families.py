"""Which values are measured, under which names, and how are they written? Prometheus's text format 0.0.4.

A value is of one of these families or it is not written at all. Names and units follow Prometheus's rules: base units, the
unit last, `_total` for what only grows.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

#: Name of the family, labels, value.
Sample = Tuple[str, Dict[str, str], float]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Which collector of the sampler fills which families; the server writes those of `exporter` itself.
COLLECTORS = ("gpus", "allocations", "network", "directories", "units")


class Family(NamedTuple):
    """One row. `kind`: gauge or counter. `labels`: those that its samples may have, in the order in which they are written."""

    kind: str
    labels: Tuple[str, ...]
    text: str


_WHO = ("allocation", "workload", "user", "team")
_CARD = ("gpu", "mig")


def _card(kind: str, text: str, *labels: str) -> Family:
    return Family(kind, (*_CARD, *labels), text)


def _own(kind: str, text: str, *labels: str) -> Family:
    return Family(kind, (*_WHO, *labels), text)


FAMILIES: Mapping[str, Family] = {
    # -- GPUs
    "swarm_gpu_info": _card("gauge", "Always 1; what the card is.", "uuid", "model", "pci"),
    "swarm_gpu_up": _card("gauge", "1 while the card answers, 0 when it has fallen off the bus or does not answer."),
    "swarm_gpu_allocated_ratio": Family(
        "gauge", (*_CARD, *_WHO), "Part of the card that the allocation holds; joins a card's values with who holds it."
    ),
    "swarm_gpu_sm_active_ratio": _card("gauge", "Part of the SMs that were busy since the last sample (GPM)."),
    "swarm_gpu_memory_bandwidth_ratio": _card(
        "gauge", "Part of the memory bandwidth that was used since the last sample (GPM)."
    ),
    "swarm_gpu_busy_ratio": _card("gauge", "Part of the time in which any kernel ran, as NVML counts it."),
    "swarm_gpu_memory_busy_ratio": _card(
        "gauge", "Part of the time in which memory was read or written; where the card has no GPM."
    ),
    "swarm_gpu_memory_used_bytes": _card("gauge", "Memory in use."),
    "swarm_gpu_memory_size_bytes": _card("gauge", "Memory that there is."),
    "swarm_gpu_power_watts": _card("gauge", "Power drawn."),
    "swarm_gpu_power_limit_watts": _card("gauge", "Power limit in force."),
    "swarm_gpu_energy_joules_total": _card("counter", "Energy drawn since the driver was loaded."),
    "swarm_gpu_clock_hertz": _card("gauge", "Clock.", "clock"),
    "swarm_gpu_throttled": _card("gauge", "1 while the clock is held down for this reason.", "reason"),
    "swarm_gpu_temperature_celsius": _card("gauge", "Temperature.", "sensor"),
    "swarm_gpu_ecc_errors_total": _card("counter", "Errors of memory that ECC found, over the card's life.", "kind"),
    "swarm_gpu_xid_errors_total": _card("counter", "Xid errors of the driver since the sampler began."),
    "swarm_gpu_last_xid": _card("gauge", "Number of the last Xid error since the sampler began."),
    # -- allocations, from their cgroups
    "swarm_allocation_cpu_seconds_total": _own("counter", "CPU time used.", "mode"),
    "swarm_allocation_cpu_throttled_seconds_total": _own("counter", "Time in which its CPU quota held it back."),
    "swarm_allocation_memory_bytes": _own("gauge", "Memory in use, page cache included."),
    "swarm_allocation_memory_limit_bytes": _own("gauge", "Most memory that it may use."),
    "swarm_allocation_oom_kills_total": _own("counter", "Processes that were killed for want of memory."),
    "swarm_allocation_processes": _own("gauge", "Processes and threads."),
    "swarm_allocation_io_bytes_total": _own("counter", "Bytes read from and written to disks.", "direction"),
    "swarm_allocation_io_operations_total": _own("counter", "Reads from and writes to disks.", "direction"),
    "swarm_allocation_pressure_seconds_total": _own(
        "counter", "Time in which some, or all, of its tasks waited for a resource (PSI).", "resource", "waiting"
    ),
    "swarm_allocation_network_bytes_total": _own("counter", "Bytes that passed its bandwidth class.", "direction"),
    "swarm_allocation_directory_used_bytes": _own("gauge", "What is in its scratch or cache directory.", "directory"),
    "swarm_allocation_directory_quota_bytes": _own("gauge", "Quota of its scratch or cache directory.", "directory"),
    "swarm_allocation_unit_state": _own("gauge", "1 for the state of its unit as systemd has it.", "state"),
    "swarm_allocation_restarts_total": _own("counter", "How often systemd started its unit again."),
    # -- the exporter itself
    "swarm_exporter_info": Family("gauge", ("program",), "Always 1; digest of the node program."),
    "swarm_exporter_collector_fresh": Family(
        "gauge", ("collector",), "1 while the collector's values are young enough to be shown."
    ),
    "swarm_exporter_collector_age_seconds": Family("gauge", ("collector",), "Time since the collector began its last sample."),
    "swarm_exporter_collector_max_age_seconds": Family("gauge", ("collector",), "Age after which its values are left out."),
    "swarm_exporter_collector_duration_seconds": Family("gauge", ("collector",), "How long its last sample took."),
    "swarm_exporter_collector_failures_total": Family(
        "counter", ("collector",), "Samples that failed since the sampler began."
    ),
    "swarm_exporter_cpu_seconds_total": Family("counter", ("process",), "CPU time of the sampler and of the server."),
}


def escaped(value: str) -> str:
    """A label's value as it stands between quotes. Half of a character, which UTF-8 cannot carry, becomes a question mark."""
    plain = value.encode("utf-8", "replace").decode("utf-8")
    return plain.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def number(value: float) -> Optional[str]:
    """A value as it is written; None for what was measured as no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))


def render(samples: Iterable[Sample]) -> str:
    """All samples, by family. One that is of no family, has other labels than its family, or is written twice, is left out."""
    lines: Dict[str, Dict[str, str]] = {}
    for name, labels, value in samples:
        family, text = FAMILIES.get(name), number(value)
        if family is None or text is None or not set(labels) <= set(family.labels):
            continue
        inside = ",".join(f'{key}="{escaped(str(labels[key]))}"' for key in family.labels if key in labels)
        lines.setdefault(name, {}).setdefault(f"{name}{{{inside}}}" if inside else name, text)
    found: List[str] = []
    for name, family in FAMILIES.items():
        if name in lines:
            found += [f"# HELP {name} {family.text}", f"# TYPE {name} {family.kind}"]
            found += [f"{series} {text}" for series, text in lines[name].items()]
    return "\n".join(found) + "\n" if found else ""


def rates(before: Iterable[Sample], now: Iterable[Sample], seconds: float) -> List[Sample]:
    """Of each counter, by how much it grew in a second between two samples. One that is new, or began anew, has none."""
    counters = {name for name, family in FAMILIES.items() if family.kind == "counter"}
    known = {(name, tuple(sorted(labels.items()))): value for name, labels, value in before if name in counters}
    found: List[Sample] = []
    for name, labels, value in now if seconds > 0 else ():
        was = known.get((name, tuple(sorted(labels.items())))) if name in counters else None
        if was is not None and value >= was:
            found.append((name, labels, (value - was) / seconds))
    return found


def checked(found: Any) -> List[Sample]:
    """The samples of a file that the sampler wrote. ValueError for what is none."""
    if not isinstance(found, list):
        raise ValueError("no list of samples")
    for one in found:
        if not (isinstance(one, list) and len(one) == 3 and isinstance(one[0], str) and isinstance(one[1], dict)):
            raise ValueError("no sample")
    return [(name, labels, value) for name, labels, value in found]
