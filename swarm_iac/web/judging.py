"""Does the lock of a stack hold, and why is something pending? Answered by a process of its own: it takes a second of work.

python -m swarm_iac.web.judging REPOSITORY NAME        prints {"stale": [...], "waiting": {...}}
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

from swarm_iac.decision import decide
from swarm_iac.errors import StaleLock, SwarmError
from swarm_iac.model.placement import Placement


def judged(root: Path, name: str) -> dict[str, Any]:
    """Why it does not hold; of a lock that does, what waits for capacity, with its reasons."""
    try:
        decision = decide(root, name, today=datetime.date.today(), frozen=True, write=False)
    except StaleLock as stale:
        return {"stale": [stale.message], "waiting": None}
    except SwarmError as error:
        return {"stale": [str(error)], "waiting": None}
    waiting = Placement(
        unplaced=decision.placement.unplaced, growing=decision.placement.growing, lighter=decision.placement.lighter
    )
    return {"stale": [], "waiting": waiting.model_dump(mode="json")}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(judged(Path(sys.argv[1]), sys.argv[2])))
