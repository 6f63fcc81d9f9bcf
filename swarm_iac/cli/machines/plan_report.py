"""How is a plan shown: as text, as JSON, as Markdown, as a page?"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from swarm_iac.cli.machines.fleet_view import FleetView
from swarm_iac.model.placement import Placement

if TYPE_CHECKING:
    from swarm_iac.plan.show.summary import Summary


def changes(view: FleetView) -> bool:
    """Would `up` change anything, now or as soon as a node answers?"""
    return summary(view).changes


def summary(view: FleetView) -> Summary:
    """What the plan comes to."""
    found: Summary = _context(view).summary(view.plan)
    return found


def plan_json(view: FleetView) -> dict[str, Any]:
    """The plan as JSON."""
    from swarm_iac.plan.show.render import as_json

    return as_json(view.plan, _context(view))


def plan_text(view: FleetView) -> tuple[Any, ...]:
    """The plan as text."""
    from swarm_iac.plan.show.render import text

    return tuple(text(view.plan, _context(view)))


def plan_markdown(view: FleetView) -> str:
    """The plan for a pull request."""
    from swarm_iac.plan.show.markdown import markdown

    return markdown(view.plan, _context(view))


def plan_page(view: FleetView, refused: str, *, details: bool = True) -> str:
    """The plan as one page for a browser. `refused`: why `up` would refuse it; `details`: with all values, or names alone."""
    from swarm_iac.page import page

    return page(view.plan, _context(view), refused=refused, details=details)


def _context(view: FleetView) -> Any:
    from swarm_iac.plan.show.render import Context

    return Context(
        stack=view.decision.stack,
        before=Placement() if view.blank else view.decision.last,
        after=view.decision.placement,
        proof=view.decision.proof,
        today=datetime.date.today(),
        offline=view.offline,
        starts=view.starts,
    )
