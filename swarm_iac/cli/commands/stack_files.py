"""Which commands start from the stack file? validate, schema, program, solve, plan."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from swarm_iac.cli.commands.apply import AllowStop, Detailed, Only, Positional, Retry, Stack
from swarm_iac.cli.commands.inspection import Json, Offline
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.terminal import exit_codes
from swarm_iac.cli.terminal.interrupt import Interrupted
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.decision import Decision
from swarm_iac.model.placement import Placement
from swarm_iac.pluralize import pluralize


def validate(
    stacks: Annotated[
        list[str] | None, typer.Argument(metavar="[STACK…]", help="Names or files of stacks. Default: all in stacks/.")
    ] = None,
    json: Json = False,
) -> None:
    """Check stack files: report every mistake with file, line, column and a hint. Exits 2 if there is any.

    Warnings flag what is legal but probably not intended; they do not affect the exit code. Lock and proof files are
    skipped.

    Examples: swarm validate; swarm validate lab; swarm validate stacks/*.yaml
    """
    from swarm_iac.errors import Problem, StackFileError, told
    from swarm_iac.stackfile import load
    from swarm_iac.stackfile.checks.warnings import doubts

    warnings: list[Problem] = []
    problems: list[Problem] = []
    for file in deciding.files(stacks or []):
        if file.name.endswith((".lock.yaml", ".proof.yaml")):
            continue  # a shell's stacks/*.yaml includes them
        try:
            loaded = load(file, policies=deciding.policies(file), today=datetime.date.today())
        except StackFileError as error:
            problems += error.problems
            continue
        found = doubts(loaded, datetime.date.today())
        warnings += found
        if not json:
            for one in told(found):
                say(f"warning: {one}")
            stack = loaded.stack
            nodes, workloads = pluralize(len(stack.nodes), "node"), pluralize(len(stack.workloads), "workload")
            say(f"{file}: {nodes}, {workloads}, no mistakes")
    if json:
        show_json([{"file": p.place.file, "line": p.place.line, "column": p.place.column, "path": p.path,
                    "message": p.message, "hint": p.hint, "severity": "warning" if p in warnings else "error"}
                   for p in (*problems, *warnings)])  # fmt: skip
    if problems:
        if not json:
            raise StackFileError(tuple(problems))
        raise SystemExit(2)


def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="Every key as Markdown tables: docs/stack-file.md.")] = False,
) -> None:
    """Print the JSON Schema of a stack file, for editors.

    Examples: swarm schema > stack.schema.json; swarm schema --markdown > docs/stack-file.md
    """
    from swarm_iac.stackfile import schema as document

    if markdown:
        import yaml

        from swarm_iac import assets
        from swarm_iac.cli.reference import markdown as render

        defaults = yaml.safe_load((assets.policies() / "limits.yaml").read_text())
        typer.echo(render(document(), defaults), nl=False)
    else:
        show_json(document())


def program(
    output: Annotated[Path, typer.Argument(help="Output file: a zip that Python runs.")] = Path("swarm-node.zip"),
) -> None:
    """Write the node program to a file, for nodes where root has to install it: see docs/operations.md.

    Example: swarm program; then on each node, as root: python3 -I -S swarm-node.zip install
    """
    from swarm_iac.reach.node_program import agent_digest, archive

    output.write_bytes(archive())
    say(f"{output}: {agent_digest()}")


def solve(
    named: Positional = "",
    stack: Stack = "dev",
    json: Json = False,
    offline: Annotated[
        bool, typer.Option("--offline", envvar="SWARM_OFFLINE", help="Do not ask the machines which jobs have finished.")
    ] = False,
    record: Annotated[Path | None, typer.Option("--record", help="Also record the solve, for swarm replay.")] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Decide a lock file in which git left a conflict; first resolve the stack file.")
    ] = False,
    driver: Annotated[
        tuple[Path, Path, Path, str] | None,
        typer.Option("--driver", metavar="%O %A %B %P", help="With --merge: merge one file, as git's merge driver."),
    ] = None,
) -> None:
    """Decide the placement and write stacks/NAME.lock.yaml and NAME.proof.yaml. Solving twice changes nothing.

    If there is anything to decide, machines that run jobs are asked which of those have finished, so that their resources
    can be reused. For a machine that does not answer, and with --offline, the lock file says what has finished.

    On a terminal, value, bound and gap of each goal are shown as they improve. Ctrl-C stops the search: lock and proof of
    the best placement so far are written, the proof says that the search was interrupted, and the exit code is 0. A second
    Ctrl-C, or one before the search has started, exits with 130 and writes nothing.

    --merge: what one branch changed is taken from it, and what both changed, or what together breaks a limit, is decided
    again on the merged stack file. git's driver refuses if something that has a place on its branch would have none.

    Examples: swarm solve; swarm solve --record monday.json && swarm replay monday.json; swarm solve lab --merge
    """
    if driver and not merge:
        raise typer.BadParameter("--driver is for --merge")
    if merge:
        _merge(named or stack, driver, json=json)
        return
    from swarm_iac.cli.terminal.progress import Following, followed

    def solved(progress: Following) -> Decision:
        name = named or stack
        ends = None if offline else deciding.ends(name)
        if record:
            return deciding.recorded(name, record, progress, ends)
        return deciding.solve(name, progress, ends, offline=offline)

    decision = followed(solved, quiet=json)
    try:
        show_decision(decision, json=json)
        if not json:
            lock, name = decision.files.lock, decision.name
            if decision.files.candidates:
                where = f"{lock.parent.name}/{lock.name}; `swarm plan {name}` shows what `swarm up` would do"
            else:  # a draft, which `up` never applies
                where = f"{lock}; `swarm plan {decision.files.stack}` shows the steps"
            say(f"lock: {where}")
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted during output; {decision.files.lock.name} was written") from None


def _merge(name: str, driver: tuple[Path, Path, Path, str] | None, *, json: bool) -> None:
    """Merge locks: for git one file, else what it left open."""
    from swarm_iac.cli.decisions import merge, merge_versions
    from swarm_iac.cli.engine import repository
    from swarm_iac.stackfile.locks.atomic_write import write_whole

    if driver:
        base, ours, theirs, path = driver
        found = merge.driver(Path.cwd(), path, base, ours, theirs, datetime.date.today())
        if found.again:
            say(f"{path}: decided again ({'; '.join(found.again[:3])})")
        return
    name = deciding.inside(name)
    root = repository()
    found = merge.decided(root, merge_versions.of_index(root, name), datetime.date.today(), refusing=False)
    write_whole(found.decision.files.lock, found.lock)
    if found.proof is not None:
        write_whole(found.decision.files.proof, found.proof)
    show_decision(found.decision, json=json, ran=found.ran)
    if not json:
        say(f"lock: {merge_versions.lock_of(name)}; `git add` it with its proof, and go on with the merge")


def show_decision(decision: Decision, *, json: bool, ran: Placement | None = None) -> None:
    """A decision as `swarm solve` shows it. `ran`: what runs, if that is not what it was decided from."""
    from swarm_iac.cli.terminal.progress import HEADS, goal_rows
    from swarm_iac.plan.show import variants

    if json:
        show_json(deciding.decision_json(decision))
        return
    show(table("placement", deciding.placement_heads(decision), deciding.placement_rows(decision)))
    if decision.placement.unplaced:
        show(table("not placed", ("workload", "missing", "because"), deciding.unplaced_rows(decision)))
    if decision.placement.growing:
        heads = ("workload", "keeps", "wants", "because")
        show(table("keeps its size until there is capacity", heads, deciding.growing_rows(decision)))
    if lighter := list(variants.rows(decision.last if ran is None else ran, decision.placement)):
        show(table("runs in a lighter variant, or changes its own", variants.HEADS, lighter))
    if decision.proof:
        show(table("quality of the placement", HEADS, goal_rows(decision.proof.goals, decision.stack)))
    for line in filter(None, (deciding.cost_line(decision), deciding.verdict_line(decision))):
        say(line)


def plan(
    named: Positional = "",
    stack: Stack = "dev",
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As Markdown, for a comment on a pull request.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write it as one page for a browser, which needs no other file.")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details/--no-details", help="Without: the page of --html has the map with names alone.")
    ] = True,
    candidate: Annotated[
        bool, typer.Option("--candidate/--no-candidate", help="Without: a new decision is not kept for `swarm up` to apply.")
    ] = True,
    offline: Offline = False,
    allow_stop: AllowStop = 0,
    retry: Retry = False,
    only: Only = "",
    detailed: Detailed = False,
) -> None:
    """Show everything `swarm up` would do: old and new values per node, the order of steps, limits and the bound.

    The last line is a summary. A plan that stops more than solve.stops is shown as well, and exits with 3.

    Examples: swarm plan; swarm plan --offline examples/01-one-gpu/stack.yaml; swarm plan --markdown;
    swarm plan --html plan.html; swarm plan --only gpu-03,research
    """
    if json and markdown:
        raise typer.BadParameter("one of --json and --markdown, not both")
    from swarm_iac.cli.machines import fleet_view, plan_report

    quiet = json or markdown
    view = fleet_view.read(named or stack, offline=offline, retry=retry, only=only, quiet=quiet, write=candidate)
    refused = fleet_view.guard(view, allow_stop)
    if html:
        from swarm_iac.stackfile.locks.atomic_write import write_whole

        write_whole(html, plan_report.plan_page(view, refused.message if refused else "", details=details))
    if json:
        where = {"message": refused.message, "hint": refused.hint} if refused else None
        show_json({**plan_report.plan_json(view), "refused": where})
    elif markdown:
        typer.echo(plan_report.plan_markdown(view), nl=False)
    else:
        show(*plan_report.plan_text(view))
    if refused:
        raise refused
    exit_codes.tell(detailed, plan_report.changes(view))


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (validate, schema, program, solve, plan):
        app.command()(command)
