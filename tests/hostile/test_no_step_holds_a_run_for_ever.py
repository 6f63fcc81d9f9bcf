"""No step that hangs, or is pending for ever, holds the run and its lock: it fails by name, and the rest goes on.

Fails on 3f04825: there was no limit but mitogen's for a connection that is silent; a step that never answered was waited for.
"""

from __future__ import annotations

import threading
import time

import pytest

from swarm_iac.converge.converge import _Course
from swarm_iac.model.step import Change, Plan, Step, StepResult, Verb
from tests.hostile.conftest import Nodes

pytestmark = pytest.mark.engine


def test_a_step_that_hangs_fails_by_name_and_the_rest_goes_on(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes.program("""
if asked["steps"][0]["id"].startswith("a/"):
    time.sleep(90)
print(json.dumps({"results": [outcome(one) for one in asked["steps"]]}))
""")
    hangs, after = (
        Step(id="a/gpus", node="a", verb=Verb.GPUS),
        Step(id="a/start/x-0", node="a", verb=Verb.START, after=("a/gpus",)),
    )
    well, waits = (
        Step(id="z/settings", node="z", verb=Verb.SETTINGS),
        Step(id="z/stop/y-0", node="z", verb=Verb.STOP, after=("z/settings",)),
    )
    last = Step(id="z/start/y-0", node="z", verb=Verb.START, after=("a/gpus",))
    stop = threading.Event()
    ends = threading.Timer(95, stop.set)
    ends.start()  # so that this test ends where nothing else ends the run
    try:
        from swarm_iac.converge import limit

        monkeypatch.setattr(limit, "_MOST", {**limit._MOST, Verb.GPUS: 8})
    except ImportError:
        pass  # then there is none
    began = time.monotonic()
    found = nodes.converge(hangs, after, well, waits, last, stop=stop)
    ends.cancel()
    assert time.monotonic() - began < 80, "the run waited for a step that hangs"
    assert found["a/gpus"].message == "no answer within 8 s, the most for its steps of this kind"
    assert found["z/settings"].ok and found["z/stop/y-0"].ok
    assert not found["a/start/x-0"].ok and found["z/start/y-0"].message == "waits for a/gpus, which failed"


def course(monkeypatch: pytest.MonkeyPatch, *steps: Step) -> tuple[_Course, list[float]]:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return _Course(Plan(steps=steps), lambda line: None), now


def ask(given: _Course, now: list[float], step: Step, seconds: float) -> None:
    given.next(threading.Event())
    now[0] += seconds
    given.take({step.id: StepResult(id=step.id, ok=False, pending=True, message="still stopping")})


def test_what_is_pending_for_ever_ends_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    want = {"allocations": {"x-0": {"unit": {"grace_s": 60}}}}
    stop = Step(id="a/stop/x-0", node="a", verb=Verb.STOP, allocation="x-0")
    start = Step(id="a/start/x-0", node="a", verb=Verb.START, allocation="x-0", want=want, after=(stop.id,))
    given, now = course(monkeypatch, stop, start)
    for _ in range(4):
        ask(given, now, stop, 100)
    assert stop.id not in given.done, "asked once more past the limit"
    ask(given, now, stop, 100)
    assert given.done[stop.id].message.startswith("not done within 360 s") and not given.done[stop.id].ok
    assert given.next(threading.Event()) == [] and not given.done[start.id].ok


@pytest.mark.parametrize("grace", [30, 7200])
def test_a_grace_period_is_never_cut_short(grace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Step(id="a/stop/x-0", node="a", verb=Verb.STOP, allocation="x-0")
    gone = Change(path='allocations["x-0"].unit.grace_s', old=grace, new=None)
    release = Step(id="a/release/x-0", node="a", verb=Verb.RELEASE, allocation="x-0", changes=(gone,), after=(stop.id,))
    given, now = course(monkeypatch, stop, release)
    while now[0] < 1000 + grace + 100:
        ask(given, now, stop, 50)
        assert stop.id not in given.done
