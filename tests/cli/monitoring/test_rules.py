"""Does each alert fire on what it is about, and stay quiet otherwise? By promtool, Prometheus's own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from swarm_node.exporter import families

from swarm_iac.cli import initialise
from swarm_iac.cli.nightly import report_file

TEMPLATE = Path(initialise.__file__).with_name("template")
TESTS = Path(__file__).with_name("rules_test.yml")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: make promtool")


def alerts() -> list[dict[str, Any]]:
    found = yaml.safe_load((TEMPLATE / "alerts.yml").read_text())
    return [rule for group in found["groups"] for rule in group["rules"]]


def laid(folder: Path, alerts_text: str) -> Path:
    folder.mkdir(exist_ok=True)
    shutil.copy(TESTS, folder)
    shutil.copy(TEMPLATE / "records.yml", folder)
    (folder / "alerts.yml").write_text(alerts_text)
    return folder / TESTS.name


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, check=False)


@needs_promtool
def test_rules_and_configuration_are_valid(tmp_path: Path) -> None:
    initialise.make(tmp_path / "lab")
    made = tmp_path / "lab" / "monitoring"
    for words in (
        ("rules", made / "rules" / "records.yml", made / "rules" / "alerts.yml"),
        ("config", made / "prometheus.yml"),
    ):
        done = promtool("check", *words)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_every_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    done = promtool("test", "rules", laid(tmp_path / "whole", (TEMPLATE / "alerts.yml").read_text()))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_a_rule_that_is_broken_is_noticed(tmp_path: Path, rule: dict[str, Any]) -> None:
    """One that never fires, and one that always does, fail the tests above: they look at this very alert."""
    whole = yaml.safe_load((TEMPLATE / "alerts.yml").read_text())
    tests = yaml.safe_load(TESTS.read_text())
    tests["tests"] = [one for one in tests["tests"] if one["name"].startswith(f"{rule['alert']} ")]
    assert len(tests["tests"]) == 2
    for name, expression in (("never", "vector(1) > 2"), ("always", f"({rule['expr']}) or vector(1)")):
        for each in (one for group in whole["groups"] for one in group["rules"] if one["alert"] == rule["alert"]):
            each["expr"] = expression
        at = laid(tmp_path / name, yaml.safe_dump(whole))
        at.write_text(yaml.safe_dump(tests))
        done = promtool("test", "rules", at)
        assert done.returncode == 1 and rule["alert"] in done.stdout + done.stderr, name


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())
    for rule in alerts():
        assert set(rule["annotations"]) == {"summary", "action"} and rule["labels"]["severity"] in (
            "critical",
            "warning",
            "info",
        )


def test_rules_and_dashboard_ask_for_what_there_is() -> None:
    records = {
        rule["record"] for group in yaml.safe_load((TEMPLATE / "records.yml").read_text())["groups"] for rule in group["rules"]
    }
    known = {*families.FAMILIES, *report_file.FAMILIES, *records}
    dashboard = json.loads((TEMPLATE / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [rule["expr"] for rule in alerts()] + [(TEMPLATE / "records.yml").read_text()]
    asked += [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    named = {name for text in asked for name in re.findall(r"\bswarm[_:][a-z_:0-9]+", text)}
    assert named and named <= known, named - known
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@needs_promtool
def test_the_dashboard_asks_in_prometheus_language(tmp_path: Path) -> None:
    """As rules, since promtool checks those; variables have a value."""
    dashboard = json.loads((TEMPLATE / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [{"record": f"x:{number}", "expr": re.sub(r"\$\w+", ".*", text)} for number, text in enumerate(asked)]
    (tmp_path / "x.yml").write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": rules}]}))
    done = promtool("check", "rules", tmp_path / "x.yml")
    assert done.returncode == 0, done.stdout + done.stderr
