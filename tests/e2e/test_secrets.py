"""Do values reach a real machine as data, and secrets nobody but their command? Looked at as a user of the fleet would.

On the fleet as `swarm init` made it; it is left so.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import NODES, Fleet
from tests.hostile import HOSTILE, TEMPLATES

pytestmark = pytest.mark.e2e

SECRET = "hf_7c1dVerySecret"
#: Writes down what it was started with, and stays.
SPY = """
import json, os, sys, time
seen = {"argv": sys.argv[1:], "env": dict(os.environ), "uid": os.getuid(), "cgroup": open("/proc/self/cgroup").read()}
open("seen.json", "w").write(json.dumps(seen))
print("started with", len(seen["argv"]), "words", flush=True)
time.sleep(1e6)
"""
WORDS = [*HOSTILE, *TEMPLATES, "$(touch /root/pwned)", "`touch /root/pwned`", "a\nb"]
PATHS = "/var/lib/swarm /run/swarm /etc/systemd /run/systemd/transient /usr/local/lib/swarm /etc/sysctl.d /tmp /var/tmp"


def spy(**env: str) -> dict[str, Any]:
    each = {"vcpus": 0.25, "memory": "64 MB", "scratch": "50 MB"}
    run = {
        "command": shlex.join(["python3", "-c", SPY, *WORDS]),
        "env": {**env, **{f"V{i}": word for i, word in enumerate(WORDS)}},
    }
    return {"user": "ada", "kind": "serve", "each": each, "run": run}


def as_bo(fleet: Fleet, node: str, command: str) -> str:
    """What another user of the fleet gets for a command, and its exit status on the last line."""
    return fleet.node(node, f"runuser -u bo -- sh -c {shlex.quote(command)} 2>&1; echo $?")


class Quoting(yaml.SafeDumper):
    """Writes every text in quotes: what is text for YAML 1.1, such as 0o17, is a number for 1.2."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def written(text: Any) -> str:
    """The stack file."""
    return str(yaml.dump(text, Dumper=Quoting, sort_keys=False, width=10**6))


@pytest.fixture(scope="module")
def node(fleet: Fleet) -> Iterator[str]:
    """Where the spy runs, as ada, beside a workload of bo."""
    before = fleet.stack.read_text()
    text = yaml.safe_load(before)
    bos = str(fleet.placed()["tidy-0"]["node"])  # where bo has an account
    text["nodes"].setdefault(bos, {})["labels"] = {"with": "bo"}
    text["workloads"] |= {"spy": {**spy(HF_TOKEN="secret:hf"), "place": {"select": {"with": "bo"}}}}
    for one in NODES:
        fleet.node(one, f"umask 077; mkdir -p /etc/swarm/secrets; echo {SECRET} > /etc/swarm/secrets/hf")
    fleet.stack.write_text(written(text))
    try:
        fleet.swarm("up", "--yes", "--skip-preview").ok()
        yield str(fleet.placed()["spy-0"]["node"])
    finally:
        fleet.stack.write_text(before)
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    for one in NODES:
        fleet.node(one, "rm -rf /etc/swarm")


def test_a_command_gets_exactly_the_words_and_variables_of_the_stack_file(fleet: Fleet, node: str) -> None:
    seen = json.loads(fleet.node(node, "cat /srv/swarm/scratch/spy-0/seen.json"))
    assert seen["argv"] == WORDS
    assert [seen["env"][f"V{number}"] for number in range(len(WORDS))] == WORDS
    assert seen["env"]["HF_TOKEN"] == SECRET
    assert seen["uid"] == int(fleet.node(node, "id -u ada")) and "swarm-spy_0.slice" in seen["cgroup"]
    assert "absent" in fleet.node(node, "ls /root/pwned 2> /dev/null || echo absent")
    assert fleet.pulumi("preview", "--expect-no-changes").ok()


def test_a_secret_stands_nowhere_but_in_its_file_and_its_commands_environment(fleet: Fleet, node: str) -> None:
    for name in NODES:
        pattern = "/etc/swarm/secrets/hf"  # never on a command line, where it would find itself
        assert fleet.node(name, f"grep -rlF -f {pattern} {PATHS} 2> /dev/null; true") == ""
        assert fleet.node(name, f"grep -lF -f {pattern} /proc/[0-9]*/cmdline 2> /dev/null; true") == ""
        assert fleet.node(name, f"journalctl --no-pager -q -o cat | grep -vF COMMAND= | grep -cF -f {pattern}; true") == "0"
        assert fleet.node(name, f"systemctl show 'swarm-*' | grep -cF -f {pattern}; true") == "0"
    here = subprocess.run(
        ["grep", "-rlF", SECRET, str(fleet.root), "--exclude-dir=.sandbox"], capture_output=True, text=True, check=False
    )
    assert here.stdout == "", "neither stack, lock, proof nor state"
    assert "secret:hf" in (fleet.root / "stacks" / "dev.yaml").read_text()


@pytest.mark.parametrize(
    "command",
    ["ls /srv/swarm/scratch/spy-0", "cat /srv/swarm/scratch/spy-0/seen.json", "ls /srv/swarm/scratch", "cat /var/lib/swarm/ledger.json",
     "cat /var/lib/swarm/audit.jsonl", "ls /var/lib/swarm/ends", "flock -n /run/swarm/lock true", "ls /run/swarm",
     "cat /etc/swarm/secrets/hf", "cat /run/credentials/swarm-spy_0.service/hf", "cat /proc/$(pgrep -u ada -o python3)/environ",
     "echo > /etc/systemd/system/swarm-spy_0.service", "echo 1 > /sys/fs/cgroup/swarm.slice/swarm-spy_0.slice/memory.max",
     "echo $$ > /sys/fs/cgroup/swarm.slice/swarm-spy_0.slice/cgroup.procs", "systemctl stop swarm-spy_0.service",
     "kill $(pgrep -u ada -o python3)", "echo x > /usr/local/lib/swarm/current/__main__.py"],
)  # fmt: skip
def test_another_user_can_neither_read_nor_touch(command: str, fleet: Fleet, node: str) -> None:
    said = as_bo(fleet, node, command)
    assert said.splitlines()[-1] != "0", said
    assert any(word in said.lower() for word in ("denied", "not permitted", "authentication", "cannot open")), said
    assert SECRET not in said


def test_another_user_sees_no_word_of_the_journal(fleet: Fleet, node: str) -> None:
    assert "started with" in fleet.node(node, "journalctl -q -o cat -u swarm-spy_0.service")
    assert "started with" not in as_bo(fleet, node, "journalctl -q -o cat -u swarm-spy_0.service")


def test_a_secret_that_is_missing_or_open_is_refused_by_name_and_the_rest_goes_on(fleet: Fleet, node: str) -> None:
    for one in NODES:
        fleet.node(one, "umask 077; echo other > /etc/swarm/secrets/open; chmod 644 /etc/swarm/secrets/open")
    before = fleet.stack.read_text()
    text = yaml.safe_load(before)
    text["workloads"] |= {"late": spy(A="secret:later"), "wide": spy(A="secret:open")}
    fleet.stack.write_text(written(text))
    done = fleet.swarm("up", "--yes", "--skip-preview")
    assert done.status != 0
    assert "secret later: /etc/swarm/secrets/later: No such file or directory" in done.text
    assert "secret open: /etc/swarm/secrets/open is not root's alone (mode 0644)" in done.text
    for one in NODES:
        fleet.node(one, "umask 077; echo x > /etc/swarm/secrets/later; chmod 600 /etc/swarm/secrets/open")
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    fleet.stack.write_text(before)


def test_modes_of_what_is_kept_on_a_node(fleet: Fleet, node: str) -> None:
    modes = dict(line.split(" ", 1)[::-1] for line in fleet.node(node, "stat -c '%a %n' " + " ".join(MODES)).splitlines())
    assert modes == MODES


MODES = {
    "/var/lib/swarm": "700", "/var/lib/swarm/ledger.json": "600", "/var/lib/swarm/audit.jsonl": "600", "/run/swarm": "700",
    "/run/swarm/lock": "600", "/srv/swarm": "755", "/srv/swarm/scratch": "711", "/srv/swarm/scratch/spy-0": "700",
    "/etc/swarm/secrets": "700", "/etc/swarm/secrets/hf": "600", "/dev/nvidia0": "660",
}  # fmt: skip
