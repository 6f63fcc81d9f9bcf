"""Would this change stop more than anyone can have meant?

A typo can empty a stack file, a bad merge can cut its list of nodes in half, a fleet can be renamed. None of this is an
error of form, so it is the number of running allocations that would stop which decides, and a person who says so.
A replica of a service that is handed over healthy does not count: nobody misses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from swarm_iac.errors import Refused
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.step import Plan, Verb
from swarm_iac.plan.state.diff import ended
from swarm_iac.plan.state.ownership import UNPLACED
from swarm_iac.plan.step_graph.actions import gang_failed
from swarm_iac.pluralize import pluralize
from swarm_iac.ranges import natural, ranges

_SERVES = ("healthy-first", "one-by-one")
#: Names that a refusal lists of each node. Of what would stop it lists all, as ranges: who allows it must have read them.
_SHOWN = 8


def stopped(plan: Plan, desired: Mapping[str, Desired]) -> tuple[str, ...]:
    """Allocations that the plan stops and that are missed for it: for good, or until they started again."""
    goes_on = {name for node in desired.values() if node.managed for name in node.state.allocations
               if node.handover.get(name) in _SERVES}  # fmt: skip
    # What a node merely names is nobody's, and must not keep everyone's change from being made. Nor must a gang of which a
    # member failed: it stops for that, and for no change.
    whys = {step.allocation: step.why for step in plan.steps if step.verb is Verb.STOP and step.why != UNPLACED}
    ones = (each for node in desired.values() for each in node.state.allocations.items())
    failed = {name for name, one in ones if whys.get(name) == gang_failed(one.workload)}
    return tuple(sorted(whys.keys() - goes_on - failed, key=natural))


def refuse_mass_stop(names: Iterable[str], stops: int, allowed: int) -> None:
    """Raises Refused when more than `stops` (and than was `allowed` for this run) would be stopped."""
    found = list(names)
    if len(found) > max(stops, allowed):
        raise Refused(
            f"this would stop {pluralize(len(found), 'running allocation')} ({ranges(found)}), and solve.stops is {stops}",
            hint=f"if that is meant: --allow-stop {len(found)}, or SWARM_ALLOW_STOP={len(found)} for bare pulumi",
        )


def refuse_emptied(
    names: Iterable[str], desired: Mapping[str, Desired], allowed: int, stack: Callable[[], Stack | None] = lambda: None
) -> None:
    """Raises Refused when all that runs would stop and nothing is to run: in a small fleet, too, a mistake.

    The stack declares no workloads then, or none of them has a place (`stack`, asked for the words alone). A single allocation
    may go: a user who tries the product with one workload removes it again.
    """
    found = list(names)
    asked = any(node.managed and node.state.allocations for node in desired.values())
    if len(found) > max(1, allowed) and not asked:
        known = stack()
        why = "no workload of the stack would run" if known and known.workloads else "the stack declares no workloads"
        raise Refused(
            f"this would stop all {len(found)} running allocations ({ranges(found)}): {why}",
            hint=f"if that is meant: --allow-stop {len(found)}, or SWARM_ALLOW_STOP={len(found)} for bare pulumi",
        )


def refuse_removal(observed: Mapping[str, Observed], leaving: Iterable[str], desired: Mapping[str, Desired]) -> None:
    """Raises Refused when a node that leaves the stack still holds work, or the end of a job that is still asked for."""
    asked = {name for node in desired.values() if node.managed for name in node.state.allocations}
    working: dict[str, list[str]] = {}
    for node in sorted(leaving):
        seen = observed.get(node)
        for name, state in seen.state.allocations.items() if seen else ():
            over = seen is not None and ended(seen, name)
            if (state.unit.active and not over) or (over and name in asked):
                working.setdefault(node, []).append(name)
    refuse_left(working)


def refuse_left(working: Mapping[str, Collection[str]]) -> None:
    """Raises Refused when there is a node that left the stack; `working`: what is on each, by its name."""
    if working:
        count = sum(map(len, working.values()))
        listed = "; ".join(f"{node}: {_some(list(names))}" for node, names in working.items())
        those = pluralize(len(working), "node that left the stack still holds", "nodes that left the stack still hold")
        raise Refused(
            f"{those} {pluralize(count, 'allocation')} ({listed})",
            hint="put them back with `state: drain`, run up, and remove them then; a machine that is gone gets `state: lost`",
        )


def refuse_foreign(observed: Mapping[str, Observed], asked: Iterable[str], lineage: str) -> None:
    """Raises Refused when nodes that are asked for are of another lineage, also when nothing would change on them.

    Each node refuses a foreign step by itself; but a clone that wants what is there takes no step, and would end well.
    """
    heads = {name: observed[name].ledger for name in asked if name in observed and not observed[name].error}
    other = {name: head for name, head in heads.items() if head and head.lineage != lineage}
    if other and lineage:
        owners = ", ".join(sorted({f"fleet {head.fleet} (lineage {head.lineage})" for head in other.values()}))
        raise Refused(
            f"{_some(sorted(other))}: belongs to {owners}, and this repository's state is of lineage {lineage}",
            hint="work with the state of that lineage; if it is lost, `swarm adopt` from an empty state takes these nodes over",
        )


def refuse_unseen(
    stood: Mapping[str, str], observed: Mapping[str, Observed], desired: Mapping[str, Desired], lost: Collection[str]
) -> None:
    """Raises Refused when what may stand only because it ran, by the node where it did, is not there for its user.

    On a cordoned node and above a lowered limit nothing new may come, and who writes the lock file says what ran. Of a node
    that does not answer, or is given up, nobody knows; nothing is started there either.
    """
    users = {name: one.unit.user for node in desired.values() for name, one in node.state.allocations.items()}

    def seen(name: str, node: str) -> bool:
        if node in lost or (node in observed and observed[node].error):
            return True
        there = observed[node].state.allocations.get(name) if node in observed else None
        return there is not None and there.unit.user in ("", users.get(name, ""))

    missing = [name for name, node in stood.items() if not seen(name, node)]
    if missing:
        raise Refused(
            f"{_some(sorted(missing))}: the lock file says that it runs, and the machines do not show it for its user; as "
            "something new it may not come: to a cordoned or tainted node, above a limit, or over more NUMA nodes",
            hint="raise the limit, set the node to `state: ready`, or tolerate its taints; or take them out of the lock file "
            "and run `swarm solve`",
        )


def refuse_rename(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> None:
    """Raises Refused when nodes of one fleet are asked for under another fleet's name."""
    other = {
        name: seen.ledger.fleet for name, seen in observed.items()
        if seen.ledger and name in desired and seen.ledger.fleet and seen.ledger.fleet != desired[name].fleet
    }  # fmt: skip
    if other:
        running = sum(state.unit.active for name in other for state in observed[name].state.allocations.values())
        fleets = ", ".join(sorted(set(other.values())))
        raise Refused(
            f"{_some(sorted(other))} belong to the fleet {fleets}, and the stack file says "
            f"{', '.join(sorted({desired[name].fleet for name in other}))}: "
            f"{pluralize(running, 'running allocation is', 'running allocations are')} at stake",
            hint=f"write `fleet: {fleets}` again; another fleet can take these nodes once this one has released them",
        )


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
