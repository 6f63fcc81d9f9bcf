"""Is what a plan and a what-if say about moves and stops true? Take the named cause away, and the effect goes."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from swarm_iac import decision
from swarm_iac.cli.decisions import why_text
from swarm_iac.cli.terminal.progress import Following
from swarm_iac.decision import Decision, decide, keep, suppose
from swarm_iac.model.state import Observed
from swarm_iac.plan import desired, guards, steps
from swarm_iac.plan.show.causes import why_moved, why_stopped
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain.move_causes import moved_for
from swarm_iac.stackfile import Loaded
from swarm_iac.stackfile.editing.overrides import edited
from tests.cli.typed import swarm

TODAY = datetime.date(2026, 6, 1)
#: Three nodes full of `hi` and `lo`, and then `big`, which wants one of them for itself.
FLEET = """\
fleet: lab
teams:
  t: {users: [ada, bo, cy]}
limits:
  user: {gpus: 64, vcpus: 256, memory: 4 TB}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n[1-3]: {hardware: h, ssh: "root@{name}"}
workloads:
  hi: {user: ada, priority: high, replicas: 15, each: {gpus: 1}}
  lo: {user: bo, priority: low, replicas: 9, each: {gpus: 1}}
solve: {moves: 6, stops: 30}
"""
BIG = "  big: {user: cy, priority: high, each: {gpus: 8}}\n"


def decided(root: Path, text: str) -> Decision:
    (root / "stacks").mkdir(exist_ok=True)
    (root / "Pulumi.yaml").write_text("name: lab\n")
    (root / "stacks" / "lab.yaml").write_text(text)
    return decide(root, "lab", today=TODAY)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    keep(decided(tmp_path, FLEET))
    return tmp_path


def with_big(text: str = FLEET) -> str:
    return text.replace("solve:", f"{BIG}solve:")


def test_who_is_named_is_why(root: Path) -> None:
    """Without those that are named, whoever moved or stopped stays where it was."""
    now = decided(root, with_big())
    moved = why_moved(now.stack, now.last, now.placement, TODAY)
    stopped = why_stopped(now.stack, now.last, now.placement, TODAY)
    assert "big-0" in now.placement.by_name() and stopped
    for why in (*moved.values(), *stopped.values()):
        names = re.fullmatch(r"(?:frees capacity for|preempted by) (.+)", why)
        assert names, why
        assert set(names[1].split(" and ")) <= {"big", "hi"}
    without = decided(root, FLEET)
    assert without.placement.allocations == without.last.allocations


def test_a_move_is_never_for_whoever_stood_there_already(root: Path) -> None:
    plan = swarm("plan", "--offline", "-s", "lab", at=_with(root)).out
    assert "within the move budget" not in plan
    told = swarm("what-if", "workloads.lo.replicas=9", "-s", "lab", at=root).out
    before = decided(root, FLEET).last.by_name()
    now = decided(root, with_big()).placement.by_name()
    for node, names in re.findall(r"(n\d)(?: → n\d)?, because of ([a-z0-9, -]+)", told):
        for name in names.split(", "):
            assert name.strip() not in before or before[name.strip()].node != node
            assert now[name.strip()].node == node


def test_a_what_if_compares_with_what_runs(root: Path) -> None:
    """`big` is in the file and not applied: an edit that changes nothing still tells what would move, and that it would anyway."""
    told = swarm("what-if", "workloads.lo.replicas=9", "-s", "lab", at=_with(root)).out
    assert "Every allocation stays" not in told
    rows = [line for line in told.splitlines() if re.match(r" (big|hi|lo)-\d+ .* (ada|bo|cy) ", line)]
    assert rows and all("also without the edit" in line for line in rows)
    applied = decided(root, with_big())
    keep(applied)
    assert "Every allocation stays as it is." in swarm("what-if", "solve.stops=40", "-s", "lab", at=root).out


@pytest.mark.parametrize("edit", ["workloads.lp.replicas=9", "nodes.n7.state=drain", "workloads.lo.each.gpus=many", "nonsense"])
def test_a_typo_is_told_before_anything_is_solved(root: Path, edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def solves(*_: object, **__: object) -> None:
        raise AssertionError("something was solved")

    monkeypatch.setattr(decision, "_solve", solves)
    done = swarm("what-if", edit, "-s", "lab", at=_with(root))
    assert done.code == 2
    assert "lab.yaml" in done.err or "nonsense" in done.err


def _with(root: Path) -> Path:
    (root / "stacks" / "lab.yaml").write_text(with_big())
    return root


def test_advice_names_the_guard_that_it_would_meet(tmp_path: Path) -> None:
    """Who follows the advice of `why` is not refused by surprise: --allow-stop has the number that `up` asks for."""
    lo = "  lo: {user: bo, kind: batch, replicas: 16, each: {gpus: 1}, run: {command: x}}\n"
    text = FLEET[: FLEET.index("  hi:")].replace("n[1-3]", "n[1-2]") + lo + "solve: {stops: 3}\n"
    keep(decided(tmp_path, text))
    big = text.replace("solve:", "  big: {user: cy, each: {gpus: 8}, run: {command: x}}\nsolve:")
    decided(tmp_path, big)
    told = swarm("why", "big", "-s", "lab", at=tmp_path).out
    assert "stops 8 running allocations, and solve.stops is 3: swarm up --allow-stop 8" in told
    decided(tmp_path, big.replace("big: {user: cy,", "big: {user: cy, priority: high,"))
    refused = swarm("plan", "--offline", "-s", "lab", at=tmp_path)
    assert refused.code == 3 and "--allow-stop 8" in refused.err


#: On two full nodes, something new comes for which the cures of whoever is left without a place stop or move others.
ROOM = FLEET[: FLEET.index("workloads:")].replace("n[1-3]", "n[1-2]") + "workloads:\n"
CASES = {
    "reservations": ("  lo: {user: bo, replicas: 16, each: {gpus: 1}}\n", "  big: {user: cy, each: {gpus: 8}}\n", "big"),
    "not applied": (
        "  hi: {user: ada, priority: high, replicas: 8, each: {gpus: 1}}\n"
        "  lo: {user: bo, priority: low, replicas: 8, each: {gpus: 1}}\n",
        "  big: {user: cy, priority: high, each: {gpus: 8}}\n",
        "lo",
    ),
    "a service that stops first": (
        "  web: {user: bo, kind: serve, on_update: recreate, replicas: 12, each: {gpus: 1}}\n",
        "  big: {user: cy, each: {gpus: 8}}\n",
        "big",
    ),
    "a service that is healthy first": (
        "  web: {user: bo, kind: serve, replicas: 12, each: {gpus: 1}}\n",
        "  big: {user: cy, each: {gpus: 8}}\n",
        "big",
    ),
    "a gang": (
        "  gang: {user: bo, gang: 4, each: {gpus: 3}}\n",
        "  big: {user: cy, each: {gpus: 4}}\n",
        "big",
    ),
    "growing": ("  lo: {user: bo, replicas: 5, each: {gpus: 3}}\n", "", "lo"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_guard_that_advice_names_is_the_one_that_up_has(tmp_path: Path, case: str) -> None:
    """Counted for each cure: as `swarm plan` with that edit counts, from what runs and not from what is decided."""
    runs, comes, workload = CASES[case]
    tail = "solve: {stops: 0}\n"
    keep(decided(tmp_path, ROOM + runs + tail))
    runs = runs.replace("gpus: 3}}", "gpus: 4}}") if case == "growing" else runs
    now = decided(tmp_path, ROOM + runs + comes + tail)
    _, answer = why_text.explain(now, workload, TODAY, Following())
    assert answer.fixes
    told = [why_text.missed(fix, now) for fix in answer.fixes]
    stops = []
    for fix in answer.fixes:
        then = suppose(now, edited(Loaded(now.written, now.source), fix.edits), today=TODAY)
        before, wanted = (desired(stack, each) for stack, each in ((now.stack, now.last), (then.stack, then.placement)))
        seen = {node: Observed(node=node, state=one.state, health=dict.fromkeys(one.state.allocations, "healthy"))
                for node, one in before.items()}  # fmt: skip
        stops.append(len(guards.stopped(steps(seen, wanted, "", then.stack.solve), wanted)))
    assert told == stops, [str(one) for one in answer.fixes]
    assert any(told) or case == "a service that is healthy first"
    lines = "\n".join(why_text.lines(answer, now, ""))
    for count in filter(None, told):
        assert f"stops {pluralize(count, 'running allocation')}, and solve.stops is 0: swarm up --allow-stop {count}" in lines


def test_a_cure_is_told_as_the_what_if_that_it_names_shows_it(tmp_path: Path) -> None:
    """`big` is decided and does not run yet: without it nobody is stopped, and who moves for a cure is named."""
    runs, comes, workload = CASES["not applied"]
    keep(decided(tmp_path, ROOM + runs))
    now = decided(tmp_path, ROOM + runs + comes)
    _, answer = why_text.explain(now, workload, TODAY, Following())
    fixes = {str(fix.edits[0]): fix for fix in answer.fixes}
    cure = fixes["workloads.lo.priority=high"]
    assert (cure.stops, cure.moves, cure.displaced) == ((), (), ("big-0",))
    lines = "\n".join(why_text.lines(answer, now, ""))
    assert "leaves big-0 pending" in lines and "stops big-0" not in lines
    fewer = fixes["workloads.big.replicas=0"]  # what nobody asks for is not pending
    assert (fewer.stops, fewer.displaced, fewer.dropped) == ((), (), ("big-0",))
    assert "drops big-0" in lines


def test_a_stop_by_a_users_limit_names_who_used_it_up(tmp_path: Path) -> None:
    """It stood on another node, so room there was not why; and it left no fewer nodes in use."""
    text = FLEET.replace("user: {gpus: 64, vcpus: 256, memory: 4 TB}", "user: {gpus: 8}")
    text = text[: text.index("  hi:")] + "  old: {user: ada, priority: low, each: {gpus: 6}}\nsolve: {stops: 9}\n"
    keep(decided(tmp_path, text))
    now = decided(tmp_path, text.replace("solve:", "  new: {user: ada, priority: high, each: {gpus: 8}}\nsolve:"))
    reasons = moved_for(now.stack, now.placement, "old", now.last, TODAY)
    assert [one.text for one in reasons] == ["old-0: stopped on n1, because of new-0"]
    assert why_stopped(now.stack, now.last, now.placement, TODAY) == {"old-0": "preempted by new"}


def test_a_machine_that_turns_out_smaller_is_why(tmp_path: Path) -> None:
    text = FLEET.replace("n[1-3]", "n[1-2]").replace("memory: 1 TB}", "memory: 1 TB, nic: 10 Gbit/s}")
    text = (
        text[: text.index("  hi:")]
        + """\
  one: {user: ada, priority: high, each: {gpus: 1}, network: {egress: 5 Gbit/s}, place: {select: {is: here}}}
  two: {user: bo, each: {gpus: 1}, network: {egress: 5 Gbit/s}}
solve: {stops: 9}
"""
    )
    text = text.replace('ssh: "root@{name}"}', 'ssh: "root@{name}", labels: {is: here}}')
    keep(decided(tmp_path, text))
    now = decided(tmp_path, text.replace("nic: 10 Gbit/s", "nic: 9 Gbit/s"))
    (why,) = why_moved(now.stack, now.last, now.placement, TODAY).values()
    assert why == "it does not fit n1 any more: 10 Gbit/s of bandwidth out placed on n1, which has 9 Gbit/s"


def test_a_member_of_a_gang_that_has_to_leave_takes_the_others_with_it(tmp_path: Path) -> None:
    text = FLEET[: FLEET.index("  hi:")] + "  g: {user: ada, gang: 3, each: {gpus: 8}}\nsolve: {stops: 9}\n"
    keep(decided(tmp_path, text))
    drained = text.replace("workloads:", "  n2: {state: drain, reason: fan}\nworkloads:")
    now = decided(tmp_path, drained)
    left = next(one.name for one in now.last.allocations if one.node == "n2")
    stops = why_stopped(now.stack, now.last, now.placement, TODAY)
    assert stops.pop(left) == "n2: drain (fan), and no other node takes it"
    assert set(stops.values()) == {f"{left} has to leave n2 (drain), and a gang runs whole or not at all"}


TWO = """\
fleet: lab
teams:
  t: {users: [ada, bo]}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n1: {hardware: h, ssh: "root@{name}", labels: {is: one}}
  n2: {hardware: h, ssh: "root@{name}", state: cordon}
workloads:
  lo: {user: bo, priority: low, each: {gpus: 8}}
solve: {moves: 0, stops: 30}
"""


def test_the_budget_of_moves_is_one_of_each_change(tmp_path: Path) -> None:
    """What a higher priority takes the place of goes elsewhere only within the budget; the next solve has it anew."""
    keep(decided(tmp_path, TWO))
    hi = '  hi: {user: ada, priority: high, each: {gpus: 8}, place: {select: {is: "one"}}}\n'
    now = decided(tmp_path, TWO.replace(", state: cordon", "").replace("solve:", f"{hi}solve:"))
    (gone,) = now.placement.unplaced
    assert (gone.workload, gone.code) == ("lo", "Moves")
    keep(now)
    assert swarm("plan", "lab", "--offline", at=tmp_path).out.endswith("lab: nothing to change, 1 pending\n")
    assert swarm("solve", "lab", at=tmp_path).code == 0
    found = decided(tmp_path, (tmp_path / "stacks" / "lab.yaml").read_text()).placement
    assert {one.name: one.node for one in found.allocations} == {"hi-0": "n1", "lo-0": "n2"}


#: `chat` does what it needs on three A100s and two H100s; with one H100 less it would need a sixth replica.
NEEDS = """\
fleet: lab
teams:
  t: {users: [ada, bo], limits: {gpus_by_model: {A100: 3}}}
  s: {users: [cy]}
hardware:
  h: {gpus: 4 x H100, vcpus: 64, memory: 1 TB}
  a: {gpus: 4 x A100, vcpus: 64, memory: 1 TB}
prices: {H100: 3.00 EUR/h, A100: 1.00 EUR/h}
nodes:
  h-1: {hardware: h, ssh: "root@{name}"}
  a-1: {hardware: a, ssh: "root@{name}"}
workloads:
  hold: {user: cy, priority: high, each: {gpus: 2 x H100}}
  chat: {user: bo, needs: 90 req/s, speed: {H100: 40 req/s, A100: 16 req/s}, each: {gpus: 1}}
  back: {user: cy, replicas: 2, each: {gpus: 1 x H100}}
"""


def test_a_cure_says_how_many_of_a_workload_with_needs_are_pending_in_the_variant_that_it_has_then(tmp_path: Path) -> None:
    now = decided(tmp_path, NEEDS)
    assert {one.workload: one.missing for one in now.placement.unplaced} == {"back": (0, 1)}
    _, answer = why_text.explain(now, "back", TODAY, Following())
    cure = next(fix for fix in answer.fixes if str(fix.edits[0]) == "workloads.back.priority=high")
    then = suppose(now, edited(Loaded(now.written, now.source), cure.edits), today=TODAY)
    (gone,) = then.placement.unplaced
    assert cure.displaced == tuple(f"chat-{i}" for i in gone.missing) == ("chat-3", "chat-4", "chat-5")


def test_what_the_stack_file_has_no_more_stops_with_any_fix(tmp_path: Path) -> None:
    head = ROOM.replace("n[1-2]", "n1")
    keep(decided(tmp_path, f"{head}  old: {{user: ada, each: {{gpus: 1}}}}\n"))
    now = decided(tmp_path, f"{head}  lo: {{user: bo, replicas: 2, each: {{gpus: 8}}}}\n")
    _, answer = why_text.explain(now, "lo", TODAY, Following())
    assert answer.fixes and {fix.stops for fix in answer.fixes} == {("old-0",)}


@pytest.mark.parametrize("case", ["grows", "changes its variant"])
def test_who_holds_what_replicas_lack_that_change_together_is_named(tmp_path: Path, case: str) -> None:
    """One of the two would fit with four GPUs, and that is not enough."""
    head = ROOM.replace("n[1-2]", "n1") + "  hold: {user: ada, priority: high, each: {gpus: 1}}\n"
    small, large = "{each: {gpus: 3}}", "{each: {gpus: 4}}"
    if case == "grows":
        keep(decided(tmp_path, f"{head}  lo: {{user: bo, replicas: 2, {small[1:]}\n"))
        now = decided(tmp_path, f"{head}  lo: {{user: bo, replicas: 2, {large[1:]}\n")
    else:
        forms = f"variants: {{large: {large}, small: {small}}}"
        now = decided(tmp_path, f"{head}  lo: {{user: bo, replicas: 2, {forms}}}\n")
    _, answer = why_text.explain(now, "lo", TODAY, Following())
    verb = "grow" if case == "grows" else "change"
    assert [one.text for one in answer.reasons] == [
        "needs 4 GPUs on one node for each of 2 replicas; 1 fits",
        f"all 2 replicas {verb} or none; 1 fits",
        "hold (high, user ada) holds 1 GPU on n1",
        "priority normal cannot preempt workloads of higher (high) priority",
    ]
    assert "workloads.hold.replicas=0" in [str(fix.edits[0]) for fix in answer.fixes]
