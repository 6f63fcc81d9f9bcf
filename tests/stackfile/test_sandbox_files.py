"""Are the files of the sandbox's stack as the product writes them now? They are the first that a new user sees."""

from __future__ import annotations

import datetime
from pathlib import Path

from swarm_iac.stackfile.load import load
from swarm_iac.stackfile.locks import proof
from swarm_iac.stackfile.locks.companions import Files, read_lock

ROOT = Path(__file__).parents[2]


def test_the_proof_belongs_to_the_lock() -> None:
    """Else `make up` ends with a stale one."""
    today = datetime.date.today()
    files = Files.of(ROOT, "dev")
    stack = load(files.stack, today=today).stack
    known = proof.parse(files.proof.read_bytes(), files.proof.name)
    assert proof.belongs(known, read_lock(files.lock).placement, proof.problem_of(stack, today))
