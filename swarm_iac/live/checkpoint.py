"""How is the live layer of Pulumi's state read, wherever that is kept?

A state in files is read as a file, any other by `pulumi stack export`, which takes no lock. What was read goes into the clone's
own file if it replaced what is there, so that everything else reads that file alone.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from swarm_iac.errors import Retryable
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer
from swarm_iac.live.shared import TYPE, Shared, no_layer, of_inputs, superseded
from swarm_iac.printable import printable, without_passwords
from swarm_iac.stackfile.locks.companions import Files
from swarm_iac.stackfile.reading import text as texts

#: Longest wait for a state that is not in files. [s]
_PATIENCE = 60.0
#: What a stack file with anything live contains, in any notation of it.
_KEYS = (b"scale", b"power_saving")


def backend(root: Path) -> str:
    """The address of the state; empty where none is named."""
    if url := os.environ.get("PULUMI_BACKEND_URL", ""):
        return url
    try:
        return str(yaml.safe_load((root / "Pulumi.yaml").read_text())["backend"]["url"])
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return ""  # Pulumi reports what is wrong with the file


def state_folder(root: Path) -> Path | None:
    """Where Pulumi keeps the state as files; None if it is in S3, Postgres or another service."""
    url = backend(root)
    path = url.removeprefix("file://").partition("?")[0]  # after it: settings, such as metadata=skip
    return (root / Path(path).expanduser()).resolve() if url.startswith("file://") else None


def shared_by_clones(root: Path) -> bool:
    """May another clone have the same state? Not where it is in this one, as `swarm init` puts it, or where none is named."""
    folder = state_folder(root)
    return bool(backend(root)) and (folder is None or not folder.is_relative_to(root.resolve()))


def concerns(root: Path, name: str) -> bool:
    """May anything be live of this stack? Read from the text, so that other stacks pay for nothing."""
    files = Files.of(root, name)
    if not files.stack.is_file():
        return False
    raw = texts.read(files.stack, str(files.stack))
    return any(key in raw for key in _KEYS)


def read(root: Path, name: str, environment: Mapping[str, str]) -> Shared | None:
    """What the state has; None where it has none. `environment`: of `pulumi`.

    Raises Retryable where it cannot be read, and Refused for what is no layer.
    """
    folder = state_folder(root)
    found = resources(folder, project(root), name) if folder else _exported(root, name, environment)
    mine = [each for each in found if each.get("type") == TYPE and not each.get("delete")]
    return of_inputs(mine[0].get("inputs") or {}) if mine else None


def taken(root: Path, name: str, there: Shared | None) -> bool:
    """Put what is there into the clone's file, if it replaced what that has. False if nothing was written.

    Raises Refused for the layer of another stack.
    """
    path = Files.of(root, name).live
    if there is None or path is None:
        return False
    if there.layer.generation and there.layer.stack != name:
        raise no_layer(f"it is of stack {there.layer.stack}")
    me = live_file.identity(path.parent)
    if not superseded(there, live_file.at(path), me):
        return False

    def change(mine: Layer) -> Layer:
        if not superseded(there, mine, me):
            return mine
        # Both clones may have counted to the same number since; who has read the old one has to notice.
        number = max(there.layer.generation, mine.generation + 1) if there.layer.generation else 0
        return there.layer.model_copy(update={"base": there.version, "generation": number})

    return live_file.replace(path, change)


def resources(folder: Path, project: str, name: str) -> list[dict[str, Any]]:
    """The resources of a state in files; none where there is no state."""
    path = folder / ".pulumi" / "stacks" / project / f"{name}.json"
    packed = path.with_name(f"{path.name}.gz")
    if not packed.is_file() and not path.is_file():
        return []  # nor is a device or a pipe read to its end, where a checkout has a link to one
    try:
        text = gzip.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()
        return [each for each in json.loads(text)["checkpoint"]["latest"]["resources"] if isinstance(each, dict)]
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, RecursionError):
        return []  # there is none, or Pulumi reports what is wrong with it


def project(root: Path) -> str:
    """The name of the Pulumi project; empty where there is none."""
    try:
        return str(yaml.safe_load((root / "Pulumi.yaml").read_text())["name"])
    except (OSError, yaml.YAMLError, LookupError, TypeError):
        return ""


def _exported(root: Path, name: str, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    words = ["pulumi", "stack", "export", "--non-interactive", "--stack", name]
    try:
        done = subprocess.run(
            words, cwd=root, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Retryable(f"the state cannot be read: {printable(str(error), 200)}", after=30) from None
    said = without_passwords(done.stderr.decode(errors="replace").strip())
    if done.returncode and "no stack named" in said:
        return []
    try:
        found: Any = json.loads(done.stdout) if not done.returncode else None
        return [each for each in (found["deployment"].get("resources") or ()) if isinstance(each, dict)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        last = said.splitlines()[-1] if said else "it is no JSON"
        raise Retryable(f"the state cannot be read: {printable(last, 200)}", after=30) from None
