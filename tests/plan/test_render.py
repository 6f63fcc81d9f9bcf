"""Does a shown plan say what changes, what moves and why, what waits, what found no place, and how good it is?"""

from __future__ import annotations

import json

from rich.console import Console

from swarm_iac.model.placement import Goal, Placement, Proof, Reason, Unplaced
from swarm_iac.model.stack import Ceiling, Limits, Node
from swarm_iac.model.state import LedgerHead, Observed
from swarm_iac.plan import desired, steps
from swarm_iac.plan.render import Context, as_json, text
from swarm_iac.units import Bytes
from tests.plan.test_desired import PLACEMENT, allocation, stack


def scene() -> tuple[Context, dict[str, Observed]]:
    before, asked = PLACEMENT, stack()
    leaving = Node(name="n1", hardware="big", tuning="fast", ssh="root@n1", state="drain", why="fan")
    limits = Limits(user=Ceiling(gpus=8, memory=Bytes.parse("4 GB")))
    asked = asked.model_copy(update={"nodes": {**asked.nodes, "n1": leaving}, "limits": limits})
    missing = Unplaced(workload="chat", missing=(1,), reasons=(Reason(rule="gpus_fit_node", text="no GPU is free"),))
    after = Placement(allocations=(allocation("tidy-0", "n2"), allocation("tidy-1", "n2")), unplaced=(missing,))
    proof = Proof(optimal=True, goals=(Goal(name="placed", value=2, bound=2),), solver="cp-sat 9", placement="d")
    head = LedgerHead(lineage="l", serial=1, fleet="f")
    seen = {name: Observed(node=name, ledger=head, state=one.state) for name, one in desired(stack(), before).items()}
    return Context(asked, before, after, proof), seen


def test_text_tells_everything() -> None:
    context, seen = scene()
    plan = steps(seen, desired(context.stack, context.after))
    console = Console(width=160)
    with console.capture() as capture:
        console.print(*text(plan, context))
    shown = capture.get()
    for words in (
        "- chat-0", "+ tidy-0", "moves from n1", "n1: drain (fan)", "wave", "no GPU is free", "optimal, by cp-sat 9",
        "Limits, before and after", "gpu 2: clock", "1410 MHz",
    ):  # fmt: skip
        assert words in shown, f"{words!r} is missing in\n{shown}"


def test_json_is_json_and_complete() -> None:
    context, seen = scene()
    plan = steps(seen, desired(context.stack, context.after))
    found = json.loads(json.dumps(as_json(plan, context)))
    assert {one["id"] for one in found["steps"]} == {one for wave in found["waves"] for one in wave}
    assert found["moves"] == [{"allocation": "tidy-0", "from": "n1", "to": "n2", "why": "n1: drain (fan)"}]
    assert found["unplaced"][0]["workload"] == "chat" and found["proof"]["optimal"]


def test_nothing_to_do_says_so() -> None:
    context, _ = scene()
    console = Console(width=100)
    with console.capture() as capture:
        console.print(*text(steps({}, {}), context))
    assert "Nothing to change" in capture.get()
