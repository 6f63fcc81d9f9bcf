"""Which command is about what was used over time, and what it cost? usage."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarm_iac.accounting.retention import FEWEST, KEPT
from swarm_iac.accounting.summary import By
from swarm_iac.cli.commands.apply import Positional, Stack
from swarm_iac.cli.commands.inspection import Json
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable

if TYPE_CHECKING:
    from swarm_iac.accounting.idle import Thresholds
    from swarm_iac.accounting.in_force import InForce, Spans
    from swarm_iac.cli.usage.kept_waiting import KeptWaiting
    from swarm_iac.cli.usage.usage_report import UsageTable

    #: For programs, for spreadsheets, for people.
    _Shown = tuple[dict[str, Any], str, UsageTable]

_SHOWN = 3


def usage(
    named: Positional = "",
    stack: Stack = "dev",
    since: Annotated[str, typer.Option("--since", help="Begin: 30d, 12h, 2026-11-01 or 2026-11-01T08:00Z (UTC).")] = "30d",
    until: Annotated[str, typer.Option("--until", help="End, written the same way; without it, now.")] = "",
    by: Annotated[By, typer.Option("--by", help="What each row is about.")] = "team",
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV, for a spreadsheet.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As Markdown, for an issue or a report.")] = False,
    idle: Annotated[
        bool, typer.Option("--idle", help="Only reservations whose GPUs, memory bandwidth and CPUs were all idle on average.")
    ] = False,
    below_sm: Annotated[
        float, typer.Option("--below-sm", min=0, max=100, help="With --idle: SM activity is low below so many per cent.")
    ] = 5,
    below_bandwidth: Annotated[
        float, typer.Option("--below-bandwidth", min=0, max=100, help="With --idle: memory bandwidth, in per cent.")
    ] = 5,
    below_cpus: Annotated[
        float, typer.Option("--below-cpus", min=0, max=65536, help="With --idle: CPUs that an allocation uses.")
    ] = 0.2,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            min=0,
            max=86400,
            help="With --idle: so long is tried, by solving, what they kept waiting; 0: not at all.",
        ),
    ] = 30,
    past_use: Annotated[
        bool, typer.Option("--past-use", help="What teams used, older hours counting less, as `past_use` of a stack file.")
    ] = False,
    half_life: Annotated[
        str, typer.Option("--half-life", help="With --past-use: an hour counts half as much as one that is so much later.")
    ] = "7 d",
    record: Annotated[
        bool, typer.Option("--record", help="Ask all nodes once and add that to the store; run by a timer.")
    ] = False,
    gap: Annotated[
        int,
        typer.Option("--gap", min=1, max=1440, help="With --record: minutes between two passes beyond which time is unknown."),
    ] = 15,
    after_gap: Annotated[
        bool, typer.Option("--after-gap", help="With --record: the last pass really was more than a month ago.")
    ] = False,
    keep_hours: Annotated[
        int,
        typer.Option("--keep-hours", min=FEWEST, help="With --record: days whose single hours are kept; sums of days stay."),
    ] = KEPT,
    store: Annotated[
        Path | None, typer.Option("--store", help="The store, in place of .state/usage.db of the fleet repository.")
    ] = None,
) -> None:
    """GPU-hours used, reserved and idle, unallocated, out of service and unknown, and their cost. They add up to the capacity.

    A timer runs --record every few minutes; needs `telemetry` in the stack file. Costs are by `prices` of the commit in force
    at the time. docs/usage.md says how each hour is counted.

    Examples: swarm usage --record; swarm usage --since 7d --by user;
    swarm usage prod --since 2026-11-01 --until 2026-12-01 --csv; swarm usage --idle --below-sm 2;
    swarm usage --idle --since 7d --seconds 600;
    swarm usage --past-use --half-life 14d
    """
    if json + csv + markdown > 1:
        raise typer.BadParameter("one of --json, --csv and --markdown, not several")
    if record and (csv or markdown or idle):
        raise typer.BadParameter("--record shows nothing; run swarm usage again without it")
    name = named or stack
    if past_use:
        if record or csv or markdown or idle:
            raise typer.BadParameter("--past-use is for the stack file; it goes with --half-life, --store and --json alone")
        _past_use(name, store, json, half_life)
        return
    if record:
        _record(name, store, json, gap * 60, after_gap, keep_hours)
        return
    from swarm_iac.accounting import idle as idleness

    below = idleness.Thresholds(round(below_sm * 10), round(below_bandwidth * 10), round(below_cpus * 1000))
    shown = _idle(name, store, since, until, below, seconds, quiet=json) if idle else _summed(name, store, since, until, by)
    document, lines, report = shown
    if json:
        show_json(document)
    elif csv:
        typer.echo(lines, nl=False)
    elif markdown:
        from swarm_iac.cli.usage.usage_report import markdown as as_markdown

        typer.echo(as_markdown(report), nl=False)
    else:
        show(table(report.title, report.heads, report.rows))
        for note in report.notes:
            say(note)


def _summed(name: str, store: Path | None, since: str, until: str, by: By) -> _Shown:
    from swarm_iac.accounting import schema
    from swarm_iac.accounting.summary import summary
    from swarm_iac.accounting.window import window
    from swarm_iac.cli.usage import usage_passes, usage_report

    path, stack = usage_passes.place(name, store)
    asked = window(since, until, int(time.time()))
    with schema.opened(path) as opened:
        found = summary(opened, stack, asked, by)
    table = usage_report.usage_table(found, asked, stack)
    return usage_report.usage_json(found, asked, stack), usage_report.usage_csv(found), table


def _idle(name: str, store: Path | None, since: str, until: str, below: Thresholds, budget: float, *, quiet: bool) -> _Shown:
    from swarm_iac.accounting import idle, in_force, schema
    from swarm_iac.accounting.summary import recorded
    from swarm_iac.accounting.window import window
    from swarm_iac.cli.usage import idle_report, usage_passes

    path, stack = usage_passes.place(name, store)
    asked = window(since, until, int(time.time()))
    with schema.opened(path) as opened:
        recorded(opened, stack)
        found = idle.idle(opened, stack, asked, below)
        periods = in_force.in_force(opened, stack, asked)
        spans = in_force.held(opened, stack, asked, [one.allocation for one in found])
    waited = _kept_waiting(name, periods, spans, budget, quiet=quiet) if budget and found else None
    table = idle_report.idle_table(found, asked, stack, below, waited)
    return idle_report.idle_json(found, asked, stack, below, waited), idle_report.idle_csv(found, waited), table


def _kept_waiting(
    name: str, periods: Sequence[InForce], spans: Mapping[str, Spans], budget: float, *, quiet: bool
) -> KeptWaiting | None:
    """None where the stack file is in no repository of git."""
    from swarm_iac import git
    from swarm_iac.cli.decisions import deciding
    from swarm_iac.cli.terminal import progress
    from swarm_iac.cli.usage import kept_waiting

    (file,) = deciding.files([name])
    if not file.absolute().parent.is_dir() or not git.named(file.absolute().parent, "HEAD"):
        return None
    return progress.followed(lambda progress: kept_waiting.kept_waiting(file, periods, spans, progress, budget), quiet=quiet)


def _past_use(name: str, store: Path | None, json: bool, half_life: str) -> None:
    """The section, for a pull request: what teams are due changes by a commit and never by itself."""
    import datetime

    from swarm_iac.accounting import schema
    from swarm_iac.accounting.past_use import past_use
    from swarm_iac.cli.decisions import deciding
    from swarm_iac.cli.usage import usage_passes
    from swarm_iac.model.gpus.past_use import life
    from swarm_iac.stackfile import load

    (file,) = deciding.files([name])
    stack = load(file, today=datetime.date.today()).stack
    path, stack_name = usage_passes.place(name, store)
    today = datetime.datetime.fromtimestamp(time.time(), datetime.UTC).date()
    with schema.opened(path) as opened:
        found = past_use(opened, stack_name, {team: stack.line_of(team) for team in stack.teams}, life(half_life), today)
    if json:
        show_json({"past_use": found.model_dump(mode="json")})
        return
    typer.echo("past_use:")
    typer.echo(f"  until: {found.until}")
    typer.echo(f"  half_life: {found.half_life}")
    typer.echo(f"  gpu_hours: {{{', '.join(f'{team}: {hours}' for team, hours in found.gpu_hours.items())}}}")


def _record(name: str, store: Path | None, json: bool, longest: int, after_gap: bool, keep: int) -> None:
    from swarm_iac.cli.usage import usage_passes

    done = usage_passes.record(name, store, say, longest=longest, after_gap=after_gap, keep=keep)
    if json:
        show_json(done.document())
        return
    if not done.new:
        say("this second was recorded before")
        return
    say(f"recorded {pluralize(len(done.nodes), 'node')}")
    silent = sorted(done.silent.items())
    for node, reason in silent[:_SHOWN]:
        say(f"{node} is unknown: {printable(reason, 200)}")
    if len(silent) > _SHOWN:
        say(f"and {len(silent) - _SHOWN} more")


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(usage)
