"""No ledger and no audit that a disk, a hand or a restore from elsewhere damaged makes root act on half of it.

The node says which part is damaged, and does nothing until a person has looked. Fails on 9edab55: a ledger of another
shape ended observation, steps and boot with a traceback, or half-way through what they did.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.observe.history import _lines
from swarm_iac.observe.observe import read
from swarm_iac.reach.answer import decode
from tests.hostile.bent import RAW_JSON, as_json, bent, cases, harmless, torn
from tests.node.conftest import GUARD, FakeNvml

from swarm_node.concerns import units  # isort: skip
from swarm_node.program import boot, observe, step  # isort: skip
from swarm_node.records import audit, ledger  # isort: skip
from swarm_node.machine.run import Context, NodeError  # isort: skip

UNIT = {"user": "ada", "command": "/bin/sleep 9", "env": {"A": "b"}, "grace_s": 5, "port": 80, "healthy": "/", "active": True}
HELD: dict[str, Any] = {
    "workload": "chat", "gpus": ["0:0.5"], "slice": {"cpus": "0-1", "memory_max": 4096}, "unit": UNIT,
    "scratch": {"quota": 4096, "owner": "ada", "mode": "0700"}, "bandwidth": {"out_bps": 1000, "in_bps": None},
}  # fmt: skip
LEDGER: dict[str, Any] = {
    "lineage": "L1", "serial": 1, "fleet": "dev", "run": "r", "gpus_pci": {"0": "00000000:1B:00.0"},
    "gpus_memory": {"0": 85899345920}, "gpus_uuid": {"0": "GPU-5c8d19cf-5d14-fe57-7216-01e15a85629a"},
    "mig": {"1:1g.10gb@0/8": {"ours": True, "uuid": "MIG-1", "files": ["/dev/nvidia-caps/nvidia-cap12"]}},
    "originals": {"sysctl:vm.swappiness": "60"}, "rollout_failures": {"gpus[0].power_w": {"value": 1, "why": "no", "serial": 1}},
    "state": {
        "settings": {"sysctl": {"vm.swappiness": "10"}}, "gpus": {"0": {"power_w": 300}},
        "interface": "eth1", "interface_bps": 1000, "allocations": {"chat-0": HELD},
    },
}  # fmt: skip
LINE = {
    "t": 1000.5, "fleet": "dev", "lineage": "L1", "serial": 3, "who": "ada@here", "commit": "abc",
    "steps": [{"id": "a/gpus", "ok": True, "changed": True, "seconds": 0.1}],
}  # fmt: skip
TOKENS = tuple(one.text for one in RAW_JSON)
#: How Python names what a program was not made for.
SURPRISE = ("KeyError", "TypeError", "AttributeError", "IndexError", "ValueError", "UnicodeDecodeError", "RecursionError")


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where no command is there to be run."""

    def absent(self: Context, argv: Any, **_: Any) -> str:
        raise NodeError(f"{argv[0]} is not installed")

    monkeypatch.setattr(Context, "run", absent)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setattr(observe, "facts", lambda *_: {})
    monkeypatch.setattr(units, "probe", lambda *_, **__: "unknown")
    setting = tmp_path / "proc/sys/vm/swappiness"
    setting.parent.mkdir(parents=True)
    setting.write_text("60\n")
    (tmp_path / "var/lib/swarm").mkdir(parents=True)
    return tmp_path


def records(valid: Any) -> st.SearchStrategy[bytes]:
    """The file as it was written, bent inside or torn as a file."""
    inside = bent(valid, RAW_JSON).map(lambda value: as_json(value).encode(errors="surrogatepass"))
    return st.one_of(bent(valid).map(lambda value: as_json(value).encode()), inside, torn(json.dumps(valid, indent=1), TOKENS))


def test_no_damaged_ledger_surprises_who_reads_it(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, ends = alone / "var/lib/swarm/ledger.json", {"whole": 0, "damaged": 0}

    @given(records(LEDGER))
    @cases(3000, 60)
    def each(raw: bytes) -> None:
        place.write_bytes(raw)
        (alone / "run/swarm/booted").unlink(missing_ok=True)
        try:
            ledger.load(str(alone))
            whole = True
        except NodeError as error:
            whole = False
            assert "ledger.json" in str(error)
        ends["whole" if whole else "damaged"] += 1
        said = observe.observe(str(alone))
        seen = read("a", json.dumps(said).encode())
        assert whole or "ledger.json" in seen.error
        harmless(seen.error)
        asked = {"verb": "settings", "guard": {**GUARD, "serial": 2}, "run": {}, "check": True,
                 "steps": [{"id": "a/settings", "want": {"settings": {"sysctl": {"vm.swappiness": "20"}}}}]}  # fmt: skip
        (result,) = step.perform(asked, root=str(alone))["results"]
        assert not result["message"].startswith(SURPRISE), result["message"]
        assert whole or (not result["ok"] and "ledger.json" in result["message"])
        if not whole:
            assert boot.run(str(alone)) == 1
            assert not capsys.readouterr().err.startswith("Traceback")

    each()
    assert min(ends.values()) >= 5, ends


def test_no_damaged_audit_hides_more_than_its_line(alone: Path) -> None:
    place = alone / "var/lib/swarm/audit.jsonl"

    @given(records(LINE), st.integers(0, 2))
    @cases(1500, 60)
    def each(raw: bytes, at: int) -> None:
        lines = [json.dumps(LINE).encode()] * 2
        place.write_bytes(b"\n".join([*lines[:at], raw.replace(b"\n", b" ").replace(b"\r", b" "), *lines[at:]]) + b"\n")
        said = audit.lines(str(alone))
        assert len(said) >= 2
        try:
            found, _ = _lines("a", decode(json.dumps(said).encode()))
        except ValueError as error:  # a number that JSON has not: the whole answer is none, and of this node alone
            harmless(str(error))
            return
        assert len(found) >= 2
        harmless(json.dumps(found, ensure_ascii=False))

    each()
