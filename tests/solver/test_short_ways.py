"""On drawn fleets, do the short ways say what the long ones say? What is worked out once for many, taken off and set back, or
ended as soon as enough is known.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.limits import judge
from swarm_iac.model.place.groups import LEVELS
from swarm_iac.model.place.where import GROUP_RULES
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.solver.balance.even import Compared, compared, large_enough, left, left_on_each
from swarm_iac.solver.exact import fleet_model
from swarm_iac.solver.exact.rules import workload
from swarm_iac.solver.explain import team_shares
from swarm_iac.solver.explain.conflict import Causes, capacity_of, forbidden
from swarm_iac.solver.explain.counting import EVERY, reach
from swarm_iac.solver.explain.places.at_least import AtLeast
from swarm_iac.solver.explain.places.not_moved import NotMoved
from swarm_iac.solver.explain.places.ruled import Ruled
from swarm_iac.solver.explain.team_shares import with_shares
from swarm_iac.solver.packing.mig_instances import Held
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.neighbourhood import MOVED, _Weights
from swarm_iac.solver.repair.undo_moves import _Place
from swarm_iac.solver.snapshot.capacity import FreeCapacity, capacity_with, group_of
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import ENDLESS
from swarm_iac.solver.snapshot.suitability import FIT, hindering, suits, suits_but_state
from swarm_iac.solver.snapshot.tasks import classify, full_task, repair_task
from tests.benchmarks.fleets.draw_where import more
from tests.benchmarks.fleets.draw_workloads import filled
from tests.solver.crowded import crowded
from tests.solver.fleets import stack_of
from tests.solver.oracle import still

#: Fleets of later seeds have more kinds of rules, and from this one on all.
LATEST = 640_000


def drawn(count: int, machines: int = 12, first: int = 71_000) -> Iterator[FreeCapacity]:
    """What is free on drawn fleets, filled in one pass."""
    for seed in itertools.count(first):
        one = more(filled(seed, machines), seed)
        try:
            stack = one.stack()
        except StackFileError:
            continue
        snapshot = snapshot_of(stack, Placement(), one.today)
        yield capacity_with(snapshot, greedy(repair_task(snapshot, classify(snapshot))))
        count -= 1
        if not count:
            return


def state(capacity: FreeCapacity) -> dict[str, Any]:
    """All that is known of it, but for what is there as nothing."""

    def some(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: left for key, one in value.items() if (left := some(one))}
        return copy.deepcopy(value)

    return {key: some(value) for key, value in vars(capacity).items() if key not in ("snapshot", "seats", "links")}


def in_pieces(rng: random.Random) -> Stack:
    """Three nodes with parts of GPUs beside whole ones."""
    each = [{"gpus": gpus, "vcpus": 1, "memory": "1 GB"} for gpus in (0.25, 0.5, 1, 2)]
    jobs = {f"w{i}": {"replicas": rng.randint(1, 6), "each": rng.choice(each)} for i in range(8)}
    return stack_of({f"n{i}": {} for i in range(3)}, jobs)


def test_what_is_free_beside_those_that_stay_is_as_if_they_came_one_by_one() -> None:
    rng, pieces = random.Random(5), Counter[bool]()
    fleets = [(in_pieces(rng), None) for _ in range(12)]
    for one in (more(filled(seed, 6), seed) for seed in range(72_000, 72_016)):
        try:
            fleets.append((one.stack(), one.today))
        except StackFileError:
            continue
    for stack, today in fleets:
        snapshot = snapshot_of(stack, solve(stack, today=today, reasons=False).placement, today)
        classified = classify(snapshot)
        for part in (1.0, 0.9, 0.5):
            counts = Counter({pair: sum(rng.random() < part for _ in range(n)) for pair, n in classified.stand.items()})
            capacity, left, gone = FreeCapacity(snapshot), Counter(counts), dict[tuple[str, str], list[Held]]()
            for a in classified.stay.values():
                pair = (a.workload, a.node)
                if left[pair]:
                    left[pair] -= 1
                    capacity.take(snapshot.requests[a.workload], snapshot.nodes[a.node], 1, a.gpus)
                elif snapshot.requests[a.workload].in_pieces:
                    gone.setdefault(pair, []).append(a.gpus)
            assert state(classified.kept(snapshot, counts)) == state(capacity)
            assert _Place(snapshot, classified, counts).cards == gone, "what each held that may go home"
            some = [pair for pair, n in counts.items() if n < classified.stand[pair] and snapshot.requests[pair[0]].in_pieces]
            pieces.update(counts[pair] > 0 for pair in some)
    assert min(pieces[True], pieces[False]) > 5, "of some a part is kept, of others nobody"


def test_who_could_move_elsewhere_is_said_as_by_looking_at_each_node() -> None:
    seen = Counter[bool]()
    for capacity in drawn(30):
        requests, nodes = list(capacity.snapshot.requests.values()), list(capacity.snapshot.nodes.values())
        if not requests:
            continue
        weights = _Weights(capacity, requests[0], {})
        for other in (one for one in requests if not one.gang and one.movable):
            fits = any(suits(other, host) and capacity.fits(other, host) for host in nodes)
            assert (weights.of(other, nodes[0]) == MOVED) == fits, other.name
            seen[fits] += 1
    assert min(seen[True], seen[False]) > 50


def test_what_a_rule_on_groups_leaves_on_all_nodes_is_what_it_leaves_on_each() -> None:
    seen = Counter[tuple[str, bool]]()
    for capacity in drawn(40, first=LATEST):
        for request in capacity.snapshot.requests.values():
            for group in request.groups:
                each = [left(capacity, request, group, host) for host in capacity.snapshot.nodes.values()]
                assert left_on_each(capacity, request, group).tolist() == [ENDLESS if one is None else one for one in each]
                seen.update((group.of.rule, one == 0) for one in each)
    rare = [(rule.rule, full) for rule in GROUP_RULES for full in (True, False) if not seen[rule.rule, full]]
    assert not rare, "each is seen to bar and to leave nodes"


def test_who_is_compared_is_said_as_by_looking_at_each_node() -> None:
    seen = 0
    for capacity in drawn(60, first=LATEST):
        snapshot = capacity.snapshot
        for request in snapshot.requests.values():
            if (group := request.even) is None:
                continue
            fits = [host for host in snapshot.nodes.values() if suits(request, host) and large_enough(request, host)]
            near = [key for key in (request.together,) if key is not None and LEVELS.index(key) > LEVELS.index(group.level)]
            long = {group_of(host, group.level): group_of(host, near[0]) if near else "" for host in fits}
            assert [*compared(snapshot, request).items()] == [*long.items()], request.name
            seen += 1 < len(long) < len({group_of(host, group.level) for host in snapshot.nodes.values()})
    assert seen > 5, "some groups are compared, and some are not"


def gangs_at_a_limit() -> tuple[Stack, Stack]:
    """Two gangs of which a limit allows one, and two teams of which one has gangs beyond what it is due."""
    nodes: dict[str, Any] = {f"n{i}": {} for i in range(4)}
    each = {"vcpus": 1, "memory": "1 GB"}
    jobs: dict[str, Any] = {f"gang{i}": {"user": "ada", "gang": 3, "each": {"gpus": 1, **each}} for i in range(2)}
    jobs |= {f"ours{i}": {"user": "ben", "gang": 2, "each": {"gpus": 5, **each}} for i in range(2)}
    jobs |= {"theirs": {"user": "cyd", "replicas": 4, "each": {"gpus": 5, **each}}}
    teams: dict[str, Any] = {team: {"share": 1, "users": [user]} for team, user in (("a", "ada"), ("b", "ben"), ("c", "cyd"))}
    teams["a"]["limits"] = {"gpus": 5}
    return stack_of(nodes, {"theirs": jobs["theirs"]}, teams=teams), stack_of(nodes, jobs, teams=teams)


@pytest.mark.parametrize("fleet", [*map(crowded, range(12)), gangs_at_a_limit()])
def test_sums_over_workloads_lead_to_what_sums_over_pairs_lead_to(
    fleet: tuple[Stack, Stack], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits, gangs, teams and what ran are counted so in a large model alone."""
    before, now = fleet
    for last in (Placement(), solve(before).placement):
        found = []
        for summed in (0, 1 << 30):
            monkeypatch.setattr(workload, "SUMMED", summed)
            solution = solve(now, last)
            assert judge(now, solution.placement, **still(solution.placement, last)) == ()
            found.append({goal.name: (goal.value, goal.bound) for goal in solution.proof.goals})
        assert found[0] == found[1]


def test_who_is_lifted_off_is_set_back_without_a_trace() -> None:
    pieces = 0
    for capacity in drawn(40):
        before = state(capacity)
        for name, request in capacity.snapshot.requests.items():
            with capacity.lifted(request):
                assert not capacity.counts[name]
                assert state(capacity)["free"] == state(capacity.without({name}))["free"]
            assert state(capacity) == before, name
            pieces += request.in_pieces and bool(capacity.counts[name])
    assert pieces > 10


def test_who_is_lifted_off_may_come_back_in_any_order() -> None:
    rng, pieces = random.Random(3), 0
    for capacity in drawn(40):
        requests = capacity.snapshot.requests
        before, gone = state(capacity), dict[str, ExitStack]()
        for _ in range(60):
            some = frozenset(rng.sample(sorted(requests), rng.randint(0, len(requests))))
            for name in sorted(gone.keys() - some):
                gone.pop(name).close()
            for name in sorted(some - gone.keys(), key=lambda _: rng.random()):
                gone[name] = ExitStack()
                gone[name].enter_context(capacity.lifted(requests[name]))
                pieces += requests[name].in_pieces
            assert state(capacity)["free"] == state(capacity.without(some))["free"]
        for stack in gone.values():
            stack.close()
        assert state(capacity) == before
    assert pieces > 100


def test_what_keeps_workloads_from_nodes_is_what_the_rules_say_of_each_pair() -> None:
    for capacity in drawn(25):
        snapshot = capacity.snapshot
        for request in snapshot.requests.values():
            found = hindering(snapshot, request)
            for row, (node, host) in enumerate(snapshot.nodes.items()):
                assert found[node] == {one.name for one in FIT if not one.fits(request, host)}, (request.name, node)
                assert found.none[row] == suits(request, host)
                assert found.none_but_state[row] == suits_but_state(request, host)


def test_who_stops_counting_when_all_have_a_place_finds_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: Counter[bool] = Counter()
    for capacity in drawn(25):
        rng = random.Random(1)
        for request in capacity.snapshot.requests.values():
            for rules in (EVERY, frozenset(rng.sample(sorted(EVERY), len(EVERY) * 3 // 4))):
                short = reach(capacity, request, rules), Ruled(capacity, request).reach(rules)
                with monkeypatch.context() as patch:
                    patch.setattr(AtLeast, "add", lambda *_: 0)
                    assert short == (reach(capacity, request, rules), Ruled(capacity, request).reach(rules)), request.name
                assert short[0] == short[1] or not request.gang, request.name
                ended[short[0] > 0] += 1
    assert min(ended[True], ended[False]) > 40


def test_a_model_that_looks_at_all_nodes_at_once_has_the_same_places(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, closed = random.Random(2), 0
    for capacity in drawn(10):
        snapshot = capacity.snapshot
        last = solve(snapshot.stack, reasons=False).placement
        states = {name: rng.choice(["ready", "ready", "cordon", "drain", "lost"]) for name in snapshot.nodes}
        nodes = {name: one.model_copy(update={"state": states[name]}) for name, one in snapshot.stack.nodes.items()}
        now = snapshot_of(snapshot.stack.model_copy(update={"nodes": nodes}), last)
        classified = classify(now)
        for task in (repair_task(now, classified), full_task(now, classified)):
            found = []
            for wide in (10**9, -1):
                monkeypatch.setattr(fleet_model, "WIDE", wide)
                found.append(fleet_model.FleetModel(task, Counter()).tops)
            assert found[0] == found[1]
            closed += sum(states[node] != "ready" for _, node in found[1])
    assert closed > 30


def test_of_those_that_are_not_moved_as_few_are_named_as_need_be() -> None:
    named = 0
    for capacity in drawn(40):
        requests = capacity.snapshot.requests
        one = NotMoved(capacity, [name for name in requests if capacity.counts[name]][::2])
        for request in requests.values():
            if capacity.counts[request.name].total() == request.members or not forbidden(capacity, request, EVERY):
                continue

            def closed(beside: FreeCapacity, among: Any = None, request: Any = request) -> bool:
                return forbidden(beside, request, EVERY, among)

            some = one.fewest(request, closed)
            assert bool(some) != closed(capacity.without(one.names - {request.name}))
            assert not some or not closed(capacity.without(some))
            assert all(closed(capacity.without(some - {name})) for name in some)
            named += bool(some)
    assert named > 30


def test_the_fewest_of_any_group_are_counted_from_those_that_have_any() -> None:
    rng = random.Random(5)
    for _ in range(300):
        compared = Compared({f"r{i}": rng.choice("ab") for i in range(rng.randint(1, 6))})
        there = Counter({f"r{i}": rng.randint(0, 2) for i in range(8) if rng.random() < 0.7})
        assert compared.fewest(there) == {
            near: min(there[place] for place, one in compared.items() if one == near) for near in set(compared.values())
        }


def copies(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts from now on how often a capacity is copied."""
    whole, count = FreeCapacity.copy, Counter[str]()

    def counted(self: FreeCapacity) -> FreeCapacity:
        count["copies"] += 1
        return whole(self)

    monkeypatch.setattr(FreeCapacity, "copy", counted)
    return count


def test_the_capacity_is_not_copied_for_each_that_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 that wait and 60 that are not moved took a copy of the fleet for each pair: minutes, on a large one."""
    nodes: dict[str, dict[str, Any]] = {f"n{i:02}": {} for i in range(60)}
    firm = {f"f{i:02}": {"each": {"gpus": 5}, "movable": False} for i in range(59)}
    small = {"small": {"each": {"gpus": 3}}}
    waits = {f"w{i:03}": {"each": {"gpus": 8, "vcpus": f"{1000 + i}m"}} for i in range(600)}
    last = solve(stack_of(nodes, firm)).placement
    snapshot = snapshot_of(stack_of(nodes, firm | small | waits), last)
    capacity = capacity_of(snapshot, last)
    (empty,) = nodes.keys() - {one.node for one in last.allocations}
    capacity.take(snapshot.requests["small"], snapshot.nodes[empty], 1)
    copied = copies(monkeypatch)
    causes = Causes(capacity)
    for name in waits:
        reasons = {one.rule: one.text for one in causes.of(snapshot.requests[name])}
        assert reasons["immovable_stay"].startswith("f00 holds enough for it")
    assert copied.total() < 20


def test_nor_for_each_that_waits_beside_other_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand that waited took a copy each: half of the time of all reasons."""
    nodes: dict[str, dict[str, Any]] = {f"n{i:02}": {} for i in range(12)}
    teams = {f"t{i}": {"users": [f"u{i}"]} for i in range(4)}
    run = {"run": {"user": "u0", "replicas": 12, "each": {"gpus": 7}}}
    waits = {f"w{i:03}": {"user": f"u{1 + i % 3}", "each": {"gpus": 4, "vcpus": f"{1000 + i}m"}} for i in range(120)}
    last = solve(stack_of(nodes, run, teams=teams)).placement
    snapshot = with_shares(snapshot_of(stack_of(nodes, run | waits, teams=teams | {"t3": teams["t3"] | {"share": 2}}), last))
    copied = copies(monkeypatch)
    told = []
    for most, least in ((4, 3), (1, 100)):  # the fewer copies are held, the more often one is made
        monkeypatch.setattr(team_shares, "COPIES", most)
        copied.clear()
        causes = Causes(capacity_of(snapshot, last))
        told.append({name: causes.of(snapshot.requests[name]) for name in waits})
        assert least <= copied.total() <= least + 20
    assert told[0] == told[1] and all(any(one.rule == "share" for one in reasons) for reasons in told[0].values())
