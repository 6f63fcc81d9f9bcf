"""How does a plugin start without loading all of Pulumi's SDK?

A plugin needs the messages in `pulumi.runtime.proto` and nothing else, but importing them runs `pulumi/__init__.py`,
which loads the automation API, tracing and dill: 0.5 s of the 0.6 s that a start would take. So the packages around
the messages are put in place empty.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


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
