"""Which nodes does `up` power on before it begins, and what becomes of those that do not come?"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.live_sharing import fetch
from swarm_iac.cli.power.hooks import DEFAULT_LIMIT, FOLDER, LIMIT, Hooks
from swarm_iac.cli.power.needs import powering
from swarm_iac.decision import Decision, decide, with_live
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.live import file as live_file
from swarm_iac.run_options import RunOptions
from swarm_iac.stackfile.locks.companions import Files

Say = Callable[[str], None]
#: So often something is placed elsewhere because a node did not power on.
_TIMES = 8


def wake(root: Path, name: str, say: Say) -> None:
    """Power on what the next `up` needs. Costs nothing where no node is off.

    What is not applied yet is decided again without nodes that failed. Raises Refused where a node is needed and there are
    no hooks.
    """
    path = Files.of(root, name).live
    fetch(root, name, say, changing=True)
    if path is None or not live_file.at(path).power:
        return
    for _ in range(_TIMES):
        decision = _decided(root, name)
        wanted = {one.node for one in with_live(decision, datetime.date.today()).placement.going()}
        off = sorted(wanted & decision.layer.asleep.keys())
        known = wanted & decision.layer.failed.keys()
        if not off and not known:
            return
        hooks = _hooks(root, off or sorted(known))
        if hooks is None:
            return
        one = powering(root, name, hooks, say)
        try:
            say(f"powering on {', '.join(off)}") if off else None
            layer = one.wake(decision.stack, {*off, *known}, decision.layer)
        finally:
            one.end()
        if not wanted & layer.failed.keys() - known:
            return  # those that came; or nothing new is known of those that did not


def _decided(root: Path, name: str) -> Decision:
    frozen = RunOptions.of(os.environ).frozen
    return decide(root, name, today=datetime.date.today(), frozen=frozen, ends=deciding.ends(name))


def _hooks(root: Path, nodes: list[str]) -> Hooks | None:
    folder = os.environ.get(FOLDER, "")
    if not folder:
        raise Refused(
            f"{', '.join(nodes)} is powered off, and needed",
            hint=f"set {FOLDER} to the folder of hooks that the autopilot has; see docs/autopilot.md",
        )
    return Hooks.of(folder, root, limit_of(os.environ.get(LIMIT, "")))


def limit_of(text: str) -> float:
    """The time limit of a hook [s]. Raises SwarmError."""
    try:
        value = float(text or DEFAULT_LIMIT)
    except ValueError:
        value = -1
    if not 0 < value <= 600:
        raise SwarmError(f"{LIMIT} is no number of seconds up to 600")
    return value
