"""Debian's Chromium, driven by Playwright, with what it asks for and complains about on record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

#: Where Debian's package puts it; nothing is downloaded.
CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one module: as long as it is there Playwright's loop runs, and no other test could begin one."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page in the browser, the addresses that it asked for, and what the browser complained about."""

    page: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Opens an address; options are those of a browser's context."""
    contexts = []

    def opened(url: str, **options: Any) -> Opened:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.goto(url)
        return found

    yield opened
    for context in contexts:
        context.close()
