"""How is the Pulumi engine run? With the environment that this repository needs, and without stale locks."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from swarm_iac.cli import engine_lock
from swarm_iac.cli.terminal import interrupt
from swarm_iac.cli.toolchain import require_pulumi
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.live.checkpoint import state_folder
from swarm_iac.printable import without_passwords
from swarm_iac.provider.plugin import process_identity
from swarm_iac.run_options import VARIABLES, RunOptions
from swarm_iac.stackfile.locks.companions import Files

Say = Callable[[str], None]
#: Commands that take the engine's lock.
_CHANGING = ("up", "refresh", "destroy")
#: The variable that all processes of one run of the engine have.
RUN = "SWARM_ENGINE_RUN"


def repository(start: Path | None = None) -> Path:
    """The fleet repository: the nearest folder at or above `start` with a Pulumi.yaml. Raises SwarmError."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    raise SwarmError("this is not a fleet repository: no Pulumi.yaml here or above", hint="create one with: swarm init myfleet")


def environment(root: Path, say: Say) -> dict[str, str]:
    """Environment variables that bare `pulumi` needs in `root`."""
    pulumi = require_pulumi(say)
    path = [str(Path(sys.executable).parent), str(pulumi)]
    path += [part for part in os.environ.get("PATH", "").split(os.pathsep) if part not in path]
    values = {
        "PATH": os.pathsep.join(path),
        "PULUMI_HOME": os.environ.get("PULUMI_HOME", str(root / ".state" / "home")),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
        "PULUMI_CONFIG_PASSPHRASE": os.environ.get("PULUMI_CONFIG_PASSPHRASE", ""),
    }
    return values | reaching(root)


def reaching(root: Path) -> dict[str, str]:
    """The variables that say how nodes are reached: SWARM_SSH_CONFIG and SWARM_NODE_TIMEOUT, if set.

    Raises Refused for a sandbox configuration that no sandbox wrote here: ssh runs the commands in it.
    """
    sandbox = root / ".sandbox" / "ssh_config"
    names = [VARIABLES[name] for name in ("ssh_config", "node_timeout")]
    values = {name: os.environ[name] for name in names if os.environ.get(name)}
    if "SWARM_SSH_CONFIG" not in values and os.path.lexists(sandbox):
        if not _written_by_a_sandbox(sandbox.parent):
            raise Refused(
                f"{sandbox} was not written by `swarm sandbox`, and ssh would run the commands in it",
                hint="remove it, or recreate it with: swarm sandbox up; to use your own, set SWARM_SSH_CONFIG",
            )
        values["SWARM_SSH_CONFIG"] = str(sandbox)
    if values.get("SWARM_SSH_CONFIG") == str(sandbox):
        # Emulated machines that share two cores are slow, not unreachable.
        values.setdefault("SWARM_NODE_TIMEOUT", "90")
    return values


def options(root: Path) -> RunOptions:
    """Options of a command in `root`: those of its environment, and how the nodes of a sandbox there are reached."""
    return RunOptions.of({**os.environ, **reaching(root)})


def _written_by_a_sandbox(folder: Path) -> bool:
    from swarm_iac.sandbox import access  # loaded only if there is such a folder
    from swarm_iac.sandbox.places import Places

    return any(access.own(Places(each)) for each in (folder.absolute(), folder.resolve()))


def pulumi(
    root: Path, stack: str, arguments: Sequence[str], say: Say, *, capture: bool = False, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `pulumi ARGUMENTS --stack STACK` in `root`; the result has its exit code. `more`: further variables.

    Raises Retryable if it would change the stack while another run does.
    """
    variables = {**ensure_stack(root, stack, say), **(more or {}), RUN: secrets.token_hex(16)}
    variables[VARIABLES["live"]] = str(Files.of(root, stack).live)
    elsewhere = arguments[0] in _CHANGING
    if elsewhere and (state := state_folder(root)):
        engine_lock.refuse_held(state, stack)
        elsewhere = False
    words, pipe = ["pulumi", *arguments, "--stack", stack], subprocess.PIPE if capture else None
    interrupt.begun()
    with subprocess.Popen(
        words,
        cwd=root,
        env=variables,
        text=True,
        stdout=pipe,
        stderr=subprocess.PIPE if elsewhere else pipe,
        executable=str(Path(require_pulumi(say)) / "pulumi"),
    ) as process:
        process_identity.note(process.pid, RunOptions.of(variables).state_home)
        try:
            out, err = (None, _passed_on(process)) if elsewhere and not capture else process.communicate()
        except BaseException:
            process.kill()
            end_language_hosts(variables[RUN])
            raise
    if process.returncode < 0:
        end_language_hosts(variables[RUN])
    if process.returncode and elsewhere:
        engine_lock.refuse_said(err or "", stack)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def _passed_on(process: subprocess.Popen[str]) -> str:
    """Wait for the engine, whose stderr is shown at once; the end of that. Only there it says who has a lock elsewhere."""
    kept = bytearray()

    def pass_on(file: int) -> None:
        while part := os.read(file, 1 << 16):
            sys.stderr.buffer.write(part)
            sys.stderr.flush()
            kept.extend(part)
            del kept[: -(1 << 16)]

    assert process.stderr
    reader = threading.Thread(target=pass_on, args=(process.stderr.fileno(),), daemon=True)
    reader.start()
    process.wait()
    reader.join(5)  # what outlives the engine and still holds its stderr must not hold us
    return kept.decode(errors="replace")


def end_language_hosts(run: str) -> None:
    """End those of this run, whose engine was killed: they would look for it for five minutes. The provider ends by itself."""
    import psutil  # loaded only here

    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error):
            if (process.info["name"] or "").startswith("pulumi-language") and process.environ().get(RUN) == run:
                process.terminate()


def ending(verb: str, status: int, in_flight: bool) -> list[str]:
    """What to print after a failed run. `in_flight`: the provider never reported the end of its change."""
    if verb not in ("up", "destroy") or status in (0, 128 + signal.SIGINT, -signal.SIGINT):
        return []
    lines = []
    if status < 0:
        lines.append(f"the engine (pulumi) was killed by {signal.Signals(-status).name} during the run")
    elif in_flight:
        lines.append("the provider (pulumi-resource-swarm) exited during a change: killed, or out of memory")
    lines.append(f"this run failed; completed steps remain in place, and `swarm {verb}` resumes from the current state")
    return lines


def ensure_stack(root: Path, stack: str, say: Say) -> dict[str, str]:
    """Create the stack if it does not exist and clear stale locks. Returns the environment for `pulumi`."""
    (root / ".state" / "home").mkdir(parents=True, exist_ok=True)
    variables = {**os.environ, **environment(root, say)}
    if state := state_folder(root):
        engine_lock.clear_dead(state, stack, say)
    _select(root, stack, variables)
    return variables


def has_state(state: Path, stack: str) -> bool:
    """Does Pulumi have a state of this stack there? Copies (.bak, .attrs) beside it outlive a removed stack."""
    return any(list((state / ".pulumi" / "stacks").glob(f"*/{stack}.json{packed}")) for packed in ("", ".gz"))


def at_once(root: Path, stack: str, say: Say) -> dict[str, str]:
    """Variables that make the engine save its state once, at the end of a run, instead of after each row.

    It writes the whole state each time: 1,200 rows took 559 s that way and 17 s this way. A killed run loses nothing,
    because the next one observes the machines. Only the lineage must be saved before a machine is touched, so it is created
    first if there is none.
    """
    if "swarm:index:Lineage" not in exported(root, stack, say):
        made = pulumi(root, stack, ["up", "--yes", "--skip-preview", "--target", "**Lineage**"], say, capture=True)
        if made.returncode:
            return {}  # the run itself reports what is wrong
    return {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}


def exported(root: Path, stack: str, say: Say) -> str:
    """The stack's state as Pulumi exports it, as text."""
    return pulumi(root, stack, ["stack", "export"], say, capture=True).stdout


def _select(root: Path, stack: str, variables: dict[str, str]) -> None:
    state = state_folder(root)
    if state and has_state(state, stack):
        return
    made = subprocess.run(
        ["pulumi", "stack", "select", "--create", stack], cwd=root, env=variables, capture_output=True, text=True
    )
    if made.returncode:
        raise SwarmError(f"pulumi could not open stack {stack}: {without_passwords(made.stderr.strip())}")
