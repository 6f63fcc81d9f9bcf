"""Which commands explain a decision or try another one? why, limits, shares, what-if, rebalance, replay."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from swarm_iac.cli.commands.apply import Detailed, Positional, Stack
from swarm_iac.cli.commands.inspection import Json, Offline
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.terminal import exit_codes
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.decision import Decision, Progress
from swarm_iac.errors import Refused
from swarm_iac.pluralize import pluralize

if TYPE_CHECKING:
    from swarm_iac.plan.show.summary import Summary
    from swarm_iac.solver import Explanation
    from swarm_iac.solver.advice.move_curve import Point

#: Largest record; one of 1,000 nodes and 2,000 workloads has about 4 MB.
RECORD_BYTES = 200_000_000

From = Annotated[Path | None, typer.Option("--from", help="Same as --stack FILE.", hidden=True)]


def why(
    workload: Annotated[str, typer.Argument(help="Name of a workload (or one replica of it), or of a node.")],
    stack: Stack = "dev",
    source: From = None,
    json: Json = False,
    offline: Offline = False,
) -> None:
    """Explain why a workload is placed where it is, or why it is pending and which changes would place it.

    For a node: its state, its allocations and its free capacity.

    Placed: why each node fits, and what the runner-up would cost. Moved: what caused the move. Pending: the smallest set
    of rules and facts that excludes it, each with its line; the cheapest changes that would place it, each tested by
    solving; and when it could start, if jobs in its way have a `time` (their machines are asked when those started).
    Ctrl-C stops with the reasons and changes found so far. Exits 0.

    Example: swarm why pretrain
    """
    from swarm_iac.cli.terminal import progress

    def answered(progress: progress.Following) -> tuple[Decision, Explanation | None]:
        decision = _standing(stack, source, progress, offline=offline)
        if workload in decision.stack.nodes and workload not in decision.stack.workloads:
            return decision, None
        progress.phase("loading the solver")
        from swarm_iac.cli.decisions import why_text

        return why_text.explain(decision, workload, datetime.date.today(), progress)

    decision, answer = progress.followed(answered, quiet=json)
    if answer is None:
        from swarm_iac.cli.decisions import node_report

        if json:
            show_json(node_report.as_json(decision, workload))
        else:
            typer.echo("\n".join(node_report.lines(decision, workload)))
        return
    from swarm_iac.cli.decisions import why_text

    start = why_text.pending(decision, workload, offline=offline) if answer.missing else (None, "")
    if json:
        show_json(why_text.as_json(answer, decision, start))
    else:
        for line in why_text.lines(answer, decision, _options(stack, source), start[1]):
            typer.echo(line)


def what_if(
    edits: Annotated[
        list[str] | None, typer.Argument(help="PATH=VALUE; nodes may be a range; an empty VALUE removes the key.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Use the content of another stack file instead.")] = None,
    stack: Stack = "dev",
    source: From = None,
    json: Json = False,
    detailed: Detailed = False,
) -> None:
    """Show what a change to the stack file would do: placement, moves, limits and cost, before and after.

    The last line is a summary, as in `swarm plan`, followed by what `swarm up` would refuse, if anything. Writes nothing.
    Edits are checked like the file itself. Exits 0, or 2 if an edit is wrong.

    Examples: swarm what-if workloads.chat.replicas=4 nodes.gpu-[07-08].state=ready; swarm what-if --file draft.yaml
    """
    from swarm_iac.cli.terminal import progress

    today = datetime.date.today()

    def supposed(progress: progress.Following) -> tuple[Decision, Decision]:
        progress.phase("reading the edits")
        from swarm_iac.cli.decisions import what_if

        what_if.check(str(source) if source else stack, edits or [], file, today)
        now = _standing(stack, source, progress)
        return now, what_if.supposed(now, edits or [], file, today, progress)

    now, then = progress.followed(supposed, quiet=json)
    from swarm_iac.cli.decisions import what_if

    found, refused = _summed_up(now, then)
    if json:
        comes = {**found.model_dump(mode="json"), "line": found.line()} if found else None
        refusal = {"message": refused.message, "hint": refused.hint} if refused else None
        show_json({**what_if.as_json(now, then, edits or [], today), "summary": comes, "refused": refusal})
    else:
        show(*what_if.sections(now, then, today))
        if found:
            typer.echo(f"{then.stack.fleet}: {found.line()}")
        if refused:
            say(f"`swarm up` would refuse this: {refused}")
        if deciding.never_applied(now.root, now.name):
            say("nothing has been applied here yet, so this is compared with the decision, not with what is running")
        say(deciding.verdict_line(then))
        say("nothing was written")
    # As the last line says; without one, as the placements do.
    exit_codes.tell(detailed, found.changes if found else what_if.changes(now, then))


def _summed_up(now: Decision, then: Decision) -> tuple[Summary | None, Refused | None]:
    """The summary of what `swarm up` would do, and its refusal, if any: no safe order, or too many stops."""
    from swarm_iac.cli.machines import fleet_view, plan_report

    try:
        view = fleet_view.supposed(now, then)
    except Refused as refused:
        return None, refused
    return plan_report.summary(view), fleet_view.guard(view, 0)


def rebalance(
    named: Positional = "",
    moves: Annotated[int | None, typer.Option("--moves", "-n", min=0, help="Write the best solution within N moves.")] = None,
    stack: Stack = "dev",
    source: From = None,
    json: Json = False,
) -> None:
    """Show what moving running allocations would gain, from 0 moves to all; with --moves N, write that solution.

    A solve keeps what runs, within solve.moves; this optimizes everything. The result is written like that of swarm solve:
    stacks/NAME.lock.yaml and NAME.proof.yaml. Ctrl-C stops with the points found so far; with --moves, the best solution so
    far is written unless the current placement is better. Exits 0.

    Examples: swarm rebalance; swarm rebalance --moves 3 && swarm plan
    """
    from swarm_iac.cli.commands.stack_files import show_decision
    from swarm_iac.cli.terminal import progress

    today, stack = datetime.date.today(), named or stack
    if moves is not None:
        name = deciding.inside(str(source) if source else stack)

        def chosen(progress: progress.Following) -> Decision:
            progress.phase("loading the solver")
            from swarm_iac.cli.decisions import rebalance as curves

            return curves.chosen(name, moves, today, progress)

        show_decision(progress.followed(chosen, quiet=json), json=json)
        return

    def tried(progress: progress.Following) -> tuple[Decision, tuple[Point, ...], bool]:
        now = _standing(stack, source, progress)
        progress.phase("loading the solver")
        from swarm_iac.cli.decisions import rebalance as curves

        return curves.tried(now, today, progress)

    now, points, cut = progress.followed(tried, quiet=json)
    from swarm_iac.cli.decisions import rebalance as curves

    if json:
        show_json(curves.as_json(now, points))
    else:
        show(*curves.sections(now, points))
    if cut:
        say("interrupted: other numbers of moves were not tried")


def replay(
    file: Annotated[Path, typer.Argument(help="File written by swarm solve --record.")],
    json: Json = False,
) -> None:
    """Repeat a recorded solve and compare the placements byte by byte. Exits 1 if they differ.

    Example: swarm solve --record monday.json && swarm replay monday.json
    """
    from swarm_iac.cli.terminal import progress
    from swarm_iac.solver import digest
    from swarm_iac.solver.decide.recording import differences, read
    from swarm_iac.stackfile.reading.text import decode
    from swarm_iac.stackfile.reading.text import read as read_bytes

    recorded = read(decode(read_bytes(file, str(file), RECORD_BYTES), str(file), RECORD_BYTES), str(file))
    solution = progress.followed(lambda progress: recorded.replayed(progress.watch(recorded.stack)), quiet=json)
    found = differences(recorded.answer, solution.placement)
    if json:
        answer = {"same": not found, "differences": list(found), "recorded": recorded.solver, "now": solution.proof.solver}
        show_json({**answer, "digests": [digest(recorded.answer), digest(solution.placement)]})
    elif found:
        show(table(pluralize(len(found), "difference"), ("recorded → now",), [(one,) for one in found]))
        say(f"different answer: recorded {digest(recorded.answer)} by {recorded.solver}, now {digest(solution.placement)}"
            f" by {solution.proof.solver}")  # fmt: skip
    else:
        say(f"same answer: {digest(recorded.answer)}, {pluralize(len(recorded.answer.allocations), 'allocation')}")
    if found:
        raise SystemExit(1)


def limits(named: Positional = "", stack: Stack = "dev", source: From = None, json: Json = False) -> None:
    """What is used of each limit: of the cluster, of teams, one inside the other, and of users.

    Counted as decided; no machine is asked. The limits are those of today, with exceptions.

    Example: swarm limits
    """
    from swarm_iac.cli.decisions import limit_table
    from swarm_iac.cli.terminal import progress

    decision = progress.followed(lambda progress: _standing(named or stack, source, progress), quiet=json)
    rows = limit_table.rows(decision, datetime.date.today())
    if json:
        show_json(limit_table.as_json(rows))
    else:
        show(table(f"limits of fleet {decision.stack.fleet}", limit_table.heads(rows), limit_table.cells(rows)))


def shares(named: Positional = "", stack: Stack = "dev", source: From = None, json: Json = False) -> None:
    """What each team is due of the GPUs, worked out line by line, what it holds, and what is lent to it.

    By the shares and guarantees of teams in the stack file. Counted as decided; no machine is asked.

    Example: swarm shares
    """
    from swarm_iac.cli.terminal import progress

    decision = progress.followed(lambda progress: _standing(named or stack, source, progress), quiet=json)
    if not decision.stack.fair:
        raise Refused(
            "no team has a share or a guarantee, so GPUs are not shared by teams",
            hint="give teams their weights: `teams: {research: {share: 3}, product: {share: 2}}`",
        )
    from swarm_iac.cli.decisions import share_report

    found = share_report.report(decision, datetime.date.today())
    if json:
        show_json(share_report.as_json(found))
        return
    show(
        Text("\n".join(share_report.lines(found)) + "\n"),
        table(f"shares of fleet {decision.stack.fleet}", share_report.HEADS, share_report.cells(found)),
    )


def _standing(stack: str, source: Path | None, progress: Progress, *, offline: bool = False) -> Decision:
    """The current decision; nothing is written to get it."""
    return deciding.peek(str(source) if source else stack, progress, offline=offline)


def _options(stack: str, source: Path | None) -> str:
    """Options that name the same stack for another command."""
    return f" --from {source}" if source else f" --stack {stack}" if stack != "dev" else ""


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (why, limits, shares, rebalance, replay):
        app.command()(command)
    app.command("what-if")(what_if)
