"""Is a failed row told once, by its causes and in the node's words?"""

from __future__ import annotations

from swarm_iac.model.step import Step, StepResult, Verb
from swarm_iac.provider.operations.failures import failed_rows

STEPS = tuple(
    Step(id=f"n1/{verb}/a-0", node="n1", verb=verb, allocation="a-0") for verb in (Verb.SLICE, Verb.TRAFFIC, Verb.START)
)


def _rows(*told: tuple[str, bool]) -> str:
    results = {
        step.id: StepResult(id=step.id, ok=False, skipped=skipped, message=words)
        for step, (words, skipped) in zip(STEPS, told, strict=True)
    }
    return failed_rows(STEPS, results)["Allocation", "a-0"]


def test_what_waits_for_a_cause_adds_no_words() -> None:
    said = _rows(("no such CPU 99", False), ("waits for n1/slice/a-0, which failed", True), ("waits for …", True))
    assert said == "n1: slice: no such CPU 99"


def test_one_cause_of_many_steps_is_told_once() -> None:
    assert _rows(*[("Connection reset", False)] * 3) == "n1: slice, traffic, start: Connection reset"


def test_a_row_that_only_waits_says_for_whom() -> None:
    assert _rows(*[("waits for n2/stop/b-0, which failed", True)] * 3).endswith("waits for n2/stop/b-0, which failed")
    assert failed_rows(STEPS[:1], {})["Allocation", "a-0"] == "n1: slice: not run"
