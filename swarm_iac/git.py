"""How is git asked, so that nothing that a repository brings along is run?

Every command of git is run here. There are three ways, each with as little of a repository as it needs:

    borrowed    objects alone, in a bare repository of our own: no setting, hook, attribute or replaced object takes part
    ask         names, history and index of a repository: its settings are read, and all that could run by them is off
    fetch       with `push` and `offers` what reaches a network, as the clone's owner set it up, over a list of protocols

A checkout is one of a borrowed repository, so no filter of the clone runs there either.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.errors import Retryable, SwarmError, ToolMissing
from swarm_iac.printable import printable

#: No command on a repository of stack files takes longer. [s]
PATIENCE = 120.0
#: What a remote may take. [s]
_REMOTE_PATIENCE = 300.0
#: How a remote may be reached; `ext::` and what a pull request might think of are not among them.
_PROTOCOLS = "file:http:https:ssh"
#: Settings that run a program, or change files or names behind one's back.
_OFF = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.alternateRefsCommand=true",
    "core.untrackedCache=false", "log.showSignature=false", "log.follow=false", "gc.auto=0", "maintenance.auto=false",
    "submodule.recurse=false", "fetch.recurseSubmodules=false", "transfer.fsckObjects=true", "fetch.fsckObjects=true",
    "transfer.bundleURI=false", "protocol.ext.allow=never", "advice.detachedHead=false",
)  # fmt: skip
#: What git itself tells a merge driver about the merge that is under way.
_MERGING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_COMMON_DIR")  # fmt: skip
_PLAIN = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ATTR_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0",
          "LC_ALL": "C"}  # fmt: skip
#: A missing object is not looked for elsewhere: by name since git 2.45, and since no protocol is left.
_LOCAL = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
#: Files as they were committed and reviewed: no filter, line end or encoding that a commit asks for. It comes before theirs.
_AS_IT_IS = "* -text -ident -filter !working-tree-encoding\n"
_Done = subprocess.CompletedProcess[bytes]


@dataclass(frozen=True)
class Borrowed:
    """A bare repository of our own in `folder`, with the objects of another one."""

    folder: Path

    def ask(self, *words: str, codes: Sequence[int] = (0,)) -> _Done:
        """What git answers there. Raises SwarmError where it ends with a code that is not in `codes`."""
        return _run(("--git-dir", str(self.folder), *words), Path("/"), _own(), codes)


@contextlib.contextmanager
def borrowed(repository: Path) -> Iterator[Borrowed]:
    """Objects of a repository, for reading. Nothing is written there. Raises SwarmError where there is none."""
    with tempfile.TemporaryDirectory(prefix="swarm-git-") as made:
        yield Borrowed(_new(repository, Path(made) / "git", bare=True))


@contextlib.contextmanager
def work_tree(repository: Path, commit: str) -> Iterator[Path]:
    """A folder with the files of a commit (its whole name), while it is needed: a checkout of a repository of its own."""
    with tempfile.TemporaryDirectory(prefix="swarm-merge-") as made:
        tree = Path(made).resolve() / "fleet"
        _new(repository, tree, bare=False)
        _run(("checkout", "--quiet", "--detach", "--no-recurse-submodules", commit), tree, _own(), (0,))
        yield tree


def ask(root: Path, *words: str, codes: Sequence[int] = (0,), merging: bool = False, sent: bytes = b"") -> _Done:
    """What git answers in a repository. Raises SwarmError where it ends with a code that is not in `codes`.

    `merging`: asked by a merge driver, for which git names the index and the repository in the environment. `sent`: its input.
    """
    kept = {name: os.environ[name] for name in _MERGING if name in os.environ} if merging else {}
    return _run(words, root, _outside() | kept | _PLAIN | _LOCAL, codes, sent=sent)


def text(root: Path, *words: str) -> str:
    """The same as text without the last line end; empty where git says no."""
    done = ask(root, *words, codes=range(256))
    return "" if done.returncode else done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def named(root: Path, name: str, *, merging: bool = False) -> str:
    """The whole name of a commit; empty where there is none of that name."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    done = ask(root, *words, codes=range(256), merging=merging)
    return "" if done.returncode else done.stdout.decode("ascii", "replace").strip()


def fetch(root: Path, remote: str, what: str) -> None:
    """Fetch as objects alone: no tag, no submodule, nothing of the work tree. Raises SwarmError, Retryable.

    How the remote is reached (account, proxy, ssh command) is what the clone's owner and the environment say.
    """
    _reach(root, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--", remote, what)


def offers(root: Path, remote: str, ref: str) -> bool:
    """Has the remote a ref of this whole name? Names that end so are listed as well. Raises SwarmError, Retryable."""
    lines = _reach(root, "ls-remote", "--", remote, ref).stdout.decode("utf-8", "surrogateescape").splitlines()
    return any(line.endswith(f"\t{ref}") for line in lines)


def push(root: Path, remote: str, commit: str, ref: str, instead: str) -> None:
    """Make a commit the ref of a remote where that is `instead` still, or where that is empty, is none. Raises SwarmError."""
    _reach(root, "push", "--quiet", "--no-verify", f"--force-with-lease={ref}:{instead}", "--", remote, f"{commit}:{ref}")


def _reach(root: Path, *words: str) -> _Done:
    reached = {name: value for name, value in os.environ.items() if name not in (*_MERGING, "GIT_NAMESPACE")}
    return _run(words, root, reached | _PLAIN | {"GIT_ALLOW_PROTOCOL": _PROTOCOLS}, (0,), _REMOTE_PATIENCE)


def _new(repository: Path, folder: Path, *, bare: bool) -> Path:
    """A repository without a setting, hook or template, that borrows the objects of another; the same format of names."""
    try:
        found = ask(repository, "rev-parse", "--git-common-dir", "--show-object-format").stdout.decode().splitlines()
    except SwarmError as error:
        raise SwarmError(f"{repository} is no git repository", hint=str(error).splitlines()[0]) from None
    common = (repository / found[0]).resolve()
    words = ("init", "--quiet", "--template=", f"--object-format={found[1]}", *(("--bare",) if bare else ()), str(folder))
    _run(words, Path("/"), _own(), (0,))
    inside = folder if bare else folder / ".git"
    (inside / "info").mkdir(exist_ok=True)
    (inside / "info" / "attributes").write_text(_AS_IT_IS)
    (inside / "objects" / "info").mkdir(exist_ok=True)
    (inside / "objects" / "info" / "alternates").write_text(f"{_quoted(str(common / 'objects'))}\n")
    if (common / "shallow").is_file():  # how far history reaches, and nothing else
        (inside / "shallow").write_bytes((common / "shallow").read_bytes())
    return folder


def _quoted(path: str) -> str:
    """As a line of `alternates`: git reads quotes, and takes `#` at the begin as a comment."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _outside() -> dict[str, str]:
    """The environment without what steers git."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name == "GIT_CONFIG_GLOBAL"}


def _own() -> dict[str, str]:
    """Nothing of the user's or the machine's settings."""
    plain = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.devnull}
    return plain | _PLAIN | _LOCAL | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def _run(
    words: Sequence[str],
    at: Path,
    environment: Mapping[str, str],
    codes: Sequence[int],
    patience: float = PATIENCE,
    sent: bytes = b"",
) -> _Done:
    options = [word for each in _OFF for word in ("-c", each)]
    try:
        done = subprocess.run(
            ("git", *options, *words), cwd=at, env=dict(environment), input=sent, capture_output=True, timeout=patience,

        )  # fmt: skip
    except FileNotFoundError:
        raise ToolMissing("git is not installed", hint="install git 2.38 or later") from None
    except NotADirectoryError:
        raise SwarmError(f"{at} is no folder") from None
    except subprocess.TimeoutExpired:
        raise Retryable(f"git did not end within {patience:.0f} s", after=60) from None
    if done.returncode not in codes:
        said = printable(done.stderr.decode("utf-8", "replace").strip(), 500)
        hint = "git 2.38 or later is needed, and the whole history"
        raise SwarmError(f"git: {said or f'ended with {done.returncode}'}", hint=hint)
    return done


def own_folder(root: Path) -> Path:
    """Where git keeps what belongs to this clone."""
    return Path(ask(root, "rev-parse", "--absolute-git-dir").stdout.decode().rstrip("\n"))
