"""Fleet repositories for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.review.fleet import DEV, RIGHTS, Repository, made

Make = Callable[[str], Repository]


@pytest.fixture
def repository(tmp_path: Path) -> Make:
    """Makes a repository whose stacks/dev.yaml is this text, solved, on main."""
    return lambda text: made(tmp_path / "fleet", text)


@pytest.fixture
def dev(repository: Make) -> Repository:
    """The project's own stacks/dev.yaml, with rights."""
    return repository(DEV.read_text() + RIGHTS)
