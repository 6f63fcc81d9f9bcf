"""How do a few steps reach their nodes without Ansible? By the same request to the same program, straight over ssh.

Starting Ansible takes longer than the steps of one new replica. The program on the node is the one that is installed there:
where it is not, the step that installs it is one for Ansible.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from swarm_iac.converge import limit
from swarm_iac.converge.outcome import Outcomes
from swarm_iac.converge.play import request
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Step, Verb
from swarm_iac.printable import printable
from swarm_iac.reach import ask
from swarm_iac.reach.answer import decode
from swarm_iac.reach.call import call


def run(
    steps: Iterable[Step],
    desired: Mapping[str, Desired],
    ssh_config: Path | None,
    guard: Mapping[str, Any],
    began: Mapping[str, float],
    outcomes: Outcomes,
) -> None:
    """Ask every node at once, each once for all of its steps; what they answer goes to `outcomes`.

    Never raises for a node.
    """
    steps = tuple(steps)
    limits = limit.tasks(steps)
    nodes = dict.fromkeys(step.node for step in steps)

    async def every() -> None:
        mine = {node: [step for step in steps if step.node == node] for node in nodes}
        await asyncio.gather(
            *(_node(desired[node], mine[node], limits[node], ssh_config, guard, began, outcomes) for node in nodes)
        )

    asyncio.run(every())


async def _node(
    desired: Desired,
    steps: list[Step],
    limits: Mapping[str, int],
    ssh_config: Path | None,
    guard: Mapping[str, Any],
    began: Mapping[str, float],
    outcomes: Outcomes,
) -> None:
    sent = {
        "steps": [{"verb": step.verb.value, **request(step, time.time() - began[step.id])} for step in _in_turn(steps)],
        "check": False,
        "guard": {name: guard[name] for name in ("lineage", "serial", "run")} | {"fleet": desired.fleet},
        "run": {name: guard.get(name, "") for name in ("who", "commit")},
    }
    most = sum(limits.values())
    try:
        words = ask.installed(desired.address, ssh_config, "step")
        code, out, err = await asyncio.wait_for(call(words, json.dumps(sent).encode()), most)
        answer = decode(out) if code == 0 else None
    except (OSError, ValueError, TimeoutError) as error:
        outcomes.failed(desired.node, printable(str(error), 500) or f"no answer within {most} s")
        return
    if not isinstance(answer, dict):
        said = printable(err.decode(errors="replace")).strip().splitlines()
        absent = "the node program is not installed there" if code == ask.ABSENT else f"exit status {code}"
        outcomes.failed(desired.node, said[-1][:500] if said else absent)
        return
    outcomes.answered(desired.node, answer.get("results"))


def _in_turn(steps: Iterable[Step]) -> list[Step]:
    """One allocation after the other, so that the first runs before the next has its slice; who waits for health does so last.

    A step comes after those that it waits for, where these are among them.
    """
    verbs = list(Verb)
    left = sorted(steps, key=lambda step: (step.verb is Verb.HEALTH, step.allocation, verbs.index(step.verb)))
    turn: list[Step] = []
    while left:
        waits = {step.id for step in left}
        chosen = next((step for step in left if waits.isdisjoint(step.after)), left[0])
        left.remove(chosen)
        turn.append(chosen)
    return turn
