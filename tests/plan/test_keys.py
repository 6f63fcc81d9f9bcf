"""Does every key of a stack file that describes a machine or a replica reach the machine? A key without effect is a lie."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
import yaml

from swarm_iac.model.placement import Placement
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.settings import HELD, SettingsState
from swarm_iac.model.state import Desired, LedgerHead, Observed
from swarm_iac.model.workload import Each, Run, Stop
from swarm_iac.plan import desired, rows, steps
from swarm_iac.plan.state import format
from swarm_iac.solver import solve
from swarm_iac.stackfile import loads
from tests.tuning import TUNING

TODAY = datetime.date(2026, 1, 1)
#: One value for each key, other than its default.
EACH = {
    "gpus": 1, "vcpus": 3, "pinned": True, "memory": "2 GB", "tasks": 99, "scratch": "1 GB", "cache": "1 GB",
    "io": {"read": "5 MB/s"}, "gpu_power": "450 W", "gpu_clock": "1005 MHz",
    "hugepages": "4 MiB", "hugepages_1g": "2 GiB",
}  # fmt: skip
#: Counted resources that have no value above, and how much of them the machine has.
OTHERS = {
    row: row.capacity for row in RESOURCES
    if row.capacity and row.enforced and row.key.partition(".")[0] == "each" and row.key.partition(".")[2] not in EACH
}  # fmt: skip
EACH |= {row.key.partition(".")[2]: row.text(8192) for row in OTHERS}
RUN = {"command": "sleep 9", "env": {"A": "b"}, "healthy": "true", "port": 99, "confined": False}
STOP = {"signal": "INT", "grace": "7 s"}


MORE = {there.key: row.text(16_384) for row, there in OTHERS.items()}


def _desired(tuning: dict[str, Any] | None = None, pools: dict[str, str] | None = None, **workload: Any) -> Desired:
    each = {"gpus": 2, "vcpus": 2, **workload.pop("each", {})}
    text = {
        "fleet": "keys",
        "teams": {"all": {"users": ["ada"]}},
        "tuning": {"t": tuning or {}},
        "hardware": {
            "h": {
                "gpus": "8 x H100",
                "vcpus": 16,
                "memory": "64 GB",
                "nvme": "1 TB",
                "disk": "/dev/sdb",
                "numa": 2,
                **MORE,
                **(pools or {}),
            }
        },
        "nodes": {"n1": {"hardware": "h", "tuning": "t", "ssh": "root@n1"}},
        "workloads": {"w": {"user": "ada", "each": each, "run": {"command": "sleep 1"}, **workload}},
    }
    stack = loads(yaml.safe_dump(text), "keys.yaml", today=TODAY).stack
    return desired(stack, solve(stack, Placement(), today=TODAY).placement)["n1"]


def _filled(section: str, values: dict[str, Any]) -> list[Any]:
    return [pytest.param(section, key, value, id=f"{section}.{key}") for key, value in values.items()]


def test_every_key_is_here() -> None:
    """A new key fails here until it has a value above, or its row says how nodes enforce it. A pool reaches no machine."""
    pools = {row.name for row in RESOURCES if row.capacity is None and not row.itself}
    for model, values in ((Each, EACH), (Run, RUN), (Stop, STOP)):
        assert values.keys() == model.model_fields.keys() - pools, model.__name__


@pytest.mark.parametrize(
    ("key", "value"), [one for one in TUNING.items() if one[0] != "gpu_power_loss"]
)  # of a range of another
def test_a_tuning_key_reaches_the_machine_and_its_row(key: str, value: Any) -> None:
    plain, tuned = _desired(), _desired({key: value})
    assert plain.state != tuned.state
    assert rows({"n1": plain}) != rows({"n1": tuned}), "what changes on a machine is seen in the preview"


@pytest.mark.parametrize(("section", "key", "value"), [*_filled("each", EACH), *_filled("run", RUN), *_filled("stop", STOP)])
def test_a_key_of_a_workload_reaches_its_slice_and_its_row(section: str, key: str, value: Any) -> None:
    given = {"command": "sleep 1", key: value} if section == "run" else {key: value}
    pools = {key: "8 GiB"} if key.startswith("hugepages") else {}
    plain, changed = _desired(pools=pools), _desired(pools=pools, **{section: given})
    assert plain.state != changed.state
    assert rows({"n1": plain}) != rows({"n1": changed})


@pytest.mark.parametrize("key", [key for key in TUNING if not key.startswith("gpu_")])
def test_a_setting_that_was_changed_by_hand_is_set_again(key: str) -> None:
    wanted = _desired({key: TUNING[key]})
    bent = {
        "sysctl": dict.fromkeys(wanted.state.settings.sysctl, "0"),
        **dict.fromkeys((one.field for one in HELD.values()), None),
    }
    found = wanted.state.model_copy(update={"settings": SettingsState.model_validate(bent)})
    head = LedgerHead(lineage="l", serial=1, fleet="keys")
    seen = Observed(node="n1", ledger=head, agent="a", state=found, health=dict.fromkeys(found.allocations, "healthy"))
    (step,) = steps({"n1": seen}, {"n1": wanted}, agent="a").steps
    assert (step.id, len(step.changes)) == ("n1/settings", 1)
    assert step.want == {"settings": wanted.state.settings.model_dump(mode="json", exclude_none=True)}


def test_a_setting_is_read_as_the_stack_file_calls_it() -> None:
    node = rows({"n1": _desired({"hugepages": "2 GiB", "transparent_hugepages": "never"})})["Node", "n1"]
    assert (node["hugepages"], node["transparentHugepages"]) == ("1024 x 2 MiB", "never")
    assert format.setting("settings.hugepages_2m") == "hugepages"
    assert format.setting("settings.transparent_hugepages") == "transparent hugepages"
    assert format.value("settings.hugepages_2m", 4) == "4 x 2 MiB"
