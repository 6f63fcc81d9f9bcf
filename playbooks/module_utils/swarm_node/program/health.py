"""How is each workload, since when does it run, and how did it end?"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Callable, Dict, Tuple

from ..machine.run import Context, NodeError


def all_of(context: Context, seconds: float) -> Dict[str, str]:
    """How each allocation is. What cannot be told of one within `seconds` is `unknown`, and costs the others nothing."""
    allocations = context.ledger.get("allocations") or {}
    if not allocations:
        return {}
    from ..concerns import units
    from ..workload import probes

    found: Dict[str, str] = {}
    checks: Dict[str, Callable[[float], str]] = {}
    for name, whole in allocations.items():
        try:
            unit = whole.get("unit") or {}
            found[name] = units.health_of(context, name, {**unit, "healthy": ""}) if unit else "stopped"
            if found[name] == "healthy" and unit.get("healthy"):
                checks[name] = partial(_probe, context, name, unit)
        except Exception:
            found[name] = "unknown"
    return {**found, **(probes.ask(checks, seconds) if checks else {})}


def _probe(context: Context, name: str, unit: Dict[str, Any], seconds: float) -> str:
    from ..concerns import units

    return units.probe(context, name, unit, most=seconds)


def runs(context: Context) -> Tuple[Dict[str, int], Dict[str, str]]:
    """Of each allocation that runs when it began [s since 1970], and of each that ended systemd's word for how."""
    allocations = context.ledger.get("allocations") or {}
    if not allocations:
        return {}, {}
    from ..concerns import units
    from ..workload import lives

    began: Dict[str, int] = {}
    for name in allocations:
        with contextlib.suppress(NodeError, OSError, ValueError):  # who cannot be asked is not known to run
            moment = units.started(context, name)
            began.update({name: moment} if moment is not None else {})
    words = {name: lives.word_of(context, name) for name in allocations}
    return began, {name: word for name, word in words.items() if word}


def booted(context: Context) -> int:
    """When a machine booted on which something has waited since for a run; 0 when nothing waits. [s since 1970]"""
    from ..workload import lives

    return max((lives.waits(context, name) for name in context.ledger.get("allocations") or {}), default=0)
