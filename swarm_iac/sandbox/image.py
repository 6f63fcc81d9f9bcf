"""Where does the nodes' disk image come from?

It is built once from the files in `image/` and `nvml/`, and kept in the cache under the digest of those files, so a
change to any of them makes a new image and an old one stays usable by the sandboxes whose disks grew from it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.sandbox import tool
from swarm_iac.sandbox.spec import Say, silent
from swarm_iac.sandbox.tool import SandboxError

_HERE = Path(__file__).parent
_BUILD_SECONDS = 1800


@dataclass(frozen=True)
class Image:
    """A built image: a raw root file system, a kernel and a small initrd."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "rootfs.img"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.img"

    def complete(self) -> bool:
        return all(path.exists() for path in (self.disk, self.kernel, self.initrd))


def cache_folder() -> Path:
    """`$SWARM_CACHE`, else `swarm-iac` in the user's cache folder."""
    own = os.environ.get("SWARM_CACHE")
    if own:
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "swarm-iac"


def _sources() -> list[Path]:
    return sorted(p for part in ("image", "nvml") for p in (_HERE / part).rglob("*") if p.is_file())


def digest() -> str:
    """Twelve digits that change whenever something the image is built from changes."""
    total = hashlib.sha256()
    for path in _sources():
        total.update(str(path.relative_to(_HERE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:12]


def compile_stand_in(target: Path) -> Path:
    """Compile the stand-in for NVML into the file `target`."""
    sources = sorted((_HERE / "nvml").glob("*.c"))
    flags = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread")
    tool.run("gcc", *flags, "-Wl,-soname,libnvidia-ml.so.1", "-o", target, *sources)
    return target


def _build(folder: Path, say: Say) -> None:
    if os.geteuid() != 0:
        raise SandboxError(
            "only root can build the nodes' image", f"run the same once as root with SWARM_CACHE={folder.parent}"
        )
    say("building the nodes' image (once; about a minute)")
    begin = time.monotonic()
    work = folder.with_name(f"{folder.name}.building")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    stand_in = compile_stand_in(work / "libnvidia-ml.so.1")
    tool.run("bash", _HERE / "image" / "build.sh", work, stand_in, seconds=_BUILD_SECONDS)
    work.rename(folder)
    say(f"image built in {time.monotonic() - begin:.0f} s: {folder}")


def ready(say: Say = silent) -> Image:
    """The image for these sources, built if need be; a lock lets two processes build it once."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    image = Image(cache / f"node-{digest()}")
    if image.complete():
        return image
    with (cache / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image.complete():
            _build(image.folder, say)
    return image
