"""Are settings made, kept, predicted and put back?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import settings
from swarm_node.machine.run import Context, NodeError
from swarm_node.records import ledger

from swarm_iac.model.settings import SettingsState, Tuning
from swarm_iac.model.settings import settings as held
from tests.tuning import TUNING

#: Every setting that a stack file can ask for, and two sysctls.
WANT = {
    **held(Tuning.model_validate(TUNING)).model_dump(mode="json", exclude_none=True),
    "sysctl": {"vm.swappiness": "10", "net.ipv4.tcp_rmem": "4096 131072 7000000"},
}


def _apply(root: Path, want: dict[str, Any], *, check: bool = False) -> list[dict[str, Any]]:
    with ledger.opened(check=check, root=str(root)) as book:
        changes: list[dict[str, Any]] = settings.apply(Context(book, check=check, root=str(root)), "", want)
        return changes


def _read(root: Path, want: dict[str, Any]) -> Any:
    return settings.read(Context(ledger.load(str(root)), root=str(root)), "", want)


def _all(root: Path) -> dict[str, str]:
    found = (place for folder in ("proc", "sys", "etc") for place in (root / folder).rglob("*") if place.is_file())
    return {str(place): " ".join(place.read_text().split()) for place in found}


def test_every_setting_of_a_stack_file_is_one_that_a_node_sets() -> None:
    assert {one.name for one in settings.SINGLE} == SettingsState.model_fields.keys() - {"sysctl"}


def test_second_run_never_changes_anything(machine: Path) -> None:
    paths = {change["path"] for change in _apply(machine, WANT)}
    sysctls = {'settings.sysctl["vm.swappiness"]', 'settings.sysctl["net.ipv4.tcp_rmem"]'}
    assert paths == sysctls | {f"settings.{field}" for field in SettingsState.model_fields if field != "sysctl"}
    assert _apply(machine, WANT) == []
    assert _read(machine, WANT) == WANT


def test_check_mode_predicts_what_the_run_then_does(machine: Path) -> None:
    before = _all(machine)
    predicted = _apply(machine, WANT, check=True)
    assert _all(machine) == before
    assert _apply(machine, WANT) == predicted


def test_what_is_no_longer_wanted_gets_its_original_back(machine: Path) -> None:
    before = _all(machine)
    _apply(machine, WANT)
    _apply(machine, {"sysctl": {"vm.swappiness": "20"}})
    assert _read(machine, WANT)["governor"] == "powersave"
    assert _read(machine, WANT)["transparent_hugepages"] == "madvise"
    _apply(machine, {})
    assert _all(machine) == before


@pytest.mark.parametrize(
    ("want", "words"),
    [
        ({"sysctl": {"vm.nothere": "1"}}, "sysctl vm.nothere: this kernel has none of that name"),
        ({"sysctl": {"../../etc/passwd": "1"}}, "is no sysctl"),
    ],
)
def test_refusals(machine: Path, want: dict[str, Any], words: str) -> None:
    with pytest.raises(NodeError, match=words):
        _apply(machine, want)


def test_a_step_that_fails_half_way_leaves_everything_as_it_was(machine: Path) -> None:
    _apply(machine, {"sysctl": {"net.ipv4.tcp_rmem": "1 2 3"}, "governor": "performance"})
    before = ledger.load(str(machine)).data
    (machine / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").unlink()
    gone = _all(machine)
    with pytest.raises(NodeError, match="offers no hugepages 2m; put back as it was"):
        _apply(machine, WANT | {"governor": "powersave"})
    assert _all(machine) == gone
    assert ledger.load(str(machine)).data == before, "what was never set has no original"


@pytest.mark.parametrize(
    ("size", "key", "words"), [("2048kB", "hugepages_2m", "2 MiB"), ("1048576kB", "hugepages_1g", "1 GiB")]
)
def test_no_huge_page_that_is_in_use_is_taken_away(machine: Path, size: str, key: str, words: str) -> None:
    """Of 8 pages 3 are free, and 2 of these are promised: 7 are somebody's. 7 may stay, and 6 are refused."""
    folder = machine / f"sys/kernel/mm/hugepages/hugepages-{size}"
    _apply(machine, {key: 8})
    (folder / "free_hugepages").write_text("3\n")
    (folder / "resv_hugepages").write_text("2\n")
    for wanted in ({key: 6}, {}):
        with pytest.raises(NodeError, match=f"7 huge pages of {words} are in use, so there cannot be"):
            _apply(machine, wanted)
        assert (folder / "nr_hugepages").read_text().strip() == "8"
    assert _apply(machine, {key: 7})
    assert _apply(machine, {key: 9}), "more is no question"


def test_what_cannot_be_put_back_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poke = Context.poke

    def stubborn(self: Any, path: str, text: str) -> None:
        """A kernel that takes 10 and then no other value, as a driver that hangs does."""
        if path.endswith("swappiness") and self.read(path) == "10":
            raise NodeError("it hangs")
        poke(self, path, text)

    monkeypatch.setattr(Context, "poke", stubborn)
    want = {"sysctl": {"vm.swappiness": "10", "vm.zz": "1"}}
    with pytest.raises(NodeError, match=r"vm.zz: this kernel .*; could not be put back: sysctl vm.swappiness \(it hangs\)"):
        _apply(machine, want)
