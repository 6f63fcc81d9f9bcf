"""Nothing of a pull request is run by its check, and no rule that it brings judges it: a canary file and the verdict show it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from swarm_iac.review.check import Verdict
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


def test_a_lock_cannot_take_anothers_gpu(dev: Repository) -> None:
    """Edited by hand, and valid by itself: what counts is what ran by the base's."""
    dev.branch("change")
    text = (dev.folder / "stacks/dev.lock.yaml").read_text()
    blocks = text.split("\n\n")
    hers = next(one for one in blocks if "workload: pretrain" in one)
    gpus = next(line for line in hers.splitlines() if line.strip().startswith("gpus:"))
    node = next(line for line in hers.splitlines() if line.strip().startswith("node:"))
    chat = next(one for one in blocks if "workload: chat" in one)
    taken = "\n".join(
        gpus.replace("]", "]") if line.strip().startswith("gpus:") else node if line.strip().startswith("node:") else line
        for line in chat.splitlines()
    ).replace(gpus, gpus.split(",")[0] + ("]" if "," in gpus else ""))
    dev.write("stacks/dev.lock.yaml", text.replace(chat, taken))
    verdict = dev.check(dev.commit(), author="cy")
    hurt = [one for _, one in verdict.effect.harmed() if one.user == "ada"]
    assert verdict.refused or not hurt  # it is refused, or solved again and nobody else is touched
    two = [(one.after, one.user) for stack in verdict.effect.stacks for one in stack.allocations]
    assert len(two) == len(set(two))


def test_a_lock_cannot_drop_anothers_allocation(dev: Repository) -> None:
    dev.branch("change")
    text = (dev.folder / "stacks/dev.lock.yaml").read_text()
    hers = next(one for one in text.split("\n\n") if "workload: pretrain" in one)
    dev.write("stacks/dev.lock.yaml", text.replace(hers + "\n\n", ""))
    dropped = dev.commit()
    os.environ.pop("SWARM_FROZEN", None)
    verdict = dev.check(dropped, author="bo")
    assert verdict.needs or not list(verdict.effect.harmed())


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
