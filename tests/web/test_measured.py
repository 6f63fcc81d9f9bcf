"""With `--measure`: is a node that does not answer shown so, and what was not measured never as if it were?"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from jinja2 import ChainableUndefined, Environment, PackageLoader

from swarm_iac.stackfile.load import loads
from swarm_iac.web.cards import FREE, cards
from swarm_iac.web.standing import Reader, Standing
from tests.web.conftest import hostile_stack, make_repository, serving, token_file


def test_a_silent_node_is_shown_as_one(tmp_path: Path) -> None:
    text = hostile_stack().replace("root@{name}", "root@127.0.0.1:9").replace("root@n3", "root@127.0.0.1:8")
    text = text.replace("n[1-2]: {", "n1: {") + "telemetry: {}\n"
    folder = make_repository(tmp_path / "fleet", text)
    with serving(folder, "--measure", "--interval", "60", "--token-file", str(token_file(folder))) as served:
        ada, root = served.sign_in("ada"), served.sign_in("root")
        assert "Nodes are being asked" in (first := served.ask("/?by=health", cookie=ada).text) or "does not answer" in first
        until = time.monotonic() + 60
        while "no answer from" not in served.ask("/", cookie=ada).text and time.monotonic() < until:
            time.sleep(0.3)
        text = served.ask("/?by=health", cookie=ada).text
        assert "no answer from n1, n3" in text and "does not answer" in text
        mine, theirs = (served.ask("/nodes/n1", cookie=cookie).text for cookie in (root, ada))
        said = mine.partition("It did not answer.")[2].partition("<")[0].strip()
        assert said and said not in theirs and "It did not answer." in theirs


def measured(busy: float | None, error: str = "", stale: tuple[str, ...] = ()) -> dict[str, object]:
    return {"held": {"busy": busy}, "error": error, "stale": list(stale)}


def standing(tmp_path: Path) -> Standing:
    return Reader(make_repository(tmp_path / "fleet", hostile_stack()), "dev").read()


def test_each_way_of_colouring_says_what_is_known(tmp_path: Path) -> None:
    found = standing(tmp_path)
    tune = next(one.node for one in found.placement.allocations if one.workload == "tune")
    other = {"n1": "n2", "n2": "n1"}[tune]

    def of(by: str, seen: dict[str, object] | None, node: str) -> set[str]:
        racks = cards(found, by, seen).racks
        return {sign.text for rack in racks for one in rack.nodes if one.name == node for sign in one.cards}

    assert of("team", None, tune) == {"research"}
    assert of("team", None, "n3") == {FREE.text}
    assert of("use", None, tune) == {"held; how busy is not known"}
    assert of("use", {tune: measured(0.97)}, tune) == {"held; the node's GPUs are 90 to 100 % busy"}
    assert of("use", {tune: measured(1.0)}, tune) == {"held; the node's GPUs are 90 to 100 % busy"}
    assert of("use", {tune: measured(None)}, tune) == {"held; how busy is not known"}
    assert of("use", {tune: measured(None, "no route")}, tune) == {"held; how busy is not known"}
    assert of("health", None, tune) == {"ready; not asked"}
    assert of("health", {tune: measured(0, "no route")}, tune) == {"does not answer"}
    assert of("health", {tune: measured(0, "", ("gpus",))}, tune) == {"answers, and cannot measure all"}
    assert of("health", {tune: measured(0)}, tune) == {"answers"}
    assert of("health", {"n3": measured(0)}, "n3") == {"drain"}
    assert "held in part" in of("use", None, other)


def test_a_lock_of_what_left_the_stack_file_is_shown_all_the_same(tmp_path: Path) -> None:
    found = standing(tmp_path)
    text = hostile_stack().replace("  n3: {", "  n4: {").split("  tune:", maxsplit=1)[0]
    import dataclasses
    import datetime

    from swarm_iac.web import views
    from swarm_iac.web.rights import Viewer
    from swarm_iac.web.service import LastReading

    less = dataclasses.replace(found, loaded=loads(text, "dev.yaml", today=datetime.date(2026, 11, 25)))
    assert sum(rack.held for rack in cards(less, "team", None).racks) >= 4
    for node in less.stack.nodes:
        assert views.node(less, Viewer("cy"), node, LastReading())["name"] == node
    assert not Viewer("ada", frozenset({"research"})).sees(less.stack, "tune")
    views.limits(less, Viewer("root", admin=True), datetime.date(2026, 11, 25))
    views.workloads(less, Viewer("cy"))


@pytest.mark.parametrize(
    ("power", "limit", "shown"),
    [
        (2100.4, 4360.0, "2100 W of 4360 W that the limits of its GPUs allow"),
        (2100.4, None, "2100 W"),
        (None, 4360.0, "not known"),
    ],
)
def test_what_gpus_draw_is_shown_beside_what_they_may(power: float | None, limit: float | None, shown: str) -> None:
    """Never as zero, and no limit where none is known."""
    found = {"held": {"busy": None}, "power": power, "power_limit": limit, "hottest": None, "stale": []}
    page = Environment(loader=PackageLoader("swarm_iac.web", "template"), autoescape=True, undefined=ChainableUndefined)
    text = page.get_template("node.html").render(node={"measured": found, "gpus": {"count": 8, "model": "H100"}})
    assert f"<dt>Power<dd>{shown}\n" in text
