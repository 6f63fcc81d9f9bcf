"""Does Ctrl-C answer within two seconds, whenever it comes? `swarm solve` on drawn fleets, each ended at a random moment.

    python -m tests.benchmarks.interrupts [--times N] [--fleets F] [--machines M] [--seed S]

Each fleet is solved from nothing, and from a lock with one node drained. SIGINT comes after a random part of what the whole
command takes, from when Python has started. Printed are the longest wait, by phase, and how each ended; the exit code is 1
when a wait was longer than two seconds, a lock was neither valid nor as before, or something was left behind.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from swarm_iac.limits import judge
from swarm_iac.stackfile import load
from swarm_iac.stackfile.locks import lock
from tests.benchmarks.fleets.draw_workloads import filled
from tests.benchmarks.fleets.written import text_of

#: Within which Ctrl-C is to be answered. [s]
SECONDS = 2.0
#: Python itself takes so long until our handler is there. [s]
STARTED = 0.1


def main() -> int:
    """Run and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--fleets", type=int, default=10)
    parser.add_argument("--machines", type=int, default=0, help="of each fleet; 0: from 10 to 400")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", type=Path, action="append", default=[], help="a stack file to take as well")
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    sizes = [asked.machines or round(10 * 40 ** (i / max(1, asked.fleets - 1))) for i in range(asked.fleets)]
    texts = [text_of(filled(asked.seed + i, size).data) for i, size in enumerate(sizes)] + [f.read_text() for f in asked.file]
    waits: dict[str, list[float]] = defaultdict(list)
    ended: Counter[str] = Counter()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        cases = [_Case(Path(folder) / str(i), text) for i, text in enumerate(texts)]
        for number in range(asked.times):
            case = cases[number % len(cases)]
            wait, end, trouble = case.interrupted(rng)
            waits[case.what].append(wait)
            ended[end] += 1
            wrong += [f"fleet {number % len(cases)}: {trouble}"] if trouble else []
            print(f"\r{number + 1} of {asked.times}, longest {max(map(max, waits.values())):.2f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    for what, found in waits.items():
        found.sort()
        print(f"{what}: {len(found)} signals, median {found[len(found) // 2]:.2f} s, longest {found[-1]:.2f} s")
    print("ended: " + ", ".join(f"{end} {count}" for end, count in ended.most_common()))
    print("\n".join(wrong) or "each lock was valid or as before, and nothing was left behind")
    return int(bool(wrong) or max(map(max, waits.values())) > SECONDS)


class _Case:
    """One fleet in a folder of its own; odd signals come to a change, even ones to a solve from nothing."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder, self.text, self.turn = folder, text, 0
        self.stack = folder / "stacks" / "drawn.yaml"
        self.lock = folder / "stacks" / "drawn.lock.yaml"
        self.stack.parent.mkdir(parents=True)
        (folder / "Pulumi.yaml").write_text("name: drawn\nruntime: python\n")
        self.stack.write_text(text)
        self.took = {"from nothing": self._whole()}
        self.held = self.lock.read_bytes() if self.lock.exists() else b""
        self.drained = self._drained()
        self.stack.write_text(self.drained)
        self.took["a change"] = self._whole()
        self.what = "from nothing"

    def _drained(self) -> str:
        node = re.search(rb"node: (\S+?)[,}\s]", self.held)
        name = node.group(1).decode() if node else ""
        return re.sub(rf"(?m)^(  {re.escape(name)}: \{{)", r"\1state: drain, ", self.text) if name else self.text

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "swarm_iac.cli", "solve", "--stack", "drawn"]

    def _whole(self) -> float:
        start = time.monotonic()
        subprocess.run(self._command(), cwd=self.folder, env=_environment(), capture_output=True, check=False)
        return time.monotonic() - start

    def interrupted(self, rng: random.Random) -> tuple[float, str, str]:
        """Seconds until it ended, how it ended, and what is wrong; empty when nothing is."""
        self.turn += 1
        self.what = "a change" if self.turn % 2 and self.held else "from nothing"
        self.stack.write_text(self.drained if self.what == "a change" else self.text)
        before = self.held if self.what == "a change" else b""
        self.lock.unlink(missing_ok=True)
        if before:
            self.lock.write_bytes(before)
        process = subprocess.Popen(
            self._command(), cwd=self.folder, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        time.sleep(STARTED + rng.random() * self.took[self.what])
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        out = process.communicate()[0].decode(errors="replace")
        wait = time.monotonic() - start
        return wait, f"exit {process.returncode}", self._trouble(before, out)

    def _trouble(self, before: bytes, out: str) -> str:
        now = self.lock.read_bytes() if self.lock.exists() else b""
        left = [path.name for path in self.stack.parent.glob(".*")]
        if "Traceback" in out or left:
            return f"left {left}: {out[-300:]}"
        if now in (before, b""):
            return "" if now == before else "the lock is gone"
        today = datetime.datetime.now(datetime.UTC).date()
        stack = load(self.stack, today=today).stack
        found = lock.parse(self.lock.read_text(), str(self.lock)).placement
        held = lock.parse(before, "before").placement.by_name() if before else {}
        kept = frozenset(a.name for a in found.allocations if a.name in held and held[a.name].node == a.node)
        return "; ".join(one.text for one in judge(stack, found, today, kept=kept)[:2])


def _environment() -> dict[str, str]:

    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}


if __name__ == "__main__":
    raise SystemExit(main())
