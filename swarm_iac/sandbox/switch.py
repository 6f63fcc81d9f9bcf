"""How do the nodes reach each other? Through a switch on a unix socket; nothing of it touches the host's network."""

from __future__ import annotations

import shutil
import signal

from swarm_iac.sandbox import process, tool
from swarm_iac.sandbox.places import Places


def running(places: Places) -> bool:
    return process.running(places.switch_pid, places.switch) is not None


def start(places: Places) -> None:
    """Start the switch unless it runs."""
    if running(places):
        return
    shutil.rmtree(places.switch, ignore_errors=True)
    places.switch_pid.unlink(missing_ok=True)
    tool.run("vde_switch", "-s", places.switch, "-m", "600", "-p", places.switch_pid, "-daemon")
    process.record(places.switch_pid)


def stop(places: Places) -> None:
    """End the switch; it removes its socket."""
    process.end(places.switch_pid, places.switch, how=signal.SIGTERM)
    shutil.rmtree(places.switch, ignore_errors=True)
