"""Does Prometheus find what is measured, and does it hear of what no exporter knows?"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from swarm_iac.cli.nightly import report_file
from swarm_iac.errors import Retryable
from tests.cli.typed import swarm
from tests.exporter.text_format import parse

STACK = """\
fleet: lab
teams: {t: {users: [ada]}}
telemetry: {port: 9500, scrapers: [10.0.0.5]}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
racks: {r1: {}}
nodes:
  n[1-3]: {hardware: h, rack: r1, site: here, ssh: "root@{name}.example.org:2222"}
  n2: {state: lost}
  n3: {ssh: local}
workloads:
  a: {user: ada, each: {gpus: 2}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\nbackend: {url: 'file://./.state'}\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "lab.yaml").write_text(STACK)
    return tmp_path


def test_targets_are_the_nodes_that_are_not_lost(root: Path) -> None:
    done = swarm("metrics", "lab", "--json", at=root)
    assert done.code == 0, done.err
    assert json.loads(done.out) == [
        {
            "targets": ["n1.example.org:9500"],
            "labels": {"instance": "n1", "fleet": "lab", "stack": "lab", "hardware": "h", "rack": "r1", "site": "here"},
        },
        {
            "targets": ["localhost:9500"],
            "labels": {"instance": "n3", "fleet": "lab", "stack": "lab", "hardware": "h", "rack": "r1", "site": "here"},
        },
    ]
    assert not (root / "monitoring").exists(), "--json writes nothing"


def test_the_file_is_where_prometheus_looks(root: Path) -> None:
    assert swarm("metrics", "lab", at=root).code == 0
    written = root / "monitoring" / "targets" / "lab.json"
    assert json.loads(written.read_text()) == json.loads(swarm("metrics", "lab", "--json", at=root).out)
    assert "unchanged" in swarm("metrics", "lab", at=root).err
    other = swarm("metrics", "lab", "--out", "elsewhere.json", at=root)
    assert other.code == 0 and (root / "elsewhere.json").read_text() == written.read_text()


@pytest.mark.parametrize("link", ["monitoring", "monitoring/targets", "monitoring/targets/lab.json"])
def test_nothing_is_written_behind_a_link_that_a_merge_brought(root: Path, tmp_path: Path, link: str) -> None:
    state = root / ".state"
    (state / "targets").mkdir(parents=True)
    ours = state / "lab.json"
    ours.write_text("ours")
    (state / "targets" / "lab.json").write_text("ours")
    (root / link).parent.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to(ours if link.endswith(".json") else state)
    done = swarm("metrics", "lab", at=root)
    assert done.code == 3 and f"{link} is a link" in done.err and "--out" in done.err
    assert {path.read_text() for path in state.rglob("*.json")} == {"ours"}
    named = tmp_path / "named.json"
    assert swarm("metrics", "lab", "--out", str(named), at=root).code == 0 and "n1.example.org" in named.read_text()


@pytest.mark.parametrize("link", ["monitoring", "monitoring/targets/lab.json"])
def test_a_link_that_leads_to_itself_is_told_like_any_other(root: Path, link: str) -> None:
    (root / link).parent.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to((root / link).name)
    done = swarm("metrics", "lab", at=root)
    assert done.code == 3 and f"{link} is a link" in done.err, done.err


def test_a_stack_that_measures_nothing_says_how_it_would(root: Path) -> None:
    path = root / "stacks" / "lab.yaml"
    path.write_text(STACK.replace("telemetry: {port: 9500, scrapers: [10.0.0.5]}\n", ""))
    for command in (("metrics", "lab"), ("top", "lab", "--once")):
        done = swarm(*command, at=root)
        assert done.code == 1 and "nothing is measured in lab" in done.err and "hint: add `telemetry:" in done.err
    path.write_text(STACK.replace(", scrapers: [10.0.0.5]", ""))
    assert "`telemetry.scrapers` is empty" in swarm("metrics", "lab", at=root).err


BAD = {
    "10.0.0.5/24": "without bits of a host", "0.0.0.0/0": "almost every machine there is", "any": "is no address",
    "10.0.0.5; reboot": "is no address", "::/0": "almost every machine", "10.0.0.5\\n": "is no address",
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_a_scraper_that_is_none_is_a_mistake_with_its_line(root: Path, bad: str) -> None:
    path = root / "stacks" / "lab.yaml"
    path.write_text(STACK.replace("[10.0.0.5]", f'["{bad}"]'))
    done = swarm("validate", "lab", at=root)
    assert done.code == 2 and "lab.yaml:3:" in done.err and "telemetry.scrapers" in done.err and BAD[bad] in done.err


@pytest.mark.parametrize("bad", ["80", "70000", "yes", "true"])
def test_a_port_that_is_none_is_a_mistake(root: Path, bad: str) -> None:
    path = root / "stacks" / "lab.yaml"
    path.write_text(STACK.replace("9500", bad))
    done = swarm("validate", "lab", at=root)
    assert done.code == 2 and "lab.yaml:3:" in done.err and "telemetry.port" in done.err


@pytest.fixture
def committed(root: Path) -> Path:
    """Solved and committed; its one node does not answer."""
    (root / "stacks" / "lab.yaml").write_text(STACK.replace("ssh: local", "state: lost"))
    assert swarm("solve", "lab", at=root).code == 0
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@x")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        subprocess.run([*git, *words], cwd=root, check=True, capture_output=True)
    return root


def test_what_no_exporter_knows_is_reported(committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_NODE_TIMEOUT", "3")
    done = swarm("metrics", "lab", "--textfile", "swarm.prom", at=committed)
    assert done.code == 0, done.err
    text = (committed / "swarm.prom").read_text()
    series = {(name, *sorted(dict(labels).values())): value for (name, labels), value in parse(text).series.items()}
    assert series["swarm_node_unreachable", "lab", "n1"] == 1 and ("swarm_node_differences", "lab", "n1") not in series
    assert series["swarm_lock_behind", "lab"] == 0 and series["swarm_report_timestamp_seconds", "lab"] > 1e9
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    path = committed / "stacks" / "lab.yaml"
    path.write_text(path.read_text().replace("gpus: 2", "gpus: 3"))
    assert report_file.behind(committed, "lab"), "the lock has two"


def test_nothing_is_written_while_the_fleet_is_being_changed(committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (committed / "swarm.prom").write_text("as it was\n")

    def busy(*_: object) -> None:
        raise Retryable("a merge is being applied", after=60)

    monkeypatch.setattr(report_file, "surveyed", busy)
    with pytest.raises(Retryable):
        report_file.report(committed, "lab", lambda _: None)
    assert (committed / "swarm.prom").read_text() == "as it was\n"


def test_init_adds_what_monitors_and_overwrites_nothing(tmp_path: Path) -> None:
    assert swarm("init", "new", at=tmp_path).code == 0
    files = ("prometheus.yml", "rules/records.yml", "rules/alerts.yml", "grafana/fleet.json", "systemd/swarm-usage.timer")
    assert all((tmp_path / "new" / "monitoring" / name).is_file() for name in files)
    again = swarm("init", "new", "--monitoring", at=tmp_path)
    assert again.code == 1 and "exists" in again.err
    shutil.rmtree(tmp_path / "new" / "monitoring")
    assert swarm("init", "new", "--monitoring", at=tmp_path).code == 0
    assert all((tmp_path / "new" / "monitoring" / name).is_file() for name in files)
