"""Is nothing applied that was not approved? A plan on drifted machines is refused, naming the row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.cli.merging.drift import compare
from swarm_iac.model.step import Change, Step, Verb

MEMORY = 'allocations["train-0"].slice.memory_max'
GROW = Step(id="gpu-01/slice/train-0", node="gpu-01", verb=Verb.SLICE, allocation="train-0",
            changes=(Change(path=MEMORY, old=100, new=200),))  # fmt: skip


def other(**more: object) -> Step:
    return GROW.model_copy(update=more)


def test_the_same_plan_is_what_was_approved() -> None:
    assert compare([GROW], [GROW]).drifted == ()
    assert compare([GROW], []).drifted == (), "less is fine: somebody did it already"


def test_another_value_on_the_machine_is_named_with_its_row() -> None:
    found = compare([GROW], [other(changes=(Change(path=MEMORY, old=150, new=200),))])
    assert found.drifted == (f"gpu-01: {MEMORY}: 150 → 200: it was 100 when it was approved",)


def test_a_row_that_nobody_approved_is_refused_where_the_plan_acts_and_left_elsewhere() -> None:
    setting = Step(id="gpu-01/settings", node="gpu-01", verb=Verb.SETTINGS, changes=(Change(path="s", old="1", new="10"),))
    assert compare([GROW], [GROW, setting]).drifted == ("gpu-01: s: 1 → 10: not part of what was approved",)
    elsewhere = setting.model_copy(update={"node": "gpu-02", "id": "gpu-02/settings"})
    found = compare([GROW], [GROW, elsewhere])
    assert (found.drifted, found.left, found.nodes) == ((), ("gpu-02",), ("gpu-01",))


def test_a_killed_run_goes_on_with_its_own_half_done_work_and_stops_nothing_else() -> None:
    start = other(id="gpu-01/start/train-0", verb=Verb.START, changes=(Change(path="unit", old=None, new="x"),))
    half = other(changes=(Change(path=MEMORY, old=None, new=200),))
    assert compare([GROW], [half]).drifted
    assert compare([GROW], [half], resumed=True).drifted == ()
    stop = other(id="gpu-01/stop/train-0", verb=Verb.STOP, changes=())
    assert compare([GROW, start], [stop, half], resumed=True).drifted == (), "what starts by this merge may be started again"
    assert compare([GROW], [stop, half], resumed=True).drifted == ("gpu-01: stop train-0: not part of what was approved",)
    assert compare([GROW], [other(changes=(Change(path=MEMORY, old=100, new=300),))], resumed=True).drifted


_NAMES, _NODES = st.sampled_from(["a-0", "b-0", ""]), st.sampled_from(["n1", "n2", "n3"])
_CHANGES = st.lists(st.builds(Change, path=st.sampled_from("pqr"), old=st.integers(0, 2), new=st.integers(0, 2)), max_size=2)
_STEPS = st.lists(
    st.builds(
        lambda node, verb, name, changes: Step(id=f"{node}/{verb}/{name}", node=node, verb=verb, allocation=name, changes=tuple(changes)),
        _NODES, st.sampled_from([Verb.STOP, Verb.SLICE, Verb.START, Verb.RELEASE]), _NAMES, _CHANGES,
    ),
    max_size=6,
)  # fmt: skip


@given(approved=_STEPS, other=_STEPS, data=st.data(), resumed=st.booleans())
def test_no_row_passes_that_was_not_approved(
    approved: list[Step], other: list[Step], data: st.DataObject, resumed: bool
) -> None:
    """Judged again from the sets alone: whatever a run may do on its nodes, somebody approved."""
    some = data.draw(st.lists(st.sampled_from(approved), unique_by=id)) if approved else []
    found = [*some, *other[: data.draw(st.integers(0, 2))]]
    result = compare(approved, found, resumed=resumed)
    if result.drifted:
        return
    nodes = {step.node for step in approved}
    values = {(step.node, each.path, each.new) for step in approved for each in step.changes}
    ends = {(step.node, step.allocation) for step in approved if step.verb in (Verb.STOP, Verb.RELEASE)}
    begins = {(step.node, step.allocation) for step in approved if step.verb is Verb.START and step.allocation}
    for step in found:
        if step.node not in nodes:
            assert step.node in result.left and step.node not in result.nodes
            continue
        mine = resumed and (step.node, step.allocation) in ends | begins and step.allocation
        assert mine or step.verb not in (Verb.STOP, Verb.RELEASE) or (step.node, step.allocation) in ends
        assert mine or all((step.node, each.path, each.new) in values for each in step.changes)
