"""Is the answer the same in another process? There Python goes through a set of names in another order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from swarm_iac.model.placement import Placement
from swarm_iac.solver import Scale, digest, solve_declared
from swarm_iac.stackfile import loads
from tests.benchmarks import mixed
from tests.benchmarks.fleets.draw_where import more
from tests.benchmarks.fleets.draw_workloads import filled
from tests.benchmarks.fleets.edits import edited

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.engine


def answers(seed: int) -> list[str]:
    """Digests of what is placed: on a drawn fleet with three edits, and as on a large one, with variants and teams."""
    found, last, drawn = [], Placement(), more(filled(seed, 8), seed)
    for number in range(4):
        drawn = edited(drawn, seed, number)[0] if number else drawn
        last = solve_declared(drawn.stack(), last, today=drawn.today)[1].placement
        found.append(digest(last))
    Scale.large = lambda self, snapshot: True  # type: ignore[method-assign]
    text = yaml.safe_dump(mixed.stack(400, seed % 10, "quick"), sort_keys=False)
    found.append(digest(solve_declared(loads(text, Path("stacks/mixed.yaml"), today=None).stack, Placement())[1].placement))
    return found


def test_the_order_in_which_sets_are_gone_through_changes_no_answer() -> None:
    ran = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.solver.test_another_process"],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": order},
            stdout=subprocess.PIPE,
            text=True,
        )
        for order in ("1", "2")
    ]
    first, second = (one.communicate()[0].split() for one in ran)
    assert len(first) == 5 and first == second


if __name__ == "__main__":
    print("\n".join(answers(640_003)))
