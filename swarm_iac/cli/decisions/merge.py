"""Which lock do two branches make together? Decided on the merged stack file; what runs comes first.

Blocks that one branch changed are taken from it. Where that breaks a rule (a GPU with two owners, a limit, capacity), or both
changed a block, the solver decides again, and nobody who has a place on both sides may lose it: that is refused, with why.
"""

from __future__ import annotations

import datetime
import tempfile
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.cli.decisions import merge_versions
from swarm_iac.cli.decisions.merge_versions import Versions
from swarm_iac.decision import Decision, decide_merged, still
from swarm_iac.errors import LimitExceeded, Refused
from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.service.variants import applied
from swarm_iac.stackfile import Loaded
from swarm_iac.stackfile.load import loads
from swarm_iac.stackfile.locks import finished, lock
from swarm_iac.stackfile.locks import proof as proofs
from swarm_iac.stackfile.locks.companions import Files
from swarm_iac.stackfile.locks.merge import MergedLock, merge


@dataclass(frozen=True)
class MergeOutcome:
    """The merged lock, its proof (None: that of before is stale), and what the solver decided; empty where it was not asked."""

    lock: str
    decision: Decision
    again: tuple[str, ...]
    #: What may run: the placement of the branch whose allocations come first.
    ran: Placement

    @property
    def proof(self) -> str | None:
        """The proof file's text, if there is a new proof."""
        return proofs.dump(self.decision.proof) if self.decision.proof else None


def driver(root: Path, path: str, base: Path, ours: Path, theirs: Path, today: datetime.date) -> MergeOutcome:
    """Merge one file for git: the result is in `ours`, with conflict markers where it raises SwarmError.

    `root`: of git's work tree, in which `path` is.
    """
    base, ours, theirs = (root / file for file in (base, ours, theirs))
    try:
        found = decided(root, merge_versions.of_driver(root, path, base, ours, theirs), today)
    except BaseException:
        merge_versions.conflicting(root, base, ours, theirs)
        raise
    if not path.endswith(".proof.yaml"):
        ours.write_text(found.lock)
    elif found.proof is not None:
        ours.write_text(found.proof)
    return found


def decided(root: Path, versions: Versions, today: datetime.date, *, refusing: bool = True) -> MergeOutcome:
    """The lock of a merge. Raises StackFileError; and Refused, if `refusing`, where something would lose its place by it."""
    loaded = _load(versions, today)
    file = merge_versions.lock_of(versions.name)
    base, ours, theirs = (
        lock.Lock() if text is None else lock.parse(text, file) for text in (versions.base, versions.ours, versions.theirs)
    )
    first, second = (theirs, ours) if versions.theirs_first else (ours, theirs)
    merged = merge(base, first, second)
    files = Files.of(root, versions.name)
    decision = decide_merged(root, files, loaded, merged.lock, first, today=today)
    again = decision.stale
    if again:
        start = _fitting(merged, first, loaded, today)
        decision = decide_merged(root, files, loaded, start, first, today=today, again=True)
        if refusing:
            _nobody_lost(merged, decision, again)
    ran = lock.renamed(first, loaded.stack).placement
    if broken := judge(decision.stack, decision.placement, today, **still(ran, decision.placement)):
        raise LimitExceeded(f"the merged lock would break {broken[0].rule}: {broken[0].text}", hint="please report this bug")
    text = lock.dump(lock.make(decision.stack, decision.placement, decision.declared)) if again else lock.dump(merged.lock)
    return MergeOutcome(text, decision, again, finished.of_now(lock.renamed(first, loaded.stack), loaded.stack))


def _load(versions: Versions, today: datetime.date) -> Loaded:
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "limits.yaml"
        if versions.policy is not None:
            policy.write_bytes(versions.policy)
        found = policy if versions.policy is not None else None
        return loads(versions.stack, f"stacks/{versions.name}.yaml", policies=found, today=today)


def _fitting(merged: MergedLock, first: lock.Lock, loaded: Loaded, today: datetime.date) -> lock.Lock:
    """The merged lock with as much of the second branch's as keeps every rule beside what the first has."""
    stack = applied(loaded.stack, merged.lock.placement)
    ran = lock.renamed(first, stack).placement
    known = {one.name for one in merged.lock.placement.allocations}
    named = {one.name for one in ran.allocations}
    mine = sorted((merged.second & known) - named) + sorted(merged.second & known & named)

    def fits(left: frozenset[str]) -> bool:
        placement = lock.renamed(merged.without(left), stack).placement
        ones = tuple(one for one in placement.allocations if one.workload in stack.workloads and one.node in stack.nodes)
        placement = Placement(allocations=ones)
        return not judge(stack, placement, today, **still(ran, placement))

    def dropped(names: list[str], left: frozenset[str]) -> frozenset[str]:
        """Those of `names` that do not fit beside all that is not in `left`, halving what fails."""
        if not names or fits(left - frozenset(names)):
            return left - frozenset(names)
        if len(names) == 1:
            return left
        half = len(names) // 2
        return dropped(names[half:], dropped(names[:half], left))

    return merged.without(dropped(mine, frozenset(mine)))


def _nobody_lost(merged: MergedLock, decision: Decision, again: tuple[str, ...]) -> None:
    """Raises Refused if what had a place on a branch, and is still requested, has none."""
    now = {one.name for one in decision.placement.allocations}
    asked = decision.stack.workloads
    before = lock.renamed(merged.lock, decision.stack).placement.going()
    lost = [one for one in before if one.name not in now and one.workload in asked]
    waits = {one.workload: one for one in decision.placement.unplaced}
    names: dict[str, list[str]] = {}
    for one in lost:
        if one.workload in waits and one.index in waits[one.workload].missing:
            names.setdefault(one.workload, []).append(one.name)
    told = [
        f"{', '.join(each)}: {'; '.join(reason.text for reason in waits[name].reasons) or waits[name].nodes or 'no place'}"
        for name, each in names.items()
    ]
    if told:
        raise Refused(
            f"each branch is fine alone, and together they leave no place for {' and '.join(told)}",
            hint=f"change the stack file, then `swarm solve {decision.name} --merge`; as they are: {'; '.join(again[:3])}",
        )
