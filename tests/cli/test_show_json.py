"""Is a JSON document what Python's own encoder writes, byte for byte, and nothing in it that a terminal would obey?"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.cli.terminal.screen import show_json
from swarm_iac.units import Bytes, Cpus

#: Halves of surrogate pairs among it.
TEXT = st.text(st.characters(codec=None, categories=("L", "Cc", "Cf", "Cs", "Zs")), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | TEXT | st.floats(0.001, 1000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def expected(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, default=str) + "\n"


@given(VALUES)
def test_any_document(value: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr("sys.stdout.write", written.append)
        show_json(value)
    assert written == [expected(value)]


def test_what_json_does_not_have_is_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    value = {
        "bytes": Bytes(2 * 10**9), "cpus": Cpus(1500), "day": datetime.date(2030, 1, 2), "path": Path("/a"),
        "moment": datetime.datetime(2030, 1, 2, 3, 4, tzinfo=datetime.UTC), "few": (1, 2), "nan": float("nan"), 3: "key",
    }  # fmt: skip
    value = {str(key): one for key, one in value.items()}
    show_json(value)
    assert capsys.readouterr().out == expected(value)


def test_nothing_reaches_the_terminal_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"said": "\x1b[2J\x9b\u202e"})
    assert capsys.readouterr().out.isascii()
