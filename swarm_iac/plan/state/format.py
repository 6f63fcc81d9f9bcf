"""How do people read the plain integers of a node's state?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from swarm_iac.model import device
from swarm_iac.model.resources.row import PAGE
from swarm_iac.model.resources.table import COUNTED
from swarm_iac.model.settings import HELD, HUGE_PAGE
from swarm_iac.plan.state import cpulist, lending
from swarm_iac.pluralize import pluralize
from swarm_iac.units import BitsPerSecond, Bytes, BytesPerSecond, Cpus, Seconds, Watts

_MB = 10**6
#: Path of each setting → as the stack file calls it.
_SETTINGS = {f"settings.{held.field}": key.replace("_", " ") for key, held in HELD.items()}


def setting(path: str) -> str:
    """`settings.sysctl["vm.swappiness"]` as `vm.swappiness`, and `settings.hugepages_2m` as `hugepages`."""
    sysctl = re.fullmatch(r'settings\.sysctl\["(.+)"\]', path)
    return sysctl[1] if sysctl else _SETTINGS.get(path) or path.removeprefix("settings.").replace("_", " ")


def size(value: int) -> str:
    """Bytes, with the rounding to pages undone where that is what was done: 999997440 is "1 GB". One to one for whole pages."""
    whole = -(-value // _MB) * _MB
    return str(Bytes(whole if whole // PAGE * PAGE == value else value))


def _paged(value: int, page: int) -> str:
    """The same for pages of 2 MiB, which round more away: the shortest of what may have been asked for."""
    if page > HUGE_PAGE:
        return str(Bytes(value))
    wholes = (-(-value // step) * step for step in (_MB, 10 * _MB, 100 * _MB, 1000 * _MB))
    return min((str(Bytes(one)) for one in (value, *wholes) if one // page * page == value), key=len, default=str(Bytes(value)))


def bandwidth(value: int) -> str:
    """bit/s."""
    return str(BitsPerSecond(value))


def lasting(seconds: int) -> str:
    """How long something took, in its two largest units: 3 d 4 h, 7 h 5 min, 40 s."""
    parts = [(seconds // size if size == 86400 else seconds // size % most, unit)
             for size, most, unit in ((86400, 1, "d"), (3600, 24, "h"), (60, 60, "min"), (1, 60, "s"))]  # fmt: skip
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for i, (count, unit) in enumerate(parts[first : first + 2]) if count or not i)


def throughput(value: int) -> str:
    """byte/s."""
    return str(BytesPerSecond(value))


def high(memory_high: int | None, memory_max: int | None) -> str | None:
    """`memory.high`: as a share of memory.max where it is the usual one."""
    if memory_high is None:
        return None
    shares = (lending.HIGH, lending.REACHING) if memory_max is not None else ()
    usual = (f"{share} %" for share in shares if memory_high == lending.high(memory_max or 0, share))
    return next(usual, size(memory_high))


def amount(unit: type[int], grain: int = PAGE) -> Callable[[int], str]:
    """How an amount of a resource in this unit is read, of which nodes keep multiples of `grain`."""
    if unit is Bytes and grain != PAGE:
        return lambda value: _paged(value, grain)
    return {Bytes: size, BitsPerSecond: bandwidth}.get(unit, lambda value: str(unit(value)))


#: How the last part of a path in NodeState is read.
_READERS: dict[str, Callable[[int], str]] = {
    "power_w": lambda value: str(Watts(value)),
    "clock_mhz": lambda value: f"{value} MHz",
    **{held.field: held.read for held in HELD.values()},
    "interface_bps": lambda value: bandwidth(value) if value else "-",
    "cpu_quota_m": lambda value: pluralize(Cpus(value), "CPU"),
    "memory_high": size,
    "memory_low": size,
    "swap_max": size,
    "io_read_bps": throughput,
    "io_write_bps": throughput,
    "io_read_iops": lambda value: f"{value} IOPS",
    "io_write_iops": lambda value: f"{value} IOPS",
    **{path.rpartition(".")[2]: amount(row.unit, how.grain) for row, how in COUNTED for path in (*how.at, how.ceiling) if path},
    "grace_s": lambda value: str(Seconds(value)),
    "time_limit_s": lambda value: str(Seconds(value)),
}


def _listed(found: Sequence[Any]) -> str:
    return ", ".join(map(str, found))


#: How a list is read, where it is not one of words.
_LISTS: dict[str, Callable[[Sequence[Any]], str]] = {
    "gpus": lambda found: device.marked(map(device.Device.parse, found)),
    "links": lambda found: " and ".join(cpulist.write(group) for group in found),
}


def value(path: str, found: Any) -> str:
    """One value at its path, e.g. 600 at `gpus[0].power_w` as "600 W". None is "-"."""
    if found is None:
        return "-"
    field = re.split(r"[.\]]", path)[-1]
    if isinstance(found, (list, tuple)):
        return _LISTS.get(field, _listed)(found) or "-"
    if isinstance(found, bool):
        return "on" if found else "off"
    reader = _READERS.get(field)
    return reader(found) if reader and isinstance(found, int) else str(found)
