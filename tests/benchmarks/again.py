"""Is a lock decided again whenever that would place something, and is it told when nothing changes? Random fleets, edits.

    python -m tests.benchmarks.again --seed N --fleets K [--machines 2-6] [--changes 5] [--save DIR]

Each seed is a small fleet in a repository of its own, decided from nothing and then through its edits, each from the lock
before, as `swarm solve` writes it. After each edit it must hold that

- frozen:   CI's frozen mode refuses the lock exactly when it is decided again;
- missed:   the decision leaves nothing without a place that a fresh repair would place, from the same lock or from its own;
- unsaid:   nor does more effort, from its own lock, unless the proof shows a gap there;
- told:     a plan says "nothing to change" exactly when `swarm solve` leaves the lock's allocations as they are;
- grown:    nothing that ran loses its slot while there is room for it in its old size, for wanting more;
- dropped:  what was decided again only because room appeared stops nothing, but for a higher priority;
- unsteady: what was written holds: it is not decided again, and a plan has nothing to change.

`--save` keeps each failure: the stack file, the lock and proof before it, and what failed. Exits 1 when there is one.
"""

from __future__ import annotations

import argparse
import datetime
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.machines import lock_records, plan_report
from swarm_iac.cli.machines.fleet_view import FleetView
from swarm_iac.decision import Decision, again, decide, keep, resolve
from swarm_iac.errors import Refused, StackFileError, StaleLock
from swarm_iac.model import growth
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.plan import desired, steps
from swarm_iac.plan.order.temporary_placement import may_be_placed
from swarm_iac.units import BitsPerSecond, Bytes
from tests.benchmarks.fleets.draw_workloads import filled
from tests.benchmarks.fleets.edits import edited
from tests.benchmarks.fleets.free import Free
from tests.benchmarks.fleets.written import Drawn, text_of

#: How often an edit is drawn anew when the file is refused.
ATTEMPTS = 5
NAME = "drawn"


@dataclass(frozen=True)
class Failure:
    """What does not hold after an edit. `kind`: one of those above."""

    seed: int
    edit: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"seed {self.seed} edit {self.edit}: {self.kind}: {self.text}"


def failures(seed: int, machines: tuple[int, int], changes: int, save: Path | None = None) -> Iterator[Failure]:
    """All that does not hold of one fleet. Works in a folder of its own."""
    drawn = filled(seed, random.Random(f"again {seed}").randint(*machines))
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        root = Path(folder)
        (root / "Pulumi.yaml").write_text("name: drawn\n")
        (root / "Pulumi.drawn.yaml").write_text("{}\n")  # it was applied
        (root / "stacks").mkdir()
        for number in range(changes + 1):
            what = "from nothing"
            if number:
                drawn, what = _next(root, drawn, seed, number)
            elif not _written(root, drawn):
                return
            before = tempfile.mkdtemp(dir=root)
            shutil.copytree(root / "stacks", before, dirs_exist_ok=True)
            for kind, text in _judged(root, drawn.today):
                if save:
                    kept = save / f"seed{seed}-edit{number}-{kind}"
                    shutil.copytree(before, kept, dirs_exist_ok=True)
                    (kept / "note.txt").write_text(f"{what}, on {drawn.today}\n{kind}: {text}\n")
                yield Failure(seed, number, kind, f"{text} (after: {what[:70]})")


def _next(root: Path, drawn: Drawn, seed: int, number: int) -> tuple[Drawn, str]:
    """The next edit whose file is accepted, written, and what it does."""
    for attempt in range(ATTEMPTS):
        after, what = edited(drawn, seed, number, attempt)
        if _written(root, after):
            return after, what
    _written(root, drawn)
    return drawn, "nothing"


def _written(root: Path, drawn: Drawn) -> bool:
    """Write the stack file; is it accepted? What a file cannot say is left out."""
    (root / "stacks" / f"{NAME}.yaml").write_text(text_of(drawn.data))
    try:
        Drawn(drawn.data, drawn.today).stack()
    except StackFileError:
        return False
    return True


def _judged(root: Path, today: datetime.date) -> Iterator[tuple[str, str]]:
    """What does not hold now, as kind and text. Then the lock is what `swarm solve` writes."""
    try:
        refused = _frozen(root, today)
    except StackFileError:
        return  # as its edit was: it is drawn without its lock, and refused beside it
    now = decide(root, NAME, today=today, write=False)
    if bool(refused) != bool(now.stale):
        yield "frozen", f"frozen mode says {refused or 'nothing'}, and {now.stale or 'nothing'} is decided again"
    fresh = now if now.stale else resolve(root, NAME, today=today)
    once = not now.stale and deciding.spent(now)  # the budget of moves is one of each change, and the next has it anew
    if deciding.placed(fresh) > deciding.placed(now) and not once:
        names = sorted(fresh.placement.by_name().keys() - now.placement.by_name().keys())
        yield "missed", f"a fresh repair places {', '.join(names[:5])}, too"
    if (
        len(fresh.placement.growing) < len(now.placement.growing)
        and deciding.placed(fresh) == deciding.placed(now)
        and not once
    ):
        yield "missed", "a fresh repair lets more of those grow that wait to"
    solved = deciding.bettered(now, today)
    same = _felt(solved.placement, solved.stack) == _felt(now.last, solved.stack)
    told = _changes(now)
    if told is not None and told == same and now.last.allocations and not once:
        yield "told", f"the plan has {'changes' if told else 'nothing to change'}, and a solve {'none' if same else 'some'}"
    yield from _stopped(now, today)
    keep(solved)
    yield from _steady(root, today, solved)


def _felt(placement: Placement, stack: Stack) -> list[Allocation]:
    """Allocations as their machines feel them: without disk and rates where no device is named that would hold them."""
    found = []
    for one in placement.allocations:
        node = stack.hardware_of(one.node) if one.node in stack.nodes else None
        update: dict[str, object] = {} if node is None or node.disk else {"storage": Bytes(0)}
        if node is not None and not node.interface:
            update |= {"egress": BitsPerSecond(0), "ingress": BitsPerSecond(0)}
        found.append(one.model_copy(update=update))
    return found


def _frozen(root: Path, today: datetime.date) -> str:
    """Why CI's frozen mode refuses the lock; empty where it does not."""
    try:
        decide(root, NAME, today=today, frozen=True, write=False)
    except StaleLock as stale:
        return str(stale)
    return ""


def _changes(now: Decision) -> bool | None:
    """Would `swarm up` change anything on machines that are as the lock leaves them? None where no order of steps is safe."""
    wanted = desired(now.stack, now.placement)
    seen = lock_records.observed(now, wanted)
    try:
        plan = steps(seen, wanted, "", now.stack.solve, partial(may_be_placed, now.stack))
    except Refused:
        return None
    return plan_report.changes(FleetView(now, wanted, seen, plan, "the lock"))


def _stopped(now: Decision, today: datetime.date) -> Iterator[tuple[str, str]]:
    """Who lost its place without need."""
    stack, after = now.written, now.placement.by_name()
    lost = [one for one in now.last.allocations if one.name not in after and one.workload in stack.workloads]
    new = [one for one in now.placement.allocations if one.name not in now.last.by_name()]
    high = max((_rank(stack, one.workload) for one in new), default=-1)
    capacity_only = now.stale and all(" since that was decided" in text or "no proof says" in text for text in now.stale)
    for one in lost:
        request = stack.workloads[one.workload]
        if request.gang is None and one.index >= request.replicas.least:
            continue  # only the least of a range is guaranteed
        if capacity_only and _rank(stack, one.workload) >= high:
            yield "dropped", f"{one.name} ran on {one.node} and loses its slot, since: {'; '.join(now.stale)}"
            return
    # Growth: would its old size fit where it was, beside all that stands now?
    counts = Counter(one.workload for one in now.last.allocations)
    for one in lost:
        request = stack.workloads[one.workload]
        kept = growth.at_size(request, one, counts[one.workload])
        node = stack.nodes.get(one.node)
        grows = request.on_grow == "keep" and kept != request and request.gang is None and request.replicas.least > one.index
        if not grows or node is None or node.state not in ("", "ready"):
            continue
        smaller = now.stack.model_copy(update={"workloads": {**now.stack.workloads, one.workload: kept}})
        free = Free(smaller, today, now.placement.allocations)
        if free.fits(one.workload, one.node) and free.below_ceilings(kept) and free.could_have(one, one.node):
            yield "grown", f"{one.name} ran on {one.node} and stops, where its old size still has room"


def _steady(root: Path, today: datetime.date, solved: Decision) -> Iterator[tuple[str, str]]:
    """What was written is decided, and stays."""
    try:
        refused = _frozen(root, today)
    except StackFileError as error:
        yield "unsteady", f"right after a solve, the file is refused: {error.problems[0].message}"
        return
    if refused:
        yield "unsteady", f"right after a solve: {refused}"
    then = decide(root, NAME, today=today, write=False)
    if then.placement.allocations != solved.placement.allocations:
        yield "unsteady", "right after a solve, another placement is decided"
    if then.last.allocations and _changes(then):
        yield "unsteady", "right after a solve, the plan has changes"
    if deciding.spent(then):
        return
    more = again(then, today=today)
    if deciding.placed(more) > deciding.placed(then):
        nobody = _kept(then.placement) <= _kept(more.placement)
        if nobody or not _gaps(then):
            kind = "missed" if nobody else "unsaid"
            yield kind, f"solved again, the same file has more places{'' if nobody else ', and no gap was shown'}"


def _kept(placement: Placement) -> set[tuple[str, str]]:
    """Who stands where."""
    return {(one.name, one.node) for one in placement.going()}


def _gaps(decision: Decision) -> bool:
    """Does the proof say that more might be placed? A search that its effort ended may be worth another one."""
    goals = decision.proof.goals if decision.proof else ()
    return any(goal.value != goal.bound for goal in goals if "_placed_" in goal.name or "_running_" in goal.name)


def _rank(stack: Stack, workload: str) -> int:
    return ("low", "normal", "high").index(stack.workloads[workload].priority)


def main() -> int:
    """Run and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first fleet")
    parser.add_argument("--fleets", type=int, default=1, help="so many, with the seeds that follow")
    parser.add_argument("--machines", default="2-6", help="a number or a range")
    parser.add_argument("--changes", type=int, default=5, help="edits of each fleet")
    parser.add_argument("--save", type=Path, help="folder for what failed")
    asked = parser.parse_args()
    low, _, high = asked.machines.partition("-")
    kinds: Counter[str] = Counter()
    save = asked.save.resolve() if asked.save else None
    for seed in range(asked.seed, asked.seed + asked.fleets):
        for one in failures(seed, (int(low), int(high or low)), asked.changes, save):
            kinds[one.kind] += 1
            print(one, flush=True)
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "nothing failed"
    print(f"{asked.fleets} fleets, {asked.changes} edits each: {words}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
