"""What does a fix do once each workload may change its variant for it, as `swarm what-if` shows it?

A fix is tested with each workload in the variant that is decided. Who loses its place may run in another one then. On a fleet
of more than PAIRS (workload, node) that is not looked at: a solve takes over a second there, and a person waits.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from swarm_iac.decision import Decision
from swarm_iac.model.edit import Edit, changed
from swarm_iac.model.service import variants
from swarm_iac.model.service.needs import derived, written
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Fix, Solution, Watch, solve_declared
from swarm_iac.solver.advice.fixes import price
from swarm_iac.stackfile.locks.finished import of_other

#: Of workloads and nodes.
PAIRS = 2_500


@dataclass
class InVariants:
    """The fixes of one workload, each solved once. After the watch is stopped nothing more is."""

    decision: Decision
    workload: str
    today: datetime.date
    watch: Watch
    solved: dict[tuple[Edit, ...], tuple[Stack, Stack, Solution]] = field(default_factory=dict)

    def preferred(self, fix: Fix) -> bool:
        """Does the workload run in its first variant then? It has a place there, but what runs is not stopped for that."""
        if (then := self._solved(fix)) is None:
            return False
        placement = then[2].placement
        return not any(one.workload == self.workload for one in (*placement.lighter, *placement.unplaced))

    def told(self, fixes: Iterable[Fix]) -> Iterator[Fix]:
        """Each fix that still places it, with its price where workloads are affected that have variants."""
        written_as, placement = self.decision.written, self.decision.placement
        few = len(written_as.workloads) * len(written_as.nodes) <= PAIRS
        varied = {name for name, workload in written_as.workloads.items() if workload.variants and few}
        for fix in fixes:
            names = {*fix.displaced, *fix.dropped, *fix.stops, *fix.restarts, *(one.name for one in fix.moves)}
            then = self._solved(fix) if any(name.rpartition("-")[0] in varied for name in names) else None
            if then is None:
                yield fix
                continue
            asked, stack, found = then
            if any(one.workload == self.workload for one in found.placement.unplaced):
                continue
            was, now = variants.choice(written_as, placement), variants.choice(asked, found.placement)
            edited = {edit.path.split(".")[1] for edit in fix.edits if edit.path.startswith("workloads.")}
            others = {name for name in (was.keys() & now.keys()) - edited if was[name] != now[name]}
            yield fix.model_copy(update=price(stack, found, placement, self.decision.last, self.workload, others))

    def _solved(self, fix: Fix) -> tuple[Stack, Stack, Solution] | None:
        """The stack file with the edits, the stack in effect, and the solution; None where it was not solved to its end."""
        if fix.edits not in self.solved and not self.watch.stopped:
            stack = written(self.decision.written)
            for edit in fix.edits:
                stack = changed(stack, edit)
            stack = derived(stack)
            last = of_other(self.decision.last, self.decision.written, stack)
            now, found = solve_declared(stack, last, today=self.today, watch=self.watch)
            if not self.watch.stopped:
                self.solved[fix.edits] = stack, now, found
        return self.solved.get(fix.edits)
