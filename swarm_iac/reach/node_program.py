"""What is sent to a node: its program, and the digest that names it?"""

from __future__ import annotations

import functools
import importlib.util
from types import ModuleType

from swarm_iac import assets
from swarm_iac.errors import ToolMissing


@functools.cache
def _install() -> ModuleType:
    """The node's own installer: both sides must agree on what the digest is taken of."""
    package = assets.playbooks() / "module_utils" / "swarm_node"
    name = "swarm_node"
    spec = importlib.util.spec_from_file_location(name, package / "__init__.py", submodule_search_locations=[str(package)])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    import sys

    if name not in sys.modules:
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return importlib.import_module(f"{name}.machine.install")


@functools.cache
def _files() -> dict[str, bytes]:
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise ToolMissing("pynvml is not installed here", hint="pip install nvidia-ml-py")
    files: dict[str, bytes] = _install().pack(str(assets.playbooks() / "module_utils" / "swarm_node"), found.origin)
    return files


@functools.cache
def agent_digest() -> str:
    """Digest of the node program that this installation brings. Raises ToolMissing without nvidia-ml-py."""
    return str(_install().digest(_files()))


@functools.cache
def archive() -> bytes:
    """The node program as a zip that Python runs as it is."""
    packed: bytes = _install().archive(_files())
    return packed
