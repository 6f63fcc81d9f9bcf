"""How is a machine powered off, powered on, and asked whether it is on? By three programs of the operator.

resume NODE    begin to power it on; 0: begun, or it is on already
suspend NODE   begin to power it off; 0: begun, or it is off already; else it stays on
check NODE     print `on` or `off` and exit 0; anything else: nobody knows

They are in one folder that the operator names. Nothing of a stack file reaches them but the name of a node, as one argument,
without a shell. The folder is not in the fleet repository, so that no merge changes what is run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from swarm_iac.errors import Refused
from swarm_iac.model.base import Name
from swarm_iac.printable import printable

HOOKS = ("resume", "suspend", "check")
#: The variable that names the folder, and that of the time limit [s].
FOLDER, LIMIT = "SWARM_POWER_HOOKS", "SWARM_POWER_HOOK_TIMEOUT"
DEFAULT_LIMIT = 30.0
#: Bytes of a hook's output that are kept.
_KEPT = 2000
_NAME: TypeAdapter[str] = TypeAdapter(Name)


@dataclass(frozen=True)
class HookAnswer:
    """`ok`: it exited with 0 within its time; `text`: what it printed, or what was wrong with it; `late`: it was killed."""

    ok: bool
    text: str
    late: bool = False


@dataclass(frozen=True)
class Hooks:
    """The operator's programs. `limit`: time for each [s]."""

    folder: Path
    limit: float = DEFAULT_LIMIT

    @classmethod
    def of(cls, folder: str | Path, root: Path, limit: float = DEFAULT_LIMIT) -> Hooks:
        """Raises Refused for a folder or program that others may change, or that a merge into `root` would."""
        path = Path(folder).absolute().resolve()
        above = (path, *path.parents)
        if root.resolve() in above or any((each / "Pulumi.yaml").exists() for each in above):
            raise Refused(f"{path} is in the fleet repository, where a merge changes what is run", hint="move it elsewhere")
        _refuse_foreign(path, folder=True)
        for name in HOOKS:
            if root.resolve() in (path / name).resolve().parents:
                raise Refused(
                    f"{path / name} leads into the fleet repository, where a merge changes what is run", hint="copy it"
                )
            _refuse_foreign(path / name, folder=False)
        return cls(path, limit)

    def run(self, hook: str, node: str) -> HookAnswer:
        """Run one hook for one node. Never raises: a hook that cannot be run has failed."""
        try:
            _NAME.validate_python(node)
            _refuse_foreign(self.folder / hook, folder=False)
        except (ValidationError, Refused) as error:
            return HookAnswer(False, printable(str(error).splitlines()[0], 200))
        # Into a file: what outlives the hook, and still holds its output, must not hold us.
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    [str(self.folder / hook), node],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                return HookAnswer(False, f"{hook}: {error.strerror}")
            late = False
            try:
                status = process.wait(self.limit)
                ended = "" if status == 0 else f"exit status {status}"
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                late = True
                ended = f"no end within {self.limit:g} s"
            output.seek(0)
            said = printable(output.read(_KEPT).decode(errors="replace").strip(), 300)
        return HookAnswer(not ended, ": ".join(filter(None, (ended, said))), late)

    def is_on(self, node: str) -> tuple[bool | None, str]:
        """What `check` says: on, off, or None where nobody knows; and its words."""
        answer = self.run("check", node)
        known = {"on": True, "off": False}.get(answer.text) if answer.ok else None
        return known, answer.text


def _refuse_foreign(path: Path, *, folder: bool) -> None:
    """Raises Refused unless it is the operator's, or root's, and nobody else may write there."""
    try:
        found = path.stat()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}", hint=f"a folder with {', '.join(HOOKS)}: see docs/autopilot.md") from None
    kind = stat.S_ISDIR(found.st_mode) if folder else stat.S_ISREG(found.st_mode)
    if not kind:
        raise Refused(f"{path} is no {'folder' if folder else 'regular file'}", hint="see docs/autopilot.md")
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise Refused(f"{path}: others could change it", hint=f"chown {os.geteuid()} and chmod go-w {path}")
    if not folder and not os.access(path, os.X_OK):
        raise Refused(f"{path} is not executable", hint=f"chmod u+x {path}")
