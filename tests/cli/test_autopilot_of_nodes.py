"""Is a mean of the cards that nodes measured taken for one of all replicas only if it is?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm_iac import observe
from swarm_iac.cli.machines import autopilot_loop as loop
from swarm_iac.observe import Measured
from tests.autopilot.fleet import chat, fleet


@pytest.mark.parametrize(("busy", "counted"), [("0123", 4), ("012", 3), ("", 0)])
def test_a_replica_whose_cards_nobody_measures_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: str, counted: int
) -> None:
    held = tuple(({"gpu": gpu, "allocation": f"chat-{gpu}", "workload": "chat"}, 1.0) for gpu in "0123")
    samples = {"swarm_gpu_allocated_ratio": held, "swarm_gpu_busy_ratio": tuple(({"gpu": gpu}, 0.1) for gpu in busy)}

    def measured(targets: Any, **_: Any) -> dict[str, Measured]:
        return {"n1": Measured("n1", samples, {})}

    monkeypatch.setattr(observe, "measurements", measured)
    (found,) = loop.of_source(tmp_path, "")(fleet(workloads={"chat": chat(scale={"on": "gpu", "target": 70.0})})).values()
    assert found.replicas == counted and (found.of_all(4).value is not None) == (counted == 4)
