"""How much of the network may each slice use? HTB classes out; in, the same behind an ifb device.

A class has its rate for itself. Where it has a ceiling above that, it borrows up to it of what others leave, each way.

Out: nft marks a packet by the cgroup of its socket with an HTB class. In: the connection carries a mark from its
outgoing packets, ctinfo gives it back to what arrives, and only packets with a mark of ours pass through the ifb.
The nft rule holds the cgroup itself, not its name: when the cgroup is made anew, its rule shows no path any more,
reads as missing and is bound again. Only what differs is touched, so that a flow of another slice is not cut.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import Any, Dict, List, Optional, Set, Tuple

from ..machine import tc
from ..machine.run import Change, Context, NodeError, change, differences
from ..records import holdings
from .slices import cgroup, unit

IFB = "swarm-in"
TABLE = "swarm"
_RULE = re.compile(r'oifname "(?P<interface>[^"]+)" socket cgroupv2 level 2 "swarm\.slice/(?P<slice>[^"]+)"'
                   r'(?: meta priority set 1:(?P<priority>[0-9a-f]+))? ct mark set (?P<mark>0x[0-9a-f]+)')  # fmt: skip
Bandwidths = Dict[str, Dict[str, Optional[int]]]
#: Each way: the key of the rate, and of the ceiling.
_WAYS = (("out_bps", "out_ceil_bps"), ("in_bps", "in_ceil_bps"))
#: Of the interface, the part that is lent of what arrives. [%] Whoever borrows is slowed down here before the queue at the
#: other end of the wire is full, where nobody knows guarantees.
_LENT_IN = 95


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Make {interface, interface_bps, allocations: {name: BandwidthState}} so, as a whole. NodeError without the interface."""
    interface, total = str(want.get("interface") or ""), int(want.get("interface_bps") or 0)
    if not re.fullmatch(r"[A-Za-z0-9.@_-]{1,15}", interface) or not os.path.isdir(context.path(f"/sys/class/net/{interface}")):
        raise NodeError(f"{interface!r} is no network interface of this machine")
    wanted = {name: _whole(rates) for name, rates in (want.get("allocations") or {}).items() if any(_whole(rates).values())}
    if allocation in wanted and not context.check and not os.path.isdir(context.path(cgroup(allocation))):
        raise NodeError(f"{unit(allocation)} is not there; bandwidth is bound to its cgroup")
    # A rule can only hold a cgroup that is there; the others get theirs with their own step.
    wanted = {name: rates for name, rates in wanted.items() if context.check or os.path.isdir(context.path(cgroup(name)))}
    found = read(context, "", {"interface": interface, "interface_bps": total, "allocations": wanted})
    changes = differences("", {"interface": found["interface"] or None}, {"interface": interface})
    changes += [change("interface_bps", found["interface_bps"], total)] if found["interface_bps"] != total else []
    for name, rates in sorted(wanted.items()):
        changes += differences(f"allocations.{name}.bandwidth", found["allocations"].get(name) or {}, rates)
    changes = [dict(one, path=one["path"].lstrip(".")) for one in changes]
    if context.check or not (changes or _surplus(context, interface, wanted)):
        return changes
    numbers = _numbers(context, wanted)
    stale = _classes_out(context, interface, total, wanted, numbers) | _classes_in(context, interface, total, wanted, numbers)
    _rules(context, interface, wanted, numbers)
    left = read(context, "", {"interface": interface, "interface_bps": total, "allocations": wanted})
    for name, rates in wanted.items():
        if left["allocations"][name] != rates:
            raise NodeError(f"bandwidth of {name} reads {left['allocations'][name]} after it was set to {rates}")
    return changes + [change(f"traffic.{device}.{minor:x}", "class", None) for device, minor in sorted(stale)]


def _step(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """The interface is shaped as a whole: what the ledger knows, with this step's allocation in it."""
    interface = want["interface"] if "interface" in want else context.ledger.get("interface") or ""
    bps = want.get("interface_bps") or context.ledger.get("interface_bps") or 0
    known = _bandwidths(context.ledger.state)
    if allocation:
        known[allocation] = holdings.of(context, allocation, want).get("bandwidth")
    if not interface:
        changes = restore(context, "", context.ledger.state)
        context.ledger.record("interface", value=None)
        context.ledger.record("interface_bps", value=None)
        return changes
    if allocation:
        holdings.claim(context, allocation, {})
    classes = {name: rates for name, rates in known.items() if rates and any(rates.values())}
    changes = apply(context, allocation, {"interface": interface, "interface_bps": bps, "allocations": classes})
    context.ledger.record("interface", value=interface)
    context.ledger.record("interface_bps", value=bps)
    if allocation:
        context.ledger.record("allocations", allocation, "bandwidth", value=known[allocation])
    return changes


STEPS = {"traffic": _step}


def boot(context: Context, allocation: str, recorded: Dict[str, Any]) -> None:
    """Shape it again."""
    if recorded.get("interface"):
        classes = {name: rates for name, rates in _bandwidths(recorded).items() if rates and any(rates.values())}
        want = {"interface": recorded["interface"], "interface_bps": recorded.get("interface_bps", 0), "allocations": classes}
        apply(context, "", want)


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{interface, interface_bps, allocations: {name: {bandwidth}}}."""
    if not recorded.get("interface"):
        return {}
    want = {key: recorded.get(key) for key in ("interface", "interface_bps")}
    classes = {name: rates or {} for name, rates in _bandwidths(recorded).items()}
    found = read(context, "", dict(want, allocations=classes))
    return dict(found, allocations={name: {"bandwidth": rates} for name, rates in found["allocations"].items()})


def _bandwidths(recorded: Dict[str, Any]) -> Dict[str, Any]:
    """BandwidthState, or None, of each allocation."""
    return {name: whole.get("bandwidth") for name, whole in (recorded.get("allocations") or {}).items()}


def _surplus(context: Context, interface: str, wanted: Bandwidths) -> bool:
    """Is there a rule or a class of ours that nobody wants any more?"""
    listing = _listing(context)
    bound = rules(listing)
    numbers = {name: bound[unit(name)]["number"] for name in wanted if unit(name) in bound}
    return listing.count("socket cgroupv2") != len(numbers) or any(
        set(tc.classes(context, device)) - {tc.TOP, tc.REST} - {numbers[name] for name in numbers if wanted[name][key]}
        for device, key in ((interface, "out_bps"), (IFB, "in_bps"))
    )


def _whole(rates: Optional[Dict[str, Any]]) -> Dict[str, Optional[int]]:
    """All four, each None where it is nothing: a ceiling that is not above its rate is none."""
    found = {key: (rates or {}).get(key) or None for way in _WAYS for key in way}
    for rate, ceil in _WAYS:
        found[ceil] = found[ceil] if found[rate] and int(found[ceil] or 0) > int(found[rate] or 0) else None
    return found


def _shaped(wanted: Bandwidths, numbers: Dict[str, int], way: Tuple[str, str]) -> Dict[int, Tuple[int, int]]:
    """(rate, ceil) of each class one way."""
    rate, ceil = way
    return {
        numbers[name]: (int(rates[rate] or 0), int(rates[ceil] or rates[rate] or 0))
        for name, rates in wanted.items()
        if rates[rate]
    }


def _top_in(total: int, wanted: Bandwidths) -> int:
    """What all may have together of what arrives: it bounds nobody's own rate, and matters where someone borrows."""
    lent = any(rates["in_ceil_bps"] for rates in wanted.values())
    return total * _LENT_IN // 100 if lent and total else tc.UNKNOWN


def read(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{interface, interface_bps, allocations}: what the kernel shapes. None for a direction that is not whole."""
    interface, total = str(recorded.get("interface") or ""), int(recorded.get("interface_bps") or 0)
    classes, shaped = tc.classes(context, interface), tc.root_is_ours(context, interface)
    inward = tc.classes(context, IFB) if tc.root_is_ours(context, IFB) else {}
    marked, bound = tc.redirected(context, interface, IFB), rules(_listing(context))
    found: Bandwidths = {}
    every = {name: _whole(rates) for name, rates in (recorded.get("allocations") or {}).items()}
    lent = tc.as_recorded(inward.get(tc.TOP), _top_in(total, every))[0] == _top_in(total, every)
    for name, meant in every.items():
        rule = bound.get(unit(name))
        number = rule["number"] if rule and rule["interface"] == interface else 0
        out = classes.get(number) if number and shaped and rule and rule["priority"] else None
        inn = inward.get(number) if number in marked and (lent or not meant["in_ceil_bps"]) else None
        both = zip(_WAYS, (out, inn))
        found[name] = {}
        for (rate, ceil), known in both:
            found[name][rate], found[name][ceil] = tc.as_recorded(known, meant[rate], meant[ceil])
    rate, ceil = tc.as_recorded(classes.get(tc.TOP), total or tc.UNKNOWN) if shaped else (None, None)
    whole = ceil or rate
    return {"interface": interface if shaped else "", "allocations": found,
            "interface_bps": 0 if not total and whole == tc.UNKNOWN else whole or 0}  # fmt: skip


def rules(listing: str) -> Dict[str, Dict[str, Any]]:
    """Rules of our chain by the slice that they hold: {interface, priority, number}.

    A rule whose cgroup is gone is listed with a number in place of the path, and is not among them.
    """
    found = {}
    for match in _RULE.finditer(listing):
        mark = int(match["mark"], 16)
        priority = int(match["priority"] or "0", 16)
        if mark & ~0xFFFF == tc.MARK and priority in (0, mark & 0xFFFF):
            found[match["slice"]] = {"interface": match["interface"], "priority": bool(priority), "number": mark & 0xFFFF}
    return found


def numbers(context: Context) -> Dict[str, int]:
    """The class of each recorded allocation that has one."""
    bound = rules(_listing(context))
    return {name: bound[unit(name)]["number"] for name in context.ledger.get("allocations") or {} if unit(name) in bound}


def _listing(context: Context) -> str:
    return context.run(["nft", "list", "table", "inet", TABLE], ok=(0, 1))


def _numbers(context: Context, wanted: Bandwidths) -> Dict[str, int]:
    """Class of each allocation: the one it has, else one from its name past those in use."""
    bound = rules(_listing(context))
    numbers = {name: bound[unit(name)]["number"] for name in wanted if unit(name) in bound}
    for name in sorted(set(wanted) - set(numbers)):
        number = 0x10 + zlib.crc32(name.encode()) % 0xF000
        while number in numbers.values():
            number += 1
        numbers[name] = number
    return numbers


def _classes_out(
    context: Context, interface: str, total: int, wanted: Bandwidths, numbers: Dict[str, int]
) -> Set[Tuple[str, int]]:
    shaped = _shaped(wanted, numbers, _WAYS[0])
    whole, reserved = total or tc.UNKNOWN, sum(rate for rate, _ in shaped.values())
    if reserved > whole:
        raise NodeError(f"{interface}: {reserved} bit/s are reserved out of {whole}")
    if not tc.root_is_ours(context, interface):
        context.ledger.save_original(f"qdisc:{interface}", tc.root(context, interface))
    return tc.settle(context, interface, whole, shaped)


def _classes_in(
    context: Context, interface: str, total: int, wanted: Bandwidths, numbers: Dict[str, int]
) -> Set[Tuple[str, int]]:
    shaped = _shaped(wanted, numbers, _WAYS[1])
    if not shaped and not os.path.isdir(f"/sys/class/net/{IFB}"):
        return set()
    if not os.path.isdir(f"/sys/class/net/{IFB}"):
        context.act(["ip", "link", "add", IFB, "type", "ifb"])
    context.act(["ip", "link", "set", IFB, "up"])
    stale = tc.settle(context, IFB, _top_in(total, wanted), shaped)
    tc.classify_by_mark(context, IFB, set(shaped))
    tc.redirect(context, interface, IFB, set(shaped))
    return stale


def _rules(context: Context, interface: str, wanted: Bandwidths, numbers: Dict[str, int]) -> None:
    """The whole chain in one transaction; connections keep their marks meanwhile."""
    bound = rules(_listing(context))
    want = {unit(name): {"interface": interface, "priority": bool(rates["out_bps"]), "number": numbers[name]}
            for name, rates in wanted.items()}  # fmt: skip
    lines = [line for line in _listing(context).splitlines() if "socket cgroupv2" in line]
    if bound == want and len(lines) == len(want) and (want or not lines):
        return
    context.act(["nft", "-f", "-"], stdin=script(want))


def script(want: Dict[str, Dict[str, Any]]) -> str:
    """nft's script: our chain emptied, and one rule for each slice."""
    text = f"add table inet {TABLE}\nadd chain inet {TABLE} out {{ type filter hook output priority mangle; }}\n"
    text += f"flush chain inet {TABLE} out\n"
    for name, rule in sorted(want.items()):
        # A socket's packets are classed for the shaped interface alone: elsewhere the priority would mean other things.
        text += f'add rule inet {TABLE} out oifname "{rule["interface"]}" socket cgroupv2 level 2 "swarm.slice/{name}"'
        text += f" meta priority set 1:{rule['number']:x}" if rule["priority"] else ""
        text += f" ct mark set {tc.MARK | rule['number']:#x}\n"
    return text


def release(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Take one allocation's rule and classes away."""
    interface = str(context.ledger.get("interface") or "")
    bound = rules(_listing(context)) if interface else {}
    if unit(allocation) not in bound:
        return []
    classes = {name: rates for name, rates in _bandwidths(context.ledger.state).items() if name != allocation}
    total = context.ledger.get("interface_bps") or 0
    apply(context, "", {"interface": interface, "interface_bps": total, "allocations": classes})
    return [change(f"allocations.{allocation}.bandwidth", recorded.get("bandwidth"), None)]


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """The interface's own queue back; ifb and table gone."""
    changes = []
    for interface, original in context.ledger.originals("qdisc:").items():
        if tc.root_is_ours(context, interface):
            changes.append(change("interface", interface, None))
            context.act(["tc", "qdisc", "del", "dev", interface, "clsact"], ok=(0, 1, 2))
            context.act(["tc", "qdisc", "del", "dev", interface, "root"], ok=(0, 1, 2))
            if not context.check and original and tc.root(context, interface) != original:
                context.act(["tc", "qdisc", "replace", "dev", interface, "root", original])
        context.ledger.forget_original(f"qdisc:{interface}")
    if os.path.isdir(f"/sys/class/net/{IFB}"):
        context.act(["ip", "link", "del", IFB])
    if _listing(context):
        context.act(["nft", "delete", "table", "inet", TABLE])
    return changes
