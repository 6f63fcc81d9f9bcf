"""Does somebody see commands, environment and reasons of their own team alone, on every address there is?"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import cast

import pytest

from swarm_iac.web.application import Pages
from swarm_iac.web.border import Border
from swarm_iac.web.service import Service
from swarm_iac.web.sign_in import Listen
from tests.web.conftest import SECRETS, Served

_NAMES = {"node": ("n1", "n2", "n3"), "workload": ("chat", "tune", "embed"), "file": ("style.css", "page.js")}
ROUTES = Pages(cast(Service, None), Border(Listen("127.0.0.1", 0))).routes()


def filled(path: str) -> list[str]:
    """Each address of a route; one with a parameter that this test does not know fails."""
    found = re.search(r"\{(\w+)\}", path)
    return [path] if found is None else [one for name in _NAMES[found[1]] for one in filled(path.replace(found[0], name))]


ADDRESSES = [address for route in ROUTES for address in filled(route.path)]


def seen(served: Served, path: str, cookie: str) -> str:
    if path == "/events":
        return served.ask(path, most=36, cookie=cookie).text  # the first event
    if path == "/plan/picture":
        served.settled("/plan", cookie=cookie)
    return served.settled(path, cookie=cookie).text


@pytest.mark.parametrize("path", [*ADDRESSES, "/?by=use", "/?by=health", "/workloads?q=secret", "/pending?q=tune"])
@pytest.mark.parametrize(("who", "hidden"), [("ada", "serving"), ("cy", "research")])
def test_no_address_shows_anything_of_another_team(
    signed: Served, sessions: dict[str, str], path: str, who: str, hidden: str
) -> None:
    text = seen(signed, path, sessions[who])
    assert SECRETS[hidden] not in text


@pytest.fixture(scope="module")
def sessions(signed: Served) -> dict[str, str]:
    return {name: signed.sign_in(name) for name in ("ada", "cy", "root")}


def test_what_is_ones_own_is_seen(signed: Served, sessions: dict[str, str]) -> None:
    """Else the tests above would pass with nothing on the pages."""
    for who, own, other in (("ada", ("tune", "embed"), "chat"), ("cy", ("chat",), "tune")):
        for name in own:
            assert "secret-of" in seen(signed, f"/workloads/{name}", sessions[who])
        text = seen(signed, f"/workloads/{other}", sessions[who])
        assert "shown to its team" in text and "<h2>Why</h2>" not in text
    for name in ("chat", "tune", "embed"):
        assert "secret-of" in seen(signed, f"/workloads/{name}", sessions["root"])
    picture = seen(signed, "/plan/picture", sessions["root"])
    assert "4 vCPUs" in picture or "vcpus" in picture
    names = seen(signed, "/plan/picture", sessions["cy"])
    assert "tune-0" in names and "secret-of" not in names and "4 vCPUs" not in names and "vcpus" not in names


def test_values_of_an_environment_are_shown_to_nobody(signed: Served, sessions: dict[str, str]) -> None:
    text = seen(signed, "/workloads/tune", sessions["root"])
    assert "KEY" in text and text.count(SECRETS["research"]) == 1  # in the command


def test_a_page_changes_no_file(signed: Served, sessions: dict[str, str], lab: Path) -> None:
    """Not even the candidate that `swarm plan` would keep."""

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in lab.rglob("*") if path.is_file() and ".git/" not in str(path)}

    stack = lab / "stacks" / "dev.yaml"
    text = stack.read_text()
    stack.write_text(text.replace("replicas: 2", "replicas: 3"))
    try:
        before, until = files(), time.monotonic() + 30
        while "does not hold" not in signed.ask("/", cookie=sessions["root"]).text and time.monotonic() < until:
            time.sleep(0.2)
        assert "chat-2" in seen(signed, "/plan/picture", sessions["root"])  # it was decided, for the picture
        assert files() == before
    finally:
        stack.write_text(text)
