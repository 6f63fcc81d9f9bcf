"""Which stack is in effect, and what is said of the variants that it has? The answer about a stack as it is written."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from swarm_iac.model.placement import Lighter, Placement, Reason, Unplaced, Waiting
from swarm_iac.model.service import variants
from swarm_iac.model.stack import Stack
from swarm_iac.solver.decide.keep_size import beside, solve_keeping
from swarm_iac.solver.decide.variants import Tried, VariantSearch, workload_of
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.conflict import Causes, capacity_of
from swarm_iac.solver.explain.lacking import code, lacking
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.solution import Move, Solution, digest

W = TypeVar("W", bound=Waiting)


def solve_declared(
    stack: Stack, last: Placement, *, today: datetime.date | None = None, watch: Watch | None = None
) -> tuple[Stack, Solution]:
    """The stack in effect, each workload in one variant, and its solution, which names those that are not in their first.

    Without variants it is `solve_keeping`.
    """
    if not variants.varied(stack):
        return solve_keeping(stack, last, today=today, watch=watch)
    search = VariantSearch(stack, last, today, watch or Watch())
    best = search.raised(search.improved(search.best()))
    said = Said(search)
    # The choices that are not taken are not bounded: theirs is the effort for the one that is.
    return said.named(said.asking(replace(best, solution=best.told(search.tries))))


@dataclass(frozen=True)
class Said:
    """What is said of a choice of variants."""

    search: VariantSearch

    def asking(self, best: Tried) -> Tried:
        """With what has no place at all in its first variant, which it asks for; and why no other one fits either."""
        placement, choice = best.solution.placement, list(best.choice)
        stand = {one.workload for one in placement.allocations}
        waits = {one.workload for one in placement.unplaced} - stand
        for place, name in enumerate(self.search.names):
            choice[place] = 0 if name in waits else choice[place]
        if not waits & {*self.search.names}:
            return best
        stack = self.search.at(tuple(choice))
        reset = waits & {*self.search.names}
        ones = {name: one for name, one in best.stack.workloads.items() if name not in reset}
        stack = stack.model_copy(update={"workloads": {**stack.workloads, **ones}})
        unplaced = tuple(self._waiting(stack, placement, one) for one in placement.unplaced)
        placement = placement.model_copy(update={"unplaced": unplaced})
        return replace(
            best, choice=tuple(choice), stack=stack, solution=best.solution.model_copy(update={"placement": placement})
        )

    def _waiting(self, stack: Stack, placement: Placement, one: Unplaced) -> Unplaced:
        name, workload = one.workload, stack.workloads[one.workload]
        if name not in self.search.forms or any(each.workload == name for each in placement.allocations):
            return one
        found = self._refused(stack, placement, name)
        more = []
        for form in self.search.forms[name][1:]:
            other = {**stack.workloads, name: variants.at(self.search.stack.workloads[name], form)}
            reasons = self._refused(stack.model_copy(update={"workloads": other}), placement, name).reasons
            path = f"workloads.{name}.variants.{form}"
            text = "; ".join(reason.text for reason in reasons)
            more += [Reason(rule="no_variant_fits", text=f"in {form}: {text}", path=path)] if text else []
        missing = tuple(range(workload.members))
        return found.model_copy(update={"missing": missing, "reasons": (*found.reasons, *more)})

    def _refused(self, stack: Stack, placement: Placement, name: str) -> Unplaced:
        """Why the workload has no place beside what is placed, as `stack` asks for it."""
        snapshot = snapshot_of(stack, placement, self.search.today)
        causes, request = Causes(capacity_of(snapshot, placement)), snapshot.requests[name]
        reasons = causes.of(request)
        nodes = lacking(causes.seen(request), request)
        return Unplaced(workload=name, missing=(), code=code(reasons), nodes=nodes, reasons=reasons)

    def named(self, best: Tried) -> tuple[Stack, Solution]:
        """The stack in effect, and the solution that says who is not in its first variant, why, and what was compared."""
        lighter = tuple(self._lighter(best, name, i) for name, i in zip(self.search.names, best.choice, strict=True) if i)
        tried = len(self.search.tried)
        how = f"{tried} of {self.search.total} choices solved" if tried > 1 else "each is preferred, or runs"
        placement = best.solution.placement.model_copy(update={"lighter": tuple(sorted(lighter, key=lambda one: one.workload))})
        cut = self.search.total > 1 and not self.search.proven()
        proof = best.solution.proof
        proof = proof.model_copy(
            update={
                "optimal": proof.optimal and not cut,
                "parameters": proof.parameters | {"variants": how + (", others not excluded" if cut else "")},
            }
        )
        chosen = dict(zip(self.search.names, best.choice, strict=True))
        placement = self._written(placement, chosen)
        proof = proof.model_copy(update={"placement": digest(placement)})
        moves = tuple(self._cause(one, chosen) for one in best.solution.moves)
        return best.stack, best.solution.model_copy(update={"placement": placement, "proof": proof, "moves": moves})

    def _written(self, placement: Placement, chosen: Mapping[str, int]) -> Placement:
        """With each reason at the line that gives its value, in a variant or for all."""
        stack, forms = self.search.stack, self.search.forms
        taken = {name: forms[name][i] for name, i in chosen.items()}

        def at(one: Reason, variants_of: Mapping[str, str]) -> Reason:
            return one.model_copy(update={"path": variants.written_path(stack, variants_of, one.path)})

        def each(one: W) -> W:
            first = {one.workload: forms[one.workload][0]} if isinstance(one, Lighter) else {}
            return one.model_copy(update={"reasons": tuple(at(reason, taken | first) for reason in one.reasons)})

        parts = {"unplaced": placement.unplaced, "growing": placement.growing, "lighter": placement.lighter}
        return placement.model_copy(update={name: tuple(map(each, ones)) for name, ones in parts.items()})

    def _cause(self, move: Move, chosen: Mapping[str, int]) -> Move:
        """A replica that starts in another variant leaves its node for that, and for nobody else."""
        name = workload_of(move.name)
        if not move.target or not self.search.stays[name] or chosen.get(name, 0) == self.search.ran.get(name, 0):
            return move
        was, now = self.search.forms[name][self.search.ran[name]], self.search.forms[name][chosen[name]]
        return move.model_copy(update={"why": f"it changes its variant from {was} to {now}"})

    def _lighter(self, best: Tried, name: str, i: int) -> Lighter:
        """Why it does not run in its first variant: what keeps that out beside all that is placed, and who would be pending."""
        first = self.search.forms[name][0]
        asked = self.search.at(tuple(0 if one == name else at for one, at in zip(self.search.names, best.choice, strict=True)))
        found = beside(asked, best.stack, best.solution.placement, name, self.search.today, whole=True)
        reasons = [] if found is None else [of_change(one) for one in found.reasons]
        path = f"workloads.{name}.variants"
        if more := self._pending_without(best, name):
            alone = more == f"{name} {_PENDING}"
            text = f"in {first} it {_PENDING}" if alone else f"with {name} in {first}, {more}"
            reasons.insert(0, Reason(rule="lighter_places_more", text=text, path=f"{path}.{self.search.forms[name][i]}"))
        if not reasons:
            spare = self.search.stack.workloads[name].changes_variant == "spare"
            way = "with capacity for one replica more" if spare else "when it starts anyway"
            text = f"{first} would fit, and it changes its variant only {way}"
            reasons.append(Reason(rule="restarts_only_anyway", text=text, path=f"workloads.{name}.on_variant"))
        code, nodes = (found.code, found.nodes) if found else ("Variant", "")
        above = self.search.forms[name][:i]
        return Lighter(
            workload=name, variant=self.search.forms[name][i], instead_of=above, code=code, nodes=nodes, reasons=tuple(reasons)
        )

    def _pending_without(self, best: Tried, name: str) -> str:
        """Who has less in a choice that was solved and differs in nothing but that this one is in its first variant."""
        place = self.search.names.index(name)
        other = self.search.tried.get((*best.choice[:place], 0, *best.choice[place + 1 :]))
        if other is None:
            return ""
        now = {one.workload: len(one.missing) for one in best.solution.placement.unplaced}
        grows = {one.workload for one in best.solution.placement.growing}
        gone, kept = other.solution.placement.unplaced, other.solution.placement.growing
        waits = [one.workload for one in gone if len(one.missing) > now.get(one.workload, 0)]
        stuck = [one.workload for one in kept if one.workload not in grows]
        words = [f"{_some(names)} {what}" for names, what in ((waits, _PENDING), (stuck, "could not grow")) if names]
        return " and ".join(words)


_PENDING = "would be pending"


def of_change(reason: Reason) -> Reason:
    """The reason of what grows, of replicas that change their variant together."""
    return reason.model_copy(update={"text": reason.text.replace("replicas grow or none", "replicas change or none")})


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
