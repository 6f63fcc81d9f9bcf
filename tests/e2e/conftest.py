"""What do the end-to-end tests stand on? A sandbox of their own and a fleet repository made by `swarm init`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from swarm_iac import assets
from swarm_iac.sandbox import Sandbox

if TYPE_CHECKING:
    from tests.e2e.operated import Operated

sys.path.insert(0, str(assets.playbooks() / "module_utils"))
BASE_PORT = int(os.environ.get("SWARM_E2E_PORT", "2400"))
NODES = ("gpu-01", "gpu-02", "gpu-03")
SWARM = [sys.executable, "-m", "swarm_iac.cli"]


@dataclass(frozen=True)
class Done:
    """What a command did: its exit status and everything that it printed."""

    status: int
    text: str

    def ok(self) -> Done:
        """This, if the command succeeded."""
        assert self.status == 0, self.text[-6000:]
        return self

    def rows(self) -> dict[str, str]:
        """What a `--diff` preview says of each node and allocation: "Allocation pretrain-0" -> its whole block."""
        block = r"^ *[+~-]+ swarm:index:(Node|Allocation): .*\n(?:^ +\[(?!urn).*\n)*^ +\[urn=.*::(\S+)\]\n((?:^ {10,}.*\n)*)"
        return {f"{kind} {name}": text for kind, name, text in re.findall(block, self.text, re.MULTILINE)}


@dataclass(frozen=True)
class Running:
    """A command that has begun."""

    process: subprocess.Popen[bytes]
    output: IO[str]

    def end(self, timeout: float = 900) -> Done:
        """Wait for it. One that takes longer is killed, and the test fails."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        self.output.seek(0)
        return Done(status, re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.output.read()))


@dataclass
class Fleet:
    """A fleet repository on a running sandbox."""

    root: Path
    sandbox: Sandbox
    before: dict[str, str] = field(default_factory=dict)  # node -> dump, taken before the first `up`

    @property
    def python(self) -> str:
        """The interpreter that has the package."""
        return sys.executable

    @property
    def stack(self) -> Path:
        return self.root / "stacks" / "dev.yaml"

    def swarm(self, *words: str, timeout: float = 900, **variables: str) -> Done:
        return self._run([*SWARM, *words], timeout, variables)

    def begin(self, *words: str, **variables: str) -> Running:
        """The same, without waiting for its end."""
        return self._begin([*SWARM, *words], variables)

    def pulumi(self, *words: str, timeout: float = 900, **variables: str) -> Done:
        """Bare `pulumi`, with the environment that `swarm env` prints and nothing else of ours."""
        line = 'eval "$("$0" -m swarm_iac.cli env)"; exec pulumi "$@" --stack dev --color never'
        return self._run(["bash", "-c", line, sys.executable, *words], timeout, variables)

    def shell(self, script: str, timeout: float = 900) -> Done:
        """A bash script in the repository, with `swarm` on the path."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return self._run(["bash", "-c", script], timeout, {"PATH": path})

    def node(self, name: str, command: str, timeout: float = 90) -> str:
        """A shell command on a node, by plain ssh: none of our code looks at the answer first."""
        return self.sandbox.run(name, command, timeout).strip()

    def dump(self) -> dict[str, str]:
        """Everything that this tool may touch, node by node, by tests/e2e/dump.sh."""
        from swarm_node.concerns.settings import SINGLE

        settings = " ".join(one.path for one in SINGLE)
        script = f"SETTINGS='{settings}'\n{(Path(__file__).parent / 'dump.sh').read_text()}"
        return {node: self.node(node, script) for node in NODES}

    def edit(self, old: str, new: str) -> None:
        text = self.stack.read_text()
        assert old in text, f"{old!r} is not in {self.stack}"
        self.stack.write_text(text.replace(old, new))

    def placed(self) -> dict[str, dict[str, Any]]:
        """The lock file's allocations, read as plain YAML."""
        import yaml

        return dict(yaml.safe_load((self.root / "stacks" / "dev.lock.yaml").read_text())["allocations"])

    def _run(self, words: list[str], timeout: float, variables: dict[str, str]) -> Done:
        return self._begin(words, variables).end(timeout)

    def _begin(self, words: list[str], variables: dict[str, str]) -> Running:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SWARM_SSH", "PULUMI_"))}
        # Into a file: what outlives the command, and still holds its output, must not hold us.
        output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        process = subprocess.Popen(
            words, cwd=self.root, env={**environment, "NO_COLOR": "1", **variables},
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        return Running(process, output)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    kept = os.environ.get("SWARM_E2E_FLEET")  # a folder to keep between runs, for work on these tests themselves
    root = Path(kept) if kept else tmp_path_factory.mktemp("fleet") / "lab"
    if (root / ".sandbox").exists():
        yield Fleet(root, Sandbox(root / ".sandbox", BASE_PORT), json.loads((root / "before.json").read_text()))
        return
    made = subprocess.run([*SWARM, "init", str(root)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    sandbox = Sandbox(root / ".sandbox", BASE_PORT)
    try:
        sandbox.up(lambda line: print(line, file=sys.__stderr__))
        one = Fleet(root, sandbox)
        one.before.update(one.dump())
        (root / "before.json").write_text(json.dumps(one.before))
        one.swarm("up", "--yes", "--skip-preview").ok()
        yield one
    finally:
        if not kept:
            sandbox.down()
            shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def restored(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, for tests that change its stack file: after the last of a module it is as it was."""
    before = fleet.stack.read_text()
    try:
        yield fleet
    finally:
        fleet.stack.write_text(before)
        fleet.swarm("up", "--yes", "--skip-preview").ok()


@pytest.fixture(scope="module")
def operated(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    from tests.e2e.operated import operating

    with operating(fleet, tmp_path_factory.mktemp("forge")) as one:
        yield one
