"""Is a lock decided again whenever that would place something, and is it told when nothing changes? A fixed sample.

`python -m tests.benchmarks.again --seed N --fleets K` draws more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import again


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 129, 136, 153, 105])
def test_no_lock_hides_what_a_solve_would_do(seed: int) -> None:
    assert [str(one) for one in again.failures(seed, (2, 6), 5)] == []


@pytest.mark.slow
def test_what_a_part_of_the_move_budget_kept_out_is_placed_by_the_next_solve() -> None:
    """One of two moves was used, and what waits needs two."""
    assert [str(one) for one in again.failures(70206, (2, 8), 2)] == []


@pytest.mark.engine
def test_a_lock_that_stays_valid_when_room_appears_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The property sees it: without the rule that decides pending work again, fleets fail it, and the case is kept."""
    monkeypatch.setattr("swarm_iac.stackfile.locks.proof.pending_again", lambda *_: ())
    found = [one for seed in (203, 209, 210) for one in again.failures(seed, (2, 6), 5, tmp_path)]
    assert found
    assert all((tmp_path / f"seed{one.seed}-edit{one.edit}-{one.kind}" / "drawn.yaml").is_file() for one in found)
