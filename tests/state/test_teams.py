"""Do two operators with one state in Postgres, or in S3, work on one fleet without losing anything? On real servers."""

from __future__ import annotations

import getpass
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm_iac.cli.merging import record
from swarm_iac.cli.merging.record import MergeRecord
from tests.provider.conftest import PROGRAM, ROOT, Project, allocation, two_nodes
from tests.provider.test_engine import start
from tests.state import servers
from tests.state.servers import Backend

pytestmark = pytest.mark.slow
ME = f"{getpass.getuser()}@{socket.gethostname()}"
ANOTHER = two_nodes(train_0=allocation([2, 3]))


@pytest.fixture(scope="module", params=["postgres", "s3"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if shutil.which("pulumi") is None:
        pytest.fail('there is no `pulumi` on PATH: run `make setup`, or eval "$(swarm env)"', pytrace=False)
    with (servers.postgres if request.param == "postgres" else servers.s3)() as running:
        yield running


def operator(at: Path, url: str, project: str, machines: Path, more: dict[str, str]) -> Project:
    """One operator: a clone and a home of their own. Machines and state are shared."""
    at.mkdir(parents=True, exist_ok=True)
    (at / "Pulumi.yaml").write_text(
        f"name: {project}\nruntime: python\nbackend: {{url: {json.dumps(url)}}}\n"
        f"plugins: {{providers: [{{name: swarm, path: {ROOT / 'tests' / 'provider' / 'plugin'}}}]}}\n"
    )
    (at / "__main__.py").write_text(PROGRAM)
    made = Project(at, at / "home")
    made.machines = machines
    made.environment |= {"PRETEND": str(machines), **more}
    return made


@dataclass
class Team:
    """Two operators. `name`: of their project, so that each test has a state of its own in one database or bucket."""

    ada: Project
    bo: Project
    name: str
    secrets: tuple[str, ...]

    def serials(self) -> list[int]:
        return [node["ledger"]["serial"] for node in self.ada.real().values()]


@pytest.fixture
def team(backend: Backend, tmp_path: Path) -> Team:
    machines, name = tmp_path / "machines.json", f"lab-{secrets.token_hex(4)}"
    machines.write_text("{}")
    ada, bo = (operator(tmp_path / who, backend.url, name, machines, dict(backend.environment)) for who in ("ada", "bo"))
    ada.pulumi("stack", "init")
    ada.give(two_nodes())
    bo.give(ANOTHER)
    hidden = (backend.environment.get("AWS_SECRET_ACCESS_KEY") or backend.url.partition("@")[0].rpartition(":")[2],)
    return Team(ada, bo, name, hidden)


def test_who_comes_second_is_shown_who_holds_the_lock_and_changes_nothing(team: Team) -> None:
    team.ada.tamper({"n2": {"sleep": 3}})
    running = start(team.ada)
    try:
        said = team.bo.up(ok=False)
        assert "locked by 1 lock" in said and f"created by {ME} (pid {running.pid})" in said, said
        assert not any(secret in said for secret in team.secrets)
    finally:
        out, _ = running.communicate(timeout=60)
    assert running.returncode == 0, out
    assert team.ada.real()["n1"]["state"]["allocations"]["train-0"]["gpus"] == [0, 1], "as ada asked"
    assert set(team.serials()) == {1}


def test_swarm_up_exits_with_4_on_a_lock_elsewhere_and_names_who_holds_it_and_since_when(team: Team) -> None:
    """As on a lock in files: a script tells "try again" from a failure, whatever keeps the state."""
    team.ada.tamper({"n2": {"sleep": 3}})
    running = start(team.ada)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "swarm_iac.cli", "up", "--yes", "--skip-preview"],
            cwd=team.bo.folder, env=team.bo.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    finally:
        out, _ = running.communicate(timeout=60)
    assert running.returncode == 0, out
    assert done.returncode == 4, done.stdout + done.stderr
    said = rf"stack dev is being changed by {re.escape(ME)} \(process {running.pid}, since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\)"
    assert re.search(said, done.stderr) and "hint: wait for it" in done.stderr, done.stderr
    assert not any(secret in done.stdout + done.stderr for secret in team.secrets)


def test_who_comes_after_goes_on_from_what_the_other_left(team: Team) -> None:
    team.ada.up()
    lineage = team.ada.real()["n1"]["ledger"]["lineage"]
    team.bo.up()
    assert team.bo.real()["n1"]["state"]["allocations"]["train-0"]["gpus"] == [2, 3]
    assert {node["ledger"]["lineage"] for node in team.bo.real().values()} == {lineage}, "one owner"
    back = team.ada.changes()
    assert set(back) == {"Allocation train-0"}, "ada's preview knows what bo did, and nothing else differs"
    assert team.ada.state().keys() == team.bo.state().keys()


def test_of_two_that_begin_at_once_no_update_is_lost(team: Team) -> None:
    """Each that succeeds is one serial further, on the machines and in the state; the other was refused, and its next try goes on."""
    team.ada.up()
    won = 1
    for _ in range(3):
        for who in (team.ada, team.bo):
            # What they want differs each time, so each that gets the lock has to change a machine.
            given = json.loads((who.folder / "given.json").read_text())
            sysctl = given["nodes"]["n2"]["state"]["settings"]["sysctl"]
            sysctl["vm.swappiness"] = str((int(sysctl["vm.swappiness"]) + (3 if who is team.ada else 7)) % 90)
            (who.folder / "given.json").write_text(json.dumps(given))
        runs = [begun(who) for who in (team.ada, team.bo)]
        ends = [(run.communicate(timeout=120)[0], run.returncode) for run in runs]
        for text, code in ends:
            assert code == 0 or "locked by" in text, text
        won += sum(code == 0 for _, code in ends)
    assert max(team.serials()) == won > 1
    assert team.ada.state() == team.bo.state()
    team.bo.up()
    assert not team.bo.changes(), "what bo asked for last is there"
    wanted = json.loads((team.bo.folder / "given.json").read_text())["nodes"]["n2"]["state"]["settings"]
    assert team.bo.real()["n2"]["state"]["settings"]["sysctl"] == wanted["sysctl"]


def begun(who: Project) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["pulumi", "--non-interactive", "--color", "never", "up", "--yes", "--skip-preview", "--stack", "dev"],
        cwd=who.folder, env=who.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_the_lock_of_a_run_that_died_stays_until_somebody_clears_it(team: Team) -> None:
    """Nobody can tell from elsewhere whether it died. The state loses nothing: the next run reads the machines."""
    team.ada.tamper({"n2": {"sleep": 1}})
    running = start(team.ada)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert f"(pid {running.pid})" in team.bo.up(ok=False)
    team.bo.pulumi("cancel", "--yes")
    lineage = team.ada.real()["n2"]["ledger"]["lineage"]
    team.bo.up()
    assert {node["ledger"]["lineage"] for node in team.bo.real().values()} == {lineage}


def test_which_merge_was_applied_is_known_to_all(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of `swarm pr apply` is where the state is, whichever runner wrote it."""
    for name, value in team.ada.environment.items():
        monkeypatch.setenv(name, value)
    done = MergeRecord("a" * 40, whole=False)
    record.write(team.ada.folder, "dev", done, print)
    assert record.read(team.bo.folder, "dev", print) == done
    team.bo.up()
    assert record.read(team.ada.folder, "dev", print) == done, "a run keeps it"


def test_a_state_in_files_moves_there_and_changes_nothing(team: Team, backend: Backend, tmp_path: Path) -> None:
    """As docs/operations.md says."""
    old = operator(tmp_path / "files", "file://./.state", f"{team.name}-old", team.ada.machines, dict(backend.environment))
    (old.folder / ".state").mkdir()
    old.pulumi("stack", "init")
    old.give(two_nodes())
    old.up()
    file = tmp_path / "dev.json"
    old.pulumi("stack", "export", "--file", str(file))
    text = (old.folder / "Pulumi.yaml").read_text()
    (old.folder / "Pulumi.yaml").write_text(text.replace("file://./.state", backend.url))
    old.pulumi("stack", "init")
    old.pulumi("stack", "import", "--file", str(file))
    assert not old.changes()
    assert "Fleet lab" in old.state()
    shutil.rmtree(old.folder / ".state")
    old.up()
    assert set(team.serials()) == {1}, "nothing had to be done"
