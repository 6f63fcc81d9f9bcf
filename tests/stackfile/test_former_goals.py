"""Is a proof of an earlier version read, in which a goal had another name?"""

from __future__ import annotations

from swarm_iac.model.placement import Proof
from swarm_iac.stackfile.locks import proof


def test_a_goal_under_its_former_name_is_the_same_goal() -> None:
    text = proof.dump(
        Proof.model_validate(
            {"optimal": True, "goals": [{"name": "nodes", "value": 2, "bound": 2}], "solver": "s", "placement": ""}
        )
    )
    former = text.replace('"nodes"', '"misfit"')
    assert former != text
    (goal,) = proof.parse(former, "lab.proof.yaml").goals
    assert (goal.name, goal.value) == ("overqualification", 2)
