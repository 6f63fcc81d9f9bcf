"""How does this program touch the machine? Commands with time-outs and their words, files atomically, check mode."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence

Change = Dict[str, Any]  # {"path": where in NodeState, "old": value or None, "new": value or None}


class NodeError(Exception):
    """Something on this machine refused or failed. The text is what the user reads."""


class Pending(NodeError):
    """Begun and not ended yet: asked again, the same step goes on. Nobody else has to wait for it meanwhile."""


def change(path: str, old: Any, new: Any) -> Change:
    """One value that changed (or would): its place in NodeState, what it was, what it becomes."""
    return {"path": path, "old": old, "new": new}


def unit_name(allocation: str) -> str:
    """Stem of the slice and the service. systemd nests slices on '-', so it is escaped; names never contain '_'."""
    return "swarm-" + allocation.replace("-", "_")


class Context:
    """What a concern gets: the ledger, whether this is only a check, and the machine below `root`.

    Reads are free; `write`, `remove` and `act` change the machine, do nothing in check mode, and look at the
    ledger's guard immediately before they act.
    """

    def __init__(self, ledger: Any, *, check: bool = False, root: str = "/") -> None:
        self.ledger = ledger
        self.check = check
        self.root = root
        #: NVML, where whoever asks has opened it already.
        self.cards: Any = None
        #: What of the state could not be read, in words: what is recorded of it stands.
        self.unverified: List[str] = []

    def path(self, path: str) -> str:
        """`path` on the machine below root."""
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> Optional[str]:
        """Text of a file, stripped; None when it cannot be read."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return None

    def names(self, folder: str) -> List[str]:
        """What is in a folder; nothing when it cannot be read."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def run(self, argv: Sequence[str], *, timeout: float = 60, stdin: Optional[str] = None, ok: Sequence[int] = (0,)) -> str:
        """Run a command that only reads (use `act` for one that changes). Its stdout; NodeError in its own words."""
        import subprocess  # here: half the time of a short observation would be importing it

        environment = dict(os.environ, LC_ALL="C", PATH="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")
        try:
            # What a user's command printed need not be text.
            done = subprocess.run(list(argv), input=stdin, capture_output=True, encoding="utf-8", errors="replace",
                                  timeout=timeout, check=False, env=environment)  # fmt: skip
        except FileNotFoundError:
            raise NodeError(f"{argv[0]} is not installed") from None
        except subprocess.TimeoutExpired:
            raise NodeError(f"{' '.join(argv[:4])}: no answer within {timeout:g} s") from None
        if done.returncode not in ok:
            words = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}")[-800:]
            raise NodeError(f"{os.path.basename(argv[0])} {' '.join(argv[1:3])}: {words}".strip())
        return done.stdout

    def act(self, argv: Sequence[str], *, timeout: float = 60, stdin: Optional[str] = None, ok: Sequence[int] = (0,)) -> str:
        """Run a command that changes the machine; in check mode nothing runs and "" comes back."""
        if self.check:
            return ""
        self.ledger.confirm()
        return self.run(argv, timeout=timeout, stdin=stdin, ok=ok)

    def write(self, path: str, text: str, mode: int = 0o644) -> bool:
        """Put `text` there, atomically and synced. False when it was there already with that mode."""
        full = self.path(path)
        if same(full, text, mode):
            return False
        if self.check:
            return True
        self.ledger.confirm()
        replace(full, text, mode)
        return True

    def poke(self, path: str, text: str) -> None:
        """Write to a file of /proc or /sys, which cannot be replaced. NodeError in the kernel's words."""
        if self.check:
            return
        self.ledger.confirm()
        try:
            with open(self.path(path), "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise NodeError(f"{path}: {text!r}: {error.strerror}") from None

    def remove(self, path: str) -> bool:
        """Remove a file or link. False when there was none."""
        full = self.path(path)
        if not os.path.lexists(full):
            return False
        if not self.check:
            self.ledger.confirm()
            os.unlink(full)
        return True

    def remove_folder(self, path: str) -> None:
        """Remove a folder, if it is empty."""
        if not self.check:
            try:
                os.rmdir(self.path(path))
            except OSError:
                return


def same(full: str, text: str, mode: int) -> bool:
    """Is exactly this text there, with this mode?"""
    try:
        with open(full, encoding="utf-8", errors="replace", newline="") as file:
            return file.read() == text and os.fstat(file.fileno()).st_mode & 0o7777 == mode
    except OSError:
        return False


def replace(full: str, text: str, mode: int) -> None:
    """Atomic and durable: after a power loss either the old text or the new one is there."""
    import tempfile

    folder = os.path.dirname(full)
    os.makedirs(folder, exist_ok=True)
    handle, fresh = tempfile.mkstemp(prefix="." + os.path.basename(full), dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(fresh, full)
    except BaseException:
        os.unlink(fresh)
        raise
    folder_handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(folder_handle)
    finally:
        os.close(folder_handle)


def differences(path: str, old: Dict[str, Any], new: Dict[str, Any]) -> List[Change]:
    """A change for each key of `new` whose value in `old` differs."""
    return [change(f"{path}.{key}", old.get(key), value) for key, value in new.items() if old.get(key) != value]
