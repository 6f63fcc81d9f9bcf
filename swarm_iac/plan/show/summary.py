"""What does a plan come to in one line: how much starts, moves, stops, changes in place, and what is pending?"""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.model.base import Value
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan.show.unreachable import unreachable
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable
from swarm_iac.ranges import natural

#: Names that the line itself lists per reason; the section about stops has all of them.
_SHOWN = 8
#: Of nothing, and of each of what a plan may do: as it is to be done, and as it was done.
_TO = ("nothing to change", "to start", "to move", "to restart", "to stop", "to change", "to configure", "to restore")
_DONE = ("nothing changed", "started", "moved", "restarted", "stopped", "changed", "configured", "restored")


class Summary(Value):
    """Names of allocations and nodes by what becomes of them; each allocation stands in one list only."""

    start: tuple[str, ...] = ()
    move: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    stop: dict[str, str] = {}
    lost: dict[str, str] = {}
    change: tuple[str, ...] = ()
    configure: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    deferred: int = 0
    unreachable: int = 0
    pending: int = 0

    @property
    def changes(self) -> bool:
        """Would `swarm up` change anything, now or as soon as a node answers?"""
        names = (self.start, self.move, self.restart, self.stop, self.lost, self.change, self.configure, self.restore)
        return any(names) or self.deferred > 0

    def line(self) -> str:
        """`2 to start, 1 to move, 1 to stop (fine-7, preempted by pretrain), 3 to change in place, 1 pending`."""
        return self._told(_TO, _by_reason(self.stop))

    def done(self) -> str:
        """The same after a run that did it: `2 started, 1 moved, 1 stopped (fine-7), 3 changed in place, 1 pending`."""
        return self._told(_DONE, _some(list(self.stop)))

    def _told(self, words: tuple[str, ...], stops: str) -> str:
        nothing, start, move, restart, stop, change, configure, restore = words
        nothing = nothing.replace("nothing to", "nothing known to") if self.unreachable else nothing
        parts = [
            "" if self.changes else nothing,
            f"{len(self.start)} {start}" if self.start else "",
            f"{len(self.move)} {move}" if self.move else "",
            f"{len(self.restart)} {restart}" if self.restart else "",
            f"{len(self.stop)} {stop} ({stops})" if self.stop else "",
            f"{len(self.lost)} given up ({_by_reason(self.lost)})" if self.lost else "",
            f"{len(self.change)} {change} in place" if self.change else "",
            f"{pluralize(len(self.configure), 'node')} {configure}" if self.configure else "",
            f"{pluralize(len(self.restore), 'node')} {restore}" if self.restore else "",
            f"{pluralize(self.deferred, 'step')} deferred" if self.deferred else "",
            f"{pluralize(self.unreachable, 'node')} unreachable" if self.unreachable else "",
            f"{self.pending} pending" if self.pending else "",
        ]
        return printable(", ".join(filter(None, parts)))


def summary(plan: Plan, stops: Mapping[str, str], pending: int) -> Summary:
    """What the plan comes to. `stops`: why an allocation stops for good, where more is known than the step says.

    An allocation that leaves one node and comes to another moves; one that is stopped and stays restarts.
    """
    goes: dict[str, str] = {}
    halts: dict[str, str] = {}
    comes: set[str] = set()
    starts: set[str] = set()
    checked: set[str] = set()
    changed: set[str] = set()
    nodes: dict[str, list[Step]] = {}
    for step in plan.steps:
        name = step.allocation
        if not name:
            of = step.why.removeprefix("of ") if step.verb is Verb.GPUS and step.why.startswith("of ") else ""
            if of:
                changed.add(of)
            else:
                nodes.setdefault(step.node, []).append(step)
        elif step.verb is Verb.RELEASE:
            goes[name] = step.why
        elif step.verb is Verb.STOP:
            halts[name] = step.why
        elif _new(step):
            comes.add(name)
        elif step.verb is Verb.START:
            starts.add(name)
        elif step.verb is Verb.HEALTH:
            checked.add(name)
        else:
            changed.add(name)
    move = (goes.keys() | halts.keys()) & comes
    restart = (halts.keys() & starts) - goes.keys() - move
    stop = {name: why for name, why in (halts | goes).items() if name not in move | restart}
    start = (comes - move) | ((starts & checked) - halts.keys())
    rest = (changed | starts | checked) - move - stop.keys() - restart - start
    given = {node for node, steps in nodes.items() if any(step.verb is Verb.RESTORE for step in steps)}
    return Summary(
        start=tuple(sorted(start, key=natural)), move=tuple(sorted(move, key=natural)),
        restart=tuple(sorted(restart, key=natural)),
        stop={name: stops.get(name) or stop[name] or "no longer wanted" for name in sorted(stop, key=natural)},
        change=tuple(sorted(rest, key=natural)), configure=tuple(sorted(nodes.keys() - given)), restore=tuple(sorted(given)),
        deferred=len(plan.deferred), unreachable=len(unreachable(plan)), pending=pending,
    )  # fmt: skip


def given_up(stack: Stack, before: Placement, after: Placement) -> dict[str, str]:
    """Of each allocation that ran and has no place any more, on a node that no step will reach: why, by its name there."""
    now, found = after.by_name(), {}
    for one in before.going():
        node = stack.nodes.get(one.node)
        if one.name in now or one.workload not in stack.workloads or (node is not None and node.state != "lost"):
            continue
        found[one.name] = f"{one.node} is lost" if node else f"{one.node} is not in the stack file any more"
    return found


def _by_reason(names: Mapping[str, str]) -> str:
    """Names by reason; the reasons in the order of their first name."""
    by: dict[str, list[str]] = {}
    for name, why in names.items():
        by.setdefault(why, []).append(name)
    return "; ".join(f"{_some(each)}, {why}" for why, each in by.items())


def pending(placement: Placement) -> int:
    """Replicas without a place, and those that wait to grow."""
    growing = {one.workload for one in placement.growing}
    waits = sum(one.workload in growing for one in placement.going())
    return sum(len(one.missing) for one in placement.unplaced) + waits


def _new(step: Step) -> bool:
    return any(change.old is None and change.path.endswith(".slice.cpu_weight") for change in step.changes)


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
