"""Does the example do what its README says?"""

from __future__ import annotations

from swarm_iac.stackfile import load
from tests.autopilot.fleet import TODAY, Flight
from tests.cli.typed import ROOT

FILE = ROOT / "examples" / "22-replicas-that-scale" / "stack.yaml"


def test_three_find_a_place_beside_train_and_six_without_it() -> None:
    stack = load(FILE, today=TODAY).stack
    flight = Flight(stack)
    found = flight.tick(chat=240)
    assert flight.count() == 3 and "3 more find no place" in found.decided[0].reason
    flight = Flight(stack.model_copy(update={"workloads": {"chat": stack.workloads["chat"]}}))
    flight.tick(chat=240)
    assert flight.count() == 6
