"""Where is the last known state of the machines published? In a branch of its own, one file for each stack, without history.

A branch reaches every clone and every forge, needs no key to read, and no check has to ask a forge for it. Who may push there
can take it away, put an older one in its place, or something that no check uses, and no more: each file is signed, and the
check shows its age. Whatever lies there besides the files of the base's stacks is not read, and gone with the next one.
"""

from __future__ import annotations

import re
from pathlib import Path

from swarm_iac import git
from swarm_iac.cli.merging import repository
from swarm_iac.errors import Retryable, SwarmError
from swarm_iac.review.last_known import MAX_BYTES, SIGNERS
from swarm_iac.review.snapshots import stack_of

BRANCH = "swarm-snapshot"
_REF = f"refs/heads/{BRANCH}"
_END = ".snapshot"
_OWN = ("-c", "user.name=swarm", "-c", "user.email=swarm@localhost", "-c", "commit.gpgSign=false")


def files(root: Path, remote: str, base: str) -> tuple[bytes, ...]:
    """What is published of the stacks of a commit; none if it names nobody who may sign. Raises Retryable.

    Anything may be in them: who may push to the branch chose it.
    """
    if signers(root, base) is None:
        return ()
    tip = _tip(root, remote)
    return tuple(_content(root, blob) for blob in _blobs(root, tip, base).values()) if tip else ()


def of(root: Path, remote: str, stack: str, base: str) -> bytes | None:
    """What is published of one stack; None if nothing is."""
    tip = _tip(root, remote)
    blob = _blobs(root, tip, base).get(stack) if tip else None
    return _content(root, blob) if blob else None


def signers(root: Path, base: str) -> bytes | None:
    """Who may sign, as a commit has it; None if it names nobody."""
    found = git.ask(root, "ls-tree", base, "--", SIGNERS).stdout
    return git.ask(root, "cat-file", "blob", found.split()[2].decode()).stdout if found.startswith(b"100644 blob ") else None


def publish(root: Path, remote: str, stack: str, data: bytes, base: str) -> None:
    """Put a file in the place of what is published of the stack; those of other stacks of `base` stay.

    Raises Retryable if another did meanwhile, or the remote is away.
    """
    tip = _tip(root, remote)
    kept = _blobs(root, tip, base) if tip else {}
    kept[stack] = git.ask(root, "hash-object", "-w", "--stdin", sent=data).stdout.decode().strip()
    lines = "".join(f"100644 blob {blob}\t{name}{_END}\n" for name, blob in sorted(kept.items()))
    tree = git.ask(root, "mktree", sent=lines.encode()).stdout.decode().strip()
    commit = git.ask(root, *_OWN, "commit-tree", tree, "-m", f"machines of {stack}").stdout.decode().strip()
    try:
        git.push(root, remote, commit, _REF, instead=tip)
    except SwarmError as error:
        raise Retryable(f"{BRANCH} could not be pushed: {error.message}", after=30, hint="see docs/forges.md") from None


def _tip(root: Path, remote: str) -> str:
    """The branch as it is now; empty if there is none. Raises Retryable: the forge may be away."""
    try:
        there = git.offers(root, remote, _REF)
    except SwarmError as error:
        raise Retryable(f"{BRANCH} could not be read: {error.message}", after=30) from None
    return repository.fetched(root, remote, _REF) if there else ""


def _blobs(root: Path, tip: str, base: str) -> dict[str, str]:
    """Stack → blob of each regular file that is of a stack of `base`."""
    listed = git.ask(root, "ls-tree", "-z", "--name-only", base, "stacks/").stdout.split(b"\0")
    names = (stack_of(name.decode("utf-8", "replace")) for name in listed if not re.search(rb"\.(lock|proof)\.yaml$", name))
    stacks = {f"{name}{_END}".encode(): name for name in names if name}
    found = {}
    for line in git.ask(root, "ls-tree", "-z", tip).stdout.split(b"\0"):
        head, _, name = line.partition(b"\t")
        if name in stacks and head.startswith(b"100644 blob "):
            found[stacks[name]] = head.split()[2].decode()
    return found


def _content(root: Path, blob: str) -> bytes:
    """The file; empty if it is longer than any that we write, which no check uses."""
    size = int(git.ask(root, "cat-file", "-s", blob).stdout)
    return b"" if size > MAX_BYTES else git.ask(root, "cat-file", "blob", blob).stdout
