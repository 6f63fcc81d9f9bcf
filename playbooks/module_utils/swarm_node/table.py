"""Which concerns has a node, what does the ledger hold of each, and in which order are they walked?

A concern is one module of `concerns/` and one row here. The row is what has to be known before the module is imported:
starting Python is most of what a short answer costs. The module offers those of these that it has work for:

    STEPS    {verb: call(context, allocation, want)}  what a step of that verb makes so and records; the list of changes
    observed(context, allocation, recorded)   the true values of its keys, read from the machine, in the shape of NodeState
    boot(context, allocation, recorded)       make so again what is recorded, after a reboot
    before_release(context, allocation)       what can begin at once for all allocations that are about to be released
    release(context, allocation, recorded)    give back what belongs to one allocation; the list of changes
    restore(context, "", recorded)            give back what belongs to the node itself; the list of changes
    renewed(context)                          after another version of this program was installed; the list of changes

A concern of the node (with `node` keys) is called once, without an allocation and with all that is recorded; any other
for each allocation, with what is recorded of that one. In check mode nothing changes, and changes are those that would be.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from . import shape


class Concern(NamedTuple):
    """One row. `name`: of its module."""

    name: str
    #: Verb → how long one step of it may take in all. [s] Long enough for the slowest machine that is well: each is more
    #: than the sum of the time-outs of the commands it runs, and 60 s for the ledger's lock.
    verbs: Mapping[str, int] = {}
    #: Keys of the node's own state in the ledger, and of each allocation's.
    node: Mapping[str, shape.Shape] = {}
    each: Mapping[str, shape.Shape] = {}
    #: What no type says of these keys; see `shape`.
    check: Callable[[Dict[str, Any], str], str] = lambda recorded, at: ""

    def holds(self, recorded: Mapping[str, Any]) -> bool:
        """Is anything of it recorded there?"""
        return any(recorded.get(key) is not None for key in self.node or self.each)

    def offers(self, what: str) -> Optional[Callable[..., Any]]:
        """The function of that name of its module, or None."""
        found: Optional[Callable[..., Any]] = getattr(import_module(f".concerns.{self.name}", __package__), what, None)
        return found


_DIRECTORY = {"quota": int, "owner": str, "mode": str}
_UNIT = {"command": str, "healthy": str, "stop_signal": str, "on_boot": str, "grace_s": int, "time_limit_s": int, "port": int,
         "links": list}  # fmt: skip

_TELEMETRY = {"port": int, "scrapers": list, "teams": dict}

#: What stands on something comes after it, so a boot goes down the list. Release and restore go up: nothing may still run
#: when its bandwidth, directories and devices go, and its slice goes after them, for it holds what runs; the disk before the
#: accounts that own what is on it. The boot unit is given back last: a machine that loses power half-way is then still put
#: right at boot.
CONCERNS = (
    Concern("boot_unit", verbs={"prepare": 540}),
    Concern("settings", verbs={"settings": 300}, node={"settings": {"sysctl": dict}}),
    Concern("gpus", verbs={"gpus": 180}, node={"gpus": dict}, check=shape.gpu_indices),
    Concern("accounts"),
    Concern("storage", verbs={"storage": 2100}, node={"disk": str}),  # mkfs and discard of a large disk
    Concern("instances"),
    Concern("loans"),
    Concern("slices", verbs={"slice": 1200}, each={"slice": dict}),
    Concern("devices", each={"gpus": list}, check=shape.gpu_list),
    # Removing, or counting anew, millions of files.
    Concern("directories", verbs={"directories": 4200}, each={"scratch": _DIRECTORY, "cache": _DIRECTORY}),
    Concern(
        "traffic",
        verbs={"traffic": 240},
        node={"interface": str, "interface_bps": int},
        each={"bandwidth": {"out_bps": int, "out_ceil_bps": int, "in_bps": int, "in_ceil_bps": int}},
    ),
    Concern("topology"),
    Concern("units", verbs={"start": 600, "stop": 180, "health": 180}, each={"unit": _UNIT}, check=shape.unit),
    # Last, for it looks at all of them, and opens the cards by the group of `devices`.
    Concern("telemetry", verbs={"telemetry": 540}, node={"telemetry": _TELEMETRY}, check=shape.telemetry),
)


def damage(recorded: Dict[str, Any], at: str, *, node: bool) -> str:
    """Where what is recorded of the node, or of one allocation, is not what its keys hold; empty where it is whole."""
    for concern in CONCERNS:
        found = shape.wrong(recorded, concern.node if node else concern.each, at)
        if not found and bool(concern.node) == node:
            found = concern.check(recorded, at)
        if found:
            return found
    return ""


def walk(what: str, *arguments: Any, backwards: bool = False) -> List[Any]:
    """Call that function of every concern that offers it; the changes of all."""
    changes: List[Any] = []
    for concern in reversed(CONCERNS) if backwards else CONCERNS:
        call = concern.offers(what)
        changes += (call(*arguments) if call else None) or []
    return changes
