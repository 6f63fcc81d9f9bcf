"""A small fleet in which something starts, moves, stops, stays and shares a card, with foreign text wherever it may be."""

from __future__ import annotations

import datetime

from swarm_iac.model.placement import Allocation, Goal, Placement, Proof, Reason, Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import LedgerHead, Observed
from swarm_iac.model.step import Plan
from swarm_iac.plan import desired, steps
from swarm_iac.plan.show.render import Context
from swarm_iac.stackfile.load import loads

#: What a browser would act on, wherever it was taken for markup, a script or an address.
HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>\"\"''><svg onload=hacked=1>{{7*7}}&lt;b&gt;"

_TEXT = """
fleet: lab
teams:
  research: {users: [ada, eve]}
  vision: {users: [max], parent: research}
  serving: {users: [cy]}
limits: {cluster: {gpus: 100, vcpus: 1000, memory: 10 TB}, user: {gpus: 40, vcpus: 800, memory: 5 TB}}
prices: {H100: 2.50 EUR/h}
hardware:
  h100: {gpus: 4 x H100, vcpus: 64, memory: 512 GB, numa: 2, interface: eth1}
  cpu: {vcpus: 64, memory: 256 GB, interface: eth1}
tuning: {train: {swappiness: SWAPPINESS}}
racks: {r1: {}, r2: {}}
nodes:
  n1: {hardware: h100, rack: r1, ssh: root@n1}
  n2: {hardware: h100, rack: r1, ssh: root@n2DRAIN}
  n3: {hardware: h100, rack: r2, ssh: root@n3, tuning: train}
  n10: {hardware: cpu, rack: r2, ssh: root@n10}
workloads:
  chat: {user: cy, kind: serve, replicas: 2, each: {gpus: 1, vcpus: 4, memory: 8 GB}, run: {command: COMMAND}}
  tune: {user: ada, kind: train, each: {gpus: 2, vcpus: 4, memory: 8 GB}, run: {command: tune}}
  embed: {user: max, kind: serve, replicas: 2, each: {gpus: {count: 1, share: 0.5}, vcpus: 1, memory: 8 GB}, run: {command: e}}
  tidy: {user: eve, kind: batch, each: {vcpus: 1, memory: 1 GB}, run: {command: tidy}}
"""


def stack(reason: str = "", command: str = "serve", swappiness: int = 10) -> Stack:
    """The stack; `command` and `reason`, with which n2 is drained, may be anything."""
    drain = f", state: drain, reason: {_quoted(reason)}" if reason else ""
    text = _TEXT.replace("DRAIN", drain).replace("COMMAND", _quoted(command))
    return loads(text.replace("SWAPPINESS", str(swappiness)), "lab.yaml", today=datetime.date(2026, 11, 25)).stack


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def one(name: str, node: str, gpus: tuple[object, ...] = ()) -> Allocation:
    """An allocation of the stack."""
    workload, _, index = name.rpartition("-")
    asked = stack().workloads[workload]
    return Allocation.model_validate({
        "name": name, "workload": workload, "index": int(index), "node": node, "user": asked.user, "gpus": gpus,
        "vcpus": asked.each.vcpus, "memory": asked.each.memory,
    })  # fmt: skip


BEFORE = Placement(
    allocations=(
        one("chat-0", "n1", (0,)), one("chat-1", "n2", (3,)), one("embed-0", "n1", ("2:0.5",)), one("tidy-0", "n10"),
        one("tune-0", "n2", (0, 1)),
    )
)  # fmt: skip
AFTER = Placement(
    allocations=(
        one("chat-0", "n1", (0,)), one("chat-1", "n3", (1,)), one("embed-0", "n1", ("2:0.5",)), one("embed-1", "n1", ("2:0.5",)),
        one("tidy-0", "n10"),
    ),
    unplaced=(Unplaced(workload="tune", missing=(0,), reasons=(Reason(rule="gpus_fit_node", text="no GPU is free"),)),),
)  # fmt: skip


def change(text: str = "") -> tuple[Plan, Context]:
    """The plan from BEFORE to AFTER; `text`: what stands wherever a user, a node or a file may say anything."""
    asked = stack(text or "fan", text or "serve", 20)
    head = LedgerHead(lineage="l", serial=1, fleet="f")
    ran = desired(stack(command=text or "serve"), BEFORE)
    seen = {name: Observed(node=name, ledger=head, state=each.state) for name, each in ran.items()}
    plan = steps(seen, desired(asked, AFTER))
    proof = Proof(optimal=True, goals=(Goal(name="placed", value=2, bound=2),), solver=text or "cp-sat 9", placement="d")
    after = AFTER
    if text:
        plan = plan.model_copy(update={"warnings": (text,)})
        waits = AFTER.unplaced[0].model_copy(update={"reasons": (Reason(rule="r", text=text),)})
        after = AFTER.model_copy(update={"unplaced": (waits,)})
    return plan, Context(asked, BEFORE, after, proof, datetime.date(2026, 11, 25), text, {"tune": text})
