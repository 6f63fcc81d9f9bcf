"""How good is a placement, and why has each that is pending no place? Looked for last, and only for an answer that is given."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import cached_property

from swarm_iac.model.placement import Placement, Reason, Unplaced
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.conflict import Causes, capacity_of
from swarm_iac.solver.explain.lacking import code, lacking
from swarm_iac.solver.explain.messages import KEEPS_DEVICES
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.solution import Solution, digest

#: After a search that was ended by hand so many reasons are looked for; the others say so.
SEEN = 20
#: For so many workloads nodes are counted: that looks at every node each time.
COUNTED = 100
UNSEEN = Reason(rule="effort", text="the search was ended before the reason was looked for", path="solve.effort")


@dataclass(frozen=True)
class Unexplained:
    """A solution that does not say yet why something is pending.

    `snapshot`: what it was decided from, with all ceilings: what cannot bind now may do so when a rule is given up. `large`: of
    a large fleet. `proven`: the same placement with bounds, for so many times the usual effort, where they are not known yet:
    on a large fleet they take a third of the time. `improved`: the next one after so many times some effort, on a large fleet
    on which nothing runs. Its proof has no digest of the placement yet: that of 10,000 allocations takes 0.15 s.
    """

    solution: Solution
    snapshot: Snapshot
    watch: Watch
    large: bool
    proven: Callable[[int], Solution] | None = None
    improved: Callable[[int], Unexplained] | None = None

    def explained(self, times: int = 1) -> Solution:
        """With bounds, for so many times the usual effort, and reasons: where the search was ended by hand those of SEEN
        workloads, of a large fleet of none.
        """
        solution = self._proven(times)
        if not solution.placement.unplaced:
            return self._whole(solution, ())
        self.watch.phase("finding the reasons of what is pending")
        shown: list[Unplaced] = []
        for gone in solution.placement.unplaced:
            stopped = self.watch.stopped
            seen = not stopped or not (self.large or len(shown) >= SEEN)
            shown.append(self._told(gone, seen=seen, counted=len(shown) < COUNTED and not stopped))
        return self._whole(solution, tuple(shown))

    def bare(self) -> Solution:
        """With bounds alone."""
        return self._whole(self._proven(), self.solution.placement.unplaced)

    def placed(self) -> Solution:
        """With neither, to be compared with others."""
        return self.solution.model_copy(update={"placement": self._with_ended(self.solution.placement)})

    def why(self, gone: Unplaced) -> Unplaced:
        """One of those that are pending, with its reasons."""
        return self._told(gone, seen=True, counted=True)

    def lacks_devices(self, names: Set[str]) -> bool:
        """Has one of these capacity, and only its devices are taken? Asked of those that ran, before all reasons are sought."""
        if self._causes.capacity.local is None or (self.large and self.watch.stopped):
            return False
        gone = (self.snapshot.requests[one.workload] for one in self.solution.placement.unplaced if one.workload in names)
        return any(reason.rule == KEEPS_DEVICES for request in gone for reason in self._causes.of(request))

    @cached_property
    def _causes(self) -> Causes:
        return Causes(capacity_of(self.snapshot, self.solution.placement))

    def _proven(self, times: int = 1) -> Solution:
        return self.proven(times) if self.proven else self.solution

    def _told(self, gone: Unplaced, *, seen: bool, counted: bool) -> Unplaced:
        request = self.snapshot.requests[gone.workload]
        reasons = self._causes.of(request) if seen else (UNSEEN,)
        nodes = lacking(self._causes.seen(request), request) if counted else ""
        return gone.model_copy(update={"reasons": reasons, "code": code(reasons), "nodes": nodes})

    def _whole(self, solution: Solution, unplaced: tuple[Unplaced, ...]) -> Solution:
        placement = self._with_ended(solution.placement.model_copy(update={"unplaced": unplaced}))
        proof = solution.proof.model_copy(update={"placement": digest(placement)})
        return solution.model_copy(update={"placement": placement, "proof": proof})

    def _with_ended(self, placement: Placement) -> Placement:
        """With the jobs that finished, about which nothing was decided."""
        if not self.snapshot.ended:
            return placement
        ones = sorted((*placement.allocations, *self.snapshot.ended), key=lambda a: a.name)
        return placement.model_copy(update={"allocations": tuple(ones)})
