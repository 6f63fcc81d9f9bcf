"""Is a node's state written into a stack file so that nothing else differs, however the file is written?"""

from __future__ import annotations

import datetime
import difflib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_iac.errors import StackFileError, SwarmError
from swarm_iac.stackfile import loads
from swarm_iac.stackfile.editing.node_states import set_node_state
from swarm_iac.stackfile.reading.ranges import expand

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 6, 1)
BY = datetime.datetime(2026, 11, 22, 8, tzinfo=datetime.UTC)
NODES = ("n-1", "n-2", "n-3", "n-4")
HEAD = "# a fleet\nfleet: lab\nhardware: {cpu: {vcpus: 8, memory: 64 GB}} # shapes\n"
TAIL = "# what is to run\nteams: {t: {users: [ada]}}\nworkloads:\n  w: {user: ada} # one\n"

FORMS = settings(max_examples=3000 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 150, deadline=None)

spaces = st.sampled_from(["", " ", "   "])
notes = st.sampled_from(["", "", " # note", "  # {state: ready}", " # a: b, c"])
whys = st.sampled_from(
    ["", "fan", "new disks (2)", "it: 'burns' # no joke", '"quoted" \\ text', "true", "8", "é ü 漢", "x" * 60]
)
states = st.sampled_from(["ready", "cordon", "drain"])


@st.composite
def entries(draw: st.DrawFn, key: str, fields: dict[str, str]) -> str:
    """One entry of `nodes:` in one of the ways that people write."""
    if key.endswith(("]",)) and draw(st.booleans()):
        key = f'"{key}"'
    pairs = list(fields.items())
    above = draw(st.sampled_from(["", "", "  # about this\n", "\n"]))
    if draw(st.booleans()) or not pairs:
        gap, note = draw(spaces), draw(notes)
        if draw(st.booleans()) or not pairs:
            body = ", ".join(f"{name}: {value}" for name, value in pairs)
            return f"{above}  {key}:{gap or ' '}{{{gap}{body}{gap}}}{note}\n"
        last = draw(st.sampled_from(["", ","]))
        lines = [
            f"    {name}: {value}{',' if i + 1 < len(pairs) else last}{draw(notes)}" for i, (name, value) in enumerate(pairs)
        ]
        return f"{above}  {key}: {{\n" + "\n".join(lines) + f"\n  }}{note}\n"
    body = "".join(
        f"{draw(st.sampled_from(['', '    # of it' + chr(10)]))}    {name}: {value}{draw(notes)}\n" for name, value in pairs
    )
    return f"{above}  {key}:{draw(notes)}\n{body}"


@st.composite
def files(draw: st.DrawFn) -> str:
    """A stack file of four nodes, whose states are said nowhere, beside, or below them."""

    def said() -> dict[str, str]:
        key = draw(st.sampled_from(["reason", "reason", "why"]))  # the latter as files of former versions have it
        found = {"state": draw(states), "drain_by": "", key: draw(st.sampled_from(["", "fan", '"a: b"', "old words"]))}
        if found["state"] == "drain" and draw(st.booleans()):
            found["drain_by"] = "2027-01-31T08:00+01:00"
        return {name: value for name, value in draw(st.permutations(list(found.items()))) if value}

    made = {"hardware": "cpu", "ssh": '"root@{name}"'}
    parts = [draw(entries("n-[1-3]", made)), draw(entries("n-4", made | (said() if draw(st.booleans()) else {})))]
    below = draw(st.lists(st.sampled_from(["n-1", "n-2", "n-[2]", "n-[3-4]", "n-[1-4]", "n-[2,4]"]), unique=True, max_size=4))
    parts += [draw(entries(key, said())) for key in below]
    if draw(st.booleans()):
        parts.append(draw(entries("n-[1]", {"labels": "{zone: a}", "site": "x"})))
    text = HEAD + "nodes:\n" + "".join(parts) + (draw(st.sampled_from([TAIL, ""])))
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.integers(0, 4)) == 0 else text


def change(text: str, node: str, state: str, by: datetime.datetime | None = None, reason: str | None = None) -> str:
    raw = set_node_state(text.encode(), "s.yaml", node, state, TODAY, by=by, reason=reason, policies=ROOT / "policies")  # type: ignore[arg-type]
    return raw.decode()


def stack(text: str):  # type: ignore[no-untyped-def]
    return loads(text, "s.yaml", policies=ROOT / "policies", today=TODAY).stack


def own_lines(text: str, node: str) -> set[int]:
    """Numbers of the lines of entries that name this node and no other, their comments above left out."""
    found, inside = set(), False
    for number, line in enumerate(text.splitlines()):
        if line.startswith("  ") and not line.startswith(("   ", "  #", "  }")):
            inside = expand(line.strip().partition(":")[0].strip('"')) == (node,) if ":" in line else False
        elif not line.startswith("  "):
            inside = False
        if inside:
            found.add(number)
    return found


@FORMS
@given(files(), st.sampled_from(NODES), states, st.sampled_from([None, BY]), st.one_of(st.none(), whys))
def test_no_line_of_another_node_ever_changes(
    text: str, node: str, state: str, by: datetime.datetime | None, why: str | None
) -> None:
    by = by if state == "drain" else None
    before = stack(text)
    fresh = change(text, node, state, by, why)
    after = stack(fresh)
    one = after.nodes[node]
    assert (one.state, one.drain_by) == (state, by)
    assert one.reason == ("" if state == "ready" else before.nodes[node].reason if why is None else why)
    others = {name: each for name, each in after.nodes.items() if name != node}
    assert others == {name: each for name, each in before.nodes.items() if name != node}
    assert after.model_copy(update={"nodes": {}}) == before.model_copy(update={"nodes": {}})
    old, new = text.splitlines(), fresh.splitlines()
    mine, added = own_lines(text, node), 0
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            assert set(range(i, j)) <= mine, "\n".join(difflib.unified_diff(old, new, lineterm="", n=0))
            added += m - k
    assert added <= 3
    assert all(note in fresh for note in ("# a fleet", "# shapes"))
    assert fresh.count("\r\n") == (fresh.count("\n") if "\r\n" in text else 0)


@FORMS
@given(files(), st.sampled_from(NODES), st.sampled_from([None, BY]), whys)
def test_ready_after_a_drain_gives_the_very_same_file(text: str, node: str, by: datetime.datetime | None, why: str) -> None:
    for _ in range(3):  # without what said needlessly that it is ready
        text = change(change(text, node, "drain"), node, "ready")
    assert change(text, node, "ready") == text
    text = text if text.endswith("\n") else text + ("\r\n" if "\r\n" in text else "\n")
    assert change(change(text, node, "drain", by, why), node, "ready") == text


def test_a_range_is_one_line_where_it_can_be_and_each_its_own_where_not() -> None:
    text = HEAD + 'nodes:\n  n-[1-4]: {hardware: cpu, ssh: "root@{name}"}\n'
    drained = change(text, "n-[1-3]", "drain", reason="power")
    assert drained == text + "  n-[1-3]: {state: drain, reason: power}\n"
    assert change(drained, "n-2", "ready") == drained + "  n-2: {state: ready}\n"
    assert change(drained, "n-[1-3]", "ready") == text
    one = change(text, "n-2", "cordon", reason="fan")
    assert change(one, "n-[1-3]", "drain") == text + (
        "  n-2: {state: drain, reason: fan}\n  n-1: {state: drain}\n  n-3: {state: drain}\n"
    )


def test_a_reason_under_its_former_name_is_kept_under_the_present_one() -> None:
    text = HEAD + 'nodes:\n  n-1: {hardware: cpu, ssh: "a@b"}\n  n-1: {state: cordon, why: fan}\n'.replace(
        "  n-1: {state", "  n-[1]: {state"
    )
    assert change(text, "n-1", "drain") == text.replace("{state: cordon, why: fan}", "{state: drain, reason: fan}")
    assert change(text, "n-1", "cordon") == text, "nothing is said anew"


def test_a_node_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(StackFileError, match="did you mean 'n-1'"):
        change(HEAD + 'nodes:\n  n-1: {hardware: cpu, ssh: "a@b"}\n', "n-11", "drain")


def test_an_entry_under_an_anchor_is_never_changed_for_others() -> None:
    text = HEAD + 'nodes:\n  n-[1-2]: {hardware: cpu, ssh: "root@{name}"}\n  n-1: &x {state: cordon}\n  n-2: *x\n'
    fresh = change(text, "n-1", "drain")
    assert fresh == text + "  n-[1]: {state: drain}\n"
    assert stack(fresh).nodes["n-2"].state == "cordon"


def test_what_cannot_be_changed_is_refused_with_the_words_to_write() -> None:
    text = HEAD + "nodes: &all\n" + '  n-1: {hardware: cpu, ssh: "root@{name}"}\n'
    with pytest.raises(SwarmError) as caught:
        change(text, "n-1", "drain", reason="fan")
    assert "n-1: {state: drain, reason: fan}" in str(caught.value)
