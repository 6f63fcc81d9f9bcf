"""Which kernel settings replace each other, and how does such a pair become what it was?

Each pair is one limit that is spelled in two ways: the kernel keeps the spelling written last, and the other reads 0.
An absolute value of 0 cannot be written (EINVAL; of overcommit_kbytes it would leave both at 0), so what was in force
before has to be written, whichever of the two it was. Found by reading the handlers of kernel/sysctl.c,
mm/page-writeback.c and mm/util.c; no other pair of /proc/sys does this.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .run import Context, NodeError

Both = Tuple[Optional[str], Optional[str]]


class Pair(NamedTuple):
    """`usual`: the kernel's own ratio, for a node whose ledger holds one half only, as earlier versions wrote it."""

    absolute: str
    ratio: str
    usual: str


PAIRS = (
    Pair("vm.dirty_bytes", "vm.dirty_ratio", "20"),
    Pair("vm.dirty_background_bytes", "vm.dirty_background_ratio", "10"),
    Pair("vm.overcommit_kbytes", "vm.overcommit_ratio", "50"),
)
_OF = {key: pair for pair in PAIRS for key in (pair.absolute, pair.ratio)}


def of(key: str) -> Optional[Pair]:
    """The pair that a sysctl, in either spelling of sysctl(8), is half of."""
    return _OF.get(key.replace("/", "."))


def halves(pair: Pair, keys: Any) -> List[str]:
    """Those of `keys` that are a half of the pair, as they are spelled there."""
    return sorted(key for key in keys if of(key) == pair)


def order(wanted: Dict[str, str]) -> List[str]:
    """Keys in the order in which they are written: a 0 of a pair after the half that makes it 0. NodeError for two values."""
    for pair in PAIRS:
        asked = [key for key in halves(pair, wanted) if wanted[key].strip() != "0"]
        if len(asked) > 1:
            raise NodeError(f"sysctl {asked[0]} and {asked[1]} exclude each other: the kernel keeps the last; set one of them")
    return sorted(wanted, key=lambda key: (of(key) is not None and wanted[key].strip() == "0", key))


def judge(key: str, value: str) -> None:
    """NodeError for a 0 that the kernel would refuse, or take for both halves."""
    pair = of(key)
    if pair and value == "0" and key.replace("/", ".") == pair.absolute:
        raise NodeError(f"sysctl {key}: 0 means that {pair.ratio} is in force; set that one")


def keep(context: Context, key: str, sysctl: Callable[[Context, str], Optional[str]]) -> None:
    """Before the first write to one half: the other half's original too."""
    pair = of(key)
    if pair and not halves(pair, context.ledger.originals("sysctl:")):
        for half in (pair.absolute, pair.ratio):
            if half != key.replace("/", ".") and sysctl(context, half) is not None:
                context.ledger.save_original(f"sysctl:{half}", sysctl(context, half))


def original(context: Context, pair: Pair) -> Both:
    """What was in force before us: one of the two, the other is "0"."""
    kept = {key.replace("/", "."): value for key, value in context.ledger.originals("sysctl:").items()}
    absolute = kept.get(pair.absolute, "0")
    if absolute != "0":
        return absolute, "0"
    ratio = kept.get(pair.ratio, "0")
    return "0", pair.usual if ratio == "0" else ratio


def write(pair: Pair, both: Both, poke: Callable[[str, str], None]) -> None:
    """Put both halves back, by writing the one that is in force. `poke`: writes a value of a sysctl."""
    absolute, ratio = both
    if absolute not in (None, "0"):
        poke(pair.absolute, str(absolute))
    elif ratio is not None:
        poke(pair.ratio, ratio)
