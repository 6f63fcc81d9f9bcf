"""How is a file of ours written? All of it or nothing, whenever the process ends."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from swarm_iac.errors import Place, SwarmError


def write_whole(path: Path, text: str) -> bool:
    """Write all of it or nothing, whenever the process ends. False where the file says so already."""
    if _says(path, text.encode()):
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        hint = "the file is as it was; see who may write there, and how much space is left"
        raise SwarmError(f"cannot be written: {error.strerror}", hint=hint, place=Place(str(path))) from None
    return True


def _says(path: Path, raw: bytes) -> bool:
    """Is it a file with just this in it? What else lies there is never read to its end, and replaced."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(raw) + 1) == raw
    except OSError:
        return False


def _replace(path: Path, text: str) -> None:
    """Atomic and durable, and through no name that someone else could have put there, or that another run writes too."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777 if path.is_file() else 0o644 & ~_umask())
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
