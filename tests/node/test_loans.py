"""Does lent memory go to who needs it, is each guarantee whole at every moment, and is nobody killed, wherever it is interrupted?

On files that stand for the kernel's: a limit below what is used kills, as there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swarm_node.concerns import devices, loans, slices
from swarm_node.machine import lender, systemd
from swarm_node.machine.loan_sizes import Borrower, moves
from swarm_node.machine.run import Context, NodeError
from swarm_node.program import lend
from swarm_node.records import ledger

PAGE, MIB = 4096, 1 << 20


class Stopped(Exception):
    """The process was killed here."""


@dataclass
class Machine:
    """A node with memory of so many MiB to lend. `after`: writes until the process that writes is killed."""

    root: Path
    budget: int
    killed: list[str] = field(default_factory=list)
    after: int = 10**9
    writes: int = 0

    def add(self, name: str, low: int, share: int, most: int, used: int = 0, mems: str = "") -> None:
        """In MiB."""
        place = Path(self.root, *loans.folder(name).split("/")[1:])
        place.mkdir(parents=True)
        size = {"memory_low": low * MIB, "memory_max": share * MIB, "memory_most": most * MIB, "mems": mems}
        size["memory_high"] = loans.high(share * MIB, low * MIB)
        for file, text in (("max", share * MIB), ("high", size["memory_high"]), ("low", low * MIB), ("current", used * MIB)):
            (place / f"memory.{file}").write_text(f"{text}\n")
        (place / "memory.stat").write_text("anon 1\ninactive_file 0\n")
        unit = Path(self.root, *systemd.UNITS.split("/")[1:], f"{place.name}")
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text(f"[Slice]\nMemoryLow={low * MIB}\nMemoryHigh={size['memory_high']}\nMemoryMax={share * MIB}\n")
        book = ledger.load(str(self.root), check=False)
        book.open = True
        book.data.update(lineage="L", serial=1, fleet="lab")
        book.record("allocations", name, value={"workload": name[:-2], "gpus": [], "slice": size})

    def uses(self, name: str, amount: int, read: int = 0) -> None:
        """In MiB, of which `read` is of files; never a round number."""
        place = Path(self.root, *loans.folder(name).split("/")[1:])
        (place / "memory.current").write_text(f"{amount * MIB + 3 * PAGE}\n")
        (place / "memory.stat").write_text(f"inactive_file {read * MIB}\n")

    def number(self, name: str, file: str = "memory.max") -> int:
        """In MiB."""
        return int(Path(self.root, *loans.folder(name).split("/")[1:], file).read_text()) // MIB

    def limits(self) -> dict[str, int]:
        home = Path(self.root, *loans.CGROUPS.split("/")[1:])
        names = (place.name[6:-6].replace("_", "-") for place in sorted(home.glob("swarm-*.slice")))
        return {name: self.number(name) for name in names}

    def poke(self, path: str, text: str) -> None:
        """The kernel, for memory.high and memory.max."""
        self.writes += 1
        if self.writes > self.after:
            raise Stopped
        file = Path(self.root, *path.split("/")[1:])
        file.write_text(text)
        name = file.parent.name[6:-6].replace("_", "-")
        current = int((file.parent / "memory.current").read_text())
        stat = file.parent / "memory.stat"
        read = int(stat.read_text().split("inactive_file ")[1])
        if file.name == "memory.high" and current > int(text):
            back = min(read, current - int(text))
            (file.parent / "memory.current").write_text(str(current - back))
            stat.write_text(f"inactive_file {read - back}\n")
        if file.name == "memory.max" and current > int(text):
            self.killed.append(name)
        assert sum(self.limits().values()) <= self.budget, f"{self.limits()} are more than there is"

    def reload(self) -> None:
        """Systemd sets what the files of slices say."""
        home = Path(self.root, *systemd.UNITS.split("/")[1:])
        for unit in home.glob("swarm-*_*.slice"):
            text = dict(line.split("=") for line in unit.read_text().splitlines() if "=" in line)
            place = Path(self.root, *loans.CGROUPS.split("/")[1:], unit.name)
            (place / "memory.high").write_text(text["MemoryHigh"])
            (place / "memory.max").write_text(text["MemoryMax"])
            if int((place / "memory.current").read_text()) > int(text["MemoryMax"]):
                self.killed.append(unit.name)

    def look(self) -> list[dict[str, Any]]:
        return lend.Lender(str(self.root)).look(0.0)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    here = Machine(tmp_path, 300)

    def poke(context: Context, path: str, text: str) -> None:
        here.poke(path, text)

    monkeypatch.setattr(Context, "poke", poke)

    def act(context: Context, argv: list[str], **_: Any) -> str:
        if argv[1] == "daemon-reload":
            here.reload()
        return ""

    write = Context.write

    def written(context: Context, path: str, text: str, mode: int = 0o644) -> bool:
        here.writes += 1
        if here.writes > here.after:
            raise Stopped
        return write(context, path, text, mode)

    monkeypatch.setattr(Context, "act", act)
    monkeypatch.setattr(Context, "write", written)
    monkeypatch.setattr(Context, "run", lambda *_, **__: "")
    monkeypatch.setattr(loans, "SHRINK_WAIT_S", 0)
    return here


def pair(machine: Machine, hungry: int, quiet: int) -> None:
    machine.add("hungry-0", 40, 150, 200, hungry)
    machine.add("quiet-0", 40, 150, 200, quiet)


def test_what_one_leaves_idle_goes_to_who_is_pressed(machine: Machine) -> None:
    pair(machine, 140, 20)
    (certificate,) = machine.look()
    now = machine.limits()
    assert now["hungry-0"] == 200 and now["quiet-0"] >= 40 and sum(now.values()) <= 300
    assert certificate["held"] <= certificate["lent"] and certificate["moved"].keys() == now.keys()
    assert machine.number("hungry-0", "memory.high") == 180
    machine.reload()
    assert machine.limits() == now, "whoever reloads systemd changes nothing"
    assert machine.look() == [] and not machine.killed, "and there is nothing more to move"


def test_what_comes_back_is_what_is_idle_by_then(machine: Machine) -> None:
    pair(machine, 140, 20)
    machine.look()
    machine.uses("hungry-0", 30)
    machine.uses("quiet-0", machine.number("quiet-0") - 2)
    machine.look()
    assert machine.number("quiet-0") > 100 and machine.number("hungry-0") >= 40
    machine.uses("hungry-0", 130)  # more than it may by now: the kernel holds it
    assert sum(machine.limits().values()) <= 300 and not machine.killed


def test_what_is_in_use_is_taken_from_nobody(machine: Machine) -> None:
    pair(machine, 145, 145)
    assert machine.look() == [] and machine.limits() == {"hungry-0": 150, "quiet-0": 150}


def test_files_that_were_read_press_nobody_and_are_given_back(machine: Machine) -> None:
    pair(machine, 140, 20)
    machine.uses("quiet-0", 145, read=125)
    assert machine.look() and machine.number("hungry-0") == 200 and not machine.killed
    machine.uses("hungry-0", 199, read=180)
    machine.uses("quiet-0", machine.number("quiet-0") - 3, read=machine.number("quiet-0") - 20)
    assert machine.look() == []


def test_who_grows_at_that_moment_keeps_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the write somebody used what was idle."""
    pair(machine, 140, 20)
    poke = Context.poke

    def late(context: Context, path: str, text: str) -> None:
        if path.endswith("swarm-quiet_0.slice/memory.high") and machine.number("quiet-0", "memory.current") == 20:
            machine.uses("quiet-0", 120)
        poke(context, path, text)

    monkeypatch.setattr(Context, "poke", late)
    assert machine.look() == [] and not machine.killed
    assert machine.limits() == {"hungry-0": 150, "quiet-0": 150}
    assert machine.number("quiet-0", "memory.high") == 135


def test_a_limit_falls_only_with_room_below_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the last look and the write it may grow, and a limit below what is used kills."""
    pair(machine, 140, 20)
    poke = Context.poke

    def late(context: Context, path: str, text: str) -> None:
        poke(context, path, text)
        if path.endswith("swarm-quiet_0.slice/memory.high") and int(text) < 135 * MIB:
            machine.uses("quiet-0", 99)
        if path.endswith("swarm-quiet_0.slice/memory.max"):
            raise AssertionError("all but 1 MiB of it is in use")

    monkeypatch.setattr(Context, "poke", late)
    assert machine.look() == [] and machine.limits() == {"hungry-0": 150, "quiet-0": 150}


def test_who_allocates_and_frees_does_not_keep_systemd_reading(machine: Machine) -> None:
    pair(machine, 140, 20)
    lender, moves = lend.Lender(str(machine.root)), 0
    for turn in range(100):
        moves += bool(lender.look(turn / 10))
        names = ("hungry-0", "quiet-0") if turn % 2 else ("quiet-0", "hungry-0")
        machine.uses(names[0], machine.number(names[0]) - 2)
        machine.uses(names[1], 1)
    assert 2 <= moves <= 10 / lend.GAP_S + 1


def test_a_node_that_was_given_back_or_whose_ledger_is_damaged_moves_nothing(machine: Machine) -> None:
    pair(machine, 140, 20)
    one, file = lend.Lender(str(machine.root)), Path(machine.root, *ledger.LEDGER.split("/")[1:])
    text = file.read_text()
    file.write_text("{")
    with pytest.raises(NodeError):
        one.look(0.0)
    file.unlink()
    assert one.look(1.0) == []
    file.write_text(text.replace(str(150 * MIB), '"many"'))
    assert one.look(2.0) == []
    file.write_text(text)
    assert one.look(3.0)


def test_a_trouble_that_stays_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is met at each try, and the looks between two tries are no end of it."""
    looks: list[int] = []

    def look(self: lend.Lender, now: float) -> list[dict[str, Any]]:
        looks.append(1)
        if len(looks) > 12:
            raise Stopped
        if len(looks) % 3 == 1:
            raise NodeError("systemctl daemon-reload: it hangs")
        return []

    monkeypatch.setattr(lend.Lender, "look", look)
    monkeypatch.setattr(lend.Lender, "wait", lambda self: None)
    with pytest.raises(Stopped):
        lend.run()
    assert capsys.readouterr().err.count("it hangs") == 1


def test_a_run_goes_first(machine: Machine) -> None:
    pair(machine, 140, 20)
    with ledger.opened(check=False, root=str(machine.root)):
        assert machine.look() == []
    assert machine.look()


@pytest.mark.parametrize("after", range(7))
def test_killed_at_any_write_the_next_one_goes_on(machine: Machine, after: int) -> None:
    pair(machine, 140, 20)
    machine.after = after
    with pytest.raises(Stopped):
        machine.look()
    machine.uses("hungry-0", machine.number("hungry-0") - 1)  # all that it may use by then
    machine.reload()  # by anyone
    assert sum(machine.limits().values()) <= 300 and not machine.killed
    machine.after = 10**9
    machine.look()
    assert machine.number("hungry-0") == 200 and sum(machine.limits().values()) <= 300 and not machine.killed


@pytest.mark.parametrize("other", ["hungry-0", "quiet-0", ""])
@pytest.mark.parametrize("after", range(7))
def test_what_a_killed_one_left_in_a_file_is_not_lent_twice(machine: Machine, after: int, other: str) -> None:
    """Nobody reads the files of slices until the next move does."""
    pair(machine, 140, 20)
    machine.after = after
    with pytest.raises(Stopped):
        machine.look()
    machine.after = 10**9
    for name in machine.limits():
        machine.uses(name, machine.number(name) - 2 if name == other else 100 if name == "hungry-0" else 1)
    machine.look()
    assert sum(machine.limits().values()) <= 300 and not machine.killed
    for name, limit in machine.limits().items():
        assert machine.number(name, "memory.high") == limit * 9 // 10, "nobody is slowed down for what was not moved"


def test_what_cannot_be_had_is_not_tried_at_every_look(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try has the kernel reclaim of who lends, and wakes who looks."""
    pair(machine, 140, 20)
    monkeypatch.setattr(loans, "_lower", lambda *_: tried.append(1))
    tried: list[int] = []
    lender = lend.Lender(str(machine.root))
    for turn in range(100):
        lender.look(turn / 10)
    assert 2 <= len(tried) <= 10 / lend.GAP_S + 1


def context(machine: Machine) -> Context:
    book = ledger.load(str(machine.root), check=False)
    return Context(book, root=str(machine.root))


@pytest.mark.parametrize("order", [("hungry-0", "quiet-0"), ("quiet-0", "hungry-0")])
def test_a_guarantee_takes_what_is_idle_first_and_leaves_the_borrower_what_it_uses(
    machine: Machine, order: tuple[str, str]
) -> None:
    pair(machine, 140, 20)
    machine.look()
    machine.uses("hungry-0", 115)
    # The plan: 100 for a newcomer, so that each has a share of 100.
    here = context(machine)
    for name in order:
        want = dict(here.ledger.get("allocations", name, "slice"), memory_max=100 * MIB, memory_high=95 * MIB)
        own = loans.granted(here, name, want)
        assert own["memory_max"] % PAGE == own["memory_high"] % PAGE == 0, "else it reads as drift"
        loans.make_room(here, name, own["memory_max"], own["memory_high"])
        loans._files(here, loans.pools(here)[""], {name: own["memory_max"]})
        here.ledger.record("allocations", name, "slice", value=want)
    assert loans.granted(here, "owner-0", {"memory_max": 100 * MIB}) == {"memory_max": 100 * MIB}
    now = machine.limits()
    assert sum(now.values()) <= 200 and now["hungry-0"] > 115 and now["quiet-0"] >= 40 and not machine.killed


def test_one_that_uses_more_than_its_new_part_gets_what_others_leave_idle(machine: Machine) -> None:
    pair(machine, 140, 20)
    machine.look()
    machine.uses("hungry-0", 115)
    here = context(machine)
    shares = {name: dict(here.ledger.get("allocations", name, "slice"), memory_max=100 * MIB) for name in machine.limits()}
    here.ledger.record("allocations", "quiet-0", "slice", value=shares["quiet-0"])
    own = loans.granted(here, "hungry-0", shares["hungry-0"])
    assert 115 * MIB < own["memory_max"] < 160 * MIB
    assert own["memory_max"] + machine.number("quiet-0") * MIB <= 200 * MIB and not machine.killed


def test_what_was_written_cannot_be_taken_back_and_the_guarantee_waits(machine: Machine) -> None:
    pair(machine, 140, 20)
    machine.look()
    machine.uses("hungry-0", 190)
    here = context(machine)
    want = dict(here.ledger.get("allocations", "quiet-0", "slice"), memory_max=60 * MIB)
    with pytest.raises(NodeError, match=r"hungry-0 uses .* nothing was killed"):
        loans.granted(here, "quiet-0", want)
    assert machine.number("hungry-0") == 200 and machine.number("hungry-0", "memory.high") == 180 and not machine.killed


def test_who_lent_something_and_leaves_is_made_up_for(machine: Machine) -> None:
    """Else who remains has more than the plan counts, and a newcomer is promised the same memory."""
    pair(machine, 140, 20)
    machine.look()
    machine.uses("hungry-0", 60)
    here = context(machine)
    here.ledger.record("allocations", "quiet-0", value=None)
    assert loans.granted(here, "owner-0", {"memory_max": 150 * MIB})
    assert machine.number("hungry-0") <= 150
    assert not machine.killed


def test_a_step_waits_for_all_who_give_back_no_longer_than_for_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it is ended as one that hangs, and nobody hears of whom it waited for."""
    machine.budget = 10**6
    for name in ("one-0", "two-0"):
        machine.add(name, 40, 150, 200, 199)
        Path(machine.root, *loans.folder(name).split("/")[1:], "memory.max").write_text(str(200 * MIB))
    now = [0.0]

    def slow(seconds: float) -> None:
        now[0] += seconds
        for name in ("one-0", "two-0"):
            file = Path(machine.root, *loans.folder(name).split("/")[1:])
            if int((file / "memory.high").read_text()) <= 150 * MIB and int((file / "memory.max").read_text()) > 150 * MIB:
                (file / "memory.current").write_text(str(int(file.joinpath("memory.current").read_text()) - MIB // 20))

    for name in ("one-0", "two-0"):
        Path(machine.root, *loans.folder(name).split("/")[1:], "memory.high").write_text(str(180 * MIB))
    monkeypatch.setattr(loans, "SHRINK_WAIT_S", 20.0)
    monkeypatch.setattr(loans, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=slow))
    here = context(machine)
    with pytest.raises(NodeError, match=r"two-0 uses .* nothing was killed"):
        loans._reclaimed(here, loans.pools(here)[""])
    assert now[0] < loans.SHRINK_MOST_S + 1 and machine.number("one-0") == 150 and not machine.killed


def test_pools_of_other_numa_nodes_are_apart(machine: Machine) -> None:
    machine.add("hungry-0", 40, 150, 200, 140, mems="0")
    machine.add("quiet-0", 40, 150, 200, 20, mems="1")
    assert machine.look() == []


def test_a_limit_that_was_lent_reads_as_the_plans_and_one_by_hand_does_not(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair(machine, 140, 20)
    machine.look()
    monkeypatch.setattr(lender, "whole", lambda context: True)
    here = context(machine)
    was = here.ledger.get("allocations", "hungry-0", "slice")

    def read(name: str = "hungry-0") -> Mapping[str, Any]:
        return slices.read(here, name, was) or {}

    assert read()["memory_max"] == 150 * MIB and read()["memory_most"] == 200 * MIB
    assert loans.lent(here) == {name: limit * MIB for name, limit in machine.limits().items()}
    place = Path(machine.root, *loans.folder("hungry-0").split("/")[1:])
    for file, text in (("memory.max", 290 * MIB), ("memory.max", 30 * MIB), ("memory.high", 12 * MIB)):
        was_there = (place / file).read_text()
        (place / file).write_text(str(text))
        assert (read()["memory_max"], read()["memory_high"]) != (150 * MIB, was["memory_high"]), file
        (place / file).write_text(was_there)
    monkeypatch.setattr(lender, "whole", lambda context: False)
    assert read()["memory_most"] is None, "nothing moves it any more"


@pytest.mark.parametrize("limit", [40 * 10**6 // PAGE * PAGE, 40 * 10**6 // PAGE * PAGE + PAGE])
def test_one_that_has_its_guarantee_alone_is_no_drift_though_that_is_not_in_whole_pages(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    pair(machine, 140, 20)
    monkeypatch.setattr(lender, "whole", lambda context: True)
    here = context(machine)
    was = dict(here.ledger.get("allocations", "quiet-0", "slice"), memory_low=40 * 10**6)
    here.ledger.record("allocations", "quiet-0", "slice", value=was)
    place = Path(machine.root, *loans.folder("quiet-0").split("/")[1:])
    # As the kernel has it, which takes whole pages.
    (place / "memory.max").write_text(str(limit))
    (place / "memory.high").write_text(str(loans.high(limit, was["memory_low"]) // PAGE * PAGE))
    found = slices.read(here, "quiet-0", was) or {}
    assert {key: found[key] for key in ("memory_max", "memory_high")} == {
        key: was[key] for key in ("memory_max", "memory_high")
    }


def test_what_is_read_amid_a_move_is_no_drift(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who only reads takes the ledger's lock."""
    pair(machine, 140, 20)
    machine.look()
    monkeypatch.setattr(lender, "whole", lambda context: True)
    here = Context(ledger.load(str(machine.root)), check=True, root=str(machine.root))
    was = here.ledger.get("allocations", "quiet-0", "slice")
    place = Path(machine.root, *loans.folder("quiet-0").split("/")[1:])
    after = (place / "memory.high").read_text()
    (place / "memory.high").write_text(str(50 * MIB))  # the kernel reclaims
    monkeypatch.setattr(loans.time, "sleep", lambda _: (place / "memory.high").write_text(after))
    found = slices.read(here, "quiet-0", was) or {}
    assert (found["memory_max"], found["memory_high"]) == (was["memory_max"], was["memory_high"])


def test_a_limit_by_hand_is_not_told_as_lent(machine: Machine) -> None:
    pair(machine, 140, 20)
    here = context(machine)
    place = Path(machine.root, *loans.folder("hungry-0").split("/")[1:])
    (place / "memory.max").write_text(str(290 * MIB))
    assert loans.lent(here) == {}


def test_one_whose_limit_was_removed_by_hand_gets_what_others_do_not_have(machine: Machine) -> None:
    pair(machine, 140, 20)
    machine.look()
    machine.uses("hungry-0", 190)
    here = context(machine)
    place = Path(machine.root, *loans.folder("quiet-0").split("/")[1:])
    (place / "memory.max").write_text("max")
    own = loans.granted(here, "quiet-0", here.ledger.get("allocations", "quiet-0", "slice"))
    assert own["memory_max"] + machine.number("hungry-0") * MIB <= 300 * MIB


def test_a_step_lends_nothing_that_a_stale_file_gives_to_another(machine: Machine) -> None:
    pair(machine, 140, 20)
    machine.after = 5  # the file of who gets it, and not the limit
    with pytest.raises(Stopped):
        machine.look()
    machine.after = 10**9
    machine.uses("hungry-0", 100)
    here = context(machine)
    own = loans.granted(here, "quiet-0", here.ledger.get("allocations", "quiet-0", "slice"))
    machine.reload()
    assert own["memory_max"] + machine.number("hungry-0") * MIB <= 300 * MIB


def test_a_step_sets_what_its_node_lends_and_records_what_the_plan_says(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair(machine, 140, 20)
    machine.look()
    made: list[Any] = []
    monkeypatch.setattr(slices, "apply", lambda context, name, part: made.append(part["slice"]) or [])
    monkeypatch.setattr(devices, "apply", lambda *_: [])
    here = context(machine)
    was = here.ledger.get("allocations", "hungry-0", "slice")
    whole = {"workload": "hungry", "gpus": [], "slice": dict(was, cpu_weight=7)}
    slices.STEPS["slice"](here, "hungry-0", {"allocations": {"hungry-0": whole}})
    assert made[0]["memory_max"] > 140 * MIB and made[0]["cpu_weight"] == 7
    assert here.ledger.get("allocations", "hungry-0", "slice")["memory_max"] == 150 * MIB


def test_what_is_done_at_boot_lends_nothing_twice_where_it_is_asked_for_by_hand(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair(machine, 140, 20)
    machine.look()
    machine.uses("hungry-0", 190)
    made: dict[str, int] = {}
    monkeypatch.setattr(slices, "apply", lambda context, name, part: made.update({name: part["slice"]["memory_max"]}))
    here = context(machine)
    slices.boot(here, "quiet-0", here.ledger.get("allocations", "quiet-0"))
    assert made["quiet-0"] + machine.number("hungry-0") * MIB <= 300 * MIB


def test_one_that_is_about_to_be_started_again_is_waited_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that reads it in those two seconds would say that nothing moves its memory."""
    pair(machine, 20, 20)
    here, started = context(machine), []
    shown = {"ActiveState": "inactive"}
    monkeypatch.setattr(systemd, "show", lambda *_: shown)
    monkeypatch.setattr(systemd, "start", lambda context, unit: started.append(unit))

    def served(state: str) -> bool:
        shown["ActiveState"] = state
        return loans.serve(here)

    assert [served("inactive"), served("active"), served("activating")] == [True, False, True]
    assert started == [lender.UNIT] * 2


def test_what_is_hung_on_the_lender_by_hand_is_drift_and_goes(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `ExecStart=` of its own it would move nothing, or something else, and look well."""
    pair(machine, 20, 20)
    here = context(machine)
    done: list[str] = []
    hung = Path(machine.root, *systemd.UNITS.split("/")[1:], f"{lender.UNIT}.d", "override.conf")
    shown = {"ActiveState": "active", "NeedDaemonReload": "no", "DropInPaths": ""}
    monkeypatch.setattr(systemd, "show", lambda *_: shown)
    monkeypatch.setattr(systemd, "start", lambda context, unit: done.append("start"))
    monkeypatch.setattr(Context, "act", lambda self, argv, **_: done.append(argv[1]))
    loans.serve(here)
    assert lender.whole(here) and not loans.serve(here)
    shown["DropInPaths"] = "/etc/systemd/system/service.d/everyones.conf"
    assert lender.whole(here), "what hangs on all services is not ours"
    hung.parent.mkdir()
    hung.write_text("[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n")
    shown["DropInPaths"] = f"/etc/systemd/system/{lender.UNIT}.d/override.conf"
    assert not lender.whole(here)
    done.clear()
    assert loans.serve(here) and not hung.exists()
    assert done == ["stop", "daemon-reload", "start"]
    shown.update(DropInPaths="", NeedDaemonReload="yes")
    assert not lender.whole(here), "systemd holds another file"


@pytest.mark.parametrize("after", range(4))
def test_a_step_that_was_killed_never_leaves_what_was_hung_on_the_lender_running(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Once systemd holds our file alone, nobody could tell that what runs began with another one."""
    pair(machine, 20, 20)
    here = context(machine)
    own, runs, left = Path(machine.root, *systemd.UNITS.split("/")[1:], lender.UNIT), ["by hand"], [after]
    hung = own.with_name(f"{lender.UNIT}.d") / "override.conf"
    shown = {"ActiveState": "active", "DropInPaths": f"{systemd.UNITS}/{lender.UNIT}.d/override.conf"}

    def act(self: Context, argv: list[str], **_: Any) -> str:
        if left[0] == 0:
            raise Stopped
        left[0] -= 1
        if argv[1] == "daemon-reload":
            shown["DropInPaths"] = "" if not hung.exists() else shown["DropInPaths"]
        elif argv[1] == "stop" or shown["ActiveState"] == "inactive":
            runs[0] = "" if argv[1] == "stop" else "by hand" if shown["DropInPaths"] else "ours"
            shown["ActiveState"] = "inactive" if argv[1] == "stop" else "active"
        return ""

    monkeypatch.setattr(systemd, "show", lambda *_: dict(shown))
    monkeypatch.setattr(Context, "act", act)
    own.write_text(lender._TEXT)
    hung.parent.mkdir()
    hung.write_text("[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n")
    with contextlib.suppress(Stopped):
        loans.serve(here)
    left[0] = 100
    loans.serve(here)
    assert runs == ["ours"] and lender.whole(here)


def test_a_damaged_record_keeps_no_other_from_moving_and_lends_nothing_of_its_own(machine: Machine) -> None:
    """What it may have nobody knows: it may have lent something, or been lent."""
    machine.budget = 450
    pair(machine, 140, 20)
    machine.add("third-0", 40, 150, 200, 20)
    here = ledger.load(str(machine.root), check=False)
    here.open = True
    here.record("allocations", "third-0", "slice", value="torn")
    (found,) = machine.look()
    assert found["held"] <= found["lent"] == 300 * MIB and set(found["guaranteed"]) == {"hungry-0", "quiet-0"}
    assert machine.limits()["hungry-0"] > 150 and machine.limits()["third-0"] == 150
    # One that was lent something: what is its own among what the others leave is not theirs to take.
    machine.poke(f"{loans.folder('quiet-0')}/memory.max", str(60 * MIB))
    machine.poke(f"{loans.folder('hungry-0')}/memory.max", str(150 * MIB))
    machine.uses("hungry-0", 140)
    machine.poke(f"{loans.folder('third-0')}/memory.max", str(200 * MIB))
    machine.budget = 150 + 60 + 200
    machine.look()
    assert machine.limits()["hungry-0"] + machine.limits()["quiet-0"] <= 210


def test_a_trouble_of_a_kind_is_told_once_though_its_words_change() -> None:
    troubles = lend.Troubles()
    words = [f"/var/lib/swarm/ledger.json is damaged: state.allocations['a-{number}'] is none" for number in range(100)]
    assert [troubles.new(one, 3.0 * turn) for turn, one in enumerate(words)].count(True) == 1
    assert troubles.new("systemctl daemon-reload: no answer within 120 s", 300.0)
    assert not troubles.new("systemctl daemon-reload: no answer within 90 s", 310.0)
    assert troubles.new(words[5], 3.0 + lend.TOLD_S), "after an hour it is told again"
    letters = "abcdefghijklmnopqrstuvwxyz"
    many = [f"trouble of kind {one}{two}" for one in letters for two in letters]
    assert [lend.Troubles().new(one, 0.0) for one in many[:3]] == [True] * 3
    assert [troubles.new(one, 4000.0) for one in many].count(True) < 30, "who writes ever new words fills no journal"


def test_a_step_that_was_killed_before_the_lender_ended_ends_it_when_it_is_done_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair(machine, 20, 20)
    monkeypatch.setattr(devices, "read", lambda *_: [])
    monkeypatch.setattr(devices, "properties", lambda *_: [])
    here = context(machine)
    plain = {"memory_low": 40 * MIB, "memory_high": 135 * MIB, "memory_max": 150 * MIB}
    unit = Path(machine.root, *systemd.UNITS.split("/")[1:], lender.UNIT)
    unit.write_text("[Service]\n")
    here.ledger.record("allocations", "quiet-0", "slice", value=plain)
    Path(machine.root, *loans.CGROUPS.split("/")[1:], "memory.low").write_text(str(80 * MIB))
    monkeypatch.setattr(loans, "serve", lambda *_: None)
    slices.apply(here, "hungry-0", {"slice": plain})
    assert unit.exists()
    monkeypatch.undo()
    monkeypatch.setattr(devices, "read", lambda *_: [])
    monkeypatch.setattr(devices, "properties", lambda *_: [])
    monkeypatch.setattr(Context, "act", lambda *_, **__: "")
    monkeypatch.setattr(Context, "run", lambda *_, **__: "")
    slices.apply(here, "hungry-0", {"slice": plain})
    assert not unit.exists()


SIZES = st.integers(1, 4000)


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Borrower]:
    found = {}
    for name in "abcde"[: draw(st.integers(1, 5))]:
        low, more, rest = draw(SIZES), draw(st.integers(0, 4000)), draw(st.integers(0, 4000))
        limit = draw(st.integers(low, low + more + rest))
        used = draw(st.integers(0, limit))
        found[name] = Borrower(*(PAGE * 64 * size for size in (low, low + more, low + more + rest, limit, used)))
    return found


@given(pools())
def test_no_move_breaks_a_sum_a_guarantee_or_an_upper_end_or_takes_what_is_used(pool: dict[str, Borrower]) -> None:
    found = moves(pool)
    after = {name: found.get(name, one.limit) for name, one in pool.items()}
    lent = sum(one.share for one in pool.values())
    assert sum(after.values()) <= max(lent, sum(one.limit for one in pool.values()))
    raised = [name for name in pool if after[name] > pool[name].limit]
    assert not raised or sum(after.values()) <= lent
    for name, one in pool.items():
        assert after[name] % PAGE == 0 and after[name] <= max(one.limit, one.most)
        assert after[name] >= min(one.limit, max(one.low, one.used + min(8 * MIB, one.limit)))
        assert name not in raised or one.pressed


@given(pools())
def test_a_move_is_followed_by_none_unless_somebody_uses_more(pool: dict[str, Borrower]) -> None:
    seen, now = set(), pool
    for _ in range(12):
        found = moves(now)
        if not found:
            return
        now = {name: one._replace(limit=found.get(name, one.limit)) for name, one in now.items()}
        state = tuple(one.limit for one in now.values())
        assert state not in seen, "it goes back and forth"
        seen.add(state)
    raise AssertionError("it never ends")
