"""Is a store whose writer was killed at any moment whole, and does the next writer go on with it?"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarm_iac.accounting import recording, schema
from swarm_iac.accounting.summary import WAYS, summary
from swarm_iac.accounting.window import Window

EVER = Window(0, 1 << 30)
STEP, CARDS, NODES = 600, 4, 20
#: Writes passes until it is killed, and says each one that is written.
WRITER = f"""
import sys
from pathlib import Path
from swarm_iac.accounting import recording, schema
from swarm_iac.accounting.observation import HeldPart, Holder, NodePass, FleetPass
path, at = Path(sys.argv[1]), int(sys.argv[2])
with recording.alone(path), schema.opened(path, write=True) as store:
    while True:
        held = tuple(HeldPart(gpu, "", Holder(f"a-{{gpu}}", "a", "ada", "t"), 1000, 500) for gpu in range({CARDS - 1}))
        nodes = tuple(NodePass(f"n{{one}}", "H100", {CARDS}, True, free=1000, held=held) for one in range({NODES}))
        recording.record(store, "s", FleetPass(at, nodes))
        print(at, flush=True)
        at += {STEP}
"""
T = 490_000 * 3600


def killed(path: Path, at: int, after: float) -> int:
    """Run the writer, kill it, and say which pass it wrote last, as far as it could say so."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(at)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        first = int(writer.stdout.readline())
        time.sleep(after)
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        assert writer.wait() == -signal.SIGKILL
    return int(rest[-1]) if rest else first


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_writer_leaves_a_store_that_reads_and_goes_on(tmp_path: Path, seed: int) -> None:
    path, rng, at = tmp_path / "usage.db", random.Random(seed), T
    for _ in range(3):
        said = killed(path, at, rng.uniform(0, 0.3))
        with schema.opened(path) as store:
            found = {by: summary(store, "s", EVER, by) for by in WAYS}
            assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        last = found["team"].last
        assert last in (said, said + STEP), "what was said to be written is there, and nothing but whole passes"
        for one in found.values():
            total = one.total
            assert (total.capacity, total.unknown) == ((last - T) * CARDS * 1000 * NODES, 0)
            assert total.used == total.idle == (last - T) * (CARDS - 1) * 500 * NODES
        with recording.alone(path):
            pass  # the lock went with its holder
        at = last + STEP


def test_a_file_that_was_begun_and_never_written_is_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    path.touch()
    with schema.opened(path, write=True) as store:
        assert store.execute("SELECT count(*) FROM clock").fetchone() == (0,)
    assert path.stat().st_mode & 0o777 == 0o600
