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
from swarm_iac.pluralize import pluralize

Offline = Annotated[
    bool, typer.Option("--offline", envvar="SWARM_OFFLINE", help="Ask no machine: assume that each is as the lock file says.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def status(named: Positional = "", stack: Stack = "dev", json: Json = False, offline: Offline = False) -> None:
    """The fleet at a glance: each node, whether it answers, its GPUs, settings and load. Exits 4 if one is unreachable.

    A node that the autopilot powered off is asleep, and not unreachable. With `telemetry` in the stack file, the power that the
    GPUs of each node draw is shown beside what they may.
    """
    view = fleet_view.read(named or stack, quiet=json, planned=False, offline=offline)
    drawn = fleet_status.power_drawn(view)
    if json:
        show_json(fleet_status.nodes_json(view, drawn))
    else:
        show(fleet_status.node_table(view, drawn))
    _say_offline(view)
    for node, words in view.decision.layer.failed.items():
        say(f"{node} {words}")
    if any(seen.error and not seen.asleep for seen in view.observed.values()):
        raise SystemExit(4)


def ps(
    named: Positional = "",
    stack: Stack = "dev",
    json: Json = False,
    user: Annotated[str, typer.Option("--user", "-u", help="Only this user's.")] = "",
    node: Annotated[str, typer.Option("--node", "-n", help="Only what is on this node.")] = "",
    pending: Annotated[bool, typer.Option("--pending", help="Only what is pending or cannot grow; asks no machine.")] = False,
    offline: Offline = False,
) -> None:
    """Workloads: where each replica runs, what it holds, and its health.

    Examples: swarm ps --user ada; swarm ps --node gpu-03; swarm ps --pending
    """
    view = fleet_status.shown(named or stack, fleet_status.Wanted(user, node, pending), quiet=json, offline=offline)
    if json:
        show_json(fleet_status.allocations_json(view))
    else:
        show(table("workloads", fleet_status.ALLOCATION_HEADS, fleet_status.allocation_rows(view)))
    if not pending:
        _say_offline(view)
        silent = [name for name, seen in view.observed.items() if seen.error and not seen.asleep]
        if silent:
            more = f" and {len(silent) - 3} more" if len(silent) > 3 else ""
            say(f"{', '.join(silent[:3])}{more} did not answer; see: swarm status, or ask no machine: swarm ps --offline")


def _say_offline(view: fleet_view.FleetView) -> None:
    if view.blank:
        say("no machine was asked; nothing has been applied here yet, so this is the decision, not what is running")
    elif view.offline:
        say(f"no machine was asked; taken from {view.offline}")


def assert_(named: Positional = "", stack: Stack = "dev", json: Json = False) -> None:
    """Exit 0 only if every node is in its desired state; otherwise list each difference. Changes nothing."""
    view = fleet_view.read(named or stack, quiet=json)
    differences = fleet_status.differences(view)
    for line in fleet_status.waiting(view):
        say(line)
    if json:
        show_json([{"node": node, "what": what} for node, what in differences])
    elif differences:
        show(table(pluralize(len(differences), "difference"), ("node", "difference"), differences))
    else:
        say(f"{pluralize(len(view.observed), 'node is', 'nodes are')} as desired")
    if differences:
        raise SystemExit(1)


def logs(
    allocation: Annotated[str, typer.Argument(help="A workload, or one replica of it: chat, chat-0.")],
    stack: Stack = "dev",
    lines: Annotated[int, typer.Option("--lines", "-n", help="Number of most recent lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new output.")] = False,
) -> None:
    """Output of a workload, from its node's journal.

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
    """Write the hardware section of a stack file by asking the machines. Read-only.

    Example: swarm discover gpu-01=root@10.0.0.1 local
    """
    text, failures = machines.found(addresses)
    typer.echo(text, nl=False)
    for name, error in failures.items():
        say(f"{name}: {error}")
    if failures:
        raise SwarmError(f"{len(failures)} of {pluralize(len(addresses), 'machine')} did not answer")


def history(
    named: Positional = "",
    stack: Stack = "dev",
    lines: Annotated[int, typer.Option("--lines", "-n", help="Number of runs, newest first.")] = 20,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="What the autopilot decided, and why, instead; asks no node.")
    ] = False,
    moves: Annotated[
        bool, typer.Option("--moves", help="How nodes moved lent memory between those who borrow, instead, and by which sums.")
    ] = False,
    json: Json = False,
) -> None:
    """Who changed what, when, and from which commit, as recorded on the nodes. Exits 4 if one is unreachable.

    Examples: swarm history -n 5; swarm history --decisions; swarm history --moves --json
    """
    if decisions and moves:
        raise typer.BadParameter("--decisions and --moves are two things")
    if decisions:
        found = fleet_status.decided(named or stack, lines)
        if json:
            show_json(found)
        else:
            show(table("decisions of the autopilot", fleet_status.DECISION_HEADS, fleet_status.decision_rows(found)))
        return
    past = fleet_status.history(named or stack)
    if json and moves:
        show_json([one.model_dump() for one in past.moves[:lines]])
    elif json:
        show_json([{**vars(run), "nodes": run.nodes} for run in past.runs[:lines]])
    elif moves:
        show(table("moves of lent memory", fleet_status.MOVE_HEADS, fleet_status.move_rows(past.moves[:lines])))
    else:
        show(table("history", fleet_status.HISTORY_HEADS, fleet_status.history_rows(past.runs[:lines])))
        if past.moves:
            say(f"{pluralize(len(past.moves), 'move')} of lent memory: swarm history --moves")
    for node, why in sorted(past.dark.items()):
        say(f"{node}: {why}")
    if past.dark:
        raise SystemExit(4)


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (status, ps, logs, shell, history, discover):
        app.command()(command)
    app.command("assert")(assert_)
