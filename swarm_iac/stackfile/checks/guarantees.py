"""Can every team have what it is guaranteed, at the same time?"""

from __future__ import annotations

from swarm_iac.errors import Problem
from swarm_iac.model.device import WHOLE
from swarm_iac.model.stack import Stack
from swarm_iac.pluralize import pluralize
from swarm_iac.stackfile.reading.source import Source
from swarm_iac.units import GpuCount


def guarantee_problems(stack: Stack, source: Source) -> list[Problem]:
    """For every team t:  guarantee_t ≤ limit_t;  and of all outermost teams together ≤ GPUs of the nodes, lost ones too.

    A team around others is guaranteed at least what those are together. With `worth`, guarantees and GPUs count by it.
    """
    problems = []
    top = max([WHOLE, *stack.worth.values()])
    for name, team in stack.teams.items():
        limit = stack.limits.of_team(name, team).limit("gpus")
        if team.guarantee.gpus and limit is not None and limit * top < team.guarantee.gpus * WHOLE:
            gpus_are = pluralize(team.guarantee.gpus, "GPU is", "GPUs are")
            text = f"{gpus_are} guaranteed, and team {name} may have {GpuCount(limit)}"
            hint = "lower the guarantee, or raise the limit of the team"
            problems.append(Problem(source.place(f"teams.{name}.guarantee"), f"teams.{name}.guarantee", text, hint))
    if not stack.nodes or any(node.hardware not in stack.hardware for node in stack.nodes.values()):
        return problems
    gpus = [stack.hardware[node.hardware].gpus for node in stack.nodes.values()]
    there = sum(one.count * int(stack.worth.get(one.model or "", GpuCount(WHOLE))) for one in gpus)
    most = sum(_together(stack, name) for name, team in stack.teams.items() if team.parent not in stack.teams)
    if most > there:
        first = next(name for name, team in stack.teams.items() if team.guarantee.gpus)
        text = f"{pluralize(GpuCount(most), 'GPU is', 'GPUs are')} guaranteed to teams, and the nodes have {GpuCount(there)}"
        hint = "lower some guarantees: what is not guaranteed is shared by weight"
        problems.append(Problem(source.place(f"teams.{first}.guarantee"), f"teams.{first}.guarantee", text, hint))
    return problems


def _together(stack: Stack, team: str, seen: frozenset[str] = frozenset()) -> int:
    inside = [name for name, one in stack.teams.items() if one.parent == team and name not in seen]
    return max(int(stack.teams[team].guarantee.gpus), sum(_together(stack, name, seen | {team}) for name in inside))
