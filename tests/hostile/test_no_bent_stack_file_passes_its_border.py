"""No stack file, bent from one that is well, does anything but load or be refused with its file, a line and words.

What loads can be planned, and what it says reaches a terminal as text. Fails on 9edab55: a machine of a million
hardware threads took all memory, a moment at the end of the calendar and a range of very many brackets did not end in words.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.errors import StackFileError
from swarm_iac.printable import printable
from swarm_iac.stackfile import loads
from tests.cli.typed import ROOT, swarm
from tests.hostile.bent import RAW_YAML, as_yaml, bent, cases, harmless, repository, torn

TODAY = datetime.date(2026, 6, 1)
#: Every section and nearly every key, in one small fleet.
TEXT = """\
fleet: lab
teams:
  research: {share: 2, users: [ada, bo]}
  product: {users: [cy]}
limits:
  user: {gpus: 8, vcpus: 64, memory: 64 GB, storage: 1 TB, bandwidth: 10 Gbit/s}
  except: [{user: ada, gpus: 12, until: "2027-01-31", why: paper}]
tuning:
  train: {gpu_power: 600 W, gpu_persistence: true, tcp: bbr, swappiness: 10, governor: performance, sysctl: {net.core.somaxconn: 1024}}
hardware:
  h100: {gpus: 8 x H100, vcpus: 32, memory: 256 GB, nvme: 4 TB, nic: 100 Gbit/s, numa: 2, interface: eth1, disk: /dev/vdb}
  cpu: {vcpus: 16, memory: 64 GB}
racks:
  r1: {power: 12 kW, uplink: 500 Gbit/s}
prices: {H100: 2.50 EUR/h}
worth: {H100: 2}
nodes:
  gpu-[01-02]: {hardware: h100, rack: r1, site: lab, tuning: train, ssh: "root@{name}:22", labels: {disk: fast}}
  gpu-02: {state: cordon, reason: fan}
  cpu-01: {hardware: cpu, ssh: local}
workloads:
  pretrain:
    user: ada
    kind: train
    priority: high
    gang: 2
    each: {gpus: 2 x H100, vcpus: 4, pinned: true, memory: 32 GB, scratch: 400 GB, tasks: 500, io: {read: 1 GB/s}, gpu_power: 500 W}
    network: {between: 1 Gbit/s}
    place: {within: rack, select: {site: lab}}
    run: {command: /bin/sleep infinity, env: {HF_HOME: /cache, TOKEN: "secret:hf"}}
    stop: {signal: TERM, grace: 5 min}
  chat:
    user: cy
    kind: serve
    replicas: 1..2
    each: {gpus: {count: 1, memory: 40 GB}, vcpus: 0.5, memory: 2 GB, cache: 10 GB}
    network: {egress: 1 Gbit/s}
    place: {spread: node}
    run: {command: "python3 -m http.server 8000", port: 8000, healthy: /}
solve: {moves: 2, stops: 8}
"""


TREE = yaml.safe_load(TEXT)
#: The sections, those with most to get wrong more often.
SECTIONS = (
    "workloads",
    "workloads",
    "workloads",
    "hardware",
    "nodes",
    "nodes",
    "limits",
    "tuning",
    "solve",
    "racks",
    "teams",
    "prices",
    "worth",
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(("torn", "raw", "section", "section")))
    if kind == "torn":
        return draw(torn(TEXT))
    if kind == "raw":
        return as_yaml(draw(bent(TREE, RAW_YAML))).encode(errors="surrogatepass")
    section = draw(st.sampled_from(SECTIONS))
    return as_yaml({**TREE, section: draw(bent(TREE[section]))}).encode(errors="surrogatepass")


def test_no_bent_file_ends_in_anything_but_a_plan_or_words(tmp_path: Path) -> None:
    folder = repository(tmp_path / "fleet")
    ends = {"loads": 0, "refused": 0}

    @given(files(), st.sampled_from(("--json", "--markdown", "")))
    @cases(6000, 40)
    def each(raw: bytes, form: str) -> None:
        try:
            loads(raw, "stacks/x.yaml", policies=ROOT / "policies", today=TODAY)
        except StackFileError as error:
            ends["refused"] += 1
            assert error.problems and all(one.place.line >= 1 and one.message for one in error.problems)
            assert "Input should" not in str(error)
            harmless(printable(str(error)))
            return
        ends["loads"] += 1
        (folder / "stacks" / "x.yaml").write_bytes(raw)
        ended = swarm("plan", "stacks/x.yaml", "--offline", *filter(None, [form]), at=folder)
        # 2: an exception that has expired by today; 3: no order of steps is safe, or the fleet's own limits forbid it
        assert ended.code in (0, 2, 3) and "this is a bug" not in ended.err, ended.err
        harmless(ended.err)
        harmless(ended.out)

    each()
    assert min(ends.values()) >= 3, ends


#: Values that are well in form, and what they are in the stack above. Each takes seconds at most, and little memory.
EXTREMES = {
    "threads": ("vcpus: 32, memory", "vcpus: 1000000000, memory", 2),
    "threads that a machine may have": ("vcpus: 32, memory", "vcpus: 65536, memory", 0),
    "memory": ("memory: 256 GB", "memory: 9000 PB", 0),
    "replicas": ("replicas: 1..2", "replicas: 1..99999", 0),
    "brackets": ("  cpu-01:", '  ? "cpu-' + "[0000-9999]" * 2000 + '"\n  :', 2),
    "a moment at the end": ("state: cordon, reason", 'state: drain, drain_by: "9999-12-31T23:59-14:00", reason', 2),
    "a moment at the beginning": ("state: cordon, reason", 'state: drain, drain_by: "0001-01-01T00:00+14:00", reason', 2),
    "a day at the end": ('until: "2027-01-31"', 'until: "9999-12-31"', 0),
    "a day at the beginning": ('until: "2027-01-31"', 'until: "0001-01-01"', 0),
    "huge pages": ("swappiness: 10,", "swappiness: 10, hugepages: 9000 PB,", 2),
    "grace": ("grace: 5 min", "grace: 106751991 d", 0),
    "variables": ("HF_HOME: /cache", ", ".join(f"K{n}: v" for n in range(5000)), 0),
    "aliases": ("fleet: lab", "fleet: lab\nprices: &a [" + "*a, " * 50 + "]", 2),
}


def test_no_value_takes_minutes_or_all_memory(tmp_path: Path) -> None:
    """In a process of their own that has a gigabyte beside what Python and the solver take."""
    folder = repository(tmp_path / "fleet")
    for name, (old, new, _) in EXTREMES.items():
        assert old in TEXT, name
        (folder / "stacks" / f"{name.replace(' ', '-')}.yaml").write_text(TEXT.replace(old, new, 1))
    program = f"""
import json, resource, sys, time
from pathlib import Path
from tests.cli.typed import swarm
from swarm_iac import solver
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30), resource.RLIM_INFINITY))
ends = {{}}
for file in sorted(Path({str(folder / "stacks")!r}).glob("*.yaml")):
    began = time.monotonic()
    try:
        ended = swarm("plan", f"stacks/{{file.name}}", "--offline", at=Path({str(folder)!r}))
    except MemoryError:
        ends[file.stem] = "all memory", 0, ""
    else:
        ends[file.stem] = ended.code, time.monotonic() - began, ended.err
print(json.dumps(ends))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.stdout, done.stderr[-2000:]
    ends = json.loads(done.stdout)
    for name, (_, _, code) in EXTREMES.items():
        ended, seconds, words = ends[name.replace(" ", "-")]
        assert ended == code and seconds < 20, (name, ended, seconds, words[:500])
        assert code != 2 or words.startswith("stacks/"), (name, words[:500])
