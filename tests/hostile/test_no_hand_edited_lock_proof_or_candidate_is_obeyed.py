"""No lock, proof or candidate that a hand, a merge or a stranger changed ends a command in anything but words, and none
places what `limits` refuses.

Fails on 9edab55: bytes that are no UTF-8, `chat-²`, a GPU 5000, a folder or a link under the file's name ended in a
traceback, a link to /dev/zero took all memory, a proof's words steered the terminal, and a NUMA node that no machine has
was kept and called a bug of the solver.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.decision import Decision, decide, stood
from swarm_iac.limits import judge
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import load
from swarm_iac.stackfile.locks import lock
from swarm_iac.stackfile.locks.companions import Files
from swarm_iac.stackfile.locks.digests import digest_of
from tests.cli.typed import Ended, swarm
from tests.hostile.bent import RAW_YAML, as_yaml, bent, cases, harmless, repository, torn

TODAY = datetime.date.today()
#: What a file is refused with: itself, a line, words.
REFUSED = re.compile(r"^(stacks|\.state)/dev\.[a-z.]*yaml:\d+(:\d+)?: ", re.MULTILINE)
#: Each file, and whose form it has. A candidate is looked at where the lock is stale.
KINDS = {"lock": "lock", "proof": "proof", "candidate": "lock", "candidate.proof": "proof"}
COMMANDS = (
    ("plan", "--offline"), ("plan", "--offline", "--json"), ("plan", "--offline", "--markdown"), ("solve",), ("why", "chat"),
    ("why", "pretrain", "--json"), ("what-if", "workloads.chat.replicas=1"), ("rebalance",),
)  # fmt: skip


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet repository with a lock and a proof."""
    folder = repository(tmp_path_factory.mktemp("locks") / "fleet")
    assert swarm("solve", at=folder).code == 0
    return folder


@pytest.fixture(scope="module")
def valid(fleet: Path) -> dict[str, str]:
    """The text of the lock and of the proof."""
    return {kind: (fleet / "stacks" / f"dev.{kind}.yaml").read_text() for kind in ("lock", "proof")}


def place(fleet: Path, valid: dict[str, str], kind: str) -> Path:
    """Where the file of this kind lies; the others are valid, and it is to be put there."""
    for name, text in valid.items():
        (fleet / "stacks" / f"dev.{name}.yaml").write_text(text)
    shutil.rmtree(fleet / ".state", ignore_errors=True)
    if not kind.startswith("candidate"):
        return fleet / "stacks" / f"dev.{kind}.yaml"
    (fleet / ".state").mkdir()
    (fleet / "stacks" / "dev.lock.yaml").unlink()
    for name, of in (("candidate", "lock"), ("candidate.proof", "proof")):
        (fleet / ".state" / f"dev.{name}.yaml").write_text(valid[of])
    return fleet / ".state" / f"dev.{kind}.yaml"


def in_words(ended: Ended) -> None:
    """It did what it was asked, or said in a line per mistake what is wrong with which file.

    Or it refused the change (3): from what such a lock says runs, no order of steps may be safe.
    """
    assert ended.code in (0, 2, 3) and "this is a bug" not in ended.err, (ended.code, ended.err[:2000])
    assert ended.code != 2 or REFUSED.search(ended.err), ended.err[:2000]
    assert ended.err.count("\n") < 100
    harmless(ended.out)
    harmless(ended.err)


def signed(stack: Stack, tree: Any) -> Any:
    """With the digests that whoever edits a lock by hand would write as well, so that only `limits` is left to refuse it."""
    if not isinstance(tree, dict) or not isinstance(tree.get("allocations"), dict):
        return tree
    blocks = dict(tree["allocations"])
    for name, block in blocks.items():
        if isinstance(block, dict):
            with contextlib.suppress(KeyError, TypeError):
                blocks[name] = {**block, "digest": digest_of(stack, block["workload"], block["node"])}
    return {**tree, "allocations": blocks}


@st.composite
def files(draw: st.DrawFn, fleet: Path, valid: dict[str, str]) -> tuple[str, bytes]:
    """A kind of file, and its bytes."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    text = valid[KINDS[kind]]
    tree, way = yaml.safe_load(text), draw(st.sampled_from(("torn", "raw", "read", "read")))
    if way == "torn":
        return kind, draw(torn(text))
    found = draw(bent(tree, RAW_YAML if way == "raw" else ()))
    if KINDS[kind] == "lock":
        found = signed(load(fleet / "stacks" / "dev.yaml", today=TODAY).stack, found)
    return kind, as_yaml(found).encode(errors="surrogatepass")


def names_of(held: Decision) -> frozenset[str]:
    """What `up` looks for on the nodes, since it may stand only because it ran there."""
    return frozenset(one.name for one in stood(held, TODAY).values())


def test_no_bent_file_ends_in_anything_but_words_or_places_what_limits_refuse(fleet: Path, valid: dict[str, str]) -> None:
    stack = load(fleet / "stacks" / "dev.yaml", today=TODAY).stack
    ends: dict[int, int] = {0: 0, 2: 0, 3: 0}

    @given(files(fleet, valid), st.sampled_from(COMMANDS))
    @cases(4000, 60)
    def each(file: tuple[str, bytes], words: tuple[str, ...]) -> None:
        kind, raw = file
        place(fleet, valid, kind).write_bytes(raw)
        ended = swarm(*words, at=fleet)
        in_words(ended)
        ends[ended.code] += 1
        if "--json" in words and not ended.code:
            json.loads(ended.out)
        if ended.code == 2:
            return
        with contextlib.chdir(fleet):
            held = decide(fleet, "dev", today=TODAY, write=False)
        # What may stand only because it runs there is refused by `up` unless the node shows it.
        broken = judge(stack, held.placement, TODAY, kept=names_of(held))
        assert not broken, broken[0]

    each()
    assert min(ends[0], ends[2]) >= 5, ends


#: What a hand may put in a lock that is valid in form, and which rule it breaks there.
EDITS = {
    "a GPU that another holds": ("gpus: [2]", "gpus: [0]"),
    "a GPU that the node has not": ("gpus: [2]", "gpus: [9]"),
    "one GPU twice": ("gpus: [0, 1]", "gpus: [0, 0]"),
    "more GPUs than asked for": ("gpus: [2]", "gpus: [2, 3]"),
    "no GPU": ("    gpus: [2]\n", ""),
    "a core that the node has not": ("cpus: [0]", "cpus: [77]"),
    "a NUMA node that the node has not": ("numa: [0]", "numa: [7]"),
    "another size": ("memory: 300 MB", "memory: 300 GB"),
    "less than asked for": ("memory: 300 MB", "memory: 1 MB"),
    "more bandwidth": ("egress: 20 Mbit/s", "egress: 20 Gbit/s"),
    "a node with other GPUs": ("workload: pretrain\n    node: gpu-01", "workload: pretrain\n    node: gpu-03"),
    "both on one node": ("node: gpu-03\n    user: cy\n    gpus: [0]", "node: gpu-01\n    user: cy\n    gpus: [3]"),
    "as another user's": ("user: ada", "user: bo"),
    "a replica that nobody asked for": ("  tidy-0:", "  tidy-7:"),
    "a workload that is none": ("  tidy-0:\n    workload: tidy", "  miner-0:\n    workload: miner"),
    "a node that is none": ("workload: tidy\n    node: gpu-03", "workload: tidy\n    node: gpu-99"),
}


def test_what_lies_apart_from_its_memory_has_to_run_there(fleet: Path, valid: dict[str, str]) -> None:
    """Fails on ebaff3f: a lock that a hand changed so was obeyed as if it had run before NUMA nodes were looked at."""
    place(fleet, valid, "lock")
    file = fleet / "stacks" / "dev.lock.yaml"
    text = file.read_text()
    edited = re.sub(r"(  chat-0:\n(?:    .*\n)*?    gpus: )\[\d\]", r"\1[7]", text)
    assert edited != text
    file.write_text(edited)
    with contextlib.chdir(fleet):
        held = decide(fleet, "dev", today=TODAY, write=False)
    assert held.placement.by_name()["chat-0"].cards == (7,)
    assert "chat-0" in names_of(held)


@pytest.mark.parametrize("kind", ["lock", "candidate"])
@pytest.mark.parametrize("edit", EDITS)
def test_no_edit_of_a_lock_places_what_limits_refuse(edit: str, kind: str, fleet: Path, valid: dict[str, str]) -> None:
    old, new = EDITS[edit]
    assert old in valid["lock"], f"{edit}: the lock of this fleet reads otherwise now:\n{valid['lock']}"
    stack = load(fleet / "stacks" / "dev.yaml", today=TODAY).stack
    tree = signed(stack, yaml.safe_load(valid["lock"].replace(old, new, 1)))
    place(fleet, valid, kind).write_text(as_yaml(tree))
    for words in (("plan", "--offline"), ("solve",)):
        ended = swarm(*words, at=fleet)
        in_words(ended)
        assert ended.code == 0 or (ended.code == 3 and words[0] == "plan"), ended.err
    held = lock.parse((fleet / "stacks" / "dev.lock.yaml").read_bytes(), "dev.lock.yaml").placement
    assert not judge(stack, held, TODAY)
    assert sorted(one.workload for one in held.allocations) == ["chat", "chat", "pretrain", "tidy"]


def test_no_edit_passes_where_nothing_may_be_solved(
    fleet: Path, valid: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CI sets SWARM_FROZEN: there a lock that breaks a rule is refused."""
    monkeypatch.setenv("SWARM_FROZEN", "1")
    stack = load(fleet / "stacks" / "dev.yaml", today=TODAY).stack
    for edit, (old, new) in EDITS.items():
        tree = signed(stack, yaml.safe_load(valid["lock"].replace(old, new, 1)))
        place(fleet, valid, "lock").write_text(as_yaml(tree))
        ended = swarm("plan", "--offline", at=fleet)
        assert ended.code == 3 and "stale" in ended.err, (edit, ended)


#: What no lock says, whatever its stack is.
NEVER = {
    "chat-0:": "chat-²:", "chat-1:": "chat-٣:", "tidy-0:": "tidy-00:", "gpus: [2]": "gpus: [5000]", "gpus: [0]": "gpus: [-1]",
    "cpus: [0]": "cpus: [70000]", "numa: [0]": "numa: [99999999999999999]", "vcpus: 1": "vcpus: .nan", "node: gpu-01": "node: ../..",
}  # fmt: skip


@pytest.mark.parametrize("old", NEVER)
def test_what_no_lock_says_is_refused_with_its_line(old: str, fleet: Path, valid: dict[str, str]) -> None:
    text = valid["lock"]
    line = text[: text.index(old)].count("\n") + 1
    place(fleet, valid, "lock").write_text(text.replace(old, NEVER[old], 1))
    ended = swarm("plan", "--offline", at=fleet)
    in_words(ended)
    assert ended.code == 2 and ended.err.startswith(f"stacks/dev.lock.yaml:{line}:"), ended.err


def test_no_word_of_a_proof_steers_the_terminal(fleet: Path, valid: dict[str, str]) -> None:
    said = yaml.safe_load(valid["proof"])
    evil = "\x1b[2J\x1b]52;c;cm0=\x07\u202e\0"
    said.update(solver=evil, parameters={**said["parameters"], "failed": evil, evil: evil})
    said["goals"][0]["name"] = evil
    for words in COMMANDS:
        place(fleet, valid, "proof").write_text(as_yaml(said))
        ended = swarm(*words, at=fleet)
        in_words(ended)
        assert ended.code == 0


def bend(path: Path, what: str) -> None:
    """Put something there that is no file of ours: bytes, more than there is memory for, or a link to `what`."""
    if what == "bytes":
        path.write_bytes(b"\xff\xfe\x00a")
    elif what == "20 GB":
        with path.open("wb") as file:
            file.truncate(20 << 30)
    else:
        path.symlink_to(what)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["folder", "pipe", "/dev/zero", "/nowhere", "bytes", "20 GB"])
def test_what_is_no_file_of_ours_is_refused_and_never_read_to_its_end(
    what: str, kind: str, fleet: Path, valid: dict[str, str]
) -> None:
    path = place(fleet, valid, kind)
    path.unlink()
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        bend(path, what)
    try:
        for words in (("plan", "--offline"), ("solve",)):
            ended = swarm(*words, at=fleet)
            in_words(ended)
            assert ended.code == 2 and ended.err.startswith(str(path.relative_to(fleet))), ended.err
    finally:
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("what", ["/dev/zero", "bytes", "20 GB"])
def test_a_proof_that_nobody_read_is_replaced_by_the_one_that_is_written(what: str, fleet: Path, valid: dict[str, str]) -> None:
    """Where the lock is stale its proof is not looked at, and what lies in its place is neither read nor followed."""
    path = place(fleet, valid, "proof")
    (fleet / "stacks" / "dev.lock.yaml").unlink()
    path.unlink()
    bend(path, what)
    assert swarm("solve", at=fleet).code == 0
    assert path.read_text() == valid["proof"] and not path.is_symlink()
    assert path.stat().st_mode & 0o777 == (fleet / "stacks" / "dev.lock.yaml").stat().st_mode & 0o777


def test_a_file_of_mistakes_is_refused_with_its_first_ones(fleet: Path, valid: dict[str, str]) -> None:
    for kind, text in (
        ("lock", "allocations:\n" + "".join(f"  x-{number}: {{cpu: 1}}\n" for number in range(3000))),
        ("proof", "goals: [" + "1, " * 3000 + "]\n"),
    ):
        place(fleet, valid, kind).write_text(text)
        ended = swarm("plan", "--offline", at=fleet)
        in_words(ended)
        assert ended.code == 2 and "more mistakes" in ended.err


def test_the_files_of_a_stack_are_those_that_are_bent_here() -> None:
    files = Files.of(Path("x"), "dev")
    assert {files.lock.name, files.proof.name} == {"dev.lock.yaml", "dev.proof.yaml"}
    assert {files.candidate and files.candidate.name, files.candidate_proof and files.candidate_proof.name} == {
        "dev.candidate.yaml",
        "dev.candidate.proof.yaml",
    }
