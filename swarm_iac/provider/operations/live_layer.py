"""What does the provider do about the resource `Live`, the live layer that all clones share? It asks no machine.

A change of it is compare-and-swap: see swarm_iac/live/shared.py.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from swarm_iac.errors import Retryable
from swarm_iac.provider.plugin.lazy_imports import LOADING


def check(news: Mapping[str, Any]) -> None:
    """Raises Refused for what is no live layer."""
    with LOADING:
        from swarm_iac.live.shared import of_inputs

    of_inputs(news)


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Is it another version? One version has one layer."""
    return old.get("version") != new.get("version")


def replace(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises Retryable if the new one was made from another than the state has, or another leader's lease runs."""
    with LOADING:
        from swarm_iac.live.shared import of_inputs, refusal

    why = refusal(of_inputs(old) if old else None, of_inputs(new), time.time())
    if why:
        raise Retryable(why, hint="nothing was changed; run it again")
