"""Is what nodes answered recorded once, shown with hand-computed costs, and does nobody's name do more than be shown?"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.typed import swarm
from tests.cli.usage.conftest import ADA, BO, STACK, Lab, T

HOUR = 3_600_000


def rows(lab: Lab, *words: str) -> dict[str, dict[str, Any]]:
    done = lab.ask("--json", *words)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    return {one["name"]: one for one in found["rows"]} | {"(nobody)": found["nobody"], "(total)": found["total"]}


def hour(lab: Lab, minutes: int = 60) -> None:
    step = 15 if minutes % 15 == 0 else 10
    for _ in range(minutes // step):
        assert lab.record(after=step * 60).code == 0


def test_an_hour_is_counted_as_by_hand(lab: Lab) -> None:
    assert lab.record().err == "recorded 2 nodes\n", "the one without GPUs has nothing to count"
    hour(lab)
    found = rows(lab)
    ada, bo, total = found["vision"], found["speech"], found["(total)"]
    assert (ada["used_gpu_ms"], ada["idle_gpu_ms"]) == (HOUR * 8 // 10, HOUR * 2 // 10), "SM activity, not utilization"
    assert (bo["used_gpu_ms"], bo["idle_gpu_ms"]) == (0, HOUR // 4)
    assert (total["unallocated_gpu_ms"], total["unknown_gpu_ms"], total["capacity_gpu_ms"]) == (6.75 * HOUR, 0, 8 * HOUR)
    assert (ada["cost"], bo["cost"], total["cost"]) == ({"EUR": "2.500000"}, {"EUR": "0.625000"}, {"EUR": "3.125000"})
    assert set(rows(lab, "--by", "user")) == {"ada", "bo", "(nobody)", "(total)"}
    assert set(rows(lab, "--by", "workload")) == {"train", "chat", "(nobody)", "(total)"}
    assert rows(lab, "--by", "model")["H100"] == {"name": "H100", **total}
    assert rows(lab, "--by", "node")["n2"]["unallocated_gpu_ms"] == 4 * HOUR


def test_it_is_a_table(lab: Lab) -> None:
    lab.record()
    hour(lab)
    lab.now += 600
    done = lab.ask()
    lines = [" ".join(line.split()) for line in done.out.splitlines() if line.strip()]
    assert lines[0] == "usage of lab, 2026-11-01T00:00Z to 2026-11-01T02:00Z"
    assert lines[3:] == [
        "speech 0.00 0.25 0.00 0.00 0.00 0.25 0 % 0.62 EUR",
        "vision 0.80 0.20 0.00 0.00 0.00 1.00 80 % 2.50 EUR",
        "(nobody) 0.00 0.00 0.00 6.75 0.00 6.75 - -",
        "(total) 0.80 0.45 0.00 6.75 0.00 8.00 64 % 3.12 EUR",
    ]
    text = lab.ask("--markdown").out
    assert "| vision | 0.80 | 0.20 | 0.00 | 0.00 | 0.00 | 1.00 | 80 % | 2.50 EUR |" in text


def test_days_and_hours_are_a_curve_that_adds_up(lab: Lab) -> None:
    lab.now += 22 * 3600
    lab.record()
    for _ in range(2):
        lab.record("--gap", "60", after=3600)
    lab.say("n1", ("0", 1, 0.5, ADA, "train-0"), ("1", 1, 0.5, ADA, "train-1"), ("2", 1, 0.0, BO, "chat-0"))
    for _ in range(2):
        lab.record("--gap", "60", after=3600)
    lab.now += 60
    done = lab.ask("--by", "day")
    lines = [" ".join(line.split()) for line in done.out.splitlines() if line.strip()]
    # What the pass of midnight saw counts for an hour of the next day.
    assert lines[3].startswith("2026-11-01 1.60 0.90 0.00 13.50 0.00 16.00 64 % ") and lines[3].endswith(
        " ██▒▒····················"
    )
    assert lines[4].startswith("2026-11-02 1.80 2.45 0.00 11.75 0.00 16.00 ") and lines[4].endswith(" ███▒▒▒··················")
    assert "█ used, ▒ reserved idle, · the rest" in done.err
    days, hours = rows(lab, "--by", "day"), rows(lab, "--by", "hour")
    assert [name for name in hours if name.startswith("2026")] == [
        "2026-11-01T22:00Z", "2026-11-01T23:00Z", "2026-11-02T00:00Z", "2026-11-02T01:00Z",
    ]  # fmt: skip
    for found in (days, hours):
        sums = [one for name, one in found.items() if name.startswith("2026")]
        for key in ("used_gpu_ms", "idle_gpu_ms", "unallocated_gpu_ms", "capacity_gpu_ms"):
            assert sum(one[key] for one in sums) == found["(total)"][key] == rows(lab)["(total)"][key]


def test_a_price_that_changes_in_the_middle_counts_for_each_side(lab: Lab) -> None:
    lab.record()
    hour(lab, 30)
    (lab.root / "stacks" / "lab.yaml").write_text(STACK.replace("2.50", "99"))  # nobody committed that
    hour(lab, 20)
    lab.commit(STACK.replace("2.50 EUR", "3.70 EUR"))
    hour(lab, 70)
    # Until the pass after the commit, 60 min at 2.50; then 60 min at 3.70.
    assert rows(lab)["vision"]["cost"] == {"EUR": "6.200000"}
    lab.commit(STACK.replace("2.50 EUR", "1 USD"))
    hour(lab)
    lab.commit(STACK.replace("prices: {H100: 2.50 EUR/h}\n", ""))
    hour(lab)
    found = rows(lab)["vision"]
    # The pass that sees a commit ends 15 min at the price before: 75 min at 3.70, 60 at 1 USD, 45 without a price.
    assert found["cost"] == {"EUR": "7.125000", "USD": "1.000000"} and found["unpriced_gpu_ms"] == 45 * 60_000
    done = lab.ask()
    assert "7.12 EUR + 1.00 USD" in done.out and "without a price: 0.94 GPU-hours" in done.err, "half to even"


def test_a_file_in_no_commit_is_said_to_be(lab: Lab) -> None:
    text = (lab.root / "stacks" / "lab.yaml").read_text()
    (lab.root / "stacks" / "new.yaml").write_text(text)
    done = swarm("usage", "new", "--record", at=lab.root)
    assert done.code == 0 and "stacks/new.yaml is in no commit" in done.err


def test_a_node_that_does_not_answer_is_unknown(lab: Lab) -> None:
    lab.record()
    hour(lab, 30)
    (lab.answers / "n1").unlink()
    done = lab.record(after=600)
    assert done.code == 0 and done.err.startswith("recorded 2 nodes\nn1 is unknown: ")
    hour(lab, 20)
    found = rows(lab, "--by", "node")["n1"]
    assert (found["unknown_gpu_ms"], found["used_gpu_ms"] * 10) == (2 * HOUR, HOUR * 4), "half an hour of 4 cards"


@pytest.mark.parametrize("state, kind", [("cordon", "off"), ("drain", "off"), ("lost", "off"), ("ready", "unallocated")])
def test_what_nobody_may_use_is_out_of_service(lab: Lab, state: str, kind: str) -> None:
    lab.commit(STACK.replace("n2: {", f"n2: {{state: {state}, "))
    if state == "drain":  # most likely switched off, and nothing was held there
        (lab.answers / "n2").unlink()
    lab.record()
    hour(lab)
    found = rows(lab, "--by", "node")["n2"]
    assert found[f"{kind}_gpu_ms"] == found["capacity_gpu_ms"] == 4 * HOUR


def test_a_drained_node_that_held_something_and_falls_silent_is_unknown(lab: Lab) -> None:
    lab.record()
    lab.commit(STACK.replace("n1: {", "n1: {state: drain, "))
    lab.record(after=600)
    (lab.answers / "n1").unlink()
    hour(lab, 30)
    found = rows(lab, "--by", "node")["n1"]
    assert found["unknown_gpu_ms"] == 2 * HOUR and found["off_gpu_ms"] == 0 and found["used_gpu_ms"] > 0


LIES = [
    {"samples": []},
    {"samples": [["swarm_exporter_collector_fresh", {"collector": "gpus"}, 0]]},
    {
        "samples": [
            ["swarm_exporter_collector_fresh", {"collector": "gpus"}, 0],
            *([["swarm_gpu_up", {"gpu": str(n)}, 1] for n in range(4)]),
        ]
    },
    {"samples": "x"},
]


@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
def test_an_answer_that_says_nothing_of_the_cards_is_no_idle_fleet(lab: Lab, lie: dict[str, object]) -> None:
    (lab.answers / "n1").write_text(json.dumps({"rates": [], **lie}))
    lab.record()
    hour(lab)
    found = rows(lab, "--by", "node")["n1"]
    assert found["unknown_gpu_ms"] == found["capacity_gpu_ms"] == 4 * HOUR


@pytest.mark.parametrize("held", [
    [("0", 0.001, 1.0, ADA, f"a-{number}") for number in range(401)],
    [("0", 1, 1.0, ADA, "a"), ("0", 0.5, 1.0, BO, "b")], [("7", 1, 1.0, ADA, "a")], [("-1", 1, 1.0, ADA, "a")],
    [("0", 1e300, 1.0, ADA, "a")], [("0", -0.5, 1.0, ADA, "a")], [("x", 1, 1.0, ADA, "a")], [("²", 1, 1.0, ADA, "a")],
])  # fmt: skip
def test_a_node_that_says_more_is_held_than_it_has_bills_nobody(lab: Lab, held: list[Any]) -> None:
    lab.say("n1", *held)
    lab.record()
    hour(lab)
    found = rows(lab)
    assert set(found) == {"(nobody)", "(total)"} and found["(total)"]["unknown_gpu_ms"] == 4 * HOUR


def test_a_card_that_is_gone_is_out_of_service_and_one_that_is_not_seen_is_unknown(lab: Lab) -> None:
    lab.say("n2", cards=3)
    answer = json.loads((lab.answers / "n2").read_text())
    answer["samples"][0][2] = 0
    (lab.answers / "n2").write_text(json.dumps(answer))
    lab.record()
    hour(lab)
    found = rows(lab, "--by", "node")["n2"]
    assert [found[f"{key}_gpu_ms"] for key in ("off", "unknown", "unallocated")] == [HOUR, HOUR, 2 * HOUR]


def test_names_of_users_are_text_everywhere(lab: Lab) -> None:
    bad = {"workload": "=cmd|'/c calc'!A1", "user": "\x1b[2J\u202e@x\x00\ud800", "team": "+1|2`*[a](http://b)<b>\n| x"}
    lab.say("n1", ("0", 1, 0.5, bad, "-x"), ("1", 1, 0.5, {"team": "'); DROP TABLE node;--"}, "b"))
    lab.record()
    hour(lab)
    for by in ("team", "user", "workload"):
        for cells in csv.reader(io.StringIO(lab.ask("--csv", "--by", by).out)):
            assert not cells[0].lstrip().startswith(("=", "+", "-", "@")) and cells[0].isprintable()
        for line in lab.ask("--markdown", "--by", by).out.splitlines():
            cells = re.sub(r"`[^`]*`", "", line)
            assert not re.search(r"<b>|\[a\]|\*", cells), "a name with markup is code"
        table = lab.ask("--by", by).out
        assert "\x1b" not in table and "\u202e" not in table
    assert "'=cmd" in lab.ask("--csv", "--by", "workload").out
    assert rows(lab)["'); DROP TABLE node;--"]["used_gpu_ms"] == HOUR // 2


def test_idle_reservations_are_named_with_what_they_cost(lab: Lab) -> None:
    lab.say("n1", ("0", 1, 0.8, ADA, "train-0"), ("1", 1, 0.01, BO, "chat-0"), ("2", 1, None, BO, "chat-1"))
    lab.record()
    hour(lab, 120)
    done = lab.ask("--idle")
    lines = [" ".join(line.split()) for line in done.out.splitlines() if line.strip()]
    assert lines[0] == "idle in lab, 2026-11-01T00:00Z to 2026-11-01T02:00Z"
    assert done.err.startswith("on average: SM activity below 5 %, memory bandwidth below 5 %, fewer than 0.2 CPUs")
    assert lines[3:] == ["chat-0 bo speech n1 H100 1 % 1 % 0.5 % 0.10 2.00 5.00 EUR", "(total) 2.00 5.00 EUR"], (
        "unknown is not idle"
    )
    found = json.loads(lab.ask("--idle", "--json").out)
    assert [one["allocation"] for one in found["idle"]] == ["chat-0"] and found["total"]["cost"] == {"EUR": "5.000000"}
    assert json.loads(lab.ask("--idle", "--json", "--below-cpus", "0.1").out)["idle"] == []
    assert json.loads(lab.ask("--idle", "--json", "--below-sm", "1").out)["idle"] == []
    assert json.loads(lab.ask("--idle", "--json", "--below-bandwidth", "0.5").out)["idle"] == []
    every = json.loads(lab.ask("--idle", "--json", "--below-sm", "100", "--below-bandwidth", "100").out)["idle"]
    assert [one["allocation"] for one in every] == ["chat-0", "train-0"]
    assert (
        lab.ask("--idle", "--csv")
        .out.splitlines()[1]
        .startswith("chat-0,chat,bo,speech,n1,H100,0.010,0.010,0.005,0.100,2.0000000,")
    )


def test_two_writers_do_not_double(lab: Lab) -> None:
    lab.record()
    lock = os.open(lab.root / ".state" / "usage.db.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = lab.record(after=600)
        assert done.code == 4 and "another swarm usage --record is under way" in done.err
    finally:
        os.close(lock)
    assert lab.record().err.startswith("recorded") and lab.record().err == "this second was recorded before\n"
    assert rows(lab)["(total)"]["capacity_gpu_ms"] == 8 * HOUR // 6


def test_a_clock_set_back_records_nothing(lab: Lab) -> None:
    lab.record()
    hour(lab)
    done = lab.record(after=-3600)
    assert done.code == 4 and "3600 s behind the last pass" in done.err
    lab.now += 3600
    assert rows(lab)["(total)"]["capacity_gpu_ms"] == 8 * HOUR


def test_the_store_is_its_owners_alone(lab: Lab, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        lab.record()
    finally:
        os.umask(old)
    found = sorted((lab.root / ".state").iterdir())
    assert found and all(one.stat().st_mode & 0o777 == 0o600 for one in found)
    target = tmp_path / "mine"
    target.write_text("")
    target.chmod(0o644)
    (tmp_path / "link.db").symlink_to(target)
    done = lab.record("--store", str(tmp_path / "link.db"))
    assert done.code == 3 and "is a link" in done.err and target.read_text() == "" and target.stat().st_mode & 0o777 == 0o644


def test_a_store_of_a_newer_version_or_of_another_program_is_refused(lab: Lab, tmp_path: Path) -> None:
    lab.record()
    lab.now += 600
    store = lab.root / ".state" / "usage.db"
    with sqlite3.connect(store) as opened:
        opened.execute("PRAGMA user_version = 2")
    opened.close()
    for done in (lab.ask(), lab.record(after=600)):
        assert done.code == 3 and "newer version (2; this one knows 1)" in done.err and "hint: upgrade swarm-iac" in done.err
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as opened:
        opened.execute("CREATE TABLE node (x)")
    opened.close()
    text = tmp_path / "text.db"
    text.write_text("no database at all, " * 100)
    for path, words in (
        (other, "is no store of swarm usage"),
        (text, "not a database"),
        (tmp_path / "none.db", "nothing was recorded yet"),
    ):
        done = lab.ask("--store", str(path))
        assert done.code == 1 and words in done.err and "Traceback" not in done.err
    assert lab.record("--store", str(other)).code == 1


@pytest.mark.parametrize("name", ["a?mode=memory#%00.db", "deep/er/usage.db", "-x.db"])
def test_a_store_lies_where_it_is_said(lab: Lab, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert lab.record("--store", str(path)).code == 0 and path.is_file()
    lab.now += 600
    assert lab.ask("--store", str(path)).code == 0


@pytest.mark.parametrize("name", ["", ".", "/", "stacks", "/dev/null", "Pulumi.yaml/x.db"])
def test_a_store_that_can_be_none_is_refused(lab: Lab, name: str) -> None:
    lab.now += 600
    for done in (lab.record("--store", name), lab.ask("--store", name)):
        assert (done.code in (1, 3) and "Traceback" not in done.err and "hint" in done.err) or "Not a directory" in done.err, (
            done.err
        )


@pytest.mark.parametrize("words, say", [
    (("--since", "yesterday"), "is no time"), (("--since", "2026-11-02", "--until", "2026-11-01"), "is not before"),
    (("--since", "9999999d"), "is no time"), (("--since", "٣d"), "is no time"), (("--until", "\x1b[2J"), "is no time"),
    (("--csv", "--json"), "not several"), (("--record", "--idle"), "--record shows nothing"), (("--below-sm", "nan"), "less than or equal to 100"),
])  # fmt: skip
def test_what_cannot_be_asked_is_refused(lab: Lab, words: tuple[str, ...], say: str) -> None:
    lab.record()
    done = swarm("usage", "lab", *words, at=lab.root)
    assert done.code and say in done.err and "\x1b" not in done.err and "Traceback" not in done.err


def test_without_telemetry_the_way_to_it_is_named(lab: Lab) -> None:
    lab.commit(STACK.replace("telemetry: {}\n", ""))
    done = lab.record()
    assert done.code == 1 and "hint: add `telemetry: {}`" in done.err and not (lab.root / ".state" / "usage.db").exists()


def test_a_window_begins_and_ends_where_it_is_said(lab: Lab) -> None:
    lab.record()
    hour(lab, 180)
    assert rows(lab, "--until", "2026-11-01T01:00Z")["(total)"]["capacity_gpu_ms"] == 8 * HOUR
    done = swarm("usage", "lab", "--since", "1h", "--json", at=lab.root)
    assert json.loads(done.out)["total"]["capacity_gpu_ms"] == 8 * HOUR
    assert json.loads(done.out)["recorded"] == {"first": "2026-11-01T00:00Z", "last": "2026-11-01T03:00Z"}
    early = swarm("usage", "lab", "--since", "30d", at=lab.root)
    assert "recorded since 2026-11-01T00:00Z" in early.err and T


def test_past_use_is_written_as_the_stack_file_reads_it(lab: Lab) -> None:
    """Whole days before today: 5 hours of four cards and of a quarter, on a day that counts half."""
    teams = "teams: {vision: {users: [ada], share: 1}, speech: {users: [bo], share: 1, parent: all}, all: {users: [cy]}}\n"
    lab.commit(STACK + teams)
    lab.say("n1", *((str(gpu), 1, 0.8, ADA, "train-0") for gpu in range(4)))
    lab.record()
    hour(lab, 300)
    ask = ("usage", "lab", "--past-use", "--half-life", "1d")
    assert "gpu_hours: {vision: 0, speech: 0, all: 0}" in swarm(*ask, at=lab.root).out, "today is not over"
    lab.now = T + 86400 + 60
    done = swarm(*ask, at=lab.root)
    assert done.out.splitlines() == [
        "past_use:", "  until: 2026-11-02", "  half_life: 1 d", "  gpu_hours: {vision: 10, speech: 0, all: 0}"
    ]  # fmt: skip
    lab.commit(STACK + teams + done.out)
    assert swarm("validate", "lab", at=lab.root).code == 0
    assert json.loads(swarm(*ask, "--json", at=lab.root).out)["past_use"]["gpu_hours"]["vision"] == 10
    assert swarm(*ask, "--csv", at=lab.root).code == 2
    bad = swarm("usage", "lab", "--past-use", "--half-life", "\x1b[2Jsoon", at=lab.root)
    assert bad.code != 0 and "\x1b" not in bad.err and "write 7 d or 12 h" in bad.err
