"""What differs on the machines from what was applied last, value by value, and who did not answer? Nothing is decided."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import get_args

from swarm_iac.cli.engine import options
from swarm_iac.cli.machines import lock_records, state_file
from swarm_iac.decision import Decision, decide, request, running
from swarm_iac.errors import Refused, StaleLock
from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.step import Plan, Step
from swarm_iac.plan.state.completion import came_to_end
from swarm_iac.plan.state.diff import ended
from swarm_iac.plan.state.mismatch import mismatches
from swarm_iac.reconcile import Reconciliation, Target, Transition
from swarm_iac.review.last_known import HIDDEN, FleetSnapshot, Health, NodeDifference, NodeReport, published, shown


@dataclass(frozen=True)
class Survey:
    """The nodes of one stack, each asked once. `snapshot` has all values, as operators may see them.

    `silent`: nodes that did not answer → why. `unverified`: values that a driver failed to tell, by node.
    """

    snapshot: FleetSnapshot
    silent: Mapping[str, str]
    unverified: Mapping[str, tuple[str, ...]]

    def published(self) -> Survey:
        """The same as everyone may read it who may open a pull request, or see the log of a job."""
        nodes = {
            name: one.model_copy(update={"differences": tuple(map(published, one.differences))})
            for name, one in self.snapshot.nodes.items()
        }
        snapshot = self.snapshot.model_copy(update={"nodes": nodes})
        return Survey(snapshot, dict.fromkeys(self.silent, HIDDEN), dict.fromkeys(self.unverified, (HIDDEN,)))


def survey(root: Path, tree: Path, name: str, commit: str) -> Survey:
    """Ask every machine of a stack, as it is in the work tree of a `commit`; how machines are reached is set in `root`.

    What is compared with is the lock. A stale one counts as well: what it does not decide yet is on no machine. Raises Refused
    where it names what the stack file does not have.
    """
    from swarm_iac.observe import but_asleep, observe
    from swarm_iac.reach.node_program import agent_digest

    today, run = datetime.date.today(), options(root)
    decision = replace(_locked(tree, name, today), root=root)
    asked = request(decision, today)
    wanted = asked.nodes()
    records = state_file.records(root, name) or lock_records.records(decision, wanted)
    transition = Transition.of(Target.of(asked, wanted, records.lineage), records, run.state_home)
    ask = partial(observe, ssh_config=run.ssh_config, timeout=run.node_timeout)
    off = decision.layer.asleep
    found = Reconciliation.of(but_asleep(ask, lambda: off), transition, agent_digest())
    seen = {node: found.observed[node] for node in wanted}
    found = found.as_if_running(replace(found, observed=_known_ends(seen, wanted)))
    rows: dict[str, list[NodeDifference]] = {node: [] for node in wanted}
    for node, one in _differences(seen, wanted, found.plan):
        rows.setdefault(node, []).append(one)
    over = came_to_end(decision.stack, decision.placement, seen)
    finished = {node: tuple(sorted(one.name for one in decision.placement.on(node) if one.name in over)) for node in wanted}
    nodes = {
        node: NodeReport(
            answered=not seen[node].error or seen[node].asleep if node in seen else True,  # nobody expects it to
            differences=tuple(dict.fromkeys(rows[node])),
            health=_health(seen[node], wanted[node]) if node in seen else {},
            finished=finished.get(node, ()),
        )
        for node in sorted(rows)
    }
    at = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return Survey(
        FleetSnapshot(stack=name, fleet=decision.stack.fleet, commit=commit, at=at, nodes=nodes),
        {node: one.error.strip() for node, one in sorted(seen.items()) if one.error and not one.asleep},
        {node: one.unverified for node, one in sorted(seen.items()) if one.unverified and not one.error},
    )


def _locked(tree: Path, name: str, today: datetime.date) -> Decision:
    """What the lock has, as a decision."""
    try:
        return decide(tree, name, today=today, frozen=True, write=False)
    except StaleLock as stale:
        found = running(tree, name, today=today)
        missing = [one.name for one in found.last.allocations if one.workload not in found.stack.workloads]
        missing += [one.name for one in found.last.allocations if one.node not in found.stack.nodes]
        if missing or not found.last.allocations:
            raise Refused(
                stale.message, hint="swarm up applies what is asked; then there is something to compare with"
            ) from None
        return replace(found, placement=found.last)


def _known_ends(seen: Mapping[str, Observed], wanted: Mapping[str, Desired]) -> dict[str, Observed]:
    """Each node with what the lock knows as finished, alone: that a job has finished since is no drift."""
    found = {}
    for node, one in seen.items():
        past = {name: each for name, each in one.state.allocations.items() if name in wanted[node].ended}
        found[node] = one.model_copy(update={"state": one.state.model_copy(update={"allocations": past})})
    return found


def _differences(
    seen: Mapping[str, Observed], wanted: Mapping[str, Desired], plan: Plan
) -> Iterator[tuple[str, NodeDifference]]:
    """Everything that a run would put right, and what it would leave since a roll-out halted or the hardware is another."""
    for node, words in mismatches(seen, wanted).items():
        yield node, NodeDifference(what="hardware", wanted="as declared", found=shown(words), kind="hardware")
    valued = {step.node for step in plan.steps if step.changes}
    for step in plan.steps:
        if step.changes:
            yield from ((step.node, _row(one.path, one.new, one.old)) for one in step.changes)
        elif step.node not in valued:
            yield step.node, NodeDifference(what=_step(step), wanted="done", found=shown(step.why or "needed"), kind="step")
    for left in plan.deferred:
        for one in left.step.changes if left.cause == "halted" else ():
            yield left.step.node, _row(one.path, one.new, one.old).model_copy(update={"kind": "halted"})


def _row(path: str, wanted: object, found: object) -> NodeDifference:
    return NodeDifference(what=shown(path), wanted=shown(wanted), found=shown(found))


def _step(step: Step) -> str:
    return shown(f"{step.verb} {step.allocation}" if step.allocation else f"{step.verb} ")


def _health(seen: Observed, wanted: Desired) -> dict[str, Health]:
    """Of what is to run there and neither is healthy nor has finished. A word that is none of ours is `unknown`."""
    known: dict[str, Health] = {word: word for word in get_args(Health)}
    return {
        name: known.get(how, "unknown")
        for name, how in sorted(seen.health.items())
        if name in wanted.state.allocations and how != "healthy" and not ended(seen, name)
    }
