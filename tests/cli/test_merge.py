"""Do two branches that each changed a lock become one that is valid, or a conflict that says why? With git itself."""

from __future__ import annotations

import datetime
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.initialise import MERGE_DRIVER
from swarm_iac.decision import decide
from swarm_iac.stackfile.locks import lock

STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
limits: {user: {gpus: 12}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}

nodes:
  n1: {hardware: h, ssh: root@n1.invalid}
  n2: {hardware: h, ssh: root@n2.invalid}

# jobs of ada

workloads:
  a: {user: ada, each: {gpus: 2}}

# jobs of bo

  b: {user: bo, each: {gpus: 4}}
"""


class Repository:
    """A fleet repository with the driver installed, and nothing of this machine's settings."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, git: Path | None = None) -> None:
        self.root = root
        for key, value in {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "SWARM_OFFLINE": "1"}.items():
            monkeypatch.setenv(key, value)
        monkeypatch.chdir(root)
        (root / "Pulumi.yaml").write_text("name: lab\n")
        (root / "Pulumi.lab.yaml").write_text("")
        (root / "stacks").mkdir()
        (root / ".gitattributes").write_text("stacks/*.lock.yaml merge=swarm\nstacks/*.proof.yaml merge=swarm\n")
        (root / ".gitignore").write_text(".state/\n")
        self.git("init", "-q", "-b", "main", str(git or root))
        swarm = f"{shlex.quote(sys.executable)} -m swarm_iac.cli"
        for name, value in {**dict(MERGE_DRIVER), "user.name": "a", "user.email": "a@example.org"}.items():
            self.git("config", name, value.replace("swarm", swarm, 1) if name.endswith(".driver") else value)
        self.commit("base", STACK)

    def git(self, *words: str, fails: bool = False) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, timeout=120)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def swarm(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "swarm_iac.cli", *words], cwd=self.root, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    @property
    def stack(self) -> Path:
        return self.root / "stacks" / "lab.yaml"

    @property
    def lock(self) -> Path:
        return self.root / "stacks" / "lab.lock.yaml"

    def commit(self, what: str, text: str) -> None:
        """What an operator does: edit, solve, commit."""
        self.stack.write_text(text)
        deciding.solve("lab")
        self.git("add", "-A")
        self.git("commit", "-qm", what)

    def branch(self, name: str, old: str, new: str) -> None:
        """A branch from main with one edit of the stack file."""
        self.git("checkout", "-q", "-b", name, "main")
        self.edit(name, old, new)

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.stack.read_text()
        assert old in text
        self.commit(name, text.replace(old, new))

    def gpus(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Node and cards of each allocation of the lock."""
        found = lock.parse(self.lock.read_bytes(), "lock").placement.allocations
        return {one.name: (one.node, one.cards) for one in found}

    def holds(self) -> None:
        """The lock is valid with the merged stack file, where nothing may be decided, and no card has two owners."""
        assert decide(self.root, "lab", today=datetime.date.today(), frozen=True, write=False).stale == ()
        cards = [(node, card) for node, mine in self.gpus().values() for card in mine]
        assert len(set(cards)) == len(cards)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, monkeypatch)


ADA = "  a: {user: ada, each: {gpus: 2}}\n"
BO = "  b: {user: bo, each: {gpus: 4}}\n"
MORE_ADA = f"{ADA}  c: {{user: ada, each: {{gpus: 2}}}}\n"
MORE_BO = f"{BO}  d: {{user: bo, each: {{gpus: 2}}}}\n"


def both(repository: Repository, one: tuple[str, str] = (ADA, MORE_ADA), other: tuple[str, str] = (BO, MORE_BO)) -> None:
    """`main` has one edit and the branch `other` the other one; main is checked out."""
    repository.branch("other", *other)
    repository.git("checkout", "-q", "main")
    repository.edit("one", *one)


def test_two_that_took_the_same_cards_are_merged_and_what_was_first_stays(repository: Repository) -> None:
    both(repository)
    before = repository.gpus()
    theirs = lock.parse(repository.git("show", "other:stacks/lab.lock.yaml").encode(), "lock").placement.by_name()
    assert (theirs["d-0"].node, theirs["d-0"].cards) == before["c-0"], "both took the same cards: else nothing is tried"
    repository.git("merge", "-q", "other", "-m", "merged")
    after = repository.gpus()
    assert {name: after[name] for name in before} == before and "d-0" in after
    repository.holds()
    repository.swarm("validate", "lab")
    assert "not proven" not in repository.swarm("plan", "lab", "--offline")


@pytest.mark.parametrize("way", [("rebase", "main"), ("cherry-pick", "other")])
def test_a_rebase_and_a_cherry_pick_merge_as_well(repository: Repository, way: tuple[str, str]) -> None:
    both(repository)
    before = repository.gpus()
    if way[0] == "rebase":
        repository.git("checkout", "-q", "other")
    repository.git(*way)
    assert {name: repository.gpus()[name] for name in before} == before
    assert repository.git("status", "--porcelain") == ""
    repository.holds()


def test_a_revert_merges_as_well(repository: Repository) -> None:
    repository.edit("one", ADA, MORE_ADA)
    repository.edit("two", BO, MORE_BO)
    repository.git("revert", "--no-edit", "HEAD~1")
    assert set(repository.gpus()) == {"a-0", "b-0", "d-0"}
    repository.holds()


def test_the_fleet_may_be_a_folder_of_a_larger_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "infrastructure" / "fleet"
    folder.mkdir(parents=True)
    repository = Repository(folder, monkeypatch, git=tmp_path)
    both(repository)
    before = repository.gpus()
    repository.git("merge", "-q", "other", "-m", "merged")
    assert {name: repository.gpus()[name] for name in before} == before
    repository.holds()
    repository.git("reset", "-q", "--hard", "HEAD^")
    repository.git("config", "merge.swarm.driver", "false")
    repository.git("merge", "-q", "other", fails=True)
    repository.swarm("solve", "lab", "--merge")
    assert {name: repository.gpus()[name] for name in before} == before
    repository.holds()


def test_when_main_is_merged_into_a_branch_what_main_has_stays(repository: Repository) -> None:
    both(repository)
    before = repository.gpus()
    repository.git("checkout", "-q", "other")
    repository.git("merge", "-q", "main", "-m", "merged")
    assert {name: repository.gpus()[name] for name in before} == before
    repository.holds()


def test_fine_alone_and_over_a_limit_together_is_refused_with_why(repository: Repository) -> None:
    """Of 12 GPUs ada holds 2: each branch adds 6."""
    six = "{user: ada, each: {gpus: 6}}\n"
    both(repository, (ADA, f"{ADA}  c: {six}"), (BO, f"{BO}  d: {six}"))
    said = repository.git("merge", "other", "-m", "merged", fails=True)
    assert "each branch is fine alone, and together they leave no place for d-0" in said and "ada" in said and "12" in said
    assert "UU stacks/lab.lock.yaml" in repository.git("status", "--porcelain")
    repository.stack.write_text(repository.stack.read_text().replace(f"d: {six}", "d: {user: ada, each: {gpus: 4}}\n"))
    assert "d-0" in repository.swarm("solve", "lab", "--merge")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "merged")
    assert set(repository.gpus()) == {"a-0", "b-0", "c-0", "d-0"}
    repository.holds()


def test_a_fleet_that_is_full_refuses_the_second(repository: Repository) -> None:
    five = "{user: USER, each: {gpus: 5}}\n"
    both(
        repository,
        (ADA, f"{ADA}  c: {five.replace('USER', 'ada')}"),
        (BO, f"{BO}  d: {five.replace('USER', 'bo')}  e: {{user: bo, each: {{gpus: 3}}}}\n"),
    )
    said = repository.git("merge", "other", "-m", "merged", fails=True)
    assert "no place for d-0: needs 5 GPUs on one node" in said


def test_a_stack_file_with_conflicts_leaves_the_lock_in_conflict_and_says_so(repository: Repository) -> None:
    both(repository, (ADA, ADA.replace("2", "3")), (ADA, ADA.replace("2", "4")))
    said = repository.git("merge", "other", "-m", "merged", fails=True)
    assert "stacks/lab.yaml has conflicts of its own" in said and "swarm solve lab --merge" in said
    assert "<<<<<<<" in repository.lock.read_text()
    repository.stack.write_text(STACK.replace(ADA, ADA.replace("2", "5")))
    repository.swarm("solve", "lab", "--merge")
    assert len(repository.gpus()["a-0"][1]) == 5
    repository.holds()


def test_the_default_limits_are_those_of_the_merge(repository: Repository) -> None:
    """One branch lowers what each user may have, in policies/limits.yaml; the other adds what was allowed before."""
    repository.git("checkout", "-q", "main")
    text = STACK.replace("limits: {user: {gpus: 12}}\n", "")
    policy = repository.root / "policies" / "limits.yaml"
    policy.parent.mkdir()
    policy.write_text("user: {gpus: 12}\n")
    repository.commit("policy", text)
    repository.branch("other", BO, f"{BO}  d: {{user: bo, each: {{gpus: 6}}}}\n")
    repository.git("checkout", "-q", "main")
    policy.write_text("user: {gpus: 8}\n")
    repository.edit("lower", ADA, MORE_ADA)
    assert "no place for d-0" in repository.git("merge", "other", "-m", "merged", fails=True)


def test_without_a_conflict_there_is_nothing_to_merge(repository: Repository) -> None:
    assert "git has no conflict in stacks/lab.lock.yaml" in repository.swarm("solve", "lab", "--merge", code=3)
    assert "--driver is for --merge" in repository.swarm("solve", "--driver", "a", "b", "c", "d", code=2)


def test_a_driver_outside_of_a_merge_decides_nothing(repository: Repository) -> None:
    """Of versions that no commit has, nobody knows the stack file."""
    for name in ("o", "b"):
        (repository.root / name).write_text(f"# {name}\nallocations: {{}}\n")
    (repository.root / "mine").write_bytes(repository.lock.read_bytes())
    words = ("solve", "--merge", "--driver", "o", "mine", "b", "stacks/lab.lock.yaml")
    assert "git does not say which versions of stacks/lab.yaml are merged" in repository.swarm(*words, code=3)
    assert "<<<<<<<" in (repository.root / "mine").read_text()
