"""gpu-03 is someone else's now: its program answers as they like. Do the other two converge, at every `up`?

Each bad answer gets an `up` that changes something on all three nodes. Leaves the fleet as it found it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
import pytest

from tests.e2e.conftest import Done, Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
EVIL = "gpu-03"
#: Of all processes of a run that hear a node: what they have for themselves, and their share of what they have together. [bytes]
MOST = 300 << 20

#: The attacker's program, in the place of ours. `found` is what ours would have answered.
ATTACKER = """\
import json, os, subprocess, sys, time
verb = sys.argv[1]
words = [sys.executable, "-I", "-S", "/opt/honest", *sys.argv[1:]]
bad = {bad!r}
if bad.partition(":")[0] != verb:
    os.execv(words[0], words)
if verb == "claim":
    asked, found = json.loads(sys.stdin.readline()), None
else:
    text = "" if verb == "observe" else sys.stdin.read()
    asked = json.loads(text) if text else None
    found = None if bad == "step:lies" else json.loads(subprocess.run(words, input=text, stdout=subprocess.PIPE, text=True).stdout)
def flood():
    while True:
        os.write(1, b"x" * 65536)
def state():
    return found["state"]
exec({code!r})
if found is not None:
    print(json.dumps(found))
"""


@dataclass(frozen=True)
class Bad:
    """`code` changes `found`, or answers itself; `told` is what the operator reads beside the node's name; `status` of `up`."""

    verb: str
    code: str
    told: str
    ends: bool = False
    also: dict[str, str] = field(default_factory=dict)


BAD = {
    "floods": Bad("observe", "flood()", r"answer is larger than 4 MiB"),
    "deep": Bad("observe", "os.write(1, b'[' * 100000); sys.exit()", r"answer is nested too deep"),
    "words": Bad("observe", "print('all is well'); sys.exit()", r"answer is not JSON"),
    "huge": Bad("observe", "found['facts']['memory'] = 10 ** 400", r"a number that is none of a machine's|not JSON"),
    "nan": Bad("observe", "found['clock'] = float('nan')", r"answer is not JSON"),
    "cpus": Bad("observe", "[one['slice'].update(cpus='0-3000000000') for one in state()['allocations'].values()]", r"is not understood"),
    "entries": Bad("observe", "found['foreign'] = [''] * 600000", r"a list of more than 10,000 entries"),
    "values": Bad("observe", "found['foreign'] = [[''] * 9000 for _ in range(60)]", r"too many values"),
    "hangs": Bad("observe", "time.sleep(1000)", r"no answer within 15 s", also={"SWARM_NODE_TIMEOUT": "15"}),
    "drips": Bad("observe", "[(os.write(1, b' '), time.sleep(1)) for _ in range(1000)]", r"no answer within 15 s", also={"SWARM_NODE_TIMEOUT": "15"}),
    "dies": Bad("observe", "print('\\x1b]0;gone\\x07\\x1b[2J out of order', file=sys.stderr); sys.exit(3)", r"out of order"),
    "foreign": Bad("observe", "found['ledger']['lineage'] = 'mallory'", r"its ledger names fleet dev \(lineage mallory\) now"),
    "serial": Bad("observe", "found['ledger']['serial'] = 1 << 49", r"gpus: |a newer run", ends=True),
    "claims": Bad("observe", "state()['allocations']['pretrain-0'] = dict(state()['allocations']['tidy-0'], workload='pretrain'); found['health']['pretrain-0'] = 'failed'", r"pretrain-0"),
    "screen": Bad("observe", "found['troubles'] = ['\\x1b[2J\\x1b[31m\\u202eall is well']", r"all is well", ends=True),
    "types": Bad("step", "[one.update(ok='yes', message=7) for one in found['results']]", r"answer is not understood"),
    "others": Bad("step", "[one.update(id=one['id'].replace('gpu-03', 'gpu-01')) for one in found['results']]", r"gpu-03"),
    "lies": Bad("step", "found = {'results': [{'id': one['id'], 'ok': True, 'changed': True, 'skipped': False, 'message': '', 'changes': [], 'seconds': 0.1} for one in asked['steps']]}", r"gpu-03: gpus: still differs"),
    "bursts": Bad("step", "found['results'][0]['message'] = 'x' * (64 << 20)", r"it said too much"),
    "crashes": Bad("step", "print('\\x1b[2J kaputt', file=sys.stderr); sys.exit(9)", r"kaputt"),
    "holds": Bad("claim", "print(json.dumps({'held': {'who': 'mallory@evil', 'serial': 7}}), flush=True); time.sleep(30)", r"", ends=True),
}  # fmt: skip


@pytest.fixture(scope="module")
def program(fleet: Fleet) -> Iterator[str]:
    """Where the attacker's program goes."""
    home = fleet.node(EVIL, "readlink -f /usr/local/lib/swarm/current")
    fleet.node(EVIL, f"cp -a {home} /opt/honest")
    before = fleet.stack.read_text()
    try:
        yield home
    finally:
        fleet.node(EVIL, f"rm -rf {home}; mv /opt/honest {home}")
        fleet.stack.write_text(before)
    fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()


def weighed(fleet: Fleet, **variables: str) -> tuple[Done, int]:
    """`swarm up`, and the most memory that the provider and all below it had at once: what hears a node. [bytes]"""
    run, most = fleet.begin(*UP, **variables), 0
    top = psutil.Process(run.process.pid)
    while run.process.poll() is None:
        now = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            for provider in (
                one for one in top.children(recursive=True) if "pulumi-resource-swarm" in "".join(one.cmdline()[:3])
            ):
                for one in (provider, *provider.children(recursive=True)):
                    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                        now += one.memory_full_info().pss
        most = max(most, now)
        time.sleep(0.25)
    return run.end(), most


def bad_up(fleet: Fleet, home: str, name: str, number: int) -> None:
    bad = BAD[name]
    code = ATTACKER.format(bad=f"{bad.verb}:{name}", code=bad.code)
    fleet.node(EVIL, f"cat > {home}/__main__.py <<'END_OF_IT'\n{code}\nEND_OF_IT")
    text = re.sub(r"swappiness: \d+", f"swappiness: {40 + number}", fleet.stack.read_text())
    fleet.stack.write_text(re.sub(r"gpu_clock: \d+ MHz", f"gpu_clock: {1200 + 15 * number} MHz", text))
    done, most = weighed(fleet, **bad.also)
    print(f"{name}: status {done.status}, {most >> 20} MiB")
    for node in ("gpu-01", "gpu-02"):
        assert fleet.node(node, "cat /proc/sys/vm/swappiness") == str(40 + number), (name, done.text[-3000:])
    flat = re.sub(r"\s+", " ", done.text)
    assert EVIL in flat and re.search(bad.told, flat), (name, done.text[-4000:])
    assert "Traceback" not in done.text and "\x1b" not in done.text and "\u202e" not in done.text, (name, done.text[-4000:])
    assert done.status == 0 or not bad.ends, (name, done.text[-4000:])
    assert 50 << 20 < most < MOST, f"{name}: {most >> 20} MiB"


@pytest.mark.parametrize("name", BAD)
def test_every_up_converges_the_others_and_tells_which_node_and_why(fleet: Fleet, program: str, name: str) -> None:
    bad_up(fleet, program, name, list(BAD).index(name))
