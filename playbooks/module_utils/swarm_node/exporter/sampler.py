"""How is a node sampled? Each collector in a thread of its own, into a file of its own, so that one that hangs holds up no other.

The server shows a file's values while they are young. So a value is what was measured lately, or it is absent: never old, never
zero for want of an answer.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple

from ..machine.run import Context, NodeError
from . import labels as holders
from . import of_allocations, of_directories, of_gpus, of_network, of_units
from .families import Sample, rates

#: Where the sampler leaves its files; systemd makes it, for the sampler and the server alone.
FOLDER = "/run/swarm-sampler"
Collect = Callable[[holders.Labels], List[Sample]]


class Every(NamedTuple):
    """How often a collector samples, and the age past which nothing of its sample is shown. [s]"""

    seconds: float
    most: float


TIMES: Dict[str, Every] = {
    "gpus": Every(5, 15),
    "allocations": Every(5, 15),
    "network": Every(5, 15),
    # Each costs more than the others together, and changes less.
    "directories": Every(15, 45),
    "units": Every(15, 45),
}


def collectors(context: Context) -> Dict[str, Collect]:
    """By name; each keeps what it needs from one sample to the next."""
    gpus = of_gpus.Gpus()
    return {
        "gpus": gpus.collect,
        "allocations": lambda labels: of_allocations.collect(context, labels),
        "network": lambda labels: of_network.collect(context, labels),
        "directories": lambda labels: of_directories.collect(context, labels),
        "units": lambda labels: of_units.collect(context, labels),
    }


def sample(root: str = "/", folder: str = FOLDER) -> int:
    """Sample until the process is ended. The main thread only waits: every collector may hang."""
    context = Context(None, check=True, root=root)
    for name, collect in collectors(context).items():
        threading.Thread(target=_keep, args=(context, name, collect, folder), name=name, daemon=True).start()
    threading.Event().wait()
    return 0


def _keep(context: Context, name: str, collect: Collect, folder: str) -> None:
    last = Last(0, [], 0)
    while True:
        began = time.monotonic()
        last = once(context, name, collect, folder, last)
        time.sleep(max(0.5, TIMES[name].seconds - (time.monotonic() - began)))


class Last(NamedTuple):
    """The sample before. `began`: on the monotonic clock [s]; `failures`: of all until now."""

    began: float
    samples: List[Sample]
    failures: int


def once(context: Context, name: str, collect: Collect, folder: str, last: Last) -> Last:
    """One sample into its file. Where it fails, the file is left as it is, to grow old."""
    began = time.monotonic()
    try:
        found = collect(holders.read(context))
    except (NodeError, OSError, ValueError) as error:
        _say(f"{name}: {error}")
    except Exception as error:  # one collector's surprise must not end it: the next sample may be well
        _say(f"{name}: {type(error).__name__}: {error}")
    else:
        told = {"began": began, "took": time.monotonic() - began, "failures": last.failures, "samples": found}
        # For `swarm top`, which reads once: Prometheus makes its own of two scrapes.
        told["rates"] = rates(last.samples, found, began - last.began)
        if _write(folder, name, told):
            return Last(began, found, last.failures)
    return last._replace(failures=last.failures + 1)


def _say(words: str) -> None:
    """A line of the journal, where it differs from the one before."""
    if words != _said.get("last"):
        _said["last"] = words
        print(words[:500], flush=True)


_said: Dict[str, str] = {}


def _write(folder: str, name: str, found: Dict[str, Any]) -> bool:
    """Atomic, and not synced: nothing of it outlives a reboot."""
    fresh = os.path.join(folder, f".{name}")
    try:
        with open(fresh, "w", encoding="utf-8", errors="replace") as file:
            json.dump({**found, "cpu": time.process_time()}, file)
        os.replace(fresh, os.path.join(folder, f"{name}.json"))
    except OSError as error:
        _say(f"{name}: {error}")
        return False
    return True
