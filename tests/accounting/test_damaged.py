"""Is a damaged store refused in one sentence, whatever is wrong in it?"""

from __future__ import annotations

import datetime
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm_iac.accounting import recording, schema
from swarm_iac.accounting.idle import Thresholds, idle
from swarm_iac.accounting.in_force import held, in_force
from swarm_iac.accounting.observation import FleetPass, HeldPart, Holder, NodePass
from swarm_iac.accounting.past_use import past_use
from swarm_iac.accounting.summary import WAYS, summary
from swarm_iac.accounting.window import window
from swarm_iac.cli.usage import idle_report, usage_report
from swarm_iac.errors import SwarmError
from swarm_iac.price import Price
from swarm_iac.units import Seconds

START, PASSES = 1_790_000_000, 20
END = START + 600 * PASSES
WINDOW = window("30d", "", END)
ODD = ["x", "-1", -1, None, 1.5, 2**62, -(2**62), b"\xff\x00", ""]


def one_pass(at: int) -> FleetPass:
    ones = tuple(HeldPart(gpu, "", Holder(f"chat-{gpu}", "chat", "ada", "t"), 1000, 500, 300, 200) for gpu in range(2))
    nodes = (NodePass(name, "H100", 4, True, 2000, 0, 0, ones, Price.parse("2.1234 EUR/h")) for name in ("n1", "n2"))
    return FleetPass(at, tuple(nodes), "c" * 40)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store that is as it was written."""
    path = tmp_path_factory.mktemp("store") / "usage.db"
    with schema.opened(path, write=True) as store:
        for number in range(PASSES):
            recording.record(store, "lab", one_pass(START + 600 * number))
    return path.read_bytes()


def reads(path: Path) -> None:
    """All that `swarm usage` shows."""
    with schema.opened(path) as store:
        for by in WAYS:
            found = summary(store, "lab", WINDOW, by)
            usage_report.usage_table(found, WINDOW, "lab")
            usage_report.usage_csv(found)
            usage_report.usage_json(found, WINDOW, "lab")
        idle_report.idle_table(idle(store, "lab", WINDOW, Thresholds()), WINDOW, "lab", Thresholds())
        in_force(store, "lab", WINDOW)
        held(store, "lab", WINDOW, ["chat-0"])
        past_use(store, "lab", {"t": ("t",)}, Seconds(604_800), datetime.date(2026, 11, 1))


def writes(path: Path) -> None:
    with schema.opened(path, write=True) as store:
        recording.record(store, "lab", one_pass(END))


def ends(path: Path, what: Callable[[Path], None]) -> str:
    """Only a sentence is raised, and it has a hint."""
    try:
        what(path)
    except SwarmError as error:
        assert error.hint, error
        return "refused"
    return "done"


def damaged(path: Path, table: str, column: str, value: object) -> bool:
    """Write it over all rows, past the checks of the file; False where even SQLite refuses."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ?", (value,))
        connection.commit()
    except sqlite3.Error:
        return False
    finally:
        connection.close()
    return True


def test_no_value_that_we_never_write_ends_in_a_traceback(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    path.write_bytes(sound)
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = [(table, row[1]) for table in tables for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    seen: Counter[str] = Counter()
    for table, column in columns:
        for value in ODD:
            for what in (reads, writes):
                for old in tmp_path.iterdir():
                    old.unlink()
                path.write_bytes(sound)
                if damaged(path, table, column, value):
                    seen[ends(path, what)] += 1
    assert seen["refused"] > 100 and seen["done"] > 100, seen


@pytest.mark.parametrize(
    "seeds", [range(150), pytest.param(range(150, 5000), marks=pytest.mark.slow)], ids=["some", "thousands"]
)
def test_no_byte_that_changed_ends_in_a_traceback(sound: bytes, tmp_path: Path, seeds: range) -> None:
    path = tmp_path / "usage.db"
    for seed in seeds:
        rng = random.Random(seed)
        bent = bytearray(sound)
        for _ in range(rng.choice([1, 1, 2, 5])):
            bent[rng.randrange(len(bent))] = rng.choice([0, 1, 2, 7, 255, rng.randrange(256)])
        for what in (reads, writes):
            for old in tmp_path.iterdir():
                old.unlink()
            path.write_bytes(bytes(bent))
            ends(path, what)
