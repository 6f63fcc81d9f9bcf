"""How does a change that swarm suggests become a pull request? As one commit in a branch of its own, by a person merged or not.

The clone's work tree, index and branches stay as they are. The branch always has the same name, and is replaced only if its
last commit is one that was made here: what somebody else has put there stays.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from swarm_iac import git
from swarm_iac.cli.merging import repository
from swarm_iac.decision import Progress, keep, resolve
from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.stackfile.locks.companions import Files

_NAME, _MAIL = "swarm", "swarm@localhost"
_OWN = ("-c", f"user.name={_NAME}", "-c", f"user.email={_MAIL}", "-c", "commit.gpgSign=false")


def pushed(
    root: Path, remote: str, base: str, branch: str, stack: str, edit: Callable[[bytes, Path], bytes], title: str,
    today: datetime.date, progress: Progress | None = None,
) -> bool:  # fmt: skip
    """Push the base with the stack file edited, and with its lock solved, as that branch. False if it is there already.

    `edit`: the file as the base has it, and where its files lie. Raises Refused, Retryable, and as `edit` does.
    """
    start = repository.fetched(root, remote, f"refs/heads/{base}")
    tip = _tip(root, remote, branch)
    inside = git.text(root, "rev-parse", "--show-prefix")
    # By its tree, since a folder of the checkout may be a link to somewhere else.
    if not _listed(root, start, f"{inside}stacks/{stack}.yaml").startswith((b"100644 ", b"100755 ")):
        raise Refused(f"{base} has no stacks/{stack}.yaml", hint="is it pushed?")
    if _listed(root, start, f"{inside}.state"):
        raise Refused(f"{base} has .state, which belongs to a clone alone", hint="remove it: git rm -r --cached .state")
    with git.work_tree(root, start) as tree:
        files = Files.of(tree / inside, stack)
        files.stack.write_bytes(edit(files.stack.read_bytes(), files.stack))
        keep(resolve(tree / inside, stack, today=today, progress=progress))
        names = [files.stack, files.lock]
        if _listed(root, start, f"{inside}stacks/{files.proof.name}"):
            names.append(files.proof)
        content = {f"{inside}stacks/{one.name}": one.read_bytes() for one in names}
    if tip:
        _ours(root, tip, branch)
        # The same suggestion: approvals of it stay.
        if all(_content(root, tip, name) == data for name, data in content.items()):
            return False
    made = _replaced(root, repository.tree(root, start), content)
    words = ("commit-tree", made, "-p", start, "-m", title)
    commit = git.ask(root, *_OWN, *words).stdout.decode().strip()
    try:
        git.push(root, remote, commit, f"refs/heads/{branch}", instead=tip)
    except SwarmError as error:
        raise Retryable(f"{branch} could not be pushed: {error.message}", after=30, hint="see docs/forges.md") from None
    return True


def _tip(root: Path, remote: str, branch: str) -> str:
    ref = f"refs/heads/{branch}"
    return repository.fetched(root, remote, ref) if git.offers(root, remote, ref) else ""


def _ours(root: Path, tip: str, branch: str) -> None:
    """Raises Refused where somebody else wrote the last commit of the branch."""
    who = git.text(root, "show", "--no-patch", "--no-show-signature", "--format=%an <%ae>%n%cn <%ce>", tip).splitlines()
    if who != [f"{_NAME} <{_MAIL}>"] * 2:
        raise Refused(f"the branch {branch} has a commit of somebody else", hint="merge it, or remove the branch")


def _listed(root: Path, commit: str, name: str) -> bytes:
    """Mode, kind and object of a file or folder of a commit; empty if it has none of that name."""
    return git.ask(root, "ls-tree", commit, "--", name).stdout


def _content(root: Path, commit: str, name: str) -> bytes:
    done = git.ask(root, "cat-file", "blob", f"{commit}:{name}", codes=range(256))
    return b"" if done.returncode else done.stdout


def _replaced(root: Path, tree: str, content: dict[str, bytes]) -> str:
    """The tree with these files in it; a folder of it is a tree of its own."""
    lines: dict[bytes, bytes] = {}
    for line in git.ask(root, "ls-tree", "-z", tree).stdout.split(b"\0"):
        head, _, name = line.partition(b"\t")
        if name:
            lines[name] = head
    for first in {name.split("/")[0] for name in content}:
        below = {name.partition("/")[2]: data for name, data in content.items() if name.split("/")[0] == first}
        old = lines.get(first.encode(), b"").split()
        if "" in below:
            blob = git.ask(root, "hash-object", "-w", "--stdin", sent=below[""]).stdout.decode().strip()
            lines[first.encode()] = f"100644 blob {blob}".encode()
        elif len(old) == 3 and old[1] == b"tree":
            lines[first.encode()] = f"040000 tree {_replaced(root, old[2].decode(), below)}".encode()
        else:
            raise Refused(f"{first} is no folder in the base")
    listed = b"".join(head + b"\t" + name + b"\0" for name, head in sorted(lines.items()))
    return git.ask(root, "mktree", "-z", sent=listed).stdout.decode().strip()
