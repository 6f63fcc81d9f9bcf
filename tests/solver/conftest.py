"""What must no test of the solver hide behind?"""

from __future__ import annotations

import importlib
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def _no_rescue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user always gets an answer; here an error ends the test, unless that answer is what it is about."""
    if "rescue" in request.keywords:
        return

    def raised(*arguments: object) -> NoReturn:
        error = arguments[3]
        assert isinstance(error, Exception)
        raise error

    monkeypatch.setattr(importlib.import_module("swarm_iac.solver.decide.solve"), "rescued", raised)
