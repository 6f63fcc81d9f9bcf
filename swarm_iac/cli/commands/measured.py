"""Which commands are about what nodes measure between two runs? metrics, top."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from swarm_iac.cli import engine
from swarm_iac.cli.commands.apply import Positional, Stack
from swarm_iac.cli.commands.inspection import Json
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.machines import in_use, scrape_targets
from swarm_iac.cli.terminal import screen
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.cli.terminal.tables import Grid
from swarm_iac.errors import SwarmError
from swarm_iac.model.stack import Stack as StackValue
from swarm_iac.pluralize import pluralize
from swarm_iac.stackfile.locks.atomic_write import write_whole

#: Nodes sample so often; asking more often shows the same. [s]
_LEAST_S = 5.0


def metrics(
    named: Positional = "",
    stack: Stack = "dev",
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write, in place of monitoring/targets/STACK.json.")
    ] = None,
    textfile: Annotated[
        Path | None,
        typer.Option("--textfile", help="Write drift, unreachable nodes and the lock's state there instead; asks all nodes."),
    ] = None,
) -> None:
    """Write where Prometheus finds the exporters of a stack, for its file-based service discovery.

    --textfile writes what no exporter can know, for the textfile collector of a node exporter beside Prometheus: run it by a
    timer. It changes no machine, and writes nothing while the fleet is being changed.

    Examples: swarm metrics; swarm metrics --json; swarm metrics --textfile /var/lib/prometheus/node-exporter/swarm-dev.prom
    """
    name = named or stack
    if textfile is not None:
        from swarm_iac.cli.nightly import report_file

        write_whole(textfile, report_file.report(engine.repository(), deciding.inside(name), say))
        say(f"wrote {textfile}")
        return
    loaded = _loaded(name)
    found = scrape_targets.targets(loaded, Path(name).stem, deciding.asleep(name))
    if loaded.telemetry and not loaded.telemetry.scrapers:
        say("`telemetry.scrapers` is empty: each node answers itself alone, and no Prometheus elsewhere")
    if json:
        show_json(found)
        return
    path = out or scrape_targets.file(engine.repository(), deciding.inside(name))
    written = write_whole(path, scrape_targets.text(found))
    say(f"{'wrote' if written else 'unchanged:'} {path}: {pluralize(len(found), 'exporter')}")


def top(
    named: Positional = "",
    stack: Stack = "dev",
    json: Json = False,
    once: Annotated[bool, typer.Option("--once", help="Print it once instead of following it.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=_LEAST_S, max=3600, help="Seconds between two readings.")
    ] = _LEAST_S,
) -> None:
    """What is used at this moment: per node, team and workload. Read over ssh; needs `telemetry` in the stack file.

    A node that does not answer is shown as dark. With --once or --json, exits 4 if one is.

    Examples: swarm top; swarm top --once; swarm top prod --json
    """
    loaded = _loaded(named or stack)
    if loaded.telemetry is None:
        raise SwarmError(
            f"nothing is measured in {named or stack}", hint="add `telemetry: {}` to the stack file; see docs/telemetry.md"
        )
    read = _reader(loaded, named or stack)
    if json or once or not screen.interactive():
        found = read()
        if json:
            show_json(found.document())
        else:
            show(*_tables(found))
        if found.dark:
            raise SystemExit(4)
        return
    _follow(read, loaded.fleet, interval)


def _loaded(name: str) -> StackValue:
    from swarm_iac.stackfile import load

    (path,) = deciding.files([name])
    return load(path, today=datetime.date.today()).stack


def _reader(stack: StackValue, name: str) -> Callable[[], in_use.FleetUsage]:
    from swarm_iac.observe import measurements

    found = deciding.home(name)
    run = engine.options(found[0] if found else Path(name).parent)
    off = deciding.asleep(name)
    targets = {node: one.ssh for node, one in stack.nodes.items() if one.state != "lost" and node not in off}
    return lambda: in_use.in_use(measurements(targets, ssh_config=run.ssh_config, timeout=run.node_timeout).values())


def _tables(found: in_use.FleetUsage) -> tuple[Grid, ...]:
    nodes = table("nodes", in_use.NODE_HEADS, in_use.node_rows(found))
    teams = table("teams", in_use.TEAM_HEADS, in_use.team_rows(found))
    workloads = table("workloads", in_use.WORKLOAD_HEADS, in_use.workload_rows(found))
    return (nodes, teams, workloads) if found.teams else (nodes,)


def _follow(read: Callable[[], in_use.FleetUsage], fleet: str, interval: float) -> None:
    """Until Ctrl-C. What is read is drawn whole, so nothing of an old reading stays."""
    from rich.live import Live

    with Live(screen=True, auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            found = read()
            title = f"fleet {fleet}, {datetime.datetime.now():%H:%M:%S}, every {interval:g} s; Ctrl-C ends"
            live.update(Group(title, *_tables(found)), refresh=True)
            time.sleep(max(0.0, interval - (time.monotonic() - began)))


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(metrics)
    app.command()(top)
