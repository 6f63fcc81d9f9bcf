"""No command of git that is run here runs what a clone or a commit brings along: not to check, to merge locks, or to apply."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm_iac import git
from swarm_iac.cli.decisions import merge_versions
from swarm_iac.cli.merging import repository
from swarm_iac.errors import SwarmError
from swarm_iac.reach import author
from swarm_iac.review.commits import opened
from tests.review.fleet import Repository

KEYS = (
    "core.fsmonitor", "core.alternateRefsCommand", "core.sshCommand", "core.pager", "core.editor", "core.gitProxy",
    "core.askPass", "credential.helper", "gpg.program", "diff.external", "diff.evil.command", "diff.evil.textconv",
    "merge.evil.driver", "filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "uploadpack.packObjectsHook",
)  # fmt: skip
HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "pre-merge-commit", "post-merge", "pre-auto-gc")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def bent(tmp_path: Path, canary: Path) -> Repository:
    """A clone whose settings, hooks and attributes, and whose commits, all name a program; main and a branch `change`."""
    one = Repository(tmp_path / "fleet")
    one.folder.mkdir()
    one.git("init", "-q", "-b", "main")
    one.write(".gitattributes", "* merge=evil filter=evil diff=evil\n")
    one.write("stacks/dev.yaml", "fleet: dev\n")
    one.commit()
    one.branch("change")
    one.write("stacks/dev.yaml", "fleet: other\n")
    one.commit()
    one.branch("main")
    one.git("remote", "add", "origin", str(tmp_path / "origin"))
    subprocess.run(("git", "clone", "-q", "--bare", str(one.folder), str(tmp_path / "origin")), check=True, capture_output=True)
    touch = f"touch {canary}; exit 1 #"
    for key in KEYS:
        one.git("config", key, touch)
    one.git("config", "log.showSignature", "true")
    hooks = one.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).write_text(f"#!/bin/sh\n{touch}\n")
        (hooks / name).chmod(0o755)
    info = one.folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("* merge=evil filter=evil diff=evil\n")
    return one


def checks(at: Path) -> None:
    with opened(at, "main", "change") as commits:
        assert isinstance(tree := commits.merged(), str)
        assert len(commits.changed(tree)) == 1


def applies(at: Path) -> None:
    repository.fetched(at, "origin", "refs/heads/main")
    last = repository.commit(at, "change")
    first = repository.parent(at, last)
    assert repository.between(at, first, last) == (last,) and repository.changed(at, first, last) == ("stacks/dev.yaml",)
    with repository.work_tree(at, last) as tree:
        assert (tree / "stacks" / "dev.yaml").read_text() == "fleet: other\n"
        assert author.commit(tree)


def merges(at: Path) -> None:
    with pytest.raises(SwarmError):  # there is no conflict; what matters is how that was found
        merge_versions.of_index(at, "dev")
    (at / "a").write_text("a\n")
    (at / "b").write_text("b\n")
    merge_versions.conflicting(at, at / "a", at / "b", at / "a")
    with pytest.raises(SwarmError):
        merge_versions.of_driver(at, "stacks/dev.lock.yaml", at / "a", at / "b", at / "a")


USERS = (checks, applies, merges)


@pytest.mark.parametrize("use", USERS)
def test_nothing_that_a_clone_or_commit_brings_runs(bent: Repository, canary: Path, use: Callable[[Path], None]) -> None:
    subprocess.run(("git", "status"), cwd=bent.folder, capture_output=True, check=False)
    assert canary.exists(), "the canary does not sing"
    canary.unlink()
    use(bent.folder)
    assert not canary.exists()


@pytest.mark.parametrize("use", USERS)
def test_nothing_that_the_environment_of_a_hook_brings_counts(
    bent: Repository, canary: Path, use: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a command that runs within git's own: another repository, another diff, settings of a command line."""
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {canary}")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"touch {canary}")
    if use is not merges:
        monkeypatch.setenv("GIT_DIR", "/nonexistent")
        monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent")
    use(bent.folder)
    assert not canary.exists()


def test_a_replaced_commit_is_not_read_in_place_of_the_real_one(bent: Repository) -> None:
    real = bent.git("rev-parse", "change")
    bent.git("-c", "core.hooksPath=/dev/null", "replace", "-f", real, bent.git("rev-parse", "main"))
    with repository.work_tree(bent.folder, real) as tree:
        assert (tree / "stacks" / "dev.yaml").read_text() == "fleet: other\n"
    assert repository.changed(bent.folder, repository.commit(bent.folder, "main"), real) == ("stacks/dev.yaml",)


def test_no_commit_says_that_its_files_are_read_otherwise_than_they_were_reviewed(bent: Repository) -> None:
    """The check reads the bytes of a commit, and the apply those of its files."""
    text = "fleet: dev # $Id$\nteams: {}\n"
    bent.write("stacks/dev.yaml", text)
    bent.write(".gitattributes", "*.yaml text eol=crlf ident working-tree-encoding=UTF-16LE filter=evil\n")
    blob = bent.git("hash-object", "-w", "--no-filters", "stacks/dev.yaml")
    attributes = bent.git("hash-object", "-w", "--no-filters", ".gitattributes")
    stacks = bent.tree(f"100644 blob {blob}\tdev.yaml\n")
    tree = bent.tree(f"100644 blob {attributes}\t.gitattributes\n040000 tree {stacks}\tstacks\n")
    made = bent.git("commit-tree", tree, "-m", "bent")
    with repository.work_tree(bent.folder, made) as folder:
        assert (folder / "stacks" / "dev.yaml").read_bytes() == text.encode()


def test_a_remote_that_is_a_program_is_not_asked(bent: Repository, canary: Path) -> None:
    bent.git("config", "protocol.ext.allow", "always")
    for remote in (f"ext::touch {canary}", f"--upload-pack=touch {canary}"):
        with pytest.raises(SwarmError):
            git.fetch(bent.folder, remote, "refs/heads/main")
    assert not canary.exists()


def test_a_missing_object_is_fetched_from_nowhere(bent: Repository, canary: Path) -> None:
    """A clone may promise objects that its remote has; whoever only reads must not reach for them."""
    for key, value in (("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "lazy"),
                       ("remote.lazy.url", "ssh://nowhere.invalid/x"), ("remote.lazy.promisor", "true")):  # fmt: skip
        bent.git("config", key, value)
    missing = "1" * 40
    done = subprocess.run(("git", "cat-file", "-p", missing), cwd=bent.folder, capture_output=True, check=False)
    assert done.returncode and canary.exists(), "the canary does not sing"
    canary.unlink()
    assert git.ask(bent.folder, "cat-file", "-p", missing, codes=range(256)).returncode
    assert git.named(bent.folder, missing) == ""
    with git.borrowed(bent.folder) as objects:
        assert objects.ask("cat-file", "-p", missing, codes=range(256)).returncode
    assert not canary.exists()
