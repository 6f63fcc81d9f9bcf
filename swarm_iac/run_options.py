"""Which options does one run have? Read from the environment once, where the run starts, and passed on from there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Seconds after which a node that says nothing counts as unreachable, unless SWARM_NODE_TIMEOUT is set.
NODE_TIMEOUT = 20.0
#: Option → the variable that sets it.
VARIABLES = {
    "ssh_config": "SWARM_SSH_CONFIG",
    "node_timeout": "SWARM_NODE_TIMEOUT",
    "offline": "SWARM_OFFLINE",
    "frozen": "SWARM_FROZEN",
    "retry": "SWARM_RETRY",
    "only": "SWARM_ONLY",
    "allow_stop": "SWARM_ALLOW_STOP",
    "adopt": "SWARM_ADOPT",
    "who": "SWARM_WHO",
    "in_flight": "SWARM_IN_HAND",
    "summary": "SWARM_SUMMARY",
    "skip_checkpoints": "PULUMI_SKIP_CHECKPOINTS",
    "state_home": "XDG_STATE_HOME",
    "live": "SWARM_LIVE_LAYER",
    "share": "SWARM_SHARE_LAYER",
}


@dataclass(frozen=True)
class RunOptions:
    """Options of one run, each set by its variable. `mistakes` lists those that could not be read."""

    ssh_config: Path | None = None
    """OpenSSH configuration for reaching nodes. None: the user's own."""
    node_timeout: float = NODE_TIMEOUT
    """A node that is silent for this long counts as unreachable. [s]"""
    offline: bool = False
    """Ask no machine."""
    frozen: bool = False
    """Refuse a stale lock instead of solving."""
    retry: bool = False
    """Continue roll-outs that halted."""
    only: str = ""
    """Nodes and teams to change; the rest stays as it is. Empty: everything."""
    allow_stop: int = 0
    """Running allocations this run may stop, in place of solve.stops."""
    adopt: str = ""
    """Lineage to take over in place of a new one: see `swarm adopt`."""
    who: str = ""
    """Author for the nodes' audit, in place of user@host."""
    in_flight: Path | None = None
    """File that says whether a change is under way: see provider.plugin.in_flight."""
    summary: Path | None = None
    """File for the summary of a preview, as JSON."""
    skip_checkpoints: bool = False
    """The engine saves its state only at the end of the run."""
    state_home: Path | None = None
    """The operator's own folder for notes that outlive a run. None: no notes."""
    live: Path | None = None
    """The stack's live layer, which says what nodes are powered off. None: none is."""
    share: str = ""
    """Put the clone's live layer into the state, with the leader of now (`keep`), with none (`release`), or this one (JSON)."""
    mistakes: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> RunOptions:
        """What the environment says. An empty variable counts as unset. Never raises: see `mistakes`."""

        def text(name: str) -> str:
            return environment.get(VARIABLES[name], "")

        def path(name: str) -> Path | None:
            return Path(text(name)).absolute() if text(name) else None

        def flag(name: str) -> bool:
            return text(name) not in ("", "0")

        allowed = text("allow_stop") or "0"
        mistake = (
            f"{VARIABLES['allow_stop']} is {allowed[:40]!r} and not a number\n"
            "  hint: write how many allocations may be stopped, such as 12"
        )
        number = allowed.isascii() and allowed.isdigit()
        return cls(
            ssh_config=path("ssh_config"),
            node_timeout=_seconds(text("node_timeout")),
            offline=flag("offline"),
            frozen=flag("frozen"),
            retry=flag("retry"),
            only=text("only"),
            allow_stop=int(allowed) if number else 0,
            adopt=text("adopt"),
            who=text("who"),
            in_flight=path("in_flight"),
            summary=path("summary"),
            skip_checkpoints=text("skip_checkpoints") == "true",
            state_home=path("state_home") or Path(os.path.expanduser("~/.local/state")),  # noqa: PTH111  (Path.home() may raise)
            live=path("live"),
            share=text("share"),
            mistakes=() if number else (mistake,),
        )


def _seconds(text: str) -> float:
    try:
        return float(text or NODE_TIMEOUT)
    except ValueError:
        return NODE_TIMEOUT
