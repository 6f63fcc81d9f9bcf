"""How does this program come to lie on a node, compiled and named by its digest?"""

from __future__ import annotations

import contextlib
import os
from typing import Dict, List

from .run import Change, Context, NodeError, change

HOME = "/usr/local/lib/swarm"
_START = b"import sys\n\nfrom swarm_node.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"


def digest(files: Dict[str, bytes]) -> str:
    """Names the program by what it is: path and content of every file."""
    import hashlib  # here, as are the others: an observation reads only which program is installed

    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{name}\0{len(files[name])}\0".encode())
        total.update(files[name])
    return total.hexdigest()[:16]


def pack(package: str, pynvml: str) -> Dict[str, bytes]:
    """The files of the program, from the package's folder and pynvml.py: what `digest` and `archive` take."""
    files = {"__main__.py": _START}
    for folder, _, names in os.walk(package):
        for name in (name for name in names if name.endswith(".py")):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                files[f"swarm_node/{os.path.relpath(path, package)}"] = file.read()
    with open(pynvml, "rb") as file:
        files["pynvml.py"] = file.read()
    return files


def archive(files: Dict[str, bytes]) -> bytes:
    """A zip that Python runs as it is, equal for equal content."""
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in sorted(files):
            packed.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def running() -> Dict[str, bytes]:
    """The files of the program that runs now, from a zip or from where it is installed."""
    import zipfile

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    home = os.path.dirname(package)
    if zipfile.is_zipfile(home):
        with zipfile.ZipFile(home) as packed:
            return {name: packed.read(name) for name in packed.namelist()}
    return pack(package, os.path.join(home, "pynvml.py"))


def installed(root: str = "/") -> str:
    """Digest that `current` names; empty when none is installed."""
    try:
        return os.path.basename(os.readlink(os.path.join(root, HOME.lstrip("/"), "current")))
    except OSError:
        return ""


def outdated(context: Context) -> bool:
    """Is another program than what runs now, or none, the current one?"""
    name = digest(running())
    return installed(context.root) != name or not os.path.isdir(os.path.join(context.path(HOME), name))


def apply(context: Context) -> List[Change]:
    """Install what runs now, point `current` at it, remove older ones."""
    import shutil

    files = running()
    name, before = digest(files), installed(context.root)
    home = context.path(HOME)
    if before == name and os.path.isdir(os.path.join(home, name)):
        return []
    if not context.check:
        context.ledger.confirm()
        _unpack(files, os.path.join(home, name))
        fresh = os.path.join(home, ".current")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(name, fresh)
        os.replace(fresh, os.path.join(home, "current"))
        for other in os.listdir(home):
            if other not in (name, "current"):
                shutil.rmtree(os.path.join(home, other), ignore_errors=True)
    return [change("agent", before or None, name)]


def alone(root: str = "/") -> str:
    """Install what runs now beside what is there: for whoever may, before the first step of an account that may not."""
    files = running()
    name = digest(files)
    home = os.path.join(root, HOME.lstrip("/"))
    if not os.path.isdir(os.path.join(home, name)):
        _unpack(files, os.path.join(home, name))
    return name


def _unpack(files: Dict[str, bytes], target: str) -> None:
    import py_compile
    import shutil

    fresh = target + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    for name, content in files.items():
        path = os.path.join(fresh, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, 0o644)
        if name != "__main__.py":
            try:
                # By content, not by time: a node's clock may jump, and then every start would compile again.
                py_compile.compile(path, dfile=os.path.join(target, name), doraise=True,
                                   invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)  # fmt: skip
            except py_compile.PyCompileError as error:
                raise NodeError(f"{name}: {error}") from None
    shutil.rmtree(target, ignore_errors=True)
    os.rename(fresh, target)


def restore(context: Context) -> List[Change]:
    """Remove the program."""
    import shutil

    before, home = installed(context.root), context.path(HOME)
    if not os.path.isdir(home):
        return []
    if not context.check:
        context.ledger.confirm()
        shutil.rmtree(home, ignore_errors=True)
    return [change("agent", before or None, None)]
