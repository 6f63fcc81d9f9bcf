"""Where is the last known state of the machines published? In a branch of its own, one file for each stack, without history.

A branch reaches every clone and every forge, needs no key to read, and no check has to ask a forge for it. Who may push there
can take it away or put an older one in its place, and no more: each file is signed, and the check shows its age.
"""

from __future__ import annotations

from pathlib import Path

from swarm_iac.cli.merging import repository
from swarm_iac.errors import Retryable, SwarmError
from swarm_iac.review.last_known import MAX_BYTES, SIGNERS

BRANCH = "swarm-snapshot"
_REF = f"refs/heads/{BRANCH}"
_END = ".snapshot"
#: The most files of the branch that are read.
_MOST = 50


def files(root: Path, remote: str, base: str) -> tuple[bytes, ...]:
    """The published files; none if the base names nobody who may sign, or none is published. Raises Retryable, SwarmError."""
    if not repository.git(root, "ls-tree", base, "--", SIGNERS):
        return ()
    tip = _tip(root, remote)
    return tuple(_content(root, blob) for _, blob in _entries(root, tip)) if tip else ()


def of(root: Path, remote: str, stack: str) -> bytes | None:
    """The published file of one stack; None if there is none."""
    tip = _tip(root, remote)
    found = dict(_entries(root, tip)).get(f"{stack}{_END}") if tip else None
    return _content(root, found) if found else None


def publish(root: Path, remote: str, stack: str, data: bytes) -> None:
    """Put a file in the place of what is published of the stack. Raises Retryable if another did meanwhile, or it is away."""
    tip = _tip(root, remote)
    kept = {name: blob for name, blob in (_entries(root, tip) if tip else ()) if name != f"{stack}{_END}"}
    lines = "".join(
        f"100644 blob {blob}\t{name}\n" for name, blob in sorted({**kept, f"{stack}{_END}": _stored(root, data)}.items())
    )
    tree = repository.git(root, "mktree", sent=lines.encode())
    own = ("-c", "user.name=swarm", "-c", "user.email=swarm@localhost")
    commit = repository.git(root, *own, "commit-tree", tree, "-m", f"machines of {stack}")
    try:
        repository.git(root, "push", "--quiet", f"--force-with-lease={_REF}:{tip}", remote, f"{commit}:{_REF}")
    except SwarmError as error:
        raise Retryable(f"{BRANCH} could not be pushed: {error.message}", after=30, hint="see docs/forges.md") from None


def _tip(root: Path, remote: str) -> str:
    """The branch as it is now; empty if there is none. Raises Retryable: the forge may be away."""
    try:
        there = repository.git(root, "ls-remote", remote, _REF)
    except SwarmError as error:
        raise Retryable(f"{BRANCH} could not be read: {error.message}", after=30) from None
    return repository.fetched(root, remote, _REF) if there else ""


def _entries(root: Path, tip: str) -> tuple[tuple[str, str], ...]:
    """Name and blob of each regular file that is one of ours."""
    found = []
    for line in repository.git(root, "ls-tree", "-z", tip).split("\0"):
        head, _, name = line.partition("\t")
        if name.endswith(_END) and head.startswith("100644 blob "):
            found.append((name, head.split()[2]))
    return tuple(found[:_MOST])


def _content(root: Path, blob: str) -> bytes:
    if int(repository.git(root, "cat-file", "-s", blob)) > MAX_BYTES:
        raise SwarmError(f"a file of {BRANCH} has more than {MAX_BYTES >> 20} MiB", hint="somebody else wrote it")
    return (repository.git(root, "cat-file", "blob", blob) + "\n").encode()


def _stored(root: Path, data: bytes) -> str:
    return repository.git(root, "hash-object", "-w", "--stdin", sent=data)
