"""Do several clones know what is live, and does one autopilot lead, with the state in Postgres or S3? On real servers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.errors import Retryable
from tests.cli.live_clones import Team, clones, enter
from tests.provider.conftest import home
from tests.state import servers
from tests.state.servers import Backend

__all__ = ["home"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["postgres", "s3"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with (servers.postgres if request.param == "postgres" else servers.s3)() as running:
        yield running


@pytest.fixture
def team(backend: Backend, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    more, project = dict(backend.environment), f"live-{secrets.token_hex(4)}"
    return clones(tmp_path, home, monkeypatch, url=backend.url, project=project, more=more)


def test_what_one_clone_granted_is_kept_by_another_and_one_leads(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bo = team("ada"), team("bo")
    ada.load(240)
    bo.load(240)
    first = enter(ada, monkeypatch)
    first.once()
    assert len(ada.running()) == 6
    bo.swarm("up", "--yes", "--skip-preview")
    assert len(bo.running()) == 6 and len(bo.layer().grants) == 4
    second = enter(bo, monkeypatch)
    with pytest.raises(Retryable, match="another autopilot leads"):
        second.once()

    assert first.leadership and second.leadership
    monkeypatch.chdir(ada.root)
    first.leadership.end()
    assert not ada.said[-1].startswith("the lease"), ada.said
    monkeypatch.chdir(bo.root)
    second.once()
    said = ada.project.up(ok=False, env={"SWARM_SHARE_LAYER": "keep"})
    assert "another clone replaced the live layer meanwhile" in said
    assert len(ada.running()) == 6
