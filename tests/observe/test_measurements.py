"""Is what a node measured read as it is, and does no answer of one node affect another?"""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from swarm_iac.observe import measurements
from swarm_iac.observe.measurements import read

ONE = ["swarm_gpu_up", {"gpu": "0"}, 1]


def told(**more: object) -> bytes:
    return json.dumps({"samples": [ONE], "rates": [["swarm_gpu_energy_joules_total", {"gpu": "0"}, 70.5]], **more}).encode()


def test_an_answer_is_read() -> None:
    found = read("n1", told())
    assert list(found.of("swarm_gpu_up", gpu="0")) == [({"gpu": "0"}, 1.0)] and not found.error
    assert list(found.grew("swarm_gpu_energy_joules_total")) == [({"gpu": "0"}, 70.5)] and not list(
        found.of("swarm_gpu_up", gpu="1")
    )


BAD = [
    b"", b"[]", b"{}", b'{"samples": 1, "rates": []}', told(samples=[["a", {}, "1"]]), told(samples=[["a", {}, True]]),
    told(samples=[["a", {"x": 1}, 1]]), told(samples=[["a", []]]), b'{"samples": [["a", {}, NaN]], "rates": []}',
    b'{"samples": [["a", {}, 1e999]], "rates": []}', told(samples=[[["a"], {}, 1]]), b"[" * 100000,
]  # fmt: skip


@pytest.mark.parametrize("answer", BAD, ids=range(len(BAD)))
def test_an_answer_that_is_none_is_an_error_of_its_node(answer: bytes) -> None:
    found = read("n1", answer)
    assert found.error and not found.samples and not found.rates


def test_no_label_steers_a_terminal_or_begins_a_row() -> None:
    found = read("n1", told(samples=[["swarm_gpu_up", {"gpu": "0\x1b[2J\n\u202e x"}, 1]], error=""))
    ((labels, _),) = found.of("swarm_gpu_up")
    assert labels["gpu"].isprintable() and "\n" not in labels["gpu"]
    assert read("n1", told(error="no\nsampler\x1b")).error.isprintable()


def test_a_node_that_hangs_or_refuses_is_dark_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ssh that answers for one host, refuses another, and never ends for the third."""
    fake = tmp_path / "ssh"
    answers = f"*good*) echo '{told().decode()}';; *old*) exit 113;; *slow*) sleep 60;; *) echo refused >&2; exit 255;;"
    fake.write_text(f'#!/bin/sh\ncase "$*" in {answers} esac\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = measurements({name: f"root@{name}" for name in ("good", "old", "slow", "shut")}, timeout=2)
    assert not found["good"].error and list(found["good"].of("swarm_gpu_up"))
    assert found["slow"].error == "no answer within 2 s" and "refused" in found["shut"].error
    assert "not installed" in found["old"].error
