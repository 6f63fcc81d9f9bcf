"""Does a shown plan say what changes, what moves and why, what waits, what found no place, and how good it is?"""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import BaseModel
from rich.console import Console

from swarm_iac.model.device import format_devices
from swarm_iac.model.placement import Goal, Placement, Proof, Reason, Unplaced
from swarm_iac.model.settings import Tuning
from swarm_iac.model.stack import Ceiling, Limits, Node, NodeCeiling, Stack, Team
from swarm_iac.model.state import LedgerHead, NodeState, Observed
from swarm_iac.model.step import Change, Plan, Step, Verb
from swarm_iac.model.workload import Run
from swarm_iac.plan import desired, steps
from swarm_iac.plan.show.markdown import MOST, markdown
from swarm_iac.plan.show.render import Context, as_json, sections, text
from swarm_iac.plan.show.unreachable import warnings
from swarm_iac.plan.state import format
from swarm_iac.units import Bytes
from tests.plan.test_desired import PLACEMENT, allocation, stack


def scene() -> tuple[Context, dict[str, Observed]]:
    before, asked = PLACEMENT, stack()
    leaving = Node(name="n1", hardware="big", tuning="fast", ssh="root@n1", state="drain", why="fan")
    limits = Limits(user=Ceiling(gpus=8, memory=Bytes.parse("4 GB")))
    nodes = {**asked.nodes, "n1": leaving}
    hardware = {name: one.model_copy(update={"nvme": Bytes.parse("1 TB")}) for name, one in asked.hardware.items()}
    asked = asked.model_copy(update={"nodes": nodes, "hardware": hardware, "limits": limits})
    missing = Unplaced(workload="chat", missing=(1,), reasons=(Reason(rule="gpus_fit_node", text="no GPU is free"),))
    after = Placement(allocations=(allocation("tidy-0", "n2"), allocation("tidy-1", "n2")), unplaced=(missing,))
    proof = Proof(optimal=True, goals=(Goal(name="placed", value=2, bound=2),), solver="cp-sat 9", placement="d")
    head = LedgerHead(lineage="l", serial=1, fleet="f")
    seen = {name: Observed(node=name, ledger=head, state=one.state) for name, one in desired(stack(), before).items()}
    return Context(asked, before, after, proof), seen


def test_text_tells_everything() -> None:
    context, seen = scene()
    plan = steps(seen, desired(context.stack, context.after))
    console = Console(width=160)
    with console.capture() as capture:
        console.print(*text(plan, context))
    shown = capture.get()
    for words in (
        "- chat-0", "+ tidy-0", "moves from n1", "n1: drain (fan)", "wave", "no GPU is free", "optimal, by cp-sat 9",
        "Limits, before and after", "gpu 2: clock", "1410 MHz",
    ):  # fmt: skip
        assert words in shown, f"{words!r} is missing in\n{shown}"


def test_json_is_json_and_complete() -> None:
    context, seen = scene()
    plan = steps(seen, desired(context.stack, context.after))
    found = json.loads(json.dumps(as_json(plan, context)))
    assert {one["id"] for one in found["steps"]} == {one for wave in found["waves"] for one in wave}
    assert found["moves"] == [{"allocation": "tidy-0", "from": "n1", "to": "n2", "why": "n1: drain (fan)"}]
    assert found["unplaced"][0]["workload"] == "chat" and found["proof"]["optimal"]


def test_nothing_to_do_says_so() -> None:
    context, _ = scene()
    console = Console(width=100)
    with console.capture() as capture:
        console.print(*text(steps({}, {}), context))
    assert "Nothing to change" in capture.get()


def test_a_fleet_that_does_not_answer_is_not_called_as_desired() -> None:
    context, _ = scene()
    wanted = desired(context.stack, context.after)
    unreachable = {name: Observed(node=name, error="no route") for name in wanted}
    assert "Nothing to change" not in markdown(steps(unreachable, wanted), context)
    assert markdown(steps(unreachable, wanted), context).startswith("**No node answered")
    assert context.summary(steps(unreachable, wanted)).line() == "17 steps deferred, 3 nodes unreachable, 1 pending"
    unread = Plan(warnings=("unreachable: n1: no route", "other: n2: no route"))
    assert context.summary(unread).line() == "nothing known to change, 1 node unreachable, 1 pending"


def test_many_nodes_of_which_the_same_was_heard_are_one_line() -> None:
    """Three without a name, one that refuses, and one with another key: only what differs but for names is told by itself."""
    names = ["a1", "a2", "a3", "b", "c7"]
    heard = {
        **{name: f"ssh: Could not resolve hostname {name}.lab: Name or service not known" for name in names[:3]},
        "b": "ssh: connect to host 10.0.0.4 port 22: Connection refused",
        "c7": "its host key is not the one on record",
    }
    fleet = stack().model_copy(update={"nodes": {one: Node(name=one, hardware="h", ssh=f"root@{one}.lab:22") for one in names}})
    plan = Plan(warnings=("before", *(f"unreachable: {name}: {heard[name]}" for name in names), "after"))
    assert [*warnings(plan, fleet)] == [
        "before",
        f"unreachable: a[1-3] (3 nodes); a1: {heard['a1']}",
        f"unreachable: b: {heard['b']}",
        f"unreachable: c7: {heard['c7']}",
        "after",
    ]
    assert as_json(plan, scene()[0])["warnings"] == list(plan.warnings)


def tables(text: str) -> list[list[str]]:
    """Cells of every row as a reader of GitHub's Markdown sees them; heads too."""
    rows: list[list[str]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and token.level > 2:
            rows[-1].append("".join(part.content for part in token.children or ()))
    return rows


def test_markdown_tells_what_the_text_tells() -> None:
    context, seen = scene()
    shown = markdown(steps(seen, desired(context.stack, context.after)), context)
    first = shown.splitlines()[0]
    assert first == "**f: 1 to move, 1 to stop (chat-0, n1: drain (fan), and no other node takes it), 1 pending**"
    assert ["tidy-0", "n1", "n2", "n1: drain (fan)"] in tables(shown)
    assert ["chat", "1", "no GPU is free (gpus_fit_node)"] in tables(shown)
    assert "<details><summary>Limits, before and after</summary>\n\n| limit of |" in shown
    assert "\n\n</details>" in shown and "optimal, by cp-sat 9" in shown
    assert markdown(steps({}, {}), context).startswith("**Nothing to change")


def test_text_of_others_is_never_markup() -> None:
    context, _ = scene()
    command = "ls [/b] [red] | grep <b> @bo #1 *x* _y_"
    workloads = dict(context.stack.workloads)
    workloads["chat"] = workloads["chat"].model_copy(update={"run": Run(command=command)})
    asked = stack().model_copy(update={"workloads": workloads})
    plan = steps({}, desired(asked, PLACEMENT))
    (row,) = (cells for cells in tables(markdown(plan, Context(asked, Placement(), PLACEMENT))) if "+ chat-0" in cells)
    assert command in row[3]
    console = Console(width=400)
    with console.capture() as capture:
        console.print(*text(plan, Context(asked, Placement(), PLACEMENT)))
    assert command in capture.get()


def test_markdown_of_a_large_plan_fits_a_comment() -> None:
    tuning = {f"t{i}": Tuning(swappiness=i % 200, sysctl={"vm.dirty_bytes": str(i)}) for i in range(400)}
    nodes = {f"m{i}": Node(name=f"m{i}", hardware="big", tuning=f"t{i}", ssh=f"root@m{i}") for i in range(400)}
    asked = stack().model_copy(update={"nodes": nodes, "tuning": tuning})
    seen = {name: Observed(node=name, error=f"no route to host{'.' * i}") for i, name in enumerate(list(nodes)[:200])}
    shown = markdown(steps(seen, desired(asked, Placement())), Context(asked, Placement(), Placement()))
    assert shown.count("\n… and ") == 2 and len(tables(shown)) <= 1 + MOST
    assert len(shown) < 65_536


def test_the_same_setting_of_a_thousand_nodes_is_one_line() -> None:
    nodes = {f"m{i}": Node(name=f"m{i}", hardware="big", tuning="fast", ssh=f"root@m{i}") for i in range(1000)}
    asked = stack().model_copy(update={"nodes": nodes})
    shown = markdown(steps({}, desired(asked, Placement())), Context(asked, Placement(), Placement()))
    rows = tables(shown)
    assert len(rows) == 13 and all("m[0-999]" in row[0] for row in rows[1:]), shown


#: The fields of a node's state that hold several values, each with what may be in it, as a change has it.
_LISTS: dict[str, st.SearchStrategy[Any]] = {
    "gpus": st.lists(st.integers(0, 15) | st.sampled_from(["3:0.25", "3:2g.20gb@2-3/8"]), max_size=4),
    "links": st.lists(st.lists(st.integers(0, 15), min_size=2, max_size=4, unique=True), max_size=3),
    "scrapers": st.lists(st.sampled_from(["10.0.0.5", "10.1.0.0/16", "fd00::5", "[x](y) | z"]), max_size=3),
}


def test_every_list_of_a_state_is_drawn_below() -> None:
    models: list[type[BaseModel]] = [NodeState]
    lists = set()
    for model in models:  # grows as it goes
        for name, field in model.model_fields.items():
            kinds = [field.annotation, *get_args(field.annotation)]
            lists |= {name} if any(get_origin(kind) in (tuple, list) for kind in kinds) else set()
            inner = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
            models.extend(kind for kind in inner if kind not in models)
    assert lists == _LISTS.keys(), "a list that `format.value` takes for GPUs would end a plan with a traceback"


@given(st.sampled_from(sorted(_LISTS)).flatmap(lambda field: st.tuples(st.just(field), *[st.none() | _LISTS[field]] * 2)))
def test_a_list_of_any_field_can_be_shown(drawn: tuple[str, Any, Any]) -> None:
    field, old, new = drawn
    context, _ = scene()
    path = "telemetry.scrapers" if field == "scrapers" else f'allocations["tidy-0"].{"unit." * (field == "links")}{field}'
    step = Step(
        id="n2/start/tidy-0", node="n2", verb=Verb.START, allocation="tidy-0", changes=(Change(path=path, old=old, new=new),)
    )
    plan = Plan(steps=(step,))
    markdown(plan, context)
    as_json(plan, context)
    with Console(width=200).capture():
        Console(width=200).print(*text(plan, context))


def test_links_are_shown_as_groups_and_addresses_as_they_are() -> None:
    assert format.value('allocations["a-0"].unit.links', [[0, 1], [2, 3, 5]]) == "0-1 and 2-3,5"
    assert format.value("telemetry.scrapers", ("10.0.0.5", "10.1.0.0/16")) == "10.0.0.5, 10.1.0.0/16"
    assert format.value('allocations["a-0"].gpus', [0, 1, "3:0.25"]) == "0-1, 0.25 of GPU 3 (time-shared, not isolated)"
    assert format.value('allocations["a-0"].unit.links', []) == "-"


def _used(before: Placement, after: Placement, asked: Stack) -> dict[tuple[str, str], tuple[str, str]]:
    """Of the table of limits, GPUs before and after, by level and name."""
    tables = [each.rows for each in sections(Plan(), Context(asked, before, after)) if each.title.startswith("Limits")]
    cells = [row for table in tables if table for row in table.cells if row[1] == "gpus"]
    return {(level, name): (was, now) for whose, _, was, now, _ in cells for level, name in [whose.split(" ", 1)]}


def test_before_is_what_the_lock_has_whatever_became_of_it() -> None:
    """A workload is removed, renamed or given to another, a node or a user goes: what was held is counted as it was."""
    everyone = Ceiling(gpus=8)
    asked = stack().model_copy(
        update={
            "limits": Limits(user=everyone, node=NodeCeiling(gpus=8), cluster=everyone),
            "teams": {"t": Team(users=("ada", "bo"))},
        }
    )
    chat = asked.workloads["chat"]
    (was,) = (one for one in PLACEMENT.allocations if one.name == "chat-0")
    held = Placement(allocations=(was.model_copy(update={"user": "ada"}),))
    gpus, node = format_devices(was.gpus), was.node
    assert gpus == "2" and node == "n1", "one GPU"

    without = asked.model_copy(update={"workloads": {"tidy": asked.workloads["tidy"]}})
    gone = {("user", "ada"): ("1", "0"), ("node", "n1"): ("1", "0"), ("cluster", "f"): ("1", "0")}
    assert _used(held, Placement(), without) == gone, "removed"

    renamed = asked.model_copy(update={"workloads": {"talk": chat}})
    talks = Placement(allocations=(was.model_copy(update={"name": "talk-0", "workload": "talk", "user": "ada"}),))
    assert _used(held, talks, renamed) == {("cluster", "f"): ("1", "1")}, "renamed"

    given_away = asked.model_copy(update={"workloads": {"chat": chat.model_copy(update={"user": "bo"})}})
    now = Placement(allocations=(was.model_copy(update={"user": "bo"}),))
    owners = {("user", "ada"): ("1", "0"), ("user", "bo"): ("0", "1"), ("cluster", "f"): ("1", "1")}
    assert _used(held, now, given_away) == owners, "another owner"

    others = {name: one for name, one in asked.nodes.items() if name != "n1"}
    smaller = without.model_copy(update={"nodes": others, "teams": {"t": Team(users=("bo",))}})
    assert _used(held, Placement(), smaller) == gone, "its node and its user are gone"
    ended = Placement(allocations=(was.model_copy(update={"ended": True}),))
    assert _used(ended, Placement(), smaller) == {}, "the files of what ended went with its node"

    unsaid = Placement(allocations=(was.model_copy(update={"user": None}),))
    assert _used(unsaid, unsaid, asked) == {("cluster", "f"): ("1", "1")}, "a lock of before does not say whose it is"
