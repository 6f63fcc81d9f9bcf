"""Whose is this node, what do we manage on it, and how was it before us?"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import time
from typing import Any, Dict, Iterator, Optional

from .. import shape
from ..machine.run import NodeError, replace
from ..table import damage
from .audit import AUDIT

LEDGER = "/var/lib/swarm/ledger.json"
LOCK = "/run/swarm/lock"
#: See claim.py.
CLAIM = "/run/swarm/claim"


class Busy(NodeError):
    """Another run has the lock."""


class Ledger:
    """The node's own record: {fleet, lineage, serial, run, state, gpus_pci, gpus_memory, gpus_uuid, mig, originals,
    rollout_failures}.

    `state` has the shape of NodeState and holds what is managed here; `mig` what is known of each MIG instance of it, where there
    are any; `originals` what stood there before us;
    `rollout_failures` what a roll-out tried here in vain: {path: {value, why, serial}}.
    """

    def __init__(self, data: Optional[Dict[str, Any]], *, check: bool, root: str = "/") -> None:
        self.present = data is not None
        self.data: Dict[str, Any] = data or {}
        self.check = check
        self.root = root
        self.open = True
        for key in ("state", "gpus_pci", "gpus_memory", "gpus_uuid", "originals", "rollout_failures"):
            self.data.setdefault(key, {})

    # -- whose

    def head(self) -> Optional[Dict[str, Any]]:
        """{lineage, serial, fleet}, or None when nobody owns this node."""
        if "lineage" not in self.data:
            return None
        return {key: self.data[key] for key in ("lineage", "serial", "fleet")}

    def guard(self, lineage: str, serial: int, fleet: str, run: str = "") -> None:
        """Let this run act, or refuse it: a foreign lineage never, an older serial no more. A newer one is recorded.

        `run` is random: two runs that began from the same state have the same serial, and only the first one acts here.
        """
        head = self.head()
        if head and head["lineage"] != lineage:
            raise NodeError(f"this node belongs to fleet {head['fleet']} (lineage {head['lineage']}), not to {lineage}")
        if head and serial < head["serial"]:
            raise NodeError(f"a newer run (serial {head['serial']}) has been here; this one is {serial}")
        known = self.data.get("run") or ""  # a ledger from before there were such names has none
        if head and serial == head["serial"] and known and run != known:
            raise NodeError(f"another run with the same serial {serial} has been here: two began from one state; run it again")
        if not head or head["serial"] != serial or head["fleet"] != fleet or run != known:
            self.data.update(lineage=lineage, serial=serial, fleet=fleet, run=run)
            self.save()

    def confirm(self) -> None:
        """Called immediately before every mutation: the lock must still be ours, so the guard still holds."""
        if not self.open:
            raise NodeError("the ledger is closed; nothing may be changed any more")

    # -- what

    @property
    def state(self) -> Dict[str, Any]:
        """What is managed here, in the shape of NodeState (pieces may be missing)."""
        state: Dict[str, Any] = self.data["state"]
        return state

    def get(self, *path: str) -> Any:
        """The recorded value at `path` of the state; None when there is none."""
        found: Any = self.state
        for key in path:
            if not isinstance(found, dict) or key not in found:
                return None
            found = found[key]
        return found

    def record(self, *path: str, value: Any) -> None:
        """Record `value` at `path` of the state, and save. None removes it."""
        if self.get(*path) == value:
            return
        place = self.state
        for key in path[:-1]:
            place = place.setdefault(key, {})
        if value is None:
            place.pop(path[-1], None)
        else:
            place[path[-1]] = value
        self.save()

    # -- what NVML calls it

    def instances(self) -> Dict[str, Dict[str, Any]]:
        """What is known of each MIG instance, by how the device is written: {ours, uuid, files}."""
        found: Dict[str, Dict[str, Any]] = self.data.get("mig") or {}
        return found

    def know_instance(self, plain: str, value: Optional[Dict[str, Any]]) -> None:
        """Keep what is known of one, and save. None: it is gone."""
        if self.instances().get(plain) == value:
            return
        every = self.data.setdefault("mig", {})
        if value is None:
            del every[plain]
        else:
            every[plain] = value
        self.save()

    # -- which program

    @property
    def renewing(self) -> bool:
        """Has another version been installed, and not all been written anew by it?"""
        return bool(self.data.get("renewing"))

    def renew(self, *, begun: bool) -> None:
        """What an earlier version left is about to be written anew, or has been."""
        if self.renewing != begun:
            self.data["renewing"] = begun
            self.save()

    # -- what failed

    def set_back(self, values: Dict[str, Any], why: str) -> None:
        """A roll-out tried these values (by path) here, and they were put back."""
        for path, value in values.items():
            self.data["rollout_failures"][path] = {"value": value, "why": why, "serial": self.data["serial"]}
        self.save()

    def begin_rollout(self, settings: Dict[str, Any]) -> None:
        """This run rolled settings out here; `settings` is what was recorded before."""
        self.data["rollout"] = {"serial": self.data["serial"], "settings": settings}
        self.save()

    def begun_rollout(self) -> Optional[Dict[str, Any]]:
        """Settings that were recorded before this run rolled out others; None when it did not."""
        begun = self.data.get("rollout") or {}
        return begun.get("settings") if begun.get("serial") == self.data["serial"] else None

    def settled(self, values: Dict[str, Any]) -> None:
        """These paths have been set: what failed for them before is past."""
        if values.keys() & self.data["rollout_failures"].keys():
            self.data["rollout_failures"] = {
                path: one for path, one in self.data["rollout_failures"].items() if path not in values
            }
            self.save()

    # -- before us

    def save_original(self, key: str, value: Any) -> None:
        """Keep what stood there before the first write; later calls for the same key change nothing."""
        if key not in self.data["originals"]:
            self.data["originals"][key] = value
            self.save()

    def has_original(self, key: str) -> bool:
        """Was an original saved under `key`?"""
        return key in self.data["originals"]

    def original(self, key: str, default: Any = None) -> Any:
        """What stood there before us."""
        return self.data["originals"].get(key, default)

    def originals(self, prefix: str) -> Dict[str, Any]:
        """Originals whose key begins with `prefix`, by the rest of the key."""
        return {key[len(prefix) :]: value for key, value in self.data["originals"].items() if key.startswith(prefix)}

    def forget_original(self, key: str) -> None:
        """It has been put back."""
        if self.data["originals"].pop(key, None) is not None or key in self.data["originals"]:
            self.save()

    def save(self) -> None:
        """Write the whole ledger, durably, for root alone. Nothing in check mode."""
        if self.check:
            return
        self.confirm()
        private(os.path.dirname(below(self.root, LEDGER)))
        replace(below(self.root, LEDGER), json.dumps(self.data, indent=1, sort_keys=True) + "\n", 0o600)
        self.present = True

    def delete(self) -> None:
        """The last act of a restore."""
        self.data = {"state": {}, "gpus_pci": {}, "gpus_memory": {}, "gpus_uuid": {}, "originals": {}, "rollout_failures": {}}
        self.present = False
        if not self.check:
            self.confirm()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(below(self.root, LEDGER))
            for path in (LOCK, AUDIT):
                with contextlib.suppress(OSError):
                    os.unlink(below(self.root, path))
            _unlink_unheld(below(self.root, CLAIM))
            for folder in (os.path.dirname(below(self.root, path)) for path in (LEDGER, LOCK)):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)


def load(root: str = "/", *, check: bool = True, whole: bool = True) -> Ledger:
    """The ledger as it stands, without a lock: for reading. NodeError when it is damaged.

    `whole`: also when one allocation is; otherwise whoever asks looks at each with `torn`.
    """
    try:
        with open(below(root, LEDGER), encoding="utf-8") as file:
            data = json.load(file)
    except FileNotFoundError:
        return Ledger(None, check=check, root=root)
    except (OSError, ValueError, RecursionError) as error:
        raise NodeError(f"{LEDGER} cannot be read: {error}") from None
    if isinstance(data, dict) and "setbacks" in data:  # their key in ledgers of earlier versions
        data["rollout_failures"] = data.pop("setbacks")
    wrong = _wrong(data)
    if whole and not wrong:
        held = (data.get("state") or {}).get("allocations") or {}
        wrong = next(filter(None, (torn(name, one) for name, one in held.items())), "")
    if wrong:
        raise NodeError(f"{LEDGER} is damaged: {wrong}")
    return Ledger(data, check=check, root=root)


#: Names of an allocation reach paths and units.
_ALLOCATION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*-[0-9]+")
_TABLES = {
    "run": str,
    "renewing": bool,
    "state": dict,
    "gpus_pci": dict,
    "gpus_memory": dict,
    "gpus_uuid": dict,
    "mig": dict,
    "originals": dict,
    "rollout_failures": dict,
    "rollout": dict,
}


def _wrong(data: Any) -> str:
    """Where a ledger is not what one is; empty for a whole one. See `torn` for its allocations."""
    if not isinstance(data, dict):
        return "it is no mapping"
    for table in (data, data.get("state")):
        empty = sorted(key for key, value in table.items() if value is None) if isinstance(table, dict) else []
        if empty:
            return f"{empty[0][:60]!r} has no value"
    owner = isinstance(data.get("lineage"), str) and isinstance(data.get("fleet"), str) and shape.natural(data.get("serial"))
    if "lineage" in data and not owner:
        return "whose it is cannot be read"
    wrong = shape.wrong(data, _TABLES) or shape.instances(data, "")
    if wrong:
        return wrong
    state = data.get("state") or {}
    wrong = shape.wrong(state, {"allocations": dict}, "state.") or damage(state, "state.", node=True)
    bad = next((path for path, one in (data.get("rollout_failures") or {}).items() if not isinstance(one, dict)), None)
    return wrong or ("" if bad is None else f"rollout_failures[{bad[:60]!r}] is none")


def torn(name: str, one: Any) -> str:
    """Where what the ledger holds of one allocation is damaged; empty where it is whole."""
    at = f"state.allocations[{name[:60]!r}]"
    if not _ALLOCATION.fullmatch(name) or not isinstance(one, dict) or not isinstance(one.get("workload"), str):
        return f"{at} is none"
    return damage(one, f"{at}.", node=False)


@contextlib.contextmanager
def opened(*, check: bool, root: str = "/", wait_s: float = 60, whole: bool = True) -> Iterator[Ledger]:
    """The ledger under its lock (in check mode without). NodeError when another run holds the lock for `wait_s`.

    `whole`: see `load`.
    """
    if check:
        yield load(root, check=True, whole=whole)
        return
    with _locked(below(root, LOCK), wait_s):
        ledger = load(root, check=False, whole=whole)
        try:
            yield ledger
        finally:
            ledger.open = False


@contextlib.contextmanager
def alone(root: str = "/", wait_s: float = 5) -> Iterator[bool]:
    """The ledger's lock for who writes beside it: False without it, as another run has it or this node was given back."""
    with contextlib.ExitStack() as held:
        got = False
        # A node that was given back gets no folder of ours again.
        if os.path.exists(below(root, LEDGER)):
            with contextlib.suppress(NodeError, OSError):
                held.enter_context(_locked(below(root, LOCK), wait_s))
                got = True
        yield got


@contextlib.contextmanager
def _locked(path: str, wait_s: float) -> Iterator[None]:
    while True:
        private(os.path.dirname(path))
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except FileNotFoundError:  # a claim ended at this moment, and took the empty folder along
            continue
        with open(handle, "a+", encoding="utf-8") as lock:
            _lock(lock, wait_s)
            # Whoever restored this node removed the file while we waited: then we hold what nobody else will look at.
            if not os.path.exists(path) or os.stat(path).st_ino != os.fstat(lock.fileno()).st_ino:
                continue
            yield
            return


def _lock(lock: Any, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            if time.monotonic() > deadline:
                lock.seek(0)
                raise Busy(f"another run (process {lock.read().strip() or '?'}) holds {LOCK}") from None
            time.sleep(0.1)
        else:
            lock.seek(0)
            lock.truncate()
            lock.write(str(os.getpid()))
            lock.flush()
            return


def _unlink_unheld(path: str) -> None:
    """Remove a claim that nobody holds. Whoever does removes it, so that it holds until the end of the run."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)


def private(folder: str) -> None:
    """Make a folder that only root may enter: in it are all users' commands, and a lock that anyone who can open it could hold."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.stat(folder).st_mode & 0o077:
        os.chmod(folder, 0o700)


def below(root: str, path: str) -> str:
    """`path` on the machine below root."""
    return path if root == "/" else os.path.join(root, path.lstrip("/"))
