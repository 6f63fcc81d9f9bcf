"""What does the kernel's traffic control hold, and how is it told? HTB trees that differ only where they must."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional, Set, Tuple

from .run import Context

#: Minor numbers of the class above all others, and of what belongs to no allocation.
TOP, REST = 1, 0xFFFE
#: Upper half of our connection marks ('SW'), so that marks of others are told apart.
MARK = 0x53570000
#: Bandwidth of an interface that has none declared: high enough to limit nothing. [bit/s]
UNKNOWN = 100_000_000_000
_CLASS = re.compile(r"^class htb 1:([0-9a-f]+) .*?rate (\S+) ceil (\S+) ", re.MULTILINE)
_UNITS = {"bit": 1, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}


def root(context: Context, device: str) -> str:
    """Kind of the root qdisc; empty when the device is not there."""
    text = context.run(["tc", "-j", "qdisc", "show", "dev", device], ok=(0, 1))
    found = json.loads(text) if text.strip() else []
    return next((str(one["kind"]) for one in found if one.get("root")), "")


def root_is_ours(context: Context, device: str) -> bool:
    """Is its root the HTB that we make?"""
    text = context.run(["tc", "-j", "qdisc", "show", "dev", device], ok=(0, 1)) if device else ""
    roots: List[Dict[str, Any]] = [one for one in (json.loads(text) if text.strip() else []) if one.get("root")]
    found = roots[0] if roots else {}
    ours = (found.get("kind"), found.get("handle")) == ("htb", "1:")
    return ours and bool(found["options"]["default"] == f"{REST:#x}")


def classes(context: Context, device: str) -> Dict[int, Tuple[int, int]]:
    """(rate, ceil) [bit/s] of each HTB class by its minor number."""
    return parse(context.run(["tc", "class", "show", "dev", device], ok=(0, 1)) if device else "")


def parse(text: str) -> Dict[int, Tuple[int, int]]:
    """Classes in `tc class show`: iproute2 6.1 has no JSON for HTB, and writes rates to three places at least."""
    return {int(minor, 16): (bits(rate), bits(ceil)) for minor, rate, ceil in _CLASS.findall(text)}


def bits(text: str) -> int:
    """'20Mbit' in bit/s."""
    match = re.fullmatch(r"([0-9.]+)([KMGT]?bit)", text)
    return int(float(match[1]) * _UNITS[match[2]]) if match else 0


def as_recorded(
    found: Optional[Tuple[int, int]], rate: Optional[int], ceil: Optional[int] = None
) -> Tuple[Optional[int], Optional[int]]:
    """(rate, ceil) of a class; ceil is None where it is no more than the rate.

    tc cuts them off after three or more places and to bytes: within that, they are the recorded ones.
    """
    if found is None:
        return None, None
    known = rate if rate and _near(found[0], rate) else found[0]
    if _near(found[1], ceil or known):
        return known, ceil
    return known, None if _near(found[1], known) else found[1]


def _near(found: int, meant: int) -> bool:
    return abs(found - meant) <= max(8, meant // 1000)


def settle(context: Context, device: str, total: int, shaped: Dict[int, Tuple[int, int]]) -> Set[Tuple[str, int]]:
    """Make the tree of `device`: (rate, ceil) [bit/s] by minor number, within `total`. The classes that were too many.

    A class has its rate whatever others do; up to its ceil it borrows of what they leave of the total, and gives it back with
    the next packet of theirs.
    """
    if not root_is_ours(context, device):
        context.act(["tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", "htb", "default", f"{REST:x}"])
    found = classes(context, device)
    # What belongs to nobody has what is left, and at least a hundredth, and may use all that is idle.
    rest = max(total - sum(rate for rate, _ in shaped.values()), total // 100)
    tree = {TOP: (total, total), REST: (rest, total), **shaped}
    for minor, (rate, ceil) in sorted(tree.items(), key=lambda one: one[0]):
        same = minor in found and _near(found[minor][0], rate) and _near(found[minor][1], ceil)
        if not same:
            _class(context, device, minor, rate, ceil, total)
        if minor not in found and minor != TOP:
            leaf = ["tc", "qdisc", "replace", "dev", device, "parent", f"1:{minor:x}", "fq_codel"]
            context.act(leaf)
    stale = set(found) - set(tree)
    for minor in sorted(stale):
        if device_filters(context, device, minor):
            context.act(["tc", "filter", "del", *_by_mark(device, minor)])
        context.act(["tc", "class", "del", "dev", device, "classid", f"1:{minor:x}"])
    return {(device, minor) for minor in stale}


def _class(context: Context, device: str, minor: int, rate: int, ceil: int, total: int) -> None:
    parent = "1:" if minor == TOP else f"1:{TOP:x}"
    # A burst of 10 ms carries over a late timer; 16 kB is the least at which one offloaded packet fits.
    burst = [str(max(16_000, min(one // 800, 50_000_000))) for one in (rate, ceil)]
    # Who borrows takes turns of so many bytes: what is idle is shared in proportion to the rates.
    quantum = str(max(1514, min(rate * 200_000 // total, 200_000)))
    context.act(["tc", "class", "replace", "dev", device, "parent", parent, "classid", f"1:{minor:x}", "htb",
                 "rate", f"{rate}bit", "ceil", f"{ceil}bit", "burst", burst[0], "cburst", burst[1], "quantum", quantum])  # fmt: skip


def device_filters(context: Context, device: str, minor: int) -> bool:
    """Does a filter of `device` send our mark to this class?"""
    text = context.run(["tc", "filter", "show", "dev", device, "parent", "1:"], ok=(0, 1, 2))
    return bool(re.search(rf"handle {MARK | minor:#x} classid 1:{minor:x}\b", text))


def _by_mark(device: str, minor: int) -> List[str]:
    return ["dev", device, "parent", "1:", "protocol", "all", "prio", "1", "handle", f"{MARK | minor:#x}", "fw"]


def classify_by_mark(context: Context, device: str, minors: Set[int]) -> None:
    """On `device`, each of our marks to its class."""
    for minor in sorted(minors):
        if not device_filters(context, device, minor):
            context.act(["tc", "filter", "replace", *_by_mark(device, minor), "classid", f"1:{minor:x}"])


def redirected(context: Context, interface: str, device: str) -> Set[int]:
    """Minor numbers whose packets, arriving at `interface`, pass through `device`; none where no mark is given back."""
    text = context.run(["tc", "filter", "show", "dev", interface, "ingress"], ok=(0, 1, 2)) if interface else ""
    if "ctinfo zone 0 continue" not in text:
        return set()
    marks = re.findall(rf"handle (0x5357[0-9a-f]{{4}})\s[^(]*\(Egress Redirect to device {re.escape(device)}\)", text)
    return {int(mark, 16) & 0xFFFF for mark in marks}


def redirect(context: Context, interface: str, device: str, minors: Set[int]) -> None:
    """Give marks back to what arrives at `interface`, and send what is ours through `device`."""
    ingress = ["dev", interface, "ingress", "protocol", "all"]
    text = context.run(["tc", "filter", "show", "dev", interface, "ingress"], ok=(0, 1, 2))
    if "clsact" not in context.run(["tc", "qdisc", "show", "dev", interface]):
        context.act(["tc", "qdisc", "add", "dev", interface, "clsact"])
    if "ctinfo zone 0 continue" not in text:
        context.act(
            [
                "tc",
                "filter",
                "replace",
                *ingress,
                "prio",
                "1",
                "matchall",
                "action",
                "ctinfo",
                "cpmark",
                "0xffffffff",
                "continue",
            ]
        )
    present = redirected(context, interface, device)
    for minor in sorted(minors - present):
        context.act(["tc", "filter", "replace", *ingress, "prio", "2", "handle", f"{MARK | minor:#x}", "fw",
                     "action", "mirred", "egress", "redirect", "dev", device])  # fmt: skip
    for minor in sorted(present - minors):
        context.act(["tc", "filter", "del", *ingress, "prio", "2", "handle", f"{MARK | minor:#x}", "fw"])
