"""What can a job of a pull request do? On a real forge with its real runner: look at its own files, and no more that counts."""

from __future__ import annotations

import pytest

from swarm_iac.cli import initialise
from swarm_iac.errors import Refused
from tests.forge.conftest import Lab
from tests.forge.merging import STACK, fleet_files, operated
from tests.forge.server import until

pytestmark = pytest.mark.forge

#: A workflow that a pull request brings along, with all the rights that it likes: it writes our check, and looks for secrets.
EVIL = """
name: evil
on: {pull_request: {}}
permissions: {contents: write, pull-requests: write, issues: write}
jobs:
  it:
    runs-on: ubuntu-latest
    steps:
      - env:
          TOKEN: "${{ github.token }}"
          AT: "${{ github.api_url }}/repos/${{ github.repository }}/statuses/${{ github.event.pull_request.head.sha }}"
          SECRET: "${{ secrets.SWARM_FORGE_TOKEN }}"
        run: |
          test -z "$SECRET"
          python3 - <<'END'
          import json, os, urllib.request
          body = json.dumps({"context": "swarm", "state": "success", "description": "1 to start"}).encode()
          head = {"Authorization": "token " + os.environ["TOKEN"], "Content-Type": "application/json"}
          opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
          print(opener.open(urllib.request.Request(os.environ["AT"], data=body, headers=head)).status)
          END
"""


def test_a_green_status_that_a_job_wrote_is_not_applied(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The forge takes it for the required check and merges. We do not take it for ours."""
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    fleet = operated(lab)
    protect = {"rule_name": "main", "enable_push": False, "enable_status_check": True, "status_check_contexts": ["swarm"]}
    lab.server.admin.ask("POST", f"/repos/{lab.repository}/branch_protections", **protect)
    bo = lab.people["bo"]
    with lab.server.runner():
        bo.begin("evil")
        text = (bo.at / STACK).read_text()
        number, head = bo.pull(
            "evil", {STACK: text.replace("memory: 300 MB", "memory: 100 MB"), ".gitea/workflows/evil.yaml": EVIL}
        )
        status = until("the status of the job", lambda: lab.status(head, "swarm"), 120)
    assert (status.state, status.by) == ("success", None), "Gitea does not say that it was a job"
    commit = bo.merge(number)
    with pytest.raises(Refused, match=f"was set by nobody known, and not by {lab.people['bot'].name}"):
        fleet.merges().apply(commit)
    assert fleet.machines.ups == []


def test_the_first_look_needs_no_token_and_names_the_mistake(lab: Lab) -> None:
    ada, context = lab.people["ada"], "stack-file / validate (pull_request)"
    initialise.make(lab.at / "new", "gitea")
    ada.begin("main")
    ada.push("main", fleet_files(lab.at / "new"))
    with lab.server.runner():
        for branch, text, state in (("good", "", "success"), ("bad", "\nnonsense: 1\n", "failure")):
            ada.begin(branch)
            _, head = ada.pull(branch, {STACK: (ada.at / STACK).read_text() + text, "x": branch})

            def ended(head: str = head) -> str:
                found = lab.status(head, context)
                return found.state if found and found.state != "pending" else ""

            assert until(f"the check of {branch}", ended, 120) == state
