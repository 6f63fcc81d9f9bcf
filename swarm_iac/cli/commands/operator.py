"""Which commands open and close nodes? drain, cordon, lost and ready edit the stack file; `swarm up` applies it."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from swarm_iac.cli import engine
from swarm_iac.cli.commands.apply import Stack
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.terminal.screen import say
from swarm_iac.errors import SwarmError
from swarm_iac.model.stack import NodeState
from swarm_iac.model.stack import Stack as Declared
from swarm_iac.units import Seconds

Nodes = Annotated[
    list[str],
    typer.Argument(
        metavar="NODE…", help="Nodes, ranges such as gpu-[01-04], lists with commas, rack=r1, or a label: KEY=VALUE."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", "--why", help="Why, for the next reader of the stack file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Print the diff and write nothing.")]
_COMMA = re.compile(r",(?![^\[]*\])")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def drain(
    nodes: Nodes,
    by: Annotated[
        str | None,
        typer.Option("--by", help="A duration (8 h), a day (2027-01-31, at its start) or a time; until then jobs may finish."),
    ] = None,
    reason: Reason = None,
    stack: Stack = "dev",
    dry_run: DryRun = False,
) -> None:
    """Drain nodes: edit the stack file and show the diff; `swarm up` moves the work away.

    With a deadline, the nodes take no new work and jobs may finish; the first `up` after it moves what is left.

    Examples: swarm drain gpu-07 --reason fan; swarm drain gpu-[01-04] --by "8 h"; swarm drain rack=r1 --reason "power works"
    """
    moment = deadline(by, datetime.datetime.now().astimezone()) if by else None
    _set_state(stack, nodes, "drain", moment, reason, dry_run=dry_run)


def cordon(nodes: Nodes, reason: Reason = None, stack: Stack = "dev", dry_run: DryRun = False) -> None:
    """Cordon nodes: no new work, running work stays. Edits the stack file and shows the diff.

    Example: swarm cordon gpu-07 --reason "fan is loud"
    """
    _set_state(stack, nodes, "cordon", None, reason, dry_run=dry_run)


def lost(nodes: Nodes, reason: Reason = None, stack: Stack = "dev", dry_run: DryRun = False) -> None:
    """Mark nodes as lost: their work may start elsewhere. Only for machines that are certainly off, or jobs may run twice.

    Example: swarm lost gpu-07 --reason "no power"; when it is back: swarm ready gpu-07
    """
    _set_state(stack, nodes, "lost", None, reason, dry_run=dry_run)


def ready(nodes: Nodes, stack: Stack = "dev", dry_run: DryRun = False) -> None:
    """Reopen nodes after a drain, a cordon or a loss. Edits the stack file and shows the diff.

    Example: swarm ready gpu-07
    """
    _set_state(stack, nodes, "ready", None, None, dry_run=dry_run)


def deadline(text: str, now: datetime.datetime) -> datetime.datetime:
    """`8 h`, `2027-01-31` (at its start) or `2027-01-31T08:00` (local time, unless it has a zone). Raises SwarmError."""
    try:
        if _DAY.match(text):
            moment = datetime.datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.astimezone()
        else:
            moment = now + datetime.timedelta(seconds=int(Seconds.parse(text)))
    except (ValueError, OverflowError):
        raise SwarmError(f"{text!r} is not a deadline", hint='write 8 h, 2027-01-31 or "2027-01-31T08:00"') from None
    if moment <= now:
        raise SwarmError(f"{text} is past: {moment:%Y-%m-%d %H:%M}", hint="omit --by to drain now")
    return moment


def _set_state(
    stack: str, nodes: list[str], state: NodeState, by: datetime.datetime | None, reason: str | None, *, dry_run: bool
) -> None:
    from swarm_iac.stackfile.editing.node_states import set_node_state
    from swarm_iac.stackfile.load import load, nearest_policy
    from swarm_iac.stackfile.reading.text import read

    path = Path(stack).resolve() if deciding.is_file(stack) else engine.repository() / "stacks" / f"{stack}.yaml"
    file = str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    old = new = read(path, file)
    today, policies = datetime.date.today(), nearest_policy(path)
    for pattern in _chosen(nodes, lambda: load(path, today=today, policies=policies).stack):
        new = set_node_state(new, file, pattern, state, today, by=by, reason=reason, policies=policies)
    if new == old:
        say(f"{file} already says so: nothing to change")
        return
    before, after = (text.decode().splitlines() for text in (old, new))
    lines = difflib.unified_diff(before, after, file, file, lineterm="")
    typer.echo("\n".join(lines))
    if dry_run:
        say("nothing was written (--dry-run)")
        return
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(new)
    fresh.chmod(path.stat().st_mode)
    fresh.replace(path)
    say("`swarm plan` shows what this moves, `swarm up` applies it; commit the stack file with its lock")


def _chosen(words: list[str], stack: Callable[[], Declared]) -> Iterator[str]:
    """Nodes and ranges in all arguments, without duplicates; `stack` is read only if a rack or label is named.

    A comma within brackets belongs to a range. Raises SwarmError for a rack or label that no node has.
    """
    found: dict[str, None] = {}
    for word in (part for text in words for part in _COMMA.split(text) if part):
        key, is_label, value = word.partition("=")
        if not is_label:
            found[word] = None
            continue
        nodes = stack().nodes
        labels = {name: node.labelled for name, node in nodes.items()}
        named = [name for name, each in labels.items() if each.get(key) == value]
        if not named:
            known = sorted({each[key] for each in labels.values() if key in each})
            keys = sorted({key for each in labels.values() for key in each})
            hint = f"{key} is one of: {', '.join(known)}" if known else f"the labels here: {', '.join(keys) or 'none'}"
            raise SwarmError(f"no node has {word}", hint=hint)
        found |= dict.fromkeys(named)
    yield from found


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (drain, cordon, lost, ready):
        app.command()(command)
    # Names that operators know from other tools.
    for name in ("undrain", "uncordon"):
        app.command(name, help="Same as `ready`: nodes take new work again.")(ready)
