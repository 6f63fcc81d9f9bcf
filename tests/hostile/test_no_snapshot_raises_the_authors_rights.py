"""Whatever a snapshot says of the machines, who has to approve stays, what is affected stays, and what was red is not green."""

from __future__ import annotations

import datetime
import random
import subprocess
from pathlib import Path

import pytest

from swarm_iac.errors import Refused
from swarm_iac.review.check import check
from swarm_iac.review.last_known import FleetSnapshot, NodeDifference, NodeReport
from swarm_iac.review.signature import signed
from tests.review.fleet import DEV, RIGHTS, Repository, made

KINDS = ("value", "step", "halted", "hardware")
WHATS = ("gpus", 'allocations["pretrain-0"].slice.memory_max', "stop pretrain-0", "release pretrain-0", "hardware", "agent")


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, Path]:
    at = tmp_path_factory.mktemp("fleet")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(at / "key")], check=True)
    found = made(at / "fleet", DEV.read_text() + RIGHTS)
    found.write("policies/allowed_signers", f"swarm-snapshot {(at / 'key.pub').read_text()}")
    found.commit()
    return found, at / "key"


def drawn(at: random.Random, commit: str) -> FleetSnapshot:
    """Machines that answer or not, with anything wrong, where everything is stopped or has finished."""
    nodes = {}
    for name in at.sample(["gpu-01", "gpu-02", "gpu-03", "gpu-99"], at.randint(0, 4)):
        rows = [
            NodeDifference(what=at.choice(WHATS), wanted=at.choice(["1", "absent"]), found="2", kind=at.choice(KINDS))
            for _ in range(at.randint(0, 3))
        ]
        finished = tuple(at.sample(["pretrain-0", "pretrain-1", "notebook-0"], at.randint(0, 3)))
        nodes[name] = NodeReport(
            answered=at.random() < 0.7, differences=tuple(rows), health={"pretrain-0": "failed"}, finished=finished
        )
    now = datetime.datetime.now(datetime.UTC)
    return FleetSnapshot(stack="dev", fleet="dev", commit=commit, at=now, nodes=nodes)


@pytest.mark.parametrize("new", ["memory: 100 MB", "memory: 320 MB"])
def test_it_takes_no_need_away_and_turns_nothing_green(dev: tuple[Repository, Path], new: str) -> None:
    repository, key = dev
    head = repository.pull_request(("memory: 300 MB", new))
    plain = check(repository.folder, "main", head, "bo")
    assert plain.needs, "bo changes what is ada's"
    base, at = repository.git("rev-parse", "main"), random.Random(new)
    refused = 0
    for _ in range(12):
        data = signed(drawn(at, base).text(), key)
        found = check(repository.folder, "main", head, "bo", snapshots=[data])
        assert (found.needs, found.effect, found.approved) == (plain.needs, plain.effect, plain.approved)
        assert set(plain.refused) <= set(found.refused) and not found.ok
        refused += found.refused != plain.refused
    assert refused, "some of them have something against it"


def test_a_bent_file_is_refused_and_nothing_is_judged(dev: tuple[Repository, Path]) -> None:
    repository, key = dev
    head, at = repository.pull_request(("memory: 300 MB", "memory: 310 MB")), random.Random(1)
    good = signed(drawn(at, repository.git("rev-parse", "main")).text(), key)
    assert check(repository.folder, "main", head, "ada", snapshots=[good])
    for _ in range(60):
        place = at.randrange(good.index(b"-----BEGIN"))
        bent = good[:place] + bytes([good[place] ^ (1 << at.randrange(7))]) + good[place + 1 :]
        with pytest.raises(Refused):
            check(repository.folder, "main", head, "ada", snapshots=[bent])
