"""No node's answer becomes the result of another node's step.

Fails on 3f04825: whoever named a step's id had answered for it, so what was to wait for it began.
"""

from __future__ import annotations

import pytest

from swarm_iac.converge.outcome import Outcomes
from swarm_iac.model.step import Step, Verb
from tests.hostile.conftest import Nodes

pytestmark = pytest.mark.engine

STOP, START = Step(id="z/stop/x-0", node="z", verb=Verb.STOP), Step(id="a/start/x-0", node="a", verb=Verb.START)


def test_a_result_is_of_the_host_that_gave_it() -> None:
    lines: list[str] = []
    outcomes = Outcomes([STOP, START], lines.append)
    said = [{"id": STOP.id, "ok": True}, {"id": START.id, "ok": True}]
    outcomes.on_event({"event": "runner_on_ok", "event_data": {"host": "a", "res": {"outcomes": said}}})
    found = outcomes.finish(stopped=False, ended="it ended")
    assert found[START.id].ok and not found[STOP.id].ok
    assert "a: answered for a step of z, which counts for nothing" in lines


def test_a_program_that_answers_for_all_starts_nothing_elsewhere(nodes: Nodes) -> None:
    nodes.program("""
steps = [dict(one, id=name) for one in asked["steps"] for name in (one["id"], "z/stop/x-0", "z/start/y-0")]
bad = asked["steps"][0]["id"].startswith("z/")
print(json.dumps({"results": [outcome(one, ok=not bad, message="it does not end" if bad else "") for one in steps]}))
""")
    after = Step(id="z/start/y-0", node="z", verb=Verb.START, after=(STOP.id,))
    found = nodes.converge(STOP, after, Step(id="a/gpus", node="a", verb=Verb.GPUS))
    assert found["a/gpus"].ok
    assert found[STOP.id].message == "it does not end" and not found[STOP.id].ok and not found[after.id].ok
