"""How does a plugin avoid loading what it does not need: all of Pulumi's SDK, and gRPC's fork handlers?

A plugin needs the messages in `pulumi.runtime.proto` and nothing else, but importing them runs `pulumi/__init__.py`,
which loads the automation API, tracing and dill: 0.5 s of the 0.6 s that a start would take. So the packages around
the messages are put in place empty.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

#: Held while loading modules: two threads importing one package at once would each get half of it.
LOADING = threading.Lock()


def without_sdk() -> None:
    """Put empty packages of these names in place. Only for a process that is a plugin and no program."""
    if "pulumi" in sys.modules:
        return
    found = find_spec("pulumi")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("the Python package `pulumi` is not installed")
    root = Path(found.origin).parent
    runtime = root / "runtime"
    for name, folder in (("pulumi", root), ("pulumi.runtime", runtime), ("pulumi.runtime.proto", runtime / "proto")):
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


def without_fork_handlers() -> None:
    """Keep gRPC from restarting itself in a forked child. Before gRPC is imported: it looks at its settings then, and once.

    ansible-runner forks to have a terminal for Ansible. With the handlers, about one child in nine was killed by a
    segmentation fault before it ran anything (measured: 23 of 200); a child that only runs another program needs none.
    """
    if "grpc" in sys.modules:
        raise RuntimeError("gRPC is imported already, and keeps its fork handlers")
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
