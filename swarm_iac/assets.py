"""Where do playbooks, default policies and the first stack lie? In the source tree, or inside the installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _find(name: str) -> Path:
    shipped = _PACKAGE / "share" / name
    return shipped if shipped.is_dir() else _PACKAGE.parent / name


def playbooks() -> Path:
    """The folder with converge.yml, roles and modules."""
    return _find("playbooks")


def policies() -> Path:
    """The folder with the default limits and the policy pack."""
    return _find("policies")


def stacks() -> Path:
    """The folder with dev.yaml, the stack that runs on the sandbox."""
    return _find("stacks")
