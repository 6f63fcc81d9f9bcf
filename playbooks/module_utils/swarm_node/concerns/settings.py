"""What is set on the machine itself: sysctls, huge pages, the CPU governor? One line of SINGLE for all but sysctls."""

from __future__ import annotations

import glob
import os
import re
from functools import partial
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..machine import pairs
from ..machine.run import Change, Context, NodeError, change
from ..machine.undo import Value, whole

SYSCTL_FILE = "/etc/sysctl.d/90-swarm.conf"
#: As in a stack file. A value never names a program: the kernel would run it as root.
_NAME, _VALUE = re.compile(r"[a-z0-9_]+([./][A-Za-z0-9_.-]+)+"), re.compile(r"[A-Za-z0-9 ._-]+")
#: Kernel modules that a value needs, where the module is not part of the kernel.
MODULES = {("net.ipv4.tcp_congestion_control", "bbr"): "tcp_bbr", ("net.core.default_qdisc", "fq"): "sch_fq"}


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Make `want` (a SettingsState) so, or leave all as it was. What is no longer wanted gets its original back."""
    with whole(context, _values(context, want)):
        return _apply(context, want)


def _apply(context: Context, want: Dict[str, Any]) -> List[Change]:
    changes: List[Change] = []
    wanted_of: Dict[str, str] = {key: str(value) for key, value in (want.get("sysctl") or {}).items()}
    for key in pairs.order(wanted_of):
        changes += _set_sysctl(context, key, wanted_of[key])
    for pair in pairs.PAIRS:
        if not pairs.halves(pair, wanted_of):
            changes += _restore_pair(context, pair)
    for key in sorted(set(context.ledger.originals("sysctl:")) - set(wanted_of)):
        if not pairs.of(key):
            changes += _restore_sysctl(context, key)
    _persist(context, wanted_of)
    for one in SINGLE:
        if want.get(one.name) is not None:
            changes += _set_single(context, one, want[one.name])
        elif context.ledger.has_original(one.name):
            changes += _restore_single(context, one)
    return changes


def _step(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    wanted = want.get("settings") or {}
    changes = apply(context, allocation, wanted)
    context.ledger.record("settings", value=wanted)
    return changes


STEPS = {"settings": _step}


def boot(context: Context, allocation: str, recorded: Dict[str, Any]) -> None:
    """Set them again."""
    if recorded["settings"]:
        apply(context, "", recorded["settings"])


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{settings}."""
    return {"settings": read(context, "", recorded["settings"])}


def _values(context: Context, want: Dict[str, Any]) -> List[Value]:
    """What `want` may change."""
    found = []
    keys = sorted(set(want.get("sysctl") or {}) | set(context.ledger.originals("sysctl:")))
    for pair in pairs.PAIRS:
        if pairs.halves(pair, keys) and sysctl(context, pair.ratio) is not None:
            name = f"sysctl {pair.absolute} and {pair.ratio}"
            found.append(Value(name, partial(_both, context, pair), partial(pairs.write, pair, poke=partial(_poke, context))))
    for key in keys:
        if sysctl(context, key) is not None and not pairs.of(key):
            found.append(Value(f"sysctl {key}", partial(sysctl, context, key), partial(context.poke, _proc(key))))
    for one in SINGLE:
        wanted = want.get(one.name) is not None or context.ledger.has_original(one.name)
        if wanted and one.read(context, one.path) is not None:
            found.append(Value(one.words, partial(one.read, context, one.path), partial(one.write, context, one.path)))
    return [*found, Value(SYSCTL_FILE, partial(context.read, SYSCTL_FILE), partial(_write_file, context))]


def _write_file(context: Context, text: Optional[str]) -> None:
    if text is None:
        context.remove(SYSCTL_FILE)
    else:
        context.write(SYSCTL_FILE, text + "\n")


def read(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """The true values of what `recorded` manages. A sysctl that is gone reads as ""."""
    found: Dict[str, Any] = {"sysctl": {key: sysctl(context, key) or "" for key in recorded.get("sysctl") or {}}}
    for one in SINGLE:
        if recorded.get(one.name) is not None:
            found[one.name] = one.read(context, one.path)
    return found


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Every original back."""
    return apply(context, allocation, {})


def sysctl(context: Context, key: str) -> Optional[str]:
    """The value of a sysctl with single spaces, as people write it; None when the kernel has none of that name."""
    text = context.read(_proc(key))
    return None if text is None else " ".join(text.split())


def _proc(key: str) -> str:
    if ".." in key or not _NAME.fullmatch(key):
        raise NodeError(f"{key[:80]!r} is no sysctl")
    # As sysctl(8) has it: when the first separator is '/', dots belong to names (net/ipv4/conf/eth0.10/rp_filter).
    first = next((letter for letter in key if letter in "./"), ".")
    return "/proc/sys/" + (key if first == "/" else key.translate(str.maketrans("./", "/.")))


def _set_sysctl(context: Context, key: str, value: str) -> List[Change]:
    value = " ".join(value.split())
    if not _VALUE.fullmatch(value):
        raise NodeError(f"sysctl {key}: {value[:80]!r} is no value that is set here")
    module = MODULES.get((key, value))
    if module and not context.check:
        context.act(["modprobe", "-q", module], ok=(0, 1))  # part of the kernel on some: then the write tells
    found = sysctl(context, key)
    if found is None:
        raise NodeError(f"sysctl {key}: this kernel has none of that name")
    if found == value:
        return []
    pairs.judge(key, value)
    pairs.keep(context, key, sysctl)
    context.ledger.save_original(f"sysctl:{key}", found)
    context.poke(_proc(key), value)
    now = sysctl(context, key)
    if not context.check and now != value:
        raise NodeError(f"sysctl {key}: wrote {value}, the kernel made it {now}")
    return [change(f'settings.sysctl["{key}"]', found, value)]


def _both(context: Context, pair: pairs.Pair) -> pairs.Both:
    return sysctl(context, pair.absolute), sysctl(context, pair.ratio)


def _poke(context: Context, key: str, value: str) -> None:
    context.poke(_proc(key), value)


def _restore_pair(context: Context, pair: pairs.Pair) -> List[Change]:
    """What was in force of the two before us, whichever of them we set."""
    kept = pairs.halves(pair, context.ledger.originals("sysctl:"))
    if not kept:
        return []
    found, before = _both(context, pair), pairs.original(context, pair)
    changed = None not in found and found != before
    if changed:
        pairs.write(pair, before, partial(_poke, context))
    for key in kept:
        context.ledger.forget_original(f"sysctl:{key}")
    both = zip((pair.absolute, pair.ratio), found, before)
    return [change(f'settings.sysctl["{key}"]', old, new) for key, old, new in both if changed and old != new]


def _restore_sysctl(context: Context, key: str) -> List[Change]:
    original, found = context.ledger.original(f"sysctl:{key}"), sysctl(context, key)
    changed = found is not None and found != original
    if changed:
        context.poke(_proc(key), original)
    context.ledger.forget_original(f"sysctl:{key}")
    return [change(f'settings.sysctl["{key}"]', found, original)] if changed else []


def _persist(context: Context, wanted: Dict[str, str]) -> None:
    """For whoever runs `sysctl --system`: it must not undo us. The boot unit sets them anyway."""
    lines = "".join(f"{key} = {value}\n" for key, value in sorted(wanted.items()))
    if lines:
        context.write(SYSCTL_FILE, "# kept by swarm; see its ledger\n" + lines)
    else:
        context.remove(SYSCTL_FILE)


def _set_single(context: Context, one: Single, wanted: Any) -> List[Change]:
    found = one.read(context, one.path)
    if found is None:
        raise NodeError(f"this machine offers no {one.words}")
    if found == wanted:
        return []
    context.ledger.save_original(one.name, found)
    one.write(context, one.path, wanted)
    return [change(f"settings.{one.name}", found, wanted)]


def _restore_single(context: Context, one: Single) -> List[Change]:
    original, found = context.ledger.original(one.name), one.read(context, one.path)
    changed = found is not None and found != original
    if changed:
        one.write(context, one.path, original)
    context.ledger.forget_original(one.name)
    return [change(f"settings.{one.name}", found, original)] if changed else []


class Single(NamedTuple):
    """A setting that is no sysctl. `path`: where the kernel keeps it, a pattern where each CPU has a file of its own."""

    name: str
    path: str
    read: Callable[[Context, str], Any]
    write: Callable[[Context, str, Any], None]

    @property
    def words(self) -> str:
        return self.name.replace("_", " ")


def _number(context: Context, path: str) -> Optional[int]:
    text = context.read(path)
    return None if text is None else int(text)


def _set_pages(context: Context, path: str, pages: int) -> None:
    before, used = _number(context, path), _pages_in_use(context, path)
    if pages < used and pages < (before or 0):  # the kernel would take them away as they are freed, from whoever has them next
        raise NodeError(f"{used} huge pages of {_page(path)} are in use, so there cannot be {pages}; release them first")
    context.poke(path, str(pages))
    got = _number(context, path)
    if not context.check and got != pages:
        context.poke(path, str(before))  # memory taken half-way serves nobody
        raise NodeError(f"asked for {pages} huge pages of {_page(path)}, memory allowed {got}")


def _page(path: str) -> str:
    """2 MiB or 1 GiB, by the folder."""
    kilobytes = int(re.sub("[^0-9]", "", os.path.basename(os.path.dirname(path))) or 0)
    return f"{kilobytes >> 20} GiB" if kilobytes >= 1 << 20 else f"{kilobytes >> 10} MiB"


def _pages_in_use(context: Context, path: str) -> int:
    """Those that hold something, and those that are promised to whoever mapped them."""
    folder = os.path.dirname(path)
    total, free, promised = (_number(context, f"{folder}/{name}_hugepages") or 0 for name in ("nr", "free", "resv"))
    there = context.read(f"{folder}/free_hugepages") is not None
    return total - free + promised if there else 0


def _all_same(context: Context, pattern: str) -> Optional[str]:
    """What all the files say; several different words read as 'a,b'."""
    found = {context.read(path) or "" for path in _files(context, pattern)}
    return ",".join(sorted(found)) if found else None


def _set_all(context: Context, pattern: str, word: str) -> None:
    for path in _files(context, pattern):
        context.poke(path, word.split(",", maxsplit=1)[0])


def _files(context: Context, pattern: str) -> List[str]:
    prefix = "" if context.root == "/" else context.root
    return [path[len(prefix) :] for path in sorted(glob.glob(context.path(pattern)))]


def _chosen(context: Context, path: str) -> Optional[str]:
    """What is chosen in a file that lists all choices: `always [madvise] never`."""
    text = context.read(path)
    found = re.search(r"\[(\S+)\]", text or "")
    return found[1] if found else text


def _choose(context: Context, path: str, choice: str) -> None:
    context.poke(path, choice)


#: A setting without a line here is never set. None is read where this machine has none.
SINGLE = (
    Single("hugepages_2m", "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", _number, _set_pages),
    Single("hugepages_1g", "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", _number, _set_pages),
    Single("transparent_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled", _chosen, _choose),
    Single("governor", "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", _all_same, _set_all),
)
