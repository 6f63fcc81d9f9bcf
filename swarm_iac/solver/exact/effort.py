"""How much may a solve cost? Deterministic time, more for a larger fleet; a goal has its own part of it."""

from __future__ import annotations

from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.snapshot.snapshot import Snapshot

#: Deterministic time of all searches of a solve together: for a change, and from nothing. It grows with the fleet, by as
#: much for each PAIRS pairs, up to MOST times.
CHANGE = {"quick": 0.4, "normal": 0.7, "thorough": 60.0}
FROM_NOTHING = {"quick": 1.2, "normal": 2.4, "thorough": 120.0}
PAIRS, MOST = 12_000, 6.0
#: The same of columns: on a small fleet, where it grows likewise, and on a large one.
COLUMNS = {"quick": 0.1, "normal": 0.3, "thorough": 20.0}
COLUMNS_OF_LARGE = {"quick": 3.0, "normal": 12.0, "thorough": 200.0}
#: With fewer nodes than this a large fleet is filled with a part of it, unless a night is given: of four drawn fleets of 260 to
#: 370 nodes one held 3 GPUs fewer of 1,319 for that, and filling them took 4 s of CPU in place of 78.
OF_LARGE = 1000
#: So much more of it where nothing runs.
WHERE_NOTHING_RUNS = 2
#: What each kind of replicas adds to a pricing problem there.
KIND = 1e-5
#: The part of it that bounds have beside a placement: for a change little, since nobody waits for a proof.
BOUNDS = {"from nothing": 0.25, "change": 0.06}
#: And those on shares and on replicas.
OTHERS = {"from nothing": 0.15, "change": 0.04}
#: The part of columns that counting the fewest moves has on a large fleet. One round of pricing or none: half a round bounds
#: nothing.
FEWER = 0.1


def in_all(snapshot: Snapshot, table: dict[str, float]) -> float:
    """Deterministic time of all searches together: more for a larger fleet."""
    return table[snapshot.stack.solve.effort] * min(MOST, 1 + len(snapshot.requests) * len(snapshot.nodes) / PAIRS)


def columns(snapshot: Snapshot, watch: Watch, *, large: bool = False) -> TimeLimit:
    """How long columns may be looked for."""
    table = COLUMNS_OF_LARGE if large else COLUMNS
    if large:
        return TimeLimit(watch.ended, table[snapshot.stack.solve.effort], KIND)
    return TimeLimit(watch.ended, in_all(snapshot, table) * (1 if snapshot.running else WHERE_NOTHING_RUNS))


def filling(snapshot: Snapshot, watch: Watch) -> TimeLimit:
    """How long a large fleet may be filled by columns."""
    part = 1.0 if snapshot.stack.solve.effort == "thorough" else min(1.0, len(snapshot.nodes) / OF_LARGE)
    return columns(snapshot, watch, large=True).part(part)


#: A large fleet on which nothing runs: of emptying a few nodes and filling them again.
RUINED = {"quick": 0.5, "normal": 3.0, "thorough": 40.0}
#: The same of solving the relaxation that leads to a placement.
GUIDED = {"quick": 0.2, "normal": 1.0, "thorough": 10.0}
#: And of deciding a few nodes again, exactly, for each choice of variants. Without variants four drawn ones that are over-full
#: had 0 to 14% fewer replicas pending for it, and no more GPUs, in 4 to 7 s more.
EXCHANGED = {"quick": 0.4, "normal": 3.0, "thorough": 15.0}
#: And then of deciding each priority at once beside all others.
BESIDE = {"quick": 0.5, "normal": 2.0, "thorough": 20.0}
#: And one with a change, of freeing capacity. With twice as much, three drawn fleets held 0, 0 and 2 GPUs more, of 2,400 and
#: fewer, in 2 to 4 s more.
FREED = {"quick": 1.2, "normal": 2.0, "thorough": 360.0}
#: The part of what is left of that which one attempt may take.
EACH = 0.5
