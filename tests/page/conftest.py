"""A plan's page, opened from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import Open, Opened, browser, visit

__all__ = ["Open", "Opened", "browser", "show", "visit"]


@pytest.fixture
def show(visit: Open, tmp_path: Path) -> Open:
    """Opens a page from a file; options are those of a browser's context."""

    def opened(html: str, **options: Any) -> Opened:
        file = tmp_path / "plan.html"
        file.write_text(html)
        return visit(file.as_uri(), **options)

    return opened
