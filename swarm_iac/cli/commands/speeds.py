"""Which command suggests a speed that was measured? speed."""

from __future__ import annotations

import datetime
import difflib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarm_iac.cli.commands.apply import Positional, Stack
from swarm_iac.cli.commands.inspection import Json
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.errors import Refused, SwarmError

if TYPE_CHECKING:
    from swarm_iac.autopilot.speeds import MeasuredSpeed

#: So long back, at most: each series has a moment every five minutes. [h]
_LONGEST = 31 * 24


def speed(
    named: Positional = "",
    stack: Stack = "dev",
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="URL", help="A Prometheus, as http://HOST:9090.", envvar="SWARM_METRICS")
    ] = "",
    since: Annotated[str, typer.Option("--since", help="Begin: 7d, 12h, 2026-11-01 or 2026-11-01T08:00Z (UTC).")] = "7d",
    busy: Annotated[
        float, typer.Option("--busy", min=1, max=100, help="Count moments at which all GPUs of a replica were so busy [%].")
    ] = 80,
    differs: Annotated[
        float,
        typer.Option("--differs", min=0, max=1000, help="Suggest what differs by more than that from what is declared [%]."),
    ] = 10,
    json: Json = False,
    write: Annotated[bool, typer.Option("--write", help="Edit `speed:` in the stack file, and show the diff.")] = False,
    pull_request: Annotated[
        bool, typer.Option("--pull-request", help="Open a pull request with it, or renew the one that is open.")
    ] = False,
    base: Annotated[
        str, typer.Option("--base", help="With --pull-request: the branch that it is for. Default: the repository's own.")
    ] = "",
    remote: Annotated[str, typer.Option("--remote", help="With --pull-request: the remote of this clone.")] = "origin",
) -> None:
    """Compare the declared `speed` of workloads with `needs` with what their replicas did while their GPUs were busy.

    Reads `swarm:work:rate` (yours to record, per allocation, in the unit of `needs`) and `swarm:holder_gpu_active:ratio`. What
    differs is suggested, and nothing more: --write edits the file for a pull request of yours, --pull-request opens one with
    the stack file and its lock, by the token in SWARM_FORGE_TOKEN. It merges nothing. Exits 0. See docs/telemetry.md.

    Examples: swarm speed prod --metrics http://prometheus:9090; swarm speed prod --since 30d --write && git diff;
    swarm speed prod --pull-request
    """
    from swarm_iac.accounting.window import window
    from swarm_iac.autopilot import reading
    from swarm_iac.autopilot import speeds as measuring
    from swarm_iac.cli.usage import speed_report
    from swarm_iac.stackfile import load, nearest_policy

    if write and pull_request:
        raise typer.BadParameter("--write for a pull request of your own, or --pull-request, not both")
    if not metrics:
        raise SwarmError("nothing says where speeds were measured", hint="name a Prometheus: --metrics http://HOST:9090")
    now = int(time.time())
    asked = window(since, "", now)
    if asked.until - asked.since > _LONGEST:
        raise SwarmError(f"--since {since[:40]} is more than 31 days ago", hint="name a later --since")
    (path,) = deciding.files([named or stack])
    today, policies = datetime.date.today(), nearest_policy(path)
    fleet = load(path, today=today, policies=policies).stack
    begin, end = asked.since * 3600, min(now, asked.until * 3600)
    limits = measuring.BusyThresholds(busy / 100, differs / 100)
    found = measuring.speeds(fleet, measuring.of_prometheus(reading.address(metrics), begin, end), limits)
    if json:
        show_json(speed_report.as_json(found, begin, end))
    elif found:
        show(table(f"speeds of {fleet.fleet}", speed_report.HEADS, speed_report.rows(found)))
    else:
        say("no workload has `needs` and `speed`")
    wanted = speed_report.suggested(found)
    if (write or pull_request) and not wanted:
        say("nothing to suggest: no file was changed, and no pull request was opened")
    elif write:
        _write(path, found)
    elif pull_request:
        text = speed_report.body(found, begin, end, limits.busy)
        _propose(named or stack, found, remote, base, text)


def _write(path: Path, found: tuple[MeasuredSpeed, ...]) -> None:
    from swarm_iac.cli.usage import speed_report
    from swarm_iac.stackfile import nearest_policy
    from swarm_iac.stackfile.editing.speeds import set_speeds
    from swarm_iac.stackfile.locks.atomic_write import write_whole
    from swarm_iac.stackfile.reading.text import read

    old = read(path, str(path))
    new = set_speeds(old, str(path), speed_report.suggested(found), datetime.date.today(), nearest_policy(path))
    before, after = (text.decode().splitlines() for text in (old, new))
    typer.echo("\n".join(difflib.unified_diff(before, after, str(path), str(path), lineterm="")))
    write_whole(path, new.decode())
    say("`swarm plan` shows what this changes; `swarm solve`, and commit the stack file with its lock")


def _propose(name: str, found: tuple[MeasuredSpeed, ...], remote: str, base: str, text: str) -> None:
    from swarm_iac.cli import engine
    from swarm_iac.cli.merging import proposing
    from swarm_iac.cli.terminal import progress
    from swarm_iac.cli.usage import speed_report
    from swarm_iac.forge import opened
    from swarm_iac.stackfile import nearest_policy
    from swarm_iac.stackfile.editing.speeds import set_speeds

    root, stack = engine.repository(), deciding.inside(name)
    forge, branch, today = opened(os.environ), f"swarm/speed-{stack}", datetime.date.today()
    title, base = speed_report.title(stack), base or forge.default_branch()

    def edited(raw: bytes, file: Path) -> bytes:
        return set_speeds(raw, f"stacks/{stack}.yaml", speed_report.suggested(found), today, nearest_policy(file))

    new = progress.followed(
        lambda progress: proposing.pushed(root, remote, base, branch, stack, edited, title, today, progress)
    )
    pull = forge.propose(branch, base, title, text)
    if pull.author != forge.me():
        hint = "close it and run this again: rights and approvals would be judged as theirs"
        raise Refused(f"pull request {pull.number} of the branch {branch} was opened by {pull.author}", hint=hint)
    say(f"pull request {pull.number}: {'pushed' if new else 'as it was'}, from {branch} into {base}")


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(speed)
