"""Which commands run every night, without a person? drift, snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarm_iac.cli import engine
from swarm_iac.cli.commands.apply import Stack
from swarm_iac.cli.commands.forges import Remote, taken_environment
from swarm_iac.cli.commands.inspection import Json
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.terminal import exit_codes
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.forge.opening import TOKEN
from swarm_iac.pluralize import pluralize

if TYPE_CHECKING:
    from swarm_iac.cli.machines.survey import Survey
    from swarm_iac.cli.nightly.drift_issue import IssueShown

_HEADS = ("node", "what", "wanted", "found", "since (UTC)")


def drift(
    stack: Stack = "dev",
    json: Json = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would become of the issue, and write nothing to the forge.")
    ] = False,
    detailed: Annotated[
        bool, typer.Option(exit_codes.NAME, help="Exit 0 if no machine differs, 2 if one does, 1 otherwise.")
    ] = False,
) -> None:
    """Compare every machine with what was applied last, and keep one issue on the forge as long as any differs.

    With SWARM_FORGE_TOKEN set (docs/forges.md), one issue is opened, edited in place while it lasts, and closed after. It
    has since when each value differs; values that not everyone may read are left out, and are not printed either, since others
    read the log of a job. Without a forge everything is printed. A node that does not answer is no drift. Changes no machine.

    Exits with 1 if a machine differs, with 4 if none does and one did not answer.

    Examples: swarm drift; swarm drift --json; swarm drift --dry-run
    """
    from swarm_iac.cli.nightly import drift_issue
    from swarm_iac.cli.nightly.applied import surveyed
    from swarm_iac.forge import opened

    environment = taken_environment()
    forge = opened(environment) if environment.get(TOKEN) else None
    found = surveyed(engine.repository(), deciding.inside(stack), say)
    found = found.published() if forge else found
    shown: IssueShown | None = None
    failed: SwarmError | None = None
    try:
        shown = drift_issue.show(forge, found.snapshot, dry=dry_run) if forge else None
    except SwarmError as error:  # the forge is away: what was found is printed all the same
        failed = error
    if json:
        show_json(_document(found, shown))
    else:
        _print(found, shown)
    if shown:
        number = f" #{shown.number}" if shown.number else ""
        say(f"issue{number}: {'would be ' if dry_run and shown.deed.endswith('ed') else ''}{shown.deed}")
    if failed:
        raise failed
    differs = any(one.differences for one in found.snapshot.nodes.values())
    exit_codes.tell(detailed, differs)
    if differs:
        raise SystemExit(1)
    if found.silent:
        raise SystemExit(4)


def _rows(found: Survey, shown: IssueShown | None) -> list[dict[str, Any]]:
    from swarm_iac.cli.nightly.drift_issue import key, moment
    from swarm_iac.review.last_known import rows

    answer = []
    for node, one in rows(found.snapshot.nodes):
        since = shown.since.get(node, {}).get(key(one)) if shown else None
        answer.append({"node": node, **one.model_dump(mode="json"), "since": None if since is None else moment(since)})
    return answer


def _document(found: Survey, shown: IssueShown | None) -> dict[str, Any]:
    snapshot = found.snapshot
    return {
        "stack": snapshot.stack,
        "fleet": snapshot.fleet,
        "commit": snapshot.commit,
        "at": snapshot.at.isoformat(),
        "differences": _rows(found, shown),
        "unreachable": dict(found.silent),
        "unverified": {node: list(words) for node, words in found.unverified.items()},
        "issue": shown.number if shown else None,
        "deed": shown.deed if shown else "none",
    }


def _print(found: Survey, shown: IssueShown | None) -> None:
    rows = _rows(found, shown)
    if rows:
        cells = [(one["node"], one["what"], one["wanted"], one["found"], one["since"] or "-") for one in rows]
        show(table(pluralize(len(rows), "difference"), _HEADS, cells))
    else:
        answered = sum(one.answered for one in found.snapshot.nodes.values())
        every = pluralize(len(found.snapshot.nodes), "node")
        those = pluralize(answered, f"of {every} answered, and is", f"of {every} answered, and are")
        say(f"{those} as {found.snapshot.commit[:12]} has them")
    for node, why in found.silent.items():
        say(f"{node} did not answer: {why}")
    for node, words in found.unverified.items():
        say(f"{node}: {'; '.join(words)}")


def snapshot(
    stack: Stack = "dev",
    key: Annotated[
        Path | None, typer.Option("--key", help="Ed25519 key that signs it, or its public half if an ssh-agent has it.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write. Default: print it.")] = None,
    written: Annotated[
        Path | None, typer.Option("--from", help="Take this signed file, which an earlier run wrote, and ask no machine.")
    ] = None,
    publish: Annotated[bool, typer.Option("--publish", help="Push it to the branch swarm-snapshot.")] = False,
    unless_current: Annotated[
        bool, typer.Option("--unless-current", help="Do nothing if one of today and of this commit is published.")
    ] = False,
    remote: Remote = "origin",
) -> None:
    """Write the last known state of the machines, signed, for checks of pull requests that have no keys.

    It has, for each node: did it answer, where it differs from what was applied last, which allocations are not healthy, which
    jobs have finished. No command, variable, process or word of a node. `swarm pr post` reads what is published.

    Exits with 4 if a node did not answer; the file is written all the same.

    Examples: swarm snapshot --key ~/.ssh/swarm-snapshot --publish; swarm snapshot --key KEY --out dev.snapshot
    swarm snapshot --from dev.snapshot --publish
    """
    from swarm_iac.cli.merging import published
    from swarm_iac.cli.nightly import applied
    from swarm_iac.review.signature import signed

    if publish and not key and not written:
        raise SwarmError("only what is signed is published", hint="ssh-keygen -t ed25519 -f KEY; then --key KEY")
    taken_environment()
    root, name = engine.repository(), deciding.inside(stack)
    if written:
        _pass_on(root, remote, name, written, publish=publish)
        return
    if unless_current and applied.current(root, remote, name, say):
        say("the published snapshot is current")
        return
    found = applied.surveyed(root, name, say).published()
    text = found.snapshot.text()
    data = signed(text, key.expanduser()) if key else text
    if not key:
        say("it is not signed, so no check takes it: --key FILE")
    if out:
        out.write_bytes(data)
    if publish:
        published.publish(root, remote, name, data, found.snapshot.commit)
        say(f"published in the branch {published.BRANCH}: {pluralize(len(found.snapshot.nodes), 'node')}, {len(data)} bytes")
    elif not out:
        typer.echo(data.decode(), nl=False)
    for node in found.silent:
        say(f"{node} did not answer")
    if found.silent:
        raise SystemExit(4)


def _pass_on(root: Path, remote: str, name: str, file: Path, *, publish: bool) -> None:
    """Publish a file that was written elsewhere. Raises Refused unless it is signed by who may, and of this stack."""
    from swarm_iac.cli.merging import published, repository
    from swarm_iac.review import last_known

    try:
        data = file.read_bytes()
    except OSError as error:
        raise SwarmError(f"{file}: {error.strerror}") from None
    head = repository.commit(root, "HEAD")
    found = last_known.read(data, published.signers(root, head))
    if found.stack != name:
        raise Refused(f"the snapshot is of the stack {found.stack}, and not of {name}")
    if publish:
        published.publish(root, remote, name, data, head)
    deed = "published" if publish else "signed as the base allows"
    say(f"{deed}: {name} at {found.commit[:12]}, {pluralize(len(found.nodes), 'node')}, of {found.at:%Y-%m-%d %H:%M} UTC")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (drift, snapshot):
        app.command()(command)
