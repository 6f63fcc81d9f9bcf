"""How is the live layer kept? One file that is replaced whole, a log of decisions beside it, and one leader at a time.

.state/NAME.live.json    the layer
.state/NAME.live.log     a line of JSON for each decision
.state/NAME.live.leader  locked by the process that decides, as long as it lives
.state/clone             the random name of this clone, as the writer of what all clones share

A kill leaves the old file or the new one, never a part. Who writes names the generation that it read: another writer in
between is noticed, and nothing is written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from swarm_iac.errors import Place, Refused, Retryable, SwarmError
from swarm_iac.live.layer import Layer
from swarm_iac.printable import printable, printable_all
from swarm_iac.stackfile.locks.atomic_write import write_whole
from swarm_iac.stackfile.locks.companions import LIVE, STATE

#: Bytes of a layer, and of the log before it is turned.
MOST_BYTES = 32_000_000
LOG_BYTES = 8_000_000
_CLONE, _NAMED = "clone", re.compile("([0-9a-f]{32}) ([0-9]{1,20})\n")


def read(path: Path, fleet: str, name: str) -> Layer:
    """The layer; an empty one where there is none. Raises Refused for what is none, or is another stack's."""
    raw = _bytes(path)
    if raw is None:
        return Layer(fleet=fleet, stack=name)
    layer = _parsed(path, raw)
    if not layer.generation:  # nothing was decided yet
        return layer.model_copy(update={"fleet": fleet, "stack": name})
    if (layer.fleet, layer.stack) != (fleet, name):
        raise _refused(path, f"is of stack {layer.stack} of fleet {layer.fleet}, and not of {name} of {fleet}")
    return layer


def _parsed(path: Path, raw: bytes) -> Layer:
    try:
        return Layer.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(printable(str(step), 60) for step in first["loc"])
        raise _refused(path, f"is no live layer: {where or 'file'}: {printable(str(first['msg']), 200)}") from None


def write(path: Path, layer: Layer, before: int) -> Layer:
    """Write the next generation after `before`. Raises Retryable if another process wrote in between."""
    with _writing(path):
        return _put(path, _based(path, layer, before), before)


def applied(path: Path, layer: Layer) -> None:
    """The machines have it now: a note of this clone, and no other layer. Raises Retryable as `write` does."""
    with _writing(path):
        write_whole(path, _based(path, layer, layer.generation).model_dump_json(exclude_defaults=True) + "\n")


def _based(path: Path, layer: Layer, before: int) -> Layer:
    """The layer, with what the file says that the state has. Raises Retryable if the file is of another generation."""
    there = read(path, layer.fleet, layer.stack)
    if there.generation != before:
        raise Retryable(
            f"{path.name} was written by another process: generation {there.generation}, expected {before}", after=5
        )
    return layer.model_copy(update={"base": there.base})


def _put(path: Path, layer: Layer, before: int) -> Layer:
    fresh = layer.model_copy(update={"generation": before + 1})
    write_whole(path, fresh.model_dump_json(exclude_defaults=True) + "\n")
    return fresh


def update(path: Path, fleet: str, name: str, change: Callable[[Layer], Layer]) -> Layer:
    """Write what `change` makes of the layer as it is now, by whichever process. Nothing is written where that is the same."""
    with _writing(path):
        there = read(path, fleet, name)
        fresh = change(there)
        return there if fresh == there else _put(path, fresh, there.generation)


def replace(path: Path, change: Callable[[Layer], Layer]) -> bool:
    """Write what `change` makes of the layer of whichever stack, with its generation. False where that is the same."""
    with _writing(path):
        there = at(path)
        fresh = change(there)
        return fresh != there and write_whole(path, fresh.model_dump_json(exclude_defaults=True) + "\n")


def identity(folder: Path) -> str:
    """The random name of the clone with this folder. A copy of the folder has another: its file is another one."""
    path = folder / _CLONE
    if known := _known(path):
        return known
    with _opened(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not _named(file):
            _name(file, secrets.token_hex(16))
        return _named(file)


def has_identity(folder: Path) -> bool:
    """Was a state read or written here before, by this clone? No checkout can bring that along."""
    return bool(_known(folder / _CLONE))


def _known(path: Path) -> str:
    """Read as anybody may who only looks: of a colleague's clone, or a service's."""
    if path.is_symlink() or not path.is_file():
        return ""
    try:
        with path.open() as file:
            return _named(file)
    except OSError:
        return ""


def _named(file: IO[str]) -> str:
    file.seek(0)
    try:
        found = _NAMED.fullmatch(file.read(200))
    except UnicodeDecodeError:
        return ""
    return found[1] if found and int(found[2]) == os.fstat(file.fileno()).st_ino else ""


def _name(file: IO[str], name: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(f"{name} {os.fstat(file.fileno()).st_ino}\n")
    file.flush()


def at(path: Path) -> Layer:
    """The layer of whichever stack; an empty one where there is no such file. Raises Refused."""
    raw = _bytes(path)
    return Layer() if raw is None else _parsed(path, raw)


def asleep(path: Path | None) -> dict[str, str]:
    """Nodes that are powered off on purpose → what to tell of them. Raises Refused."""
    return at(path).asleep if path else {}


def carry(root: Path, tree: Path) -> None:
    """What is live in the clone `root` is live in a work tree of it, and nothing that a merge brings under such a name."""
    theirs = tree / STATE
    if theirs.is_symlink() or (theirs.exists() and not theirs.is_dir()):
        theirs.unlink()
    for other in theirs.glob(f"*{LIVE}"):
        if other.is_dir() and not other.is_symlink():
            shutil.rmtree(other)
        else:
            other.unlink()
    for mine in sorted((root / STATE).glob(f"*{LIVE}")):
        if (raw := _bytes(mine)) is not None:
            theirs.mkdir(exist_ok=True)
            (theirs / mine.name).write_bytes(raw)
    other = theirs / _CLONE
    if other.is_dir() and not other.is_symlink():
        shutil.rmtree(other)
    else:
        other.unlink(missing_ok=True)
    if os.path.lexists(root / STATE / _CLONE):
        with _opened(other) as file:
            _name(file, identity(root / STATE))


def note(path: Path, decision: dict[str, Any]) -> None:
    """Add a decision to the log beside the layer. The log is turned once it is large: the one before is kept."""
    log = path.with_suffix(".log")
    if log.is_symlink():
        raise _refused(log, "is a link")
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    line = json.dumps(printable_all(decision), separators=(",", ":"), ensure_ascii=True)
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        torn = os.fstat(handle).st_size and not _ends_line(log)
        os.write(handle, ("\n" if torn else "").encode() + line.encode() + b"\n")
    finally:
        os.close(handle)


def decisions(path: Path, most: int = 200) -> list[dict[str, Any]]:
    """The newest decisions of the log, newest first. A line that a kill cut short is passed over."""
    log = path.with_suffix(".log")
    if log.is_symlink() or not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4000 * most))
        lines = file.read().splitlines()
    found = []
    for line in reversed(lines):
        with contextlib.suppress(ValueError):
            one = json.loads(line)
            if isinstance(one, dict):
                found.append(printable_all(one))
        if len(found) == most:
            break
    return found


@contextlib.contextmanager
def leading(path: Path) -> Iterator[bool]:
    """Is this process the one that decides, for as long as this lasts? The kernel ends that with the process."""
    leader = path.with_suffix(".leader")
    with _opened(leader) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            yield False
            return
        file.seek(0)
        file.truncate()
        file.write(f"{os.uname().nodename} process {os.getpid()}\n")
        file.flush()
        yield True


def leader_of(path: Path) -> str:
    """Who leads, as it says."""
    leader = path.with_suffix(".leader")
    with contextlib.suppress(OSError, UnicodeDecodeError), leader.open() as file:
        return printable(file.read(200).strip(), 120)
    return "another process"


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    with _opened(path.with_suffix(".writing")) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Raises Refused for a link: what it points to would be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(path, "is a link") from None
        raise SwarmError(f"{path}: {error.strerror}", place=Place(str(path))) from None
    with os.fdopen(handle, "r+") as file:
        yield file


def _bytes(path: Path) -> bytes | None:
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        raise _refused(path, "is not a regular file")
    if path.stat().st_size > MOST_BYTES:
        raise _refused(path, f"has more than {MOST_BYTES:,} bytes")
    try:
        return path.read_bytes()
    except OSError as error:
        raise SwarmError(f"{path}: {error.strerror}", place=Place(str(path))) from None


def _ends_line(log: Path) -> bool:
    with log.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _refused(path: Path, text: str) -> Refused:
    hint = "remove it; live replicas are then stopped by the next `swarm up`, and granted again if the load is there"
    hint += "; where the state has it as well, `pulumi state delete` the resource swarm:index:Live first"
    return Refused(f"{path.name} {text}", hint=hint, place=Place(str(path)))
