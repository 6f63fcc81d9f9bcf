"""Does every mistake get a message that helps? One file each in mistakes/, its text beside it.

`SWARM_UPDATE=1 pytest tests/stackfile` writes the texts anew; read what changed.
"""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path

import pytest
import yaml

from swarm_iac.errors import StackFileError
from swarm_iac.stackfile import load, loads

HERE = Path(__file__).parent / "mistakes"
ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 6, 1)
CASES = sorted(path.stem for path in HERE.glob("*.yaml"))
PYDANTIC = ("Input should", "valid ", "Value error", "validation error", "Extra inputs", "Field required", "pydantic")


def refused(raw: bytes, file: str = "stack.yaml") -> StackFileError:
    with pytest.raises(StackFileError) as caught:
        loads(raw, file, policies=ROOT / "policies", today=TODAY)
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_mistake_is_told_as_written(name: str) -> None:
    error = refused((HERE / f"{name}.yaml").read_bytes(), f"{name}.yaml")
    text = str(error).replace(str(ROOT) + "/", "") + "\n"
    golden = HERE / f"{name}.txt"
    if os.environ.get("SWARM_UPDATE"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert not any(phrase in text for phrase in PYDANTIC)
    assert all(problem.place.line >= 1 and problem.place.column >= 1 for problem in error.problems)


def test_table_of_a_hint_can_be_typed() -> None:
    raw = (HERE / "table-of-values.yaml").read_bytes()
    tables = [one for one in refused(raw).problems if "as in {" in one.hint]
    data = yaml.safe_load(raw)
    for one in tables:
        *above, key = one.path.split(".")
        owner = data
        for step in above:
            owner = owner[step]
        owner[key] = yaml.safe_load(one.hint.partition("as in ")[2])
    left = refused(yaml.safe_dump(data).encode()).problems
    assert len(tables) >= 15
    assert [one.path for one in left if one.message.startswith("expected")] == ["workloads.chat.variants"]


def test_there_are_enough_mistakes() -> None:
    assert len(CASES) >= 40


def test_file_of_50_mb_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.write(b"fleet: lab\n" + b"# padding\n" * 100)
        stream.truncate(50_000_000)
    before = time.monotonic()
    with pytest.raises(StackFileError, match=r"too large: 50,000,000 bytes"):
        load(path, today=TODAY)
    assert time.monotonic() - before < 0.5


@pytest.mark.parametrize(
    ("raw", "line", "said"),
    [
        (b"fleet: lab\nteams: {a\xff: 1}\n", 2, "byte 20 (0xff) is not UTF-8"),
        ("fleet: lab\n".encode("utf-16"), 1, "UTF-16"),
        (b"fleet: lab\nteams: {a\x00: 1}\n", 2, "U+0000"),
        (b"fleet: lab\nteams: {\x1b[1m: 1}\n", 2, "U+001B"),
        (b"", 1, "empty"),
        (b"fleet: [" * 100_000, 1, "nested more than 50"),
        (b"? " * 100_000, 1, ""),
        (b"a: &a\n" * 1000, 1, ""),
        (b"[" + b"1," * 300_000 + b"]", 1, "200,000 values"),
    ],
)
def test_foreign_bytes_are_named(raw: bytes, line: int, said: str) -> None:
    error = refused(raw)
    assert said in str(error)
    assert error.problems[0].place.line >= line


def test_file_that_is_not_there_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_text("fleet: prod\n")
    with pytest.raises(StackFileError, match=r"no such file or directory\n  hint: there are prod\.yaml"):
        load(tmp_path / "prd.yaml", today=TODAY)


def test_mistake_in_the_policy_names_that_file(tmp_path: Path) -> None:
    policy = tmp_path / "limits.yaml"
    policy.write_text("user: {gpus: many}\n")
    with pytest.raises(StackFileError, match=r"limits\.yaml:1:14: limits\.user\.gpus: 'many' is not a number of GPUs"):
        loads("fleet: lab\n", "a.yaml", policies=tmp_path, today=TODAY)
