"""What does a proof say? And what of it changes where the placement did, or an engine failed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from swarm_iac.model.placement import Goal, Proof
from swarm_iac.model.stack import Stack
from swarm_iac.solver.backend.cpsat import SEED
from swarm_iac.solver.balance.besides import beside_value, least_beside, shy
from swarm_iac.solver.balance.company import alone_value, least_alone, wishes
from swarm_iac.solver.balance.nearest import near_value, nearby
from swarm_iac.solver.balance.preferred import choosy, lacks_value, least_lacks
from swarm_iac.solver.bounds.gpu_bounds import Bounds
from swarm_iac.solver.decide.by_columns import goals
from swarm_iac.solver.exact.search import EFFORT, Found
from swarm_iac.solver.exact.watch import goals_of
from swarm_iac.solver.explain.counting import EVERY, on_node
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.suitability import hindering
from swarm_iac.solver.snapshot.tasks import Pairs, by_workload
from swarm_iac.solver.solution import Solution

#: The digest in a proof whose placement may still change.
UNSIGNED = ""
#: Parameters of a proof whose placement had to be changed after all searches: it is not said to be optimal.
PLACED_AGAIN = frozenset({"numa", "others", "elsewhere"})


def proof_of(stack: Stack, found: Found, *, cut: bool, stopped: bool) -> Proof:
    """Of what a search found. `cut`: it ended early; `stopped`: by hand."""
    goals = tuple(goal for aim, value, bound in found.scores for goal in goals_of(aim, value, bound))
    effort = {"effort": stack.solve.effort, "per_goal": str(EFFORT[stack.solve.effort])}
    return Proof(
        optimal=not cut and all(goal.value == goal.bound for goal in goals),
        goals=goals,
        solver=f"OR-Tools CP-SAT {version('ortools')}",
        parameters={"workers": 1, "seed": SEED, **effort, **({"cut": "by hand"} if stopped else {})},
        placement=UNSIGNED,
    )


def still_bounded(goals: tuple[Goal, ...], before: tuple[Goal, ...]) -> tuple[Goal, ...]:
    """With the bounds of another placement: each holds where no goal about placing before it is worse than there."""
    known, holds, told = {goal.name: goal for goal in before}, True, []
    for goal in goals:
        old = known.get(goal.name)
        bound = min(goal.bound, old.bound) if old and holds else goal.bound
        told.append(goal.model_copy(update={"bound": max(goal.value, bound)}))
        holds = holds and old is not None and goal.value >= old.value
    return tuple(told)


def with_failures(solution: Solution, failures: Sequence[str]) -> Solution:
    """The proof names the engines of linear programs that gave no answer; what took their place bounds as well."""
    if not failures:
        return solution
    counts = Counter(failures)
    text = ", ".join(f"{what} ({times} times)" if times > 1 else what for what, times in counts.items())
    parameters = {**solution.proof.parameters, "failed_linear": text}
    return solution.model_copy(update={"proof": solution.proof.model_copy(update={"parameters": parameters})})


def with_goals(solution: Solution, goals: Sequence[Goal], *, stopped: bool) -> Solution:
    """The same placement with these goals in place of those of the same names. `stopped`: bounding was ended by hand."""
    known = {goal.name: goal for goal in goals}
    shown = tuple(known.get(goal.name, goal) for goal in solution.proof.goals)
    parameters = {**solution.proof.parameters, **({"cut": "by hand"} if stopped else {})}
    optimal = all(goal.value == goal.bound for goal in shown) and not PLACED_AGAIN & parameters.keys()
    update = {"goals": shown, "optimal": optimal, "parameters": parameters}
    return solution.model_copy(update={"proof": solution.proof.model_copy(update=update)})


def failed_after(solution: Solution, error: Exception) -> Solution:
    """The same placement, whose proof says what failed once it was found."""
    parameters = {**solution.proof.parameters, "failed": where_failed(error)}
    proof = solution.proof.model_copy(update={"parameters": parameters, "optimal": False})
    return solution.model_copy(update={"proof": proof})


def where_failed(error: Exception) -> str:
    """What failed, and at which line."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" at {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at is not None else ""
    return f"{type(error).__name__}{where}: {error}"


def preferences(snapshot: Snapshot, counts: Pairs, *, counted: bool = True) -> tuple[Goal, ...]:
    """What workloads would rather have, bounded by counting, or by 0 unless `counted`; nothing where nobody says so."""
    found = []
    if nearby(snapshot):
        value = near_value(snapshot, counts)
        found.append(Goal(name="near", value=value, bound=min(value, _least_near(snapshot, counts)) if counted else 0))
    if wishes(snapshot):
        value = alone_value(snapshot, counts)
        found.append(Goal(name="alone", value=value, bound=least_alone(snapshot, counts) if counted else 0))
    if shy(snapshot):
        value = beside_value(snapshot, counts)
        found.append(Goal(name="beside", value=value, bound=least_beside(snapshot, counts) if counted else 0))
    if choosy(snapshot):
        value = lacks_value(snapshot, counts)
        found.append(Goal(name="preferred", value=value, bound=least_lacks(snapshot, counts) if counted else 0))
    return tuple(found)


def _least_near(snapshot: Snapshot, counts: Pairs) -> int:
    """The fewest racks, or sites, beyond the first one, as if each workload had the fleet to itself."""
    placed, least, empty = by_workload(counts), 0, FreeCapacity(snapshot)
    for name in nearby(snapshot):
        request, home = snapshot.requests[name], snapshot.home(name)
        if request.local:
            continue  # what runs over several NUMA nodes may stay, and is not counted
        fits, alike = Counter[str](), dict[int, int]()  # nodes that are alike take as many
        for host, suits in zip(snapshot.nodes.values(), hindering(snapshot, request).none.tolist(), strict=True):
            group, kind = group_of(host, request.near or "node"), snapshot.same_size[host.name]
            if home[host.name]:
                fits[group] += max(home[host.name], on_node(empty, request, host, EVERY, placed[name], home))
            elif suits:
                if kind not in alike:
                    alike[kind] = on_node(empty, request, host, EVERY, placed[name])
                fits[group] += alike[kind]
        left, groups = placed[name], 0
        for _, fit in fits.most_common():
            groups += left > 0
            left -= fit
        least += max(0, groups - 1)
    return least


def with_shares_of(snapshot: Snapshot, counts: Pairs, shown: Mapping[str, Goal]) -> dict[str, Goal]:
    """The same goals, with what teams hold in `counts` of what they are due."""
    if snapshot.shares is None:
        return dict(shown)
    members = {name: request.members for name, request in snapshot.requests.items()}
    now = {goal.name: goal.value for goal in goals(snapshot, counts, members, Bounds()) if "_share" in goal.name}
    return {name: goal.model_copy(update={"value": now.get(name, goal.value)}) for name, goal in shown.items()}
