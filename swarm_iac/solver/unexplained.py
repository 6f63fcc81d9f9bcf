"""Why has each that is pending no place? Looked for last, and only for an answer that goes to the user."""

from __future__ import annotations

from dataclasses import dataclass

from swarm_iac.model.placement import Reason, Unplaced
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.conflict import Causes, capacity_of
from swarm_iac.solver.explain.lacking import code, lacking
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
    a large fleet. Its proof has no digest of the placement yet: that of 10,000 allocations takes 0.15 s.
    """

    solution: Solution
    snapshot: Snapshot
    watch: Watch
    large: bool

    def explained(self) -> Solution:
        """With the reasons; where the search was ended by hand of SEEN workloads, of a large fleet of none."""
        if not self.solution.placement.unplaced:
            return self.bare()
        self.watch.phase("finding the reasons of what is pending")
        causes = Causes(capacity_of(self.snapshot, self.solution.placement))
        shown: list[Unplaced] = []
        for gone in self.solution.placement.unplaced:
            stopped = self.watch.stopped
            seen = not stopped or not (self.large or len(shown) >= SEEN)
            shown.append(self._told(causes, gone, seen=seen, counted=len(shown) < COUNTED and not stopped))
        return self._whole(tuple(shown))

    def bare(self) -> Solution:
        """Without them."""
        return self._whole(self.solution.placement.unplaced)

    def why(self, gone: Unplaced) -> Unplaced:
        """One of those that are pending, with its reasons."""
        causes = Causes(capacity_of(self.snapshot, self.solution.placement))
        return self._told(causes, gone, seen=True, counted=True)

    def _told(self, causes: Causes, gone: Unplaced, *, seen: bool, counted: bool) -> Unplaced:
        request = self.snapshot.requests[gone.workload]
        reasons = causes.of(request) if seen else (UNSEEN,)
        nodes = lacking(causes.seen(request), request) if counted else ""
        return gone.model_copy(update={"reasons": reasons, "code": code(reasons), "nodes": nodes})

    def _whole(self, unplaced: tuple[Unplaced, ...]) -> Solution:
        """With the jobs that finished, about which nothing was decided."""
        placement = self.solution.placement.model_copy(update={"unplaced": unplaced})
        if self.snapshot.ended:
            ones = sorted((*placement.allocations, *self.snapshot.ended), key=lambda a: a.name)
            placement = placement.model_copy(update={"allocations": tuple(ones)})
        proof = self.solution.proof.model_copy(update={"placement": digest(placement)})
        return self.solution.model_copy(update={"placement": placement, "proof": proof})
