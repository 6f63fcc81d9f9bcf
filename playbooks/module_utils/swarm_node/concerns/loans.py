"""How does lent memory move between those who borrow on one node, and how is it taken back? By use, within what the plan lends.

A plan lends each what is free on the node, in proportion (memory_max). Where that is less than all of them may use (memory_most),
what one of them leaves idle goes to who needs it. A pool is those that are bound to the same NUMA nodes, and for each holds

    Σ memory.max ≤ Σ memory_max      and of each      memory_low ≤ memory.max ≤ memory_most

so whatever moves, the plan's sums hold, every guarantee is there in full, and no other machine is needed for it. What an allocation
may have whose record is damaged nobody knows, so then nobody gets more than the others give. A limit falls only
after the kernel has reclaimed what is above it, so nothing is killed; what was written cannot be taken back. The limit of now is in
the cgroup and in the slice's file, for whoever reloads systemd; a reboot forgets it.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional

from .. import shape
from ..machine import lender, systemd
from ..machine.loan_sizes import MIB, Borrower, Pool, high, moves, taken
from ..machine.run import Change, Context, NodeError, unit_name
from ..records import ledger

CGROUPS = "/sys/fs/cgroup/swarm.slice"
#: A smaller limit is given up when no more memory came back for so long, or not all of it in so long; all limits of one step share
#: that. [s]
SHRINK_WAIT_S = 20.0
SHRINK_MOST_S = 240.0
#: So long whoever reads waits in all for moves to end. [s]
MOVE_WAIT_S = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


def folder(allocation: str) -> str:
    """Its cgroup."""
    return f"{CGROUPS}/{unit_name(allocation)}.slice"


def pools(context: Context, changed: Mapping[str, Optional[Mapping[str, Any]]] = {}) -> Dict[str, Pool]:
    """By NUMA nodes, those who borrow here. `changed`: slices that are not recorded yet; None: one that counts no more.

    A pool in which somebody else has no limit at all, by hand, is left alone: that is drift, and undone as such.
    """
    found: Dict[str, Pool] = {}
    wide = set()
    for name, own in _recorded(context, changed).items():
        mems = str(own.get("mems") or "")
        limit, used = _number(context, name, "memory.max"), _used(context, name)
        if limit is None or used is None:
            if name not in changed and context.read(f"{folder(name)}/memory.max") == "max":
                wide.add(mems)
            continue
        one = Borrower(own["memory_low"], own["memory_max"], own["memory_most"], limit, used)
        found.setdefault(mems, {})[name] = one
    return {mems: pool for mems, pool in found.items() if mems not in wide}


def _recorded(context: Context, changed: Mapping[str, Optional[Mapping[str, Any]]] = {}) -> Dict[str, Mapping[str, Any]]:
    """Slices of those that take part."""
    held = (context.ledger.get("allocations") or {}).items()
    slices = {name: one.get("slice") for name, one in held if not ledger.torn(name, one)}
    merged = {**slices, **changed}
    return {name: own for name, own in merged.items() if isinstance(own, Mapping) and _takes_part(own)}


def borrowers(context: Context) -> List[str]:
    """Between whom memory is moved here."""
    return sorted(_recorded(context))


def _takes_part(own: Mapping[str, Any]) -> bool:
    return all(shape.natural(own.get(key)) for key in ("memory_low", "memory_max", "memory_most"))


def _number(context: Context, allocation: str, file: str) -> Optional[int]:
    text = context.read(f"{folder(allocation)}/{file}") or ""
    return int(text) if text.isdecimal() else None


def _used(context: Context, allocation: str) -> Optional[int]:
    """What it has of memory but for files that were read and not again, which the kernel gives back at once. [bytes]"""
    current = _number(context, allocation, "memory.current")
    if current is None:
        return None
    lines = (line.split() for line in (context.read(f"{folder(allocation)}/memory.stat") or "").splitlines())
    read = next((int(words[1]) for words in lines if len(words) == 2 and words[0] == "inactive_file"), 0)
    return max(0, current - read)


def move(context: Context) -> Iterable[Dict[str, Any]]:
    """What `moves` says, done; for each pool that changed, the sums by which anybody can check it."""
    held = (context.ledger.get("allocations") or {}).items()
    damaged = any(ledger.torn(name, one) for name, one in held)
    for mems, pool in sorted(pools(context).items()):
        lent = sum(one.limit if damaged else one.share for one in pool.values())
        wanted = moves(pool, lent)
        if not wanted:
            continue
        lowered = {
            name: limit
            for name, limit in wanted.items()
            if limit < pool[name].limit and _lower(context, name, pool[name], limit)
        }
        # Only what has come back is given out.
        left = lent - sum(lowered.get(name, one.limit) for name, one in pool.items())
        raised = {}
        for name, limit in wanted.items():
            more = min(limit - pool[name].limit, left)
            if more > 0:
                raised[name] = pool[name].limit + more
                left -= more
        # Files before limits rise, first of those who give: whatever is killed in between, a reload of systemd lends no more than
        # there is, and nobody less than it may have used by then. Those of all, for the reload below reads them.
        _files(context, pool, {name: lowered.get(name, one.limit) for name, one in pool.items()})
        _files(context, pool, raised)
        for name, limit in raised.items():
            context.poke(f"{folder(name)}/memory.max", str(limit))
            context.poke(f"{folder(name)}/memory.high", str(high(limit, pool[name].low)))
        if lowered or raised:
            context.act(["systemctl", "daemon-reload"], timeout=120)
            yield _certificate(mems, pool, {**lowered, **raised}, lent)


def settle(context: Context) -> None:
    """After one that was killed at a move: files, and where each is slowed down, are those of the limits that it left."""
    for _, pool in sorted(pools(context).items()):
        if _files(context, pool, {name: one.limit for name, one in pool.items()}):
            context.act(["systemctl", "daemon-reload"], timeout=120)
        for name, one in sorted(pool.items()):
            slowed = high(one.limit, one.low)
            if _number(context, name, "memory.high") != slowed:
                context.poke(f"{folder(name)}/memory.high", str(slowed))


def _certificate(mems: str, pool: Pool, changed: Mapping[str, int], lent: int) -> Dict[str, Any]:
    after = {name: changed.get(name, one.limit) for name, one in sorted(pool.items())}
    return {
        "numa": mems,
        "moved": {name: [pool[name].limit, limit] for name, limit in sorted(changed.items())},
        "lent": lent,
        "held": sum(after.values()),
        "guaranteed": {name: one.low for name, one in sorted(pool.items())},
        "used": {name: one.used for name, one in sorted(pool.items())},
    }


def _lower(context: Context, allocation: str, one: Borrower, limit: int) -> bool:
    """Lower a limit that is not used. False, and all is as it was, if it is by now, or would be if it grew at this moment."""
    place, slowed = folder(allocation), high(limit, one.low)
    context.poke(f"{place}/memory.high", str(slowed))  # the kernel reclaims here, and slows down from here on
    if (_number(context, allocation, "memory.current") or 0) > slowed:
        context.poke(f"{place}/memory.high", str(high(one.limit, one.low)))
        return False
    context.poke(f"{place}/memory.max", str(limit))
    return True


def _files(context: Context, pool: Pool, limits: Mapping[str, int]) -> bool:
    """Have the files of slices say what is in the kernel: else the next reload of systemd, by anyone, would set what was before.

    True when that changed one.
    """
    written = False
    for name, limit in limits.items():
        path = f"{systemd.UNITS}/{unit_name(name)}.slice"
        text = context.read(path)
        if text:
            text = re.sub(r"^MemoryMax=\d+$", f"MemoryMax={limit}", text + "\n", flags=re.M)
            text = re.sub(r"^MemoryHigh=\d+$", f"MemoryHigh={high(limit, pool[name].low)}", text, flags=re.M)
            written = context.write(path, text) or written
    return written


def granted(context: Context, allocation: str, wanted: Mapping[str, Any]) -> Dict[str, Any]:
    """The slice with the limits that it may have now, once others have given back what they hold of it.

    First what they leave idle, then what the kernel can reclaim. One that uses more than the plan lends it keeps that as long as
    the others leave it so much. NodeError where somebody has written more; nothing is killed.
    """
    if context.check or not shape.natural(wanted.get("memory_max")):
        return dict(wanted)
    own = dict(wanted)
    for mems, pool in pools(context, {allocation: wanted}).items():
        others = {name: one for name, one in pool.items() if name != allocation}
        _files(context, others, {name: one.limit for name, one in others.items()})  # of a lender that was killed
        mine = _takes_part(wanted) and str(wanted.get("mems") or "") == mems
        share = least = most = int(wanted["memory_max"]) if mine else 0
        if mine:
            used = _used(context, allocation) or 0
            keeps = (used + max(8 * MIB, used // 4)) // _PAGE * _PAGE  # as the kernel has it, and so as it is read back
            most = min(wanted["memory_most"], max(share, keeps))
            least = max(wanted["memory_low"], min(share, keeps))
        free = _free(others, share)
        if free < most:
            free = _returned(context, others, share, most - free)
        if mine:
            own["memory_max"] = min(most, max(free, least))
            own["memory_high"] = high(own["memory_max"], wanted["memory_low"])
        if free < least:
            _reclaimed(context, others)
    return own


def _free(others: Pool, share: int) -> int:
    """What is left of what the plan lends a pool, for who has this share of it. [bytes]"""
    return sum(one.share - one.limit for one in others.values()) + share


def _returned(context: Context, others: Pool, share: int, wanted: int) -> int:
    """What is left once idle memory came back, so much at most. [bytes]"""
    for name, less in taken(others, wanted).items():
        limit = others[name].limit - less
        if _lower(context, name, others[name], limit):
            others[name] = others[name]._replace(limit=limit)
            _files(context, others, {name: limit})
    context.act(["systemctl", "daemon-reload"], timeout=120)
    return _free(others, share)


def _reclaimed(context: Context, others: Pool) -> None:
    """Nobody has more than the plan lends it."""
    for name, one in others.items():
        if one.limit > one.share:
            make_room(context, name, one.share, high(one.share, one.low))
            _files(context, others, {name: one.share})
    context.act(["systemctl", "daemon-reload"], timeout=120)


def make_room(context: Context, allocation: str, limit: Optional[int], high: Optional[int] = None) -> None:
    """Before memory.max falls below what is used: let the kernel reclaim first, for a max below usage kills.

    It is asked for as long as any comes back. From then on the slice is slowed down above `high`, and it has the new limit
    at once: systemd would need a second in which it may grow again.
    """
    place = folder(allocation)
    used = context.read(f"{place}/memory.current")
    most = context.read(f"{place}/memory.max")
    falls = limit is not None and (most or "max") != "max" and limit < int(most or 0)
    if context.check or limit is None or used is None or (int(used) <= limit and not falls):
        return
    before = _slowed_above(context, allocation)
    context.poke(f"{place}/memory.high", str(min(limit, limit if high is None else high)))
    last, least = time.monotonic(), int(used)
    began: float = context.__dict__.setdefault("shrinks_began", last)
    while (now := int(context.read(f"{place}/memory.current") or 0)) > limit:
        if now < least:
            last, least = time.monotonic(), now
        if time.monotonic() > min(last + SHRINK_WAIT_S, began + SHRINK_MOST_S):
            context.poke(f"{place}/memory.high", before)
            words = f"{allocation} uses {used} bytes of memory, more than the new limit of {limit}; nothing was killed"
            raise NodeError(f"{words}, the old limit stays: try again when it needs less, or restart it")
        time.sleep(0.2)
    context.poke(f"{place}/memory.max", str(limit))


def _slowed_above(context: Context, allocation: str) -> str:
    """memory.high as it is to be now: a run that was killed here may have left less in the file."""
    recorded = context.ledger.get("allocations", allocation, "slice")
    if not isinstance(recorded, dict):
        return context.read(f"{folder(allocation)}/memory.high") or "max"
    limit = _number(context, allocation, "memory.max")
    if _takes_part(recorded) and limit is not None:
        return str(high(limit, recorded["memory_low"]))
    plain = recorded.get("memory_high")
    return str(plain) if shape.natural(plain) else "max"


def as_recorded(context: Context, allocation: str, was: Mapping[str, Any], found: Dict[str, Any]) -> Dict[str, Any]:
    """What was read of a slice; where its limit is one that its node may have given it, the plan's stand for it.

    `memory_most` is there only as long as something moves it.
    """
    if not _takes_part(was):
        return {}
    keys: Dict[str, Any] = {"memory_most": was["memory_most"] if lender.whole(context) else None}
    recorded = {key: was.get(key) for key in ("memory_high", "memory_max")}
    # Whoever only reads has no lock: a move may be under way, and one look sees some of it.
    until = context.__dict__.setdefault("moves_end", time.monotonic() + MOVE_WAIT_S) if context.check else float("-inf")
    while any(found.get(key) != value for key, value in recorded.items()):
        pool = pools(context, {allocation: was}).get(str(was.get("mems") or ""), {})
        if allocation in pool and _may(context, allocation, pool):
            return {**keys, **recorded}
        if keys["memory_most"] is None or time.monotonic() > until:
            break
        time.sleep(0.1)
    return keys


def _may(context: Context, allocation: str, pool: Pool) -> bool:
    """Is its limit one that its node may have given it?"""
    one = pool[allocation]
    within = max(one.low // _PAGE * _PAGE, min(one.share, one.limit)) <= one.limit <= one.most
    sums = sum(each.limit for each in pool.values()) <= sum(each.share for each in pool.values())
    return within and sums and _number(context, allocation, "memory.high") == high(one.limit, one.low)


def lent(context: Context) -> Dict[str, int]:
    """memory.max of now of each to which its node gave another one than the plan's. [bytes]"""
    return {
        name: one.limit
        for pool in pools(context).values()
        for name, one in sorted(pool.items())
        if one.limit != one.share // _PAGE * _PAGE and _may(context, name, pool)
    }


def serve(context: Context, changed: Mapping[str, Optional[Mapping[str, Any]]] = {}) -> bool:
    """Have the lender run where there is something to move, and nowhere else. True when that changed."""
    return lender.serve(context) if _recorded(context, changed) else bool(lender.remove(context))


def renewed(context: Context) -> List[Change]:
    """It runs the version of before."""
    if _recorded(context) and not context.check and serve(context) is False:
        context.act(["systemctl", "restart", lender.UNIT], timeout=120)
    return []


def release(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """With the last that borrows, it ends."""
    if not context.check:
        serve(context, {allocation: None})
    return []


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """It is gone."""
    return lender.remove(context)


def told(certificate: Mapping[str, Any]) -> str:
    """For the journal: one line of JSON."""
    return json.dumps(certificate, sort_keys=True, separators=(",", ":"))
