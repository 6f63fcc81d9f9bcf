"""Debian's Chromium, driven by Playwright, with what it asks for and complains about on record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import browser

__all__ = ["Open", "Opened", "browser", "show"]


@dataclass
class Opened:
    """A page in the browser, the addresses that it asked for, and what the browser complained about."""

    page: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page from a file; options are those of a browser's context."""
    contexts = []

    def opened(html: str, **options: Any) -> Opened:
        file = tmp_path / "plan.html"
        file.write_text(html)
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.goto(file.as_uri())
        return found

    yield opened
    for context in contexts:
        context.close()
