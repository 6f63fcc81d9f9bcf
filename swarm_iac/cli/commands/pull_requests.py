"""Which commands are about pull requests? pr check, rights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarm_iac.cli.commands.inspection import Json
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.errors import Refused, SwarmError

if TYPE_CHECKING:
    from swarm_iac.review.check import Approval

#: Its commands; those that talk to a forge are added by their own module.
pr = typer.Typer(help="Judge a pull request by its effect.", no_args_is_help=True, rich_markup_mode=None)


@pr.command()
def check(
    base: Annotated[str, typer.Option("--base", help="The commit into which it would be merged.")],
    head: Annotated[str, typer.Option("--head", help="The commit that would be merged.")] = "HEAD",
    author: Annotated[str, typer.Option("--author", help="Account at the forge of who asks.")] = "",
    approvals: Annotated[
        Path | None, typer.Option("--approvals", help="JSON: a list of {who, commit, base, effect}, in order.")
    ] = None,
    snapshot: Annotated[
        list[Path] | None,
        typer.Option("--snapshot", help="What `swarm snapshot` wrote of the machines, one for each stack."),
    ] = None,
    json: Json = False,
    comment: Annotated[Path | None, typer.Option("--comment", help="Also write the comment, as Markdown.")] = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="Also write it with every row, for a browser; of each of several stacks one.")
    ] = None,
    repository: Annotated[Path, typer.Option("--repository", help="A clone with both commits.")] = Path(),
) -> None:
    """Show what merging one commit into another would do, and who has to approve. Asks no machine and no forge.

    The merged result is judged, by the rights and default limits of the base. Nothing of the head is run or checked out.
    Exits with 3 if it is refused or approvals are missing. With SWARM_FROZEN=1 a stale lock is refused. A snapshot that nobody
    signed whom the base allows, or of another fleet, is refused; a good one adds what machines have against it.

    Examples: swarm pr check --base origin/main --head HEAD --author bo
    git show origin/swarm-snapshot:dev.snapshot > dev.snapshot; swarm pr check --base origin/main --snapshot dev.snapshot
    """
    from swarm_iac.review.check import check as judged

    verdict = judged(repository, base, head, author or None, _approvals(approvals), snapshots=_snapshots(snapshot))
    if comment:
        comment.write_text(verdict.comment)
    for name, text in verdict.pages.items() if page else ():
        assert page
        one = len(verdict.pages) == 1
        (page if one else page.with_name(f"{page.stem}-{name}{page.suffix}")).write_text(text)
    if json:
        show_json(verdict.model_dump(mode="json"))
    else:
        typer.echo(verdict.comment, nl=False)
    if not verdict.ok:
        raise Refused(verdict.summary, hint=_hint(comment))


def _snapshots(files: list[Path] | None) -> tuple[bytes, ...]:
    try:
        return tuple(file.read_bytes() for file in files or ())
    except OSError as error:
        raise SwarmError(f"{error.filename}: {error.strerror}") from None


def _hint(comment: Path | None) -> str:
    return f"see {comment}" if comment else ""


def _approvals(file: Path | None) -> tuple[Approval, ...]:
    from pydantic import TypeAdapter, ValidationError

    from swarm_iac.review.check import Approval

    if file is None:
        return ()
    try:
        found: tuple[Approval, ...] = TypeAdapter(tuple[Approval, ...]).validate_json(file.read_bytes())
    except OSError as error:
        raise SwarmError(f"{file}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise SwarmError(f"{file}: {where}: {first['msg']}", hint="a list of {who, commit, base, effect}") from None
    return found


def rights(
    stack: Annotated[str, typer.Argument(metavar="[STACK]", help="Name or file of a stack.")] = "dev",
    json: Json = False,
    codeowners: Annotated[bool, typer.Option("--codeowners", help="As a CODEOWNERS file, for a forge's own rules.")] = False,
) -> None:
    """Show who may change what by a pull request, with their accounts at the forge.

    Example: swarm rights; swarm rights --codeowners > CODEOWNERS
    """
    import datetime

    from swarm_iac.review.judgement import people
    from swarm_iac.review.owners import code_owners, rows
    from swarm_iac.stackfile import load

    file = deciding.files([stack])[0]
    who = people(load(file, policies=deciding.policies(file), today=datetime.date.today()), None)
    if who is None:
        hint = "everyone who can merge may change everything; see docs/pull-requests.md"
        raise SwarmError(f"{file} has no `rights`", hint=hint)
    if codeowners:
        typer.echo(code_owners(who, file.name), nl=False)
    elif json:
        show_json([dict(zip(("what", "by", "accounts"), row, strict=True)) for row in rows(who)])
    else:
        show(table(f"rights of {who.stack.fleet}", ("what", "who may change it", "accounts"), rows(who)))
        say("Who loses an allocation has to approve as well, or somebody of their team.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.add_typer(pr, name="pr")
    app.command()(rights)
