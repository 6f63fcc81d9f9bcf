"""How does a fleet whose state was lost get a new one? The nodes' ledgers say who owns them; a person confirms it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.cli import engine
from swarm_iac.cli.engine import Say
from swarm_iac.cli.machines import fleet_view
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.run_options import VARIABLES

HEADS = ("lineage", "fleet", "serial", "nodes", "allocations")


@dataclass(frozen=True)
class Owner:
    """One lineage found in the ledgers of the stack's nodes."""

    lineage: str
    fleet: str
    serial: int
    nodes: tuple[str, ...]
    allocations: int


@dataclass(frozen=True)
class Ledgers:
    """What the ledgers say. `fleet`: the stack file's fleet; `unreachable`: nodes that did not answer, with the reason."""

    fleet: str
    owners: tuple[Owner, ...]
    unreachable: dict[str, str]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Rows below HEADS."""
        for one in self.owners:
            yield one.lineage, one.fleet, str(one.serial), " ".join(one.nodes), str(one.allocations)


def find(stack: str) -> Ledgers:
    """Read every node's ledger. Changes nothing."""
    view = fleet_view.read(stack, planned=False)
    by: dict[tuple[str, str], list[str]] = {}
    for name, seen in sorted(view.observed.items()):
        if seen.ledger is not None and not seen.error:
            by.setdefault((seen.ledger.lineage, seen.ledger.fleet), []).append(name)
    owners = []
    for (lineage, owner), nodes in sorted(by.items()):
        held = [view.observed[name] for name in nodes]
        serial = max(seen.ledger.serial for seen in held if seen.ledger)
        owners.append(Owner(lineage, owner, serial, tuple(nodes), sum(len(seen.state.allocations) for seen in held)))
    return Ledgers(
        view.decision.stack.fleet, tuple(owners), {name: one.error for name, one in view.observed.items() if one.error}
    )


def adopt(root: Path, stack: str, lineage: str, say: Say) -> None:
    """Give this repository's empty state the lineage of its machines. Raises Refused if they name another."""
    found = find(stack)
    owners = [one for one in found.owners if one.lineage == lineage]
    if not owners:
        known = ", ".join(one.lineage for one in found.owners) or "none at all"
        raise Refused(f"no node of this stack names the lineage {lineage}", hint=f"their ledgers name {known}")
    if any(one.fleet != found.fleet for one in owners):
        raise Refused(
            f"lineage {lineage} belongs to fleet {owners[0].fleet}, and this stack file describes fleet {found.fleet}",
            hint="the stack file of another fleet must not take these machines; correct `fleet:` if it was renamed",
        )
    engine.ensure_stack(root, stack, say)
    state = engine.exported(root, stack, say)
    if "swarm:index:Fleet" in state:
        raise Refused(
            "this state is not lost: it has resources of its own",
            hint="they would be forgotten; to discard them: "
            f"pulumi stack rm --force --yes --preserve-config {stack}, then adopt again",
        )
    if "swarm:index:Lineage" in state:
        # Created by a run that the nodes refused: it owns nothing.
        _run(root, stack, ["stack", "rm", "--force", "--yes", "--preserve-config"], say)
    _run(root, stack, ["up", "--yes", "--skip-preview", "--target", "**Lineage**"], say, {VARIABLES["adopt"]: lineage})


def _run(root: Path, stack: str, words: list[str], say: Say, more: dict[str, str] | None = None) -> None:
    done = engine.pulumi(root, stack, words, say, capture=True, more=more)
    if done.returncode:
        raise SwarmError(f"pulumi could not write the lineage:\n{(done.stdout + done.stderr).strip()[-2000:]}")
