"""Does a node ever stay other than it was, because the kernel takes no 0? Each fails on 3f04825.

The kernel keeps one of a pair such as vm.dirty_bytes and vm.dirty_ratio, and reads 0 for the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import GUARD

from swarm_node.concerns import settings  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.machine.run import Context, NodeError  # isort: skip

BYTES = {
    "dirty_bytes": "dirty_ratio",
    "dirty_background_bytes": "dirty_background_ratio",
    "overcommit_kbytes": "overcommit_ratio",
}
USUAL = {"dirty_ratio": "20", "dirty_background_ratio": "10", "overcommit_ratio": "50"}
OTHER = {**BYTES, **{ratio: name for name, ratio in BYTES.items()}}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/proc/sys/vm with its handlers (mm/page-writeback.c, mm/util.c)."""
    vm = tmp_path / "proc/sys/vm"
    vm.mkdir(parents=True)
    for name, ratio in BYTES.items():
        (vm / name).write_text("0\n")
        (vm / ratio).write_text(USUAL[ratio] + "\n")
    (vm / "swappiness").write_text("60\n")
    poke = Context.poke

    def handler(self: Any, path: str, text: str) -> None:
        name = path.rsplit("/", 1)[1]
        if name in ("dirty_bytes", "dirty_background_bytes") and int(text) == 0:
            raise NodeError(f"{path}: '0': Invalid argument")
        changed = self.read(path) != text
        poke(self, path, text)
        if name in OTHER and not self.check and (changed or name.startswith("overcommit")):
            (vm / OTHER[name]).write_text("0\n")

    monkeypatch.setattr(Context, "poke", handler)
    return vm


def apply(root: Path, sysctl: dict[str, str], *, check: bool = False) -> list[dict[str, Any]]:
    with ledger.opened(check=check, root=str(root)) as book:
        book.guard(**GUARD)
        done: list[dict[str, Any]] = settings.apply(Context(book, check=check, root=str(root)), "", {"sysctl": sysctl})
        return done


def seen(vm: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in vm.iterdir()}


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("spelled", ["vm.{}", "vm/{}"])
def test_a_pair_is_never_left_without_what_was_in_force(name: str, spelled: str, kernel: Path, tmp_path: Path) -> None:
    before = seen(kernel)
    apply(tmp_path, {spelled.format(name): "100000000"})
    assert seen(kernel)[name] == "100000000" and seen(kernel)[BYTES[name]] == "0"
    predicted = apply(tmp_path, {}, check=True)
    assert apply(tmp_path, {}) == predicted != []
    assert seen(kernel) == before
    assert ledger.load(str(tmp_path)).originals("sysctl:") == {}


@pytest.mark.parametrize("name", BYTES)
def test_an_absolute_value_from_before_us_is_never_lost(name: str, kernel: Path, tmp_path: Path) -> None:
    (kernel / name).write_text("4096000\n")
    (kernel / BYTES[name]).write_text("0\n")
    before = seen(kernel)
    apply(tmp_path, {f"vm.{BYTES[name]}": "15"})
    apply(tmp_path, {f"vm.{name}": "8192000"})
    apply(tmp_path, {f"vm.{BYTES[name]}": "30"})
    assert seen(kernel)[name] == "0"
    apply(tmp_path, {})
    assert seen(kernel) == before


def test_a_step_that_fails_half_way_puts_a_pair_back(kernel: Path, tmp_path: Path) -> None:
    before = seen(kernel)
    with pytest.raises(NodeError, match=r"vm.zz: this kernel has none of that name; put back as it was"):
        apply(tmp_path, {"vm.dirty_bytes": "100000000", "vm.zz": "1"})
    assert seen(kernel) == before


def test_a_ledger_of_an_earlier_version_is_put_back_too(kernel: Path, tmp_path: Path) -> None:
    before = seen(kernel)
    apply(tmp_path, {"vm.dirty_bytes": "100000000"})
    with ledger.opened(check=False, root=str(tmp_path)) as book:
        book.forget_original("sysctl:vm.dirty_ratio")
    apply(tmp_path, {})
    assert seen(kernel) == before


def test_both_halves_are_never_asked_for_at_once(kernel: Path, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"vm.dirty_bytes and vm.dirty_ratio exclude each other"):
        apply(tmp_path, {"vm.dirty_bytes": "100000000", "vm.dirty_ratio": "10"})
    apply(tmp_path, {"vm.dirty_bytes": "100000000"})
    with pytest.raises(NodeError, match=r"0 means that vm.dirty_ratio is in force; set that one"):
        apply(tmp_path, {"vm.dirty_bytes": "0"})
    apply(tmp_path, {"vm.dirty_bytes": "0", "vm.dirty_ratio": "10"})
    assert (seen(kernel)["dirty_bytes"], seen(kernel)["dirty_ratio"]) == ("0", "10")
