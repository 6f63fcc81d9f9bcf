"""Does a job end at its time limit, once and for good, and is nothing else taken for that?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import units
from swarm_node.machine import systemd
from swarm_node.machine.run import Context, NodeError
from swarm_node.program import health
from swarm_node.records import ledger
from swarm_node.workload import lives

from tests.node.test_lives import ONE, here, job, says
from tests.node.test_units import context, systemd_reads, want

LIMITED = {"restart": False, "time_limit_s": 3600, "grace_s": 60}
AGAIN = {**LIMITED, "restart": True}


def test_the_stop_signal_comes_its_grace_before_the_limit(tmp_path: Path) -> None:
    lines = units.render(context(tmp_path), "web-1", want(time_limit_s=43_200, grace_s=600)).splitlines()
    assert "RuntimeMaxSec=42600" in lines and "TimeoutStopSec=600" in lines
    assert not any("RuntimeMaxSec" in line for line in units.render(context(tmp_path), "web-1", want()).splitlines())


@pytest.mark.parametrize(
    "limit", ["1 h\nExecStart=+/bin/sh -c id", "3600", 3600.5, True, -1, 0, 30, 10**12, [3600], {"a": 1}, float("nan")]
)
def test_what_is_no_limit_never_reaches_a_unit(limit: Any, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="is no time limit"):
        units.render(context(tmp_path), "web-1", want(time_limit_s=limit))


def test_a_limit_changed_by_hand_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"LoadState": "loaded", "ActiveState": "active", "NeedDaemonReload": "no", "DropInPaths": "x.conf"}
    monkeypatch.setattr(systemd, "show", lambda context, unit: shown)
    truth = {"User": "ada", "ExecStart": [["/usr/bin/env", ["/usr/bin/env", "--", "serve"]]], "KillSignal": 15,
             "TimeoutStopUSec": 30_000_000, "Restart": "no", "Environment": []}  # fmt: skip
    recorded = {"user": "ada", "command": "serve", "time_limit_s": 3600, "gpus": []}
    for microseconds, told in ((7_170_000_000, 7200), (2**64 - 1, None)):
        monkeypatch.setattr(systemd, "exactly", lambda context, unit, n=microseconds: {**truth, "RuntimeMaxUSec": n})
        assert units.read(context(tmp_path), "web-1", recorded)["time_limit_s"] == told


@pytest.mark.parametrize("want", [LIMITED, AGAIN])
def test_its_end_by_the_limit_is_written_down(want: dict[str, Any], tmp_path: Path) -> None:
    says(tmp_path, "ExecStop", want, MAINPID="7", SERVICE_RESULT="timeout", **ONE)
    says(tmp_path, "ExecStopPost", want, SERVICE_RESULT="timeout", **ONE)
    assert (lives.end(here(tmp_path), "web-1"), lives.word_of(here(tmp_path), "web-1")) == ("failed", "time-limit")
    lives.prepare(here(tmp_path), "web-1")
    assert lives.word_of(here(tmp_path), "web-1") == "", "a start forgets it"


@pytest.mark.parametrize("want", [LIMITED, AGAIN])
def test_who_was_asked_to_stop_has_not_reached_its_limit(want: dict[str, Any], tmp_path: Path) -> None:
    """A stop that took longer than its grace is a `timeout` for systemd, too."""
    says(tmp_path, "ExecStop", want, MAINPID="7", SERVICE_RESULT="success", **ONE)
    says(tmp_path, "ExecStopPost", want, SERVICE_RESULT="timeout", **ONE)
    assert lives.word_of(here(tmp_path), "web-1") == ""


@pytest.mark.parametrize(("want", "result", "word"), [
    (LIMITED, "success", "success"), (AGAIN, "success", "success"), (LIMITED, "oom-kill", "oom-kill"),
    (AGAIN, "oom-kill", ""), (LIMITED, "timeout", "timeout"), (AGAIN, "exec-condition", ""),
])  # fmt: skip
def test_who_ended_by_itself_has_not_reached_its_limit(want: dict[str, Any], result: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "run/swarm/asked").mkdir(parents=True)
    (tmp_path / "run/swarm/asked/web-1").write_text("limit 0\n")  # an earlier run did
    says(tmp_path, "ExecStop", want, SERVICE_RESULT=result, **ONE)
    says(tmp_path, "ExecStopPost", want, SERVICE_RESULT=result, **ONE)
    assert lives.word_of(here(tmp_path), "web-1") == word


@pytest.mark.parametrize("folder", [lives.ENDS, lives.SPARE])
def test_systemd_starts_again_what_failed_and_not_what_reached_its_limit(folder: str, tmp_path: Path) -> None:
    line = next(line for line in lives.properties("web-1", AGAIN) if line.startswith("ExecCondition="))
    assert line.startswith("ExecCondition=:+"), "the record is root's, and nothing of the user's is run as root"
    words = systemd_reads(line)
    words[-2:] = [str(tmp_path / path[1:]) for path in words[-2:]]
    assert subprocess.run(words, check=False).returncode == 0
    (tmp_path / folder[1:]).mkdir(parents=True)
    for word, code in (("oom-kill", 0), ("time-limit", 1)):
        (tmp_path / folder[1:] / "web-1").write_text(f"{word}\n")
        assert subprocess.run(words, check=False).returncode == code
    assert not any(line.startswith("ExecCondition=") for line in lives.properties("web-1", {"restart": True}))


def test_since_when_it_runs_and_how_it_ended_is_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here(tmp_path, **{"web-1": job(), "off-0": job(), "out-0": job()})
    (tmp_path / lives.ENDS[1:]).mkdir(parents=True)
    (tmp_path / lives.ENDS[1:] / "out-0").write_text("time-limit\n")
    since = int((time.clock_gettime(time.CLOCK_MONOTONIC) - 100) * 1e6)
    runs = {"ActiveState": "active", "ActiveEnterTimestampMonotonic": str(since)}
    ended = {"ActiveState": "failed", "ActiveEnterTimestampMonotonic": str(since)}
    monkeypatch.setattr(systemd, "show", lambda context, unit: runs if unit == "swarm-web_1.service" else ended)
    began, words = health.runs(Context(ledger.load(str(tmp_path)), check=True, root=str(tmp_path)))
    assert words == {"out-0": "time-limit"} and began.keys() == {"web-1"}
    assert abs(began["web-1"] - (time.time() - 100)) < 5


# What systemd makes of it: a manager of our own, in a mount namespace, so that nothing of this machine is touched.
_MANAGER = """\
mount -t cgroup2 none /sys/fs/cgroup && mount -t tmpfs none /run && mkdir -p /run/systemd/system
mkdir /sys/fs/cgroup/$NAME && echo $$ > /sys/fs/cgroup/$NAME/cgroup.procs || exit 9
timeout 60 /lib/systemd/systemd --user --unit=basic.target --log-target=null > /dev/null 2>&1 &
for i in $(seq 50); do systemctl --user is-active -q basic.target 2> /dev/null && break; sleep 0.1; done
"""
_AFTER = """\
systemctl --user exit; wait
echo $$ > /sys/fs/cgroup/cgroup.procs; find /sys/fs/cgroup/$NAME -depth -type d -exec rmdir {} +
"""
_SHOW = "systemctl --user show -P ActiveState -P NRestarts"
_SLOW = "/bin/sh -c 'trap : USR1; sleep 99 & wait; sleep 99'"  # does not heed its stop signal


def _managed(root: Path, script: str, **commands: tuple[str, dict[str, Any]]) -> str:
    """What `script` says under a systemd with these units: name → its command, and what is wanted of it."""
    (root / "config/systemd/user").mkdir(parents=True)
    for folder in (lives.ENDS, lives.SPARE, lives.ASKED):
        (root / folder[1:]).mkdir(parents=True)
    for name, (command, wanted) in commands.items():
        lines = [line.replace('"/var/', f'"{root}/var/').replace('"/run/', f'"{root}/run/')
                 for line in lives.properties(f"{name}-0", wanted)]  # fmt: skip
        again = "on-failure" if wanted["restart"] else "no"
        own = [f"TimeoutStopSec={wanted['grace_s']}", "KillSignal=SIGUSR1", f"Restart={again}", "RestartSec=1"]
        file = root / f"config/systemd/user/{name}.service"
        file.write_text("\n".join(["[Service]", "Type=exec", f"ExecStart={command}", *lines, *own, ""]))
    (root / "runtime").mkdir(mode=0o700)
    name = f"swarm-test-{os.getpid()}"
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "XDG_RUNTIME_DIR": f"{root}/runtime",
           "XDG_CONFIG_HOME": f"{root}/config", "NAME": name, "ENDS": f"{root}{lives.ENDS}"}  # fmt: skip
    whole = f"{_MANAGER}{script}\n{_AFTER}"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", whole], env=env, cwd=root, capture_output=True, text=True,
                          timeout=100, check=False)  # fmt: skip
    if done.returncode == 9:
        pytest.skip("this machine lets nobody have cgroups of his own")
    return done.stdout


@pytest.mark.engine
@pytest.mark.skipif(os.geteuid() != 0 or not sys.platform.startswith("linux"), reason="mounts need root")
@pytest.mark.skipif(not Path("/lib/systemd/systemd").exists() or not shutil.which("unshare"), reason="needs systemd")
def test_systemd_ends_it_at_its_limit_and_starts_it_no_more(tmp_path: Path) -> None:
    limited = {"restart": False, "time_limit_s": 4, "grace_s": 2}
    script = f"""
        systemctl --user start again keeps asked fails
        systemctl --user stop asked
        sleep 1; {_SHOW} keeps | tr '\\n' ' '
        sed -i s/RuntimeMaxSec=3598/RuntimeMaxSec=3/ config/systemd/user/keeps.service
        systemctl --user daemon-reload
        {_SHOW} keeps | tr '\\n' ' '
        sleep 7
        for one in again keeps asked; do {_SHOW} $one | tr '\\n' ' '; cat $ENDS/$one-0 2> /dev/null || echo none; done
        [ "$(systemctl --user show -P NRestarts fails)" -gt 2 ] && cat $ENDS/fails-0 2> /dev/null || echo still tried
    """
    told = _managed(
        tmp_path, script,
        again=("/bin/sleep 99", {**limited, "restart": True}), keeps=(_SLOW, {**limited, "time_limit_s": 3600}),
        asked=("/bin/sleep 99", {**limited, "restart": True, "time_limit_s": 3600}),
        fails=("/bin/false", {**limited, "restart": True, "time_limit_s": 3600}),
    )  # fmt: skip
    assert told.split("\n")[:-1] == [
        # A new limit is heeded by what runs, which is not stopped for it.
        "0 active 0 active 0 inactive time-limit",
        "0 failed time-limit",
        "0 failed none",
        "still tried",
    ]


@pytest.mark.engine
@pytest.mark.skipif(os.geteuid() != 0 or not sys.platform.startswith("linux"), reason="mounts need root")
@pytest.mark.skipif(not Path("/lib/systemd/systemd").exists() or not shutil.which("unshare"), reason="needs systemd")
@pytest.mark.parametrize("limit", [{}, {"time_limit_s": 3600}], ids=["unlimited", "limited"])
def test_a_stop_that_takes_the_whole_grace_before_it_is_noted_is_no_end_of_who_has_no_limit(
    limit: dict[str, Any], tmp_path: Path
) -> None:
    """A machine that shuts down under load: the job was lost, since it was said to have failed."""
    script = f"""
        sed -i '/^ExecStop=/s|"-c" "|"-c" "sleep 9; |' config/systemd/user/asked.service
        grep -q 'sleep 9;' config/systemd/user/asked.service || exit
        systemctl --user daemon-reload
        systemctl --user start asked leaves done
        systemctl --user stop asked
        sleep 4
        for one in asked leaves done; do {_SHOW} $one | tr '\\n' ' '; cat $ENDS/$one-0 2> /dev/null || echo none; done
    """
    wanted = {"restart": False, "grace_s": 1, **limit}
    leaves = """/bin/sh -c 'trap "" USR1; (sleep 50; sleep 50) & sleep 1'"""  # processes that do not heed the stop signal
    told = _managed(tmp_path, script, asked=("/bin/sleep 99", wanted), leaves=(leaves, wanted), done=("/bin/sleep 1", wanted))
    # With a limit it stays one: a job with no memory left could else keep the limit from being noted, and start again.
    noted = "timeout" if limit else "none"
    assert told.split("\n")[:-1] == [f"0 failed {noted}", "0 failed timeout", "0 inactive success"]
