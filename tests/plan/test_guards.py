"""Is a change that nobody can have meant refused, with its number, and is every other let through?"""

from __future__ import annotations

import pytest

from swarm_iac.errors import Refused
from swarm_iac.model.hardware import Gpus, Hardware
from swarm_iac.model.place.where import Where
from swarm_iac.model.stack import Node, Stack
from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.workload import Each, Workload
from swarm_iac.plan import guards, steps
from swarm_iac.plan.order.temporary_placement import may_be_placed
from swarm_iac.units import Bytes, Cpus
from tests.plan import fleets


def trainings(count: int) -> dict[str, Observed]:
    held = {f"train-{n}": fleets.allocation(f"train-{n}", (), (), 1) for n in range(count)}
    return fleets.observed({"n1": fleets.node(held), "n2": fleets.node({})})


def emptied(seen: dict[str, Observed]) -> dict[str, Desired]:
    return fleets.desired({name: fleets.node({}) for name in seen})


def test_an_emptied_list_of_workloads_is_refused_with_the_number_it_would_stop() -> None:
    seen = trainings(9)
    names = guards.stopped(steps(seen, emptied(seen)), emptied(seen))
    with pytest.raises(Refused, match=r"would stop 9 running allocations \(train-\[0-8\]\)") as told:
        guards.refuse_mass_stop(names, stops=8, allowed=0)
    assert "--allow-stop 9" in told.value.hint
    with pytest.raises(Refused):
        guards.refuse_mass_stop(names, stops=8, allowed=8)
    guards.refuse_mass_stop(names, stops=8, allowed=9)
    guards.refuse_mass_stop(names[1:], stops=8, allowed=0)


def test_a_small_fleet_is_not_emptied_by_mistake_either() -> None:
    def refuse(count: int, allowed: int = 0) -> None:
        seen = trainings(count)
        wanted = emptied(seen)
        guards.refuse_emptied(guards.stopped(steps(seen, wanted), wanted), wanted, allowed)

    with pytest.raises(
        Refused, match=r"stop all 4 running allocations \(train-\[0-3\]\): the stack declares no workloads"
    ) as told:
        refuse(4)
    assert "--allow-stop 4" in told.value.hint
    refuse(4, allowed=4)
    refuse(1)
    waits = Stack.model_validate(
        {"fleet": "f", "nodes": {}, "workloads": {"train": {"user": "ada", "gang": 4, "each": {"vcpus": 1, "memory": "1 GB"}}}}
    )
    with pytest.raises(Refused, match=r"\(train-0, train-1\): no workload of the stack would run"):
        guards.refuse_emptied(["train-0", "train-1"], emptied(trainings(2)), 0, lambda: waits)
    some = fleets.desired({"n1": fleets.node({"chat-2": fleets.allocation("chat-2", (), (), 1)}), "n2": fleets.node({})})
    guards.refuse_emptied(["train-0", "train-1"], some, allowed=0)


def test_a_service_that_is_handed_over_stops_nothing_that_is_missed() -> None:
    def homes(node: str, gpu: int) -> dict[str, dict[str, object]]:
        held = {
            f"{kind}-0": fleets.allocation(f"{kind}-0", (gpu,) if kind == "chat" else (), (), 1) for kind in ("chat", "train")
        }
        return {name: held if name == node else {} for name in ("n1", "n2")}  # type: ignore[misc]

    old = {name: fleets.node(each) for name, each in homes("n1", 0).items()}  # type: ignore[arg-type]
    new = {name: fleets.node(each) for name, each in homes("n2", 1).items()}  # type: ignore[arg-type]
    wanted = fleets.desired(new, old)
    assert guards.stopped(steps(fleets.observed(old), wanted), wanted) == ("train-0",)


def test_a_node_that_left_the_stack_with_work_on_it_is_refused() -> None:
    seen = trainings(2)
    with pytest.raises(Refused, match=r"1 node .* holds 2 allocations \(n1: train-0, train-1\)"):
        guards.refuse_removal(seen, ["n1", "n2"], {})
    guards.refuse_removal(seen, ["n2"], {})


def test_a_node_leaves_with_an_end_only_when_nobody_asks_for_that_job_any_more() -> None:
    seen = trainings(1)
    job = seen["n1"].state.allocations["train-0"]
    over = job.model_copy(update={"unit": job.unit.model_copy(update={"active": False, "restart": False})})
    state = seen["n1"].state.model_copy(update={"allocations": {"train-0": over}})
    seen["n1"] = seen["n1"].model_copy(update={"state": state, "health": {"train-0": "done"}})
    guards.refuse_removal(seen, ["n1"], {})
    elsewhere = fleets.desired({"n2": fleets.node({"train-0": job})})
    with pytest.raises(Refused, match="n1: train-0"):
        guards.refuse_removal(seen, ["n1"], elsewhere)


def test_a_renamed_fleet_is_refused_with_what_is_at_stake() -> None:
    seen = trainings(3)
    wanted = {name: one.model_copy(update={"fleet": "prd"}) for name, one in emptied(seen).items()}
    with pytest.raises(Refused, match="n1, n2 belong to the fleet f, and the stack file says prd: 3 running"):
        guards.refuse_rename(seen, wanted)
    guards.refuse_rename(seen, emptied(seen))


def test_a_replica_stands_only_where_its_wish_lets_it() -> None:
    gpus = {"h": Hardware(gpus=Gpus(count=2, model="H100"), vcpus=Cpus(8000), memory=Bytes(10**9)),
            "l": Hardware(gpus=Gpus(count=2, model="L4"), vcpus=Cpus(8000), memory=Bytes(10**9))}  # fmt: skip
    nodes = {
        "n1": Node(name="n1", hardware="h", ssh="n1", site="fra"),
        "n2": Node(name="n2", hardware="l", ssh="n2", site="fra"),
        "n3": Node(name="n3", hardware="h", ssh="n3", site="muc"),
        "n4": Node(name="n4", hardware="h", ssh="n4", site="fra", state="drain"),
    }
    request = Workload(
        user="ada", each=Each(gpus=Gpus(count=1, model="H100")), place=Where(select={"site": "fra"}), renamed_from="old"
    )
    stack = Stack(fleet="f", hardware=gpus, nodes=nodes, workloads={"chat": request})
    assert [node for node in nodes if may_be_placed(stack, "old", node)] == ["n1"]
    assert not may_be_placed(stack, "chat", "n1"), "nothing runs under that name"
