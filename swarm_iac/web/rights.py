"""What may a person see of a workload: all of it, or its name, its owner and where it is placed?"""

from __future__ import annotations

from dataclasses import dataclass

from swarm_iac.model.stack import Stack


@dataclass(frozen=True)
class Viewer:
    """Who looks at the page. `teams`: those whose workloads are shown in full, with the teams inside them."""

    name: str
    teams: frozenset[str] = frozenset()
    admin: bool = False

    def within(self, stack: Stack) -> Viewer:
        """The same with the team that the stack file has this account in: a proxy says a name, and no team."""
        return Viewer(self.name, self.teams | frozenset(stack.teams_of(self.name)[:1]), self.admin)

    def sees(self, stack: Stack, workload: str) -> bool:
        """Are the command of a workload, its request and the reasons of its placement shown?

        They are to its user, to members of its user's team or of one around that, and to administrators.
        """
        if self.admin:
            return True
        found = stack.workloads.get(workload)
        return found is not None and (found.user == self.name or bool(self.teams & set(stack.teams_of(found.user))))
