"""What is one goal of a model? A sum that is to be large, or small, and what is known of it by counting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import Terms, Values


@dataclass
class Aim:
    """One goal on a board: value = constant + Σ coefficient · variable. `best` is a bound by counting."""

    name: str
    terms: Terms
    constant: int
    sense: int  # 1: max, -1: min
    best: int
    base: int = 0  # 1 + R where the value is worth; 0 elsewhere
    share: float = 1.0  # of the effort
    unit: str = "gpus"  # what worth counts before replicas
    places: int | None = None  # the priority whose replicas it counts, where it counts what is placed
    settles: bool = False  # does it say who of those that ran stops? Moving what is fixed here could then better it
    due: bool = False  # does it count what teams hold of what they are due, or who is not stopped for that?
    runs: bool = False  # does it count what runs on, so that what it lacks was stopped?
    turns: bool = False  # is a long search for it one in several ways, in turns? See `search`
    inside: str = ""  # an earlier goal than which it is never larger
    counts: frozenset[str] | None = None  # the workloads whose replicas it counts; None: it looks at all
    on_gpus: frozenset[str] | None = None  # those of them with GPUs

    def measure(self, values: Values) -> int:
        """Its value in a placement."""
        return self.constant + sum(coefficient * values[var.index] for var, coefficient in self.terms)

    def expression(self) -> cp_model.LinearExprT:
        """The part that can change."""
        return cp_model.LinearExpr.weighted_sum([v for v, _ in self.terms], [c for _, c in self.terms])

    def split(self) -> tuple[Aim, ...]:
        """Where it counts worth: its GPUs, then its replicas, each as a goal of its own. Else itself."""
        if not self.base:
            return (self,)

        def part(name: str, of: Callable[[int], int], counts: frozenset[str] | None) -> Aim:
            terms = [(var, count) for var, c in self.terms if (count := of(c))]
            constant, best = of(self.constant), of(self.best)
            return replace(self, name=name, terms=terms, constant=constant, best=best, base=0, places=None, counts=counts)

        return (
            part(f"{self.name}_{self.unit}", lambda worth: worth // self.base, self.on_gpus),
            part(f"{self.name}_replicas", lambda worth: worth % self.base, self.counts),
        )
