"""Which commands look at machines? status, ps, logs, shell, assert, history, discover."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from swarm_iac.cli.commands.apply import Positional, Stack
from swarm_iac.cli.machines import discover as machines
from swarm_iac.cli.machines import fleet_status, fleet_view
from swarm_iac.cli.machines import shell as shells
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.errors import SwarmError

Offline = Annotated[
    bool, typer.Option("--offline", envvar="SWARM_OFFLINE", help="Ask no machine: take each as the lock file leaves it.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document for machines.")]


def status(named: Positional = "", stack: Stack = "dev", json: Json = False, offline: Offline = False) -> None:
    """The fleet at a glance: each node, whether it answers, its GPUs, settings and load. Exits 4 when a node is dark."""
    view = fleet_view.look(named or stack, quiet=json, planned=False, offline=offline)
    if json:
        show_json(fleet_status.nodes_json(view))
    else:
        show(table(f"fleet {view.decision.stack.fleet}", fleet_status.NODE_HEADS, fleet_status.node_rows(view)))
    _say_offline(view)
    if any(seen.error for seen in view.observed.values()):
        raise SystemExit(4)


def ps(
    named: Positional = "",
    stack: Stack = "dev",
    json: Json = False,
    user: Annotated[str, typer.Option("--user", "-u", help="Only this user's.")] = "",
    node: Annotated[str, typer.Option("--node", "-n", help="Only what stands on this node.")] = "",
    pending: Annotated[
        bool, typer.Option("--pending", help="Only what found no place, or no room to grow; asks no machine.")
    ] = False,
    offline: Offline = False,
) -> None:
    """The workloads: where each replica is, what it holds, and how it is.

    Examples: swarm ps --user ada; swarm ps --node gpu-03; swarm ps --pending
    """
    view = fleet_status.shown(named or stack, fleet_status.Wanted(user, node, pending), quiet=json, offline=offline)
    if json:
        show_json(fleet_status.allocations_json(view))
    else:
        show(table("workloads", fleet_status.ALLOCATION_HEADS, fleet_status.allocation_rows(view)))
    if not pending:
        _say_offline(view)
        dark = [name for name, seen in view.observed.items() if seen.error]
        if dark:
            more = f" and {len(dark) - 3} more" if len(dark) > 3 else ""
            say(f"{', '.join(dark[:3])}{more} did not answer; see: swarm status, or ask no machine: swarm ps --offline")


def _say_offline(view: fleet_view.FleetView) -> None:
    if view.blank:
        say("no machine was asked; nothing was ever applied here, so this is what is decided, and not what runs")
    elif view.offline:
        say(f"no machine was asked; taken from {view.offline}")


def assert_(named: Positional = "", stack: Stack = "dev", json: Json = False) -> None:
    """Exit 0 only when every node is as desired; name each difference otherwise. Changes nothing."""
    view = fleet_view.look(named or stack, quiet=json)
    differences = fleet_status.differences(view)
    for line in fleet_status.waiting(view):
        say(line)
    if json:
        show_json([{"node": node, "what": what} for node, what in differences])
    elif differences:
        show(table(f"{len(differences)} difference{'s'[: len(differences) != 1]}", ("node", "difference"), differences))
    else:
        say(f"{len(view.observed)} nodes are as desired")
    if differences:
        raise SystemExit(1)


def logs(
    allocation: Annotated[str, typer.Argument(help="A workload, or one replica of it: chat, chat-0.")],
    stack: Stack = "dev",
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as new lines come.")] = False,
) -> None:
    """What a workload printed, from its node's journal.

    Example: swarm logs chat-0 --follow
    """
    chosen = shells.find(stack, allocation)
    more = ["--follow"] if follow else []
    command = ["journalctl", "--no-pager", "--output=short-iso", f"--lines={lines}", f"--unit={chosen.unit}", *more]
    raise SystemExit(shells.on_node(chosen, command, words=True))


def shell(
    allocation: Annotated[str, typer.Argument(help="A workload, or one replica of it.")],
    stack: Stack = "dev",
    command: Annotated[list[str] | None, typer.Argument(help="A command in place of a shell; put -- before it.")] = None,
) -> None:
    """Enter an allocation: its user, its slice, its GPUs and no others.

    Example: swarm shell notebook-0; swarm shell notebook-0 -- nvidia-smi
    """
    chosen = shells.find(stack, allocation)
    raise SystemExit(shells.on_node(chosen, shells.inside(chosen, command or []), terminal=not command and os.isatty(0)))


def discover(
    addresses: Annotated[list[str], typer.Argument(help="NAME=user@host[:port], user@host, or local.")],
) -> None:
    """Write the hardware part of a stack file from the machines themselves. Reads only.

    Example: swarm discover gpu-01=root@10.0.0.1 local
    """
    text, failures = machines.found(addresses)
    typer.echo(text, nl=False)
    for name, error in failures.items():
        say(f"{name}: {error}")
    if failures:
        raise SwarmError(f"{len(failures)} of {len(addresses)} machines did not answer")


def history(
    named: Positional = "",
    stack: Stack = "dev",
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many runs, newest first.")] = 20,
    json: Json = False,
) -> None:
    """Who changed what, when, and from which commit, as the nodes themselves remember it. Exits 4 when a node is dark.

    Example: swarm history -n 5
    """
    runs, dark = fleet_status.history(named or stack)
    if json:
        show_json([{**vars(run), "nodes": run.nodes} for run in runs[:lines]])
    else:
        show(table("history", fleet_status.HISTORY_HEADS, fleet_status.history_rows(runs[:lines])))
    for node, why in sorted(dark.items()):
        say(f"{node}: {why}")
    if dark:
        raise SystemExit(4)


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (status, ps, logs, shell, history, discover):
        app.command()(command)
    app.command("assert")(assert_)
