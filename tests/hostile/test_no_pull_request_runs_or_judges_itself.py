"""Nothing of a pull request is run by its check, and no rule that it brings judges it: a canary file and the verdict show it."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest

from swarm_iac.review.check import Verdict
from swarm_iac.stackfile import load
from swarm_iac.stackfile.locks import proof
from swarm_iac.stackfile.locks.companions import Files, read_proof
from tests.cli.typed import swarm
from tests.review.fleet import DEV, RIGHTS, Repository, made


@pytest.fixture
def dev(tmp_path: Path) -> Repository:
    return made(tmp_path / "fleet", DEV.read_text() + RIGHTS)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def red(verdict: Verdict, user: str) -> str:
    """The lines for which this user's approval is missing."""
    assert not verdict.ok
    lines = [line for need in verdict.needs if need.by == (user,) for line in need.lines]
    assert lines, verdict.comment
    return "\n".join(lines)


CODE = (
    "__main__.py", "bin/pulumi-resource-swarm", ".sandbox/ssh_config", "policies/__main__.py", "sitecustomize.py", "conftest.py",
    ".github/workflows/check.yml", ".gitea/workflows/check.yml", ".gitlab-ci.yml", "swarm_iac/__init__.py", "yaml.py",
    "stacks/dev.py", "stacks/..yaml", ".pre-commit-config.yaml",
)  # fmt: skip


def test_no_code_of_a_pull_request_runs_and_each_file_needs_its_owner(dev: Repository, canary: Path) -> None:
    dev.branch("change")
    for name in CODE:
        dev.write(name, f"import pathlib; pathlib.Path({str(canary)!r}).touch()\n# ProxyCommand touch {canary}\n")
        (dev.folder / name).chmod(0o755)
    head = dev.commit()
    # The worst place to run it: a checkout of the head.
    ended = swarm("pr", "check", "--base", "main", "--head", head, "--author", "bo", at=dev.folder)
    assert ended.code == 3, ended.err
    assert not canary.exists()
    verdict = dev.check(head, author="bo")
    assert set(red(verdict, "cy").splitlines()) == set(CODE)
    for name in CODE:
        assert name in verdict.comment
    assert not canary.exists()


def test_no_git_setting_or_attribute_runs(dev: Repository, canary: Path) -> None:
    """Not even where a clone was prepared: the settings are trusted elsewhere, and take no part here."""
    touch = f"touch {canary}"
    for key in ("core.fsmonitor", "merge.evil.driver", "filter.evil.smudge", "filter.evil.clean", "diff.evil.textconv",
                "diff.evil.command", "diff.external", "core.sshCommand", "uploadpack.packObjectsHook"):  # fmt: skip
        dev.git("config", key, touch)
    hooks = dev.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-merge-commit"):
        (hooks / name).write_text(f"#!/bin/sh\n{touch}\n")
        (hooks / name).chmod(0o755)
    (dev.folder / ".git" / "info").mkdir(exist_ok=True)
    (dev.folder / ".git" / "info" / "attributes").write_text("* merge=evil filter=evil diff=evil\n")
    subprocess.run(("git", "status"), cwd=dev.folder, capture_output=True, check=False)
    assert canary.exists(), "the canary does not sing"
    # The commits are made by a clone without any of it.
    other = Repository(dev.folder.parent / "other")
    subprocess.run(("git", "clone", "-q", str(dev.folder), str(other.folder)), check=True, capture_output=True)
    other.branch("change", "origin/main")
    other.write(".gitattributes", "* merge=evil filter=evil diff=evil\n")
    other.edit("memory: 100 MB, scratch: 200 MB", "memory: 90 MB, scratch: 200 MB")
    head = other.commit()
    other.branch("main", "origin/main")
    other.edit('    run: {command: "python3', '    priority: high\n    run: {command: "python3')
    other.commit()
    subprocess.run(("git", "fetch", "-q", str(other.folder), "+main:refs/heads/up", "+change:refs/heads/change"), cwd=dev.folder,
                   check=True, capture_output=True)  # fmt: skip
    canary.unlink()
    ended = swarm("pr", "check", "--base", "up", "--head", head, "--author", "bo", at=dev.folder)
    assert ended.code == 3 and ".gitattributes" in ended.out, ended.err
    assert not canary.exists()


def test_rights_of_the_head_do_not_judge_it(dev: Repository) -> None:
    head = dev.pull_request(
        ('{paths: ["workloads.*"], by: own}', '{paths: ["workloads.*"], by: [bo]}'),
        ("accounts: {ada: ada-lovelace}", "accounts: {ada: bo-the-second}"),
        ("each: {gpus: 2 x H100, vcpus: 1,", "each: {gpus: 1 x H100, vcpus: 1,"),
    )
    verdict = dev.check(head, author="bo")
    assert "rights.owners" in red(verdict, "cy") and "rights.accounts.ada" in red(verdict, "cy")
    assert "workloads.pretrain.each.gpus" in red(verdict, "ada")
    assert not dev.check(head, author="bo-the-second").ok


def test_rights_cannot_be_removed_by_who_has_none(dev: Repository) -> None:
    head = dev.pull_request((RIGHTS, "\n"))
    assert "rights.owners" in red(dev.check(head, author="ada-lovelace"), "cy")


def test_limits_of_the_head_do_not_judge_it(dev: Repository) -> None:
    dev.branch("change")
    dev.write("policies/limits.yaml", "user: {gpus: 1000}\n")
    dev.edit("user: {gpus: 8, vcpus: 4,", "user: {vcpus: 4,")
    dev.solve()
    verdict = dev.check(dev.commit(), author="bo")
    assert "policies/limits.yaml" in red(verdict, "cy") and "limits.user.gpus" in red(verdict, "cy")


def test_a_lock_cannot_take_anothers_gpu(dev: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    dev.branch("change")
    dev.edit("gpus: [2]", "gpus: [0]", "stacks/dev.lock.yaml")  # cy's chat on a GPU of ada's pretrain
    head = dev.commit()
    verdict = dev.check(head, author="cy")
    assert "the lock of dev is stale" in verdict.comment
    assert not any(one.user == "ada" for _, one in verdict.effect.harmed()), "it is decided again, and she keeps hers"
    monkeypatch.setenv("SWARM_FROZEN", "1")
    frozen = dev.check(head, author="cy")
    assert not frozen.ok and "stacks/dev.lock.yaml is stale" in frozen.refused[0] and "swarm solve" in frozen.refused[0]


def test_a_lock_cannot_exceed_a_limit(dev: Repository) -> None:
    """Valid by itself, since what it says to run may stay: what ran by the base's lock counts."""
    dev.branch("main")
    dev.edit("user: {gpus: 8, vcpus: 4", "user: {gpus: 2, vcpus: 4")
    dev.solve()
    dev.commit()
    dev.branch("change")
    dev.edit("replicas: 2\n    each: {gpus: 1,", "replicas: 3\n    each: {gpus: 1,")
    dev.edit("user: {gpus: 2, vcpus: 4", "user: {gpus: 8, vcpus: 4")
    dev.solve()
    dev.edit("user: {gpus: 8, vcpus: 4", "user: {gpus: 2, vcpus: 4")
    verdict = dev.check(dev.commit(), author="cy")
    assert not verdict.ok
    assert any("limits.user.gpus" in one and "cy" in one for one in verdict.refused), verdict.comment


def test_a_forged_lock_and_proof_cannot_stop_anothers_work_alone(dev: Repository) -> None:
    dev.branch("change")
    (dev.folder / "stacks/dev.lock.yaml").unlink()
    nodes = "gpu-[01-02]: {hardware: h100, rack: r1, site: lab, tuning: train,"
    dev.edit(nodes, f"{nodes} state: cordon,")
    dev.solve()
    dev.edit(f"{nodes} state: cordon,", nodes)
    today = datetime.date.today()
    written = Files.of(dev.folder, "dev")
    stack = load(written.stack, today=today).stack
    forged = read_proof(written.proof)
    assert forged is not None
    written.proof.write_text(proof.dump(forged.model_copy(update={"problem": proof.problem_of(stack, today)})))
    verdict = dev.check(dev.commit(), author="cy")
    assert ("pretrain-0", "ada", "stopped") in {(one.name, one.user, one.becomes) for _, one in verdict.effect.harmed()}
    assert [need.by for need in verdict.needs] == [("ada", "bo")]


@pytest.mark.parametrize("end", ["", ".lock", ".proof"])
def test_no_link_is_followed(dev: Repository, end: str) -> None:
    dev.branch("change")
    path = dev.folder / f"stacks/dev{end}.yaml"
    path.unlink(missing_ok=True)
    path.symlink_to("/etc/passwd")
    verdict = dev.check(dev.commit(), author="cy")
    assert not verdict.ok
    assert f"stacks/dev{end}.yaml is no regular file" in verdict.comment.replace("\\", "")
    assert "root:" not in verdict.comment


def test_a_file_too_large_is_not_read(dev: Repository) -> None:
    dev.branch("change")
    dev.write("stacks/dev.yaml", "#" * (16 * 1024 * 1024 + 1))
    verdict = dev.check(dev.commit(), author="cy")
    assert not verdict.ok and "at most 16,777,216 are read" in verdict.comment


def test_no_name_of_a_file_is_markup_or_a_command(dev: Repository, canary: Path) -> None:
    dev.branch("change")
    for name in ("<img src=x>.md", "a`b.md", f"$(touch {canary.name})", "--upload-pack=x", "@everyone.md", "new\nline | x"):
        dev.write(name, "x")
    verdict = dev.check(dev.commit(), author="cy")
    assert "<img" not in verdict.comment.replace("`<img src=x>.md`", "")
    assert "\nline | x" not in verdict.comment
    assert not (dev.folder / canary.name).exists()


def test_no_name_of_a_commit_is_an_option(dev: Repository, canary: Path) -> None:
    for name in ("--output=" + str(canary), "-h", "main --upload-pack=x", "", "main:stacks", "@{u}"):
        ended = swarm("pr", "check", f"--base={name}", "--head", "main", at=dev.folder)
        assert ended.code == 1 and "is no commit here" in ended.err, (name, ended.out, ended.err)
    assert not canary.exists()
