"""Does what `swarm init --forge` writes run nothing of a pull request, and give it no secret?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac import __version__
from swarm_iac.cli import initialise
from swarm_iac.errors import SwarmError
from tests.cli.typed import swarm

FILES = {"github": ".github/workflows/swarm.yaml", "gitea": ".gitea/workflows/stack-file.yaml", "gitlab": ".gitlab-ci.yml"}


def workflow(at: Path, forge: str) -> tuple[str, dict[Any, Any]]:
    initialise.make(at / "lab", forge)
    text = (at / "lab" / FILES[forge]).read_text()
    return text, yaml.safe_load(text)


@pytest.mark.parametrize("forge", FILES)
def test_the_version_and_the_name_are_those_of_the_repository(tmp_path: Path, forge: str) -> None:
    text, _ = workflow(tmp_path, forge)
    assert f"swarm-iac=={__version__}" in text and "the fleet lab" in text
    assert "VERSION" not in text and "FLEET" not in text


@pytest.mark.parametrize("forge", ["github", "gitea"])
def test_actions_are_pinned_by_commit_and_a_job_may_only_read(tmp_path: Path, forge: str) -> None:
    text, found = workflow(tmp_path, forge)
    assert found["permissions"] == {"contents": "read"}
    for name, job in found["jobs"].items():
        assert "permissions" not in job or name == "publish"
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
    assert not re.search(r"github\.(event\.(pull_request|issue|comment|review)|head_ref)", text), "a text of a pull request"


def test_github_checks_out_the_base_and_hands_no_key_to_a_check(tmp_path: Path) -> None:
    _, found = workflow(tmp_path, "github")
    assert set(found[True]) == {"pull_request_target", "push", "schedule"}  # YAML reads `on` as true
    check, apply = found["jobs"]["check"], found["jobs"]["apply"]
    assert apply["if"] == "github.event_name == 'push'" and found[True]["push"] == {"branches": ["main"]}
    assert "SSH_KEY" not in str(check) and "SSH_KEY" in str(apply)
    assert check["environment"] != apply["environment"]
    for job in found["jobs"].values():
        checkout, *rest = (step for step in job["steps"] if "uses" in step)
        assert checkout["uses"].startswith("actions/checkout@")
        assert {step["uses"].partition("@")[0] for step in rest} <= {
            f"actions/{way}-artifact" for way in ("upload", "download")
        }
        assert checkout["with"] == {"fetch-depth": 0}, "no ref: the base of the event"
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "nothing is pasted into a shell"
    assert apply["concurrency"]["cancel-in-progress"] is False
    nightly = found["jobs"]["nightly"]
    assert nightly["if"] == "github.event_name == 'schedule' && github.event.schedule == '17 3 * * *'"
    assert {"cron": "17 3 * * *"} in found[True]["schedule"]
    assert nightly["concurrency"] != apply["concurrency"], "of two that wait in one group, GitHub cancels the first"


def test_github_the_job_that_may_write_has_no_secret_and_runs_nothing_of_a_commit(tmp_path: Path) -> None:
    """The keys of the machines are where the repository cannot be written, and the other way round."""
    _, found = workflow(tmp_path, "github")
    publish = found["jobs"]["publish"]
    assert publish["permissions"] == {"contents": "write"}
    assert set(publish["needs"]) == {"apply", "nightly"}, "neither is started by a pull request"
    assert "environment" not in publish and "secrets." not in str(publish) and "env" not in publish
    install, run = [step["run"] for step in publish["steps"] if "run" in step]
    assert "pip" in install
    assert run == '"$RUNNER_TEMP/swarm/bin/swarm" snapshot --stack dev --from "$RUNNER_TEMP/dev.snapshot" --publish'
    for name in ("apply", "nightly"):
        job = found["jobs"][name]
        assert "permissions" not in job and "--publish" not in str(job) and "SWARM_SNAPSHOT_KEY" in str(job)
        assert name in publish["if"] and job["outputs"] == {"snapshot": "${{ steps.swarm.outputs.snapshot }}"}
        (upload,) = (step for step in job["steps"] if step.get("uses", "").startswith("actions/upload-artifact@"))
        assert upload["with"]["path"] == "${{ runner.temp }}/dev.snapshot" and upload["if"].startswith("${{ !cancelled()")


def test_gitea_hands_nothing_at_all_to_a_job(tmp_path: Path) -> None:
    """It gives every secret of a repository to every workflow of a branch, so there is none."""
    text, found = workflow(tmp_path, "gitea")
    assert set(found[True]) == {"pull_request"}
    assert "secrets." not in text and "SWARM_FORGE_TOKEN" not in text and "uses:" not in text
    unit = (tmp_path / "lab" / "ci" / "swarm-bot.service").read_text()
    assert "WorkingDirectory=/srv/lab" in unit and "EnvironmentFile=" in unit and "TOKEN=" not in unit


def test_gitlab_runs_on_the_protected_branch_only(tmp_path: Path) -> None:
    _, found = workflow(tmp_path, "gitlab")
    (rule,) = found["workflow"]["rules"]
    assert rule["if"].startswith("$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH && ")
    assert "merge_request" not in str(found)
    assert "CI_JOB_TOKEN" not in str(found["apply"]) + str(found["nightly"]), "no token of a job has to push"
    assert found["nightly"]["rules"] == [{"if": "$SWARM_NIGHTLY"}] and "SSH_KEY" not in str(found["check"])
    assert found["nightly"]["resource_group"] == found["apply"]["resource_group"], "never while merges are applied"


def test_an_existing_repository_gets_only_these_files_and_none_is_overwritten(tmp_path: Path) -> None:
    at = tmp_path / "lab"
    initialise.make(at)
    before = {path: path.read_bytes() for path in at.rglob("*") if path.is_file()}
    initialise.make(at, "github")
    assert {path: path.read_bytes() for path in before} == before
    assert (at / FILES["github"]).exists() and not (at / "ci").exists()
    with pytest.raises(SwarmError, match="exists"):
        initialise.make(at, "github")


def test_a_forge_that_we_do_not_know_is_refused(tmp_path: Path) -> None:
    ended = swarm("init", str(tmp_path / "lab"), "--forge", "cvs", at=tmp_path)
    assert ended.code == 2 and "github" in ended.err
    assert not (tmp_path / "lab").exists()
