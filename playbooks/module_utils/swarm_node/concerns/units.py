"""What runs in an allocation's slice, as whom, and is it well?"""

from __future__ import annotations

import os
import re
import shlex
import signal as signal_module
import time
from typing import Any, Dict, List, Optional

from .. import device
from ..machine import systemd
from ..machine.run import Change, Context, NodeError, Pending, differences, unit_name
from ..records import holdings
from ..workload import confine, environment, launch, lives, probes, secrets
from . import accounts, devices, directories, slices, topology

HOLDER = ["/bin/sleep", "infinity"]
#: Runs a command with the PATH of its own environment. A word of the user's is never the first on the line, where
#: systemd would take '+', '!' or '@' as an order to itself.
_ENV = ["/usr/bin/env", "--"]
#: What an earlier version wrote before the words of a command with secrets; it may run since then.
_EARLIER = ["/bin/sh", "-euc", "its script", "swarm", *_ENV]
_SIGNALS = ("TERM", "INT", "QUIT", "HUP", "USR1", "USR2")
#: Defaults of UnitState, so that a want that leaves one out reads back equal.
_DEFAULTS: Dict[str, Any] = {"command": "", "env": {}, "stop_signal": "TERM", "grace_s": 30, "time_limit_s": None,
                             "healthy": "", "port": None, "active": True, "restart": True, "gang": False, "on_boot": "start",
                             "unconfined": None, "links": None}  # fmt: skip
#: A job that fails five times within ten minutes has failed.
_GIVES_UP = "StartLimitIntervalSec=600\nStartLimitBurst=5"
#: Outside a user namespace the owner of a directory may move it to another project, and so out of its quota.
_OWN_USERS = "yes"
#: A command is not well before it has run for so long: a program that is missing ends a moment after its start. [s]
SETTLED_S = 2.0
#: How long one step waits for an end or for health before it says that it is pending. [s]
POLL_S = 5.0
#: How long a workload may take to become healthy; a large model takes minutes to load. [s]
HEALTHY_S = 300
_FIELDS = ("user", *_DEFAULTS)


def unit(allocation: str) -> str:
    """Name of the service."""
    return unit_name(allocation) + ".service"


def argv_of(command: str) -> List[str]:
    """The words of a command line, split like a shell does. NodeError when quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise NodeError(f"command {command[:60]!r}: {error}") from None


def command_line(want: Dict[str, Any]) -> List[str]:
    """The whole argv: the holder, or the user's words behind env, behind what gives them the user's variables."""
    words = argv_of(want.get("command") or "")
    if not words:
        return list(HOLDER)
    return [*(launch.PREFIX if environment.theirs(want) else ()), *_ENV, *words]


def render(context: Context, allocation: str, want: Dict[str, Any]) -> str:
    """The service's unit file. NodeError for a value that systemd cannot carry."""
    signal = want.get("stop_signal") or "TERM"
    if signal not in _SIGNALS or not re.fullmatch(r"[a-z_][a-z0-9_-]*", str(want["user"])):
        raise NodeError(f"signal {signal!r} or user {want['user']!r} is none")
    folders = directories.held(context, allocation)
    own = topology.own(context, allocation, list(want.get("gpus", ())), want.get("links"))
    lines = [
        "# kept by swarm; changes by hand are undone",
        "[Unit]",
        systemd.setting("Description", "swarm", allocation),
        _GIVES_UP,
    ]
    lines += [systemd.setting("RequiresMountsFor", *folders.values())] if folders else []
    who = [systemd.setting("Slice", slices.unit(allocation)), systemd.setting("User", str(want["user"]))]
    lines += ["", "[Service]", "Type=exec", *who]
    lines += [f"ExecStart=:{systemd.words(command_line(want))}", *lives.properties(allocation, want)]
    lines += [systemd.setting("WorkingDirectory", folders["scratch"])] if "scratch" in folders else []
    # Ours alone: what stands here is seen by the commands that run as root, too.
    lines += [f"Environment={systemd.quote(f'{name}={value}')}" for name, value in sorted(own.items())]
    lines += launch.properties({**want, "env": environment.theirs(want)}) if want.get("command") else []
    lines += [
        f"KillSignal=SIG{signal}",
        f"TimeoutStopSec={int(want.get('grace_s', 30))}",
        "NoNewPrivileges=yes",
        f"PrivateUsers={_OWN_USERS}",
        *confine.properties(want),
    ]
    alone = want.get("restart", True) and not want.get("gang")  # a gang starts whole, and only a run sees all of it
    lines += ["Restart=on-failure", "RestartSec=2"] if alone else ["Restart=no"]
    lines += [f"SupplementaryGroups={devices.GROUP}"] if want.get("gpus") else []
    return "\n".join(lines + devices.properties(context, list(want.get("gpus", ())))) + "\n"


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Write and start the service of UnitState + gpus; it runs afterwards. Restarts one that runs something else."""
    wanted = {**_DEFAULTS, **{key: value for key, value in want.items() if key in _FIELDS}}
    environment.check(want)
    topology.remember(context, list(want.get("gpus", ())))
    text = render(context, allocation, want)
    found = read(context, allocation, {**wanted, "gpus": want.get("gpus", ())}) or {}
    changes = differences(f"allocations.{allocation}.unit", found, {**wanted, "active": True})
    accounts.account(context, str(want["user"]))
    topology.write(context, allocation, list(want.get("gpus", ())), want.get("links"))
    written = context.write(f"{systemd.UNITS}/{unit(allocation)}", text)
    if context.check or not (changes or written):
        return changes
    state = systemd.settle(context, unit(allocation)).get("ActiveState")
    runs, stopping = state in ("active", "activating", "reloading"), state == "deactivating"
    keys = {one["path"].rsplit(".", 1)[1] for one in changes}
    if stopping or (runs and keys & {"user", "command", "env", "unconfined"}):
        stop(context, allocation, {"waited": want.get("waited")})
        runs = False
    if not runs:
        _has_its_instances(context, allocation, list(want.get("gpus", ())))
        secrets.ready(context, secrets.named(want).values())
    if not runs and not (stopping and lives.end(context, allocation)):  # it was just about to end by itself
        lives.prepare(context, allocation)
        if found or state != "inactive":  # of one that systemd knew nothing of, nothing has failed
            context.act(["systemctl", "reset-failed", unit(allocation)], ok=(0, 1))
        systemd.start(context, unit(allocation))
    return changes or [{"path": f"allocations.{allocation}.unit", "old": None, "new": wanted}]


def _has_its_instances(context: Context, allocation: str, gpus: List[device.Plain]) -> None:
    """NodeError where its slice does not open exactly its own MIG instances.

    After a reboot instances have other numbers, and a card may be whole: a slice that could not be made again would open what
    is another's.
    """
    cut = [one.plain for one in device.gpus(gpus) if one.profile]
    missing = sorted({*map(str, cut)}.difference(map(str, devices.read(context, allocation, {"gpus": gpus})))) if cut else []
    if missing:
        raise NodeError(f"{allocation} is not started: its slice does not open its own MIG instance {' and '.join(missing)}")


def renewed(context: Context) -> List[Change]:
    """Write the files of units that an earlier version of this program wrote; nothing is stopped or started.

    What root runs when such a unit stops is then what this version says. One that was changed by hand stays as it is,
    so that it is seen.
    """
    done = []
    for name, whole in sorted((context.ledger.get("allocations") or {}).items()):
        recorded = whole.get("unit")
        if not recorded or not os.path.exists(context.path(f"{systemd.UNITS}/{unit(name)}")):
            continue
        want = {**_DEFAULTS, **recorded, "gpus": whole.get("gpus") or [], "workload": whole.get("workload")}
        topology.remember(context, want["gpus"])
        there = {key: value for key, value in (read(context, name, want) or {}).items() if key != "active"}
        if there == {key: want[key] for key in there} and context.write(
            f"{systemd.UNITS}/{unit(name)}", render(context, name, want)
        ):
            done.append(name)
    if done:
        context.act(["systemctl", "daemon-reload"], timeout=120)
    return [
        {"path": f"allocations.{name}.unit", "old": "as an earlier version wrote it", "new": "as this one does"}
        for name in done
    ]


def read(context: Context, allocation: str, recorded: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """UnitState as systemd holds it, of the UnitState that is recorded; None when there is no such unit.

    Where systemd holds exactly our file and nothing else, the recorded values are what it holds; otherwise it is
    asked for every value, and rendered back.
    """
    shown = systemd.show(context, unit(allocation))
    if shown.get("LoadState") in (None, "", "not-found"):
        return None
    was: Dict[str, Any] = {**_DEFAULTS, "user": "", **{key: value for key, value in recorded.items() if key in _FIELDS}}
    gpus = list(recorded.get("gpus", context.ledger.get("allocations", allocation, "gpus") or ()))
    active = {"active": shown.get("ActiveState") in ("active", "activating", "reloading"),
              "links": topology.told(context, allocation, gpus, was["links"])}  # fmt: skip
    untouched = shown["NeedDaemonReload"] != "yes" and not shown["DropInPaths"] and shown["LoadState"] == "loaded"
    if was["user"] and untouched:
        text = context.read(f"{systemd.UNITS}/{unit(allocation)}")
        if text == render(context, allocation, {**was, "gpus": gpus}).strip():
            return {**was, **active}
    return {**was, **_rendered_back(context, allocation, was, gpus, bool(active["active"])), **active}


def _rendered_back(
    context: Context, allocation: str, was: Dict[str, Any], gpus: List[device.Plain], runs: bool
) -> Dict[str, Any]:
    truth = systemd.exactly(context, unit(allocation))
    argv = list(truth["ExecStart"][0][1]) if truth.get("ExecStart") else []
    own, before = topology.own(context, allocation, gpus, was["links"]), topology.earlier(gpus)
    seen = dict(pair.split("=", 1) for pair in truth.get("Environment", []))
    # What does not run may have given its GPUs and directories back; its own variables are made anew at a start.
    found = {
        name for name in seen if name in topology.FOUND or (not runs and (name in own or name.startswith(environment.OURS)))
    }
    same = found | {name for name, value in seen.items() if topology.same(name, value, own) or value == before.get(name)}
    env = {name: value for name, value in seen.items() if name in was["env"] or name not in same}
    if argv[:2] == _EARLIER[:2]:
        env.update({name: value for name, value in was["env"].items() if value.startswith("secret:")})
    env.update(launch.read(truth.get("SetCredential")))
    words = _words_of(argv)
    command = was["command"] if words == argv_of(was["command"]) else shlex.join(words)
    signal = signal_module.Signals(int(truth["KillSignal"])).name[3:]
    again = truth.get("Restart") == "on-failure"
    grace = int(truth["TimeoutStopUSec"] // 1_000_000)
    return {"user": truth.get("User") or "root", "command": command, "env": env, "stop_signal": signal, "grace_s": grace,
            "time_limit_s": lives.time_limit(int(truth.get("RuntimeMaxUSec", 1 << 63)), grace),
            "restart": was["restart"] if was["gang"] and not again else again}  # fmt: skip


def _words_of(argv: List[str]) -> List[str]:
    """The user's words of a whole argv."""
    if argv[:2] == _EARLIER[:2] and argv[3 : len(_EARLIER)] == _EARLIER[3:]:
        return argv[len(_EARLIER) :]
    for before in (HOLDER, [*launch.PREFIX, *_ENV], _ENV):
        if argv[: len(before)] == before:
            return argv[len(before) :]
    return argv


def stop(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Ask it to end; systemd kills it after its grace. Afterwards nothing of the service runs.

    Pending while it still runs after POLL_S: a long grace period must delay only who waits for it. `want` may say in
    `waited` for how long it has been asked already. [s]
    """
    shown = systemd.show(context, unit(allocation))
    if shown.get("LoadState") in (None, "", "not-found") or shown.get("ActiveState") == "inactive":
        return []
    grace = int((context.ledger.get("allocations", allocation, "unit") or want).get("grace_s", 30))
    begin_stop(context, allocation)
    deadline = time.monotonic() + POLL_S
    while not context.check and systemd.show(context, unit(allocation)).get("ActiveState") not in ("inactive", "failed"):
        if time.monotonic() > deadline:
            waited = float(want.get("waited") or 0) + POLL_S
            if waited > grace + 60:
                raise NodeError(f"{unit(allocation)} does not end, although its grace of {grace} s is over and it was killed")
            raise Pending(f"still stopping, {waited:.0f} s of at most {grace} s")
        time.sleep(0.1)
    context.act(["systemctl", "reset-failed", unit(allocation)], ok=(0, 1))
    slices.empty(context, slices.cgroup(allocation) + "/" + unit(allocation))
    return [{"path": f"allocations.{allocation}.unit.active", "old": True, "new": False}]


def begin_stop(context: Context, allocation: str) -> None:
    """Send its stop signal and do not wait. Again is no second signal."""
    context.act(["systemctl", "stop", "--no-block", unit(allocation)], ok=(0, 5))


#: So that the grace periods of all run at the same time.
before_release = begin_stop


def release(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Stop it and remove its unit."""
    there = stop(context, allocation, dict(recorded.get("unit") or {}, waited=recorded.get("waited")))
    lives.release(context, allocation)
    if systemd.drop_file(context, unit(allocation)) or there:
        # Its slice goes next and reloads systemd for both; a reload takes seconds where much is loaded.
        if not os.path.exists(context.path(f"{systemd.UNITS}/{slices.unit(allocation)}")):
            context.act(["systemctl", "daemon-reload"], timeout=120)
        return [{"path": f"allocations.{allocation}.unit", "old": recorded.get("unit"), "new": None}]
    return []


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """What is written of ends goes."""
    lives.restore(context)
    return []


def health_of(context: Context, allocation: str, recorded: Dict[str, Any]) -> str:
    """healthy | starting | stopping | stopped | failed | done | waiting, asked once, of a UnitState."""
    shown = systemd.show(context, unit(allocation))
    state = shown.get("ActiveState")
    if state == "failed":
        return "stopped" if lives.asked(context, allocation, shown, recorded) else "failed"
    if state in ("activating", "reloading"):  # between two attempts too
        return "starting"
    if state == "deactivating":
        return "stopping"
    if state != "active":
        return lives.end(context, allocation) or ("waiting" if lives.waits(context, allocation) else "stopped")
    if recorded.get("command") and not settled(shown):
        return "starting"
    return "healthy" if probe(context, allocation, recorded) == "" else "starting"


def settled(shown: Dict[str, str]) -> bool:
    """Has it been active for SETTLED_S?"""
    return _age(shown) >= SETTLED_S


def _age(shown: Dict[str, str]) -> float:
    """For how long it has been active, as its time limit counts. [s]"""
    since = int(shown.get("ActiveEnterTimestampMonotonic") or 0)  # [µs]
    return time.clock_gettime(time.CLOCK_MONOTONIC) - since / 1e6


def started(context: Context, allocation: str) -> Optional[int]:
    """When this run of it began; None when it does not run. [s since 1970]"""
    shown = systemd.show(context, unit(allocation))
    runs = shown.get("ActiveState") in ("active", "deactivating") and shown.get("ActiveEnterTimestampMonotonic")
    return round(time.time() - _age(shown)) if runs else None


def probe(context: Context, allocation: str, want: Dict[str, Any], timeout: float = 3, most: float = 23) -> str:
    """Ask it once whether it is well: "" when it is, else why not. `timeout` is for a path, `most` for a command. [s]"""
    healthy, port = str(want.get("healthy") or ""), want.get("port")
    if not healthy:
        return ""
    if healthy.startswith("/") and port:
        try:
            answer = probes.status(int(port), healthy, min(timeout, most))
        except (OSError, ValueError) as error:
            return f"{healthy} on port {port}: {error}"
        return "" if answer < 400 else f"{healthy} answers {answer}"
    argv = ["systemd-run", "--quiet", "--wait", "--collect", f"--slice={slices.unit(allocation)}", f"--uid={want['user']}",
            "-p", "NoNewPrivileges=yes", "-p", f"PrivateUsers={_OWN_USERS}", "-p", f"RuntimeMaxSec={int(timeout) + 7}", "--"]  # fmt: skip
    try:
        context.run([*argv, *_ENV, *(word.replace("$", "$$") for word in argv_of(healthy))], timeout=most)
    except NodeError as error:
        return f"{healthy!r} says no: {error}"
    return ""


def health(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """It is well. NodeError when it is not after HEALTHY_S, saying what it said last, and its journal.

    Pending while it may still become so; `want` may say in `waited` for how long it has been asked already. [s]
    """
    if context.check:
        return []
    before = float(want.get("waited") or 0)
    began = time.monotonic()
    problem = ""
    while True:
        state = health_of(context, allocation, {**want, "healthy": ""})
        if state in ("failed", "stopped"):
            raise NodeError(f"{unit(allocation)} {state}\n{systemd.journal(context, unit(allocation))}".strip())
        between = f"still {state}" if state in ("starting", "stopping") else ""
        problem = "" if state == "done" else between or probe(context, allocation, want)
        if not problem:
            return []
        waited = before + time.monotonic() - began
        if waited < HEALTHY_S and waited - before > POLL_S:
            raise Pending(f"not healthy yet, {waited:.0f} s of at most {HEALTHY_S} s: {problem}")
        if waited > HEALTHY_S:
            raise NodeError(
                f"{unit(allocation)} is not healthy: {problem}\n{systemd.journal(context, unit(allocation))}".strip()
            )
        time.sleep(0.5)


def _start(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    whole = holdings.of(context, allocation, want)
    environment.check_new(whole["unit"], context.ledger.get("allocations", allocation, "unit"))
    holdings.claim(context, allocation, whole)
    told = {"gpus": list(whole.get("gpus") or ()), "workload": whole.get("workload"), "waited": want.get("waited")}
    changes = apply(context, allocation, dict(whole["unit"], **told))
    context.ledger.record("allocations", allocation, "unit", value=dict(whole["unit"]))
    context.ledger.record("allocations", allocation, "workload", value=whole.get("workload"))
    return changes


def _stop(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    recorded = holdings.of(context, allocation, want).get("unit") or {}
    changes = stop(context, allocation, dict(recorded, waited=want.get("waited")))
    if context.ledger.get("allocations", allocation, "unit") is not None:
        context.ledger.record("allocations", allocation, "unit", "active", value=False)
    return changes


def _health(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    unit_state = holdings.of(context, allocation, want).get("unit") or {}
    return health(context, allocation, dict(unit_state, waited=want.get("waited")))


STEPS = {"start": _start, "stop": _stop, "health": _health}


def boot(context: Context, allocation: str, recorded: Dict[str, Any]) -> None:
    """Start what ran here, unless it came to its end or only a run can tell whether it goes on elsewhere."""
    was = recorded["unit"]
    if not was.get("active") or lives.end(context, allocation):
        return
    if was.get("on_boot") == "wait":
        # Given up as lost, this machine may come back when the job has long been running elsewhere.
        lives.wait(context, allocation)
    else:
        apply(context, allocation, dict(was, gpus=recorded.get("gpus") or [], workload=recorded.get("workload")))


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{unit}; empty when there is no such unit any more."""
    found = read(context, allocation, recorded["unit"]) if recorded["unit"] else None
    return {"unit": found} if found else {}
