"""Is every node's answer, or silence, told as Observed?"""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from swarm_iac.observe import observe
from swarm_iac.observe.observe import read
from swarm_iac.reach.address import Address, parse


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("root@gpu-01.example.org", Address("gpu-01.example.org", "root")),
        ("ops@10.0.0.7:2222", Address("10.0.0.7", "ops", 2222)),
        ("gpu-01", Address("gpu-01")),
        ("root@[fe80::1]:22", Address("fe80::1", "root", 22)),
        ("local", Address("local")),
    ],
)
def test_addresses(text: str, wanted: Address) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize("text", ["", "-oProxyCommand=sh", "root@-oProxyCommand=sh", "root@host:port", "a@b@c"])
def test_an_address_never_becomes_an_option(text: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        parse(text)


def _ssh(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    fake = folder / "ssh"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_one_dark_node_never_hides_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ssh(tmp_path, monkeypatch, """
for word; do host=$word; [ "$before" = -- ] && break; before=$word; done
case $host in
  good) echo '{"facts": {"hostname": "good"}, "agent": "d1"}';;
  dark) echo 'ssh: connect to host dark port 22: No route to host' >&2; exit 255;;
  slow) sleep 20;;
  odd) echo hello;;
esac""")  # fmt: skip
    targets = {name: f"root@{name}" for name in ("good", "dark", "slow", "odd")} | {"bad": "root@-x"}
    found = observe(targets, timeout=1)
    assert found["good"].facts.hostname == "good"
    assert found["good"].error == ""
    assert found["dark"].error == "ssh: connect to host dark port 22: No route to host"
    assert found["slow"].error == "no answer within 1 s"
    assert found["odd"].error == "the node's answer is not JSON: 'hello\\n'"
    assert "is no address" in found["bad"].error


def test_program_is_sent_where_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ssh(tmp_path, monkeypatch, """
case "$*" in
  *mktemp*) n=$(head -c 2); echo "{\\"agent\\": \\"$n\\"}";;
  *) exit 113;;
esac""")  # fmt: skip
    assert observe({"new": "root@new"}, timeout=5)["new"].agent == "PK"


def test_unknown_fields_are_told() -> None:
    assert read("a", b'{"state": {"nothing": 1}}').error.startswith("the node's answer is not understood: state.nothing")


def test_a_clock_that_is_off_is_a_trouble_and_never_an_error() -> None:
    asked = (1000.0, 1004.0)
    assert read("a", b'{"clock": 1002.5}', asked).troubles == ()
    ahead = read("a", b'{"clock": 4604.2, "troubles": ["gpu 3 has fallen off the bus"]}', asked)
    assert ahead.troubles == ("gpu 3 has fallen off the bus", "its clock is 3600 s ahead of this machine's")
    assert read("a", b'{"clock": 100}', asked).troubles == ("its clock is 904 s behind this machine's",)
    assert ahead.error == ""
