"""Is every concern of a node in the one list, with all that is known of it there, and in an order that is safe?"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from swarm_node import concerns, table
from swarm_node.program import step

from swarm_iac.model.resources.table import ENFORCED
from swarm_iac.model.state import AllocationState, NodeState
from swarm_iac.model.step import Verb

HOME = Path(table.__file__).parent
#: Names that a concern's module may offer to those who walk the list.
OFFERS = ("STEPS", "observed", "boot", "before_release", "release", "restore", "renewed")
NAMES = [concern.name for concern in table.CONCERNS]


def test_every_module_of_a_concern_is_listed() -> None:
    there = {path.stem for path in Path(concerns.__file__).parent.glob("*.py")} - {"__init__"}
    assert there == set(NAMES) and len(NAMES) == len(there)


@pytest.mark.parametrize("concern", table.CONCERNS, ids=NAMES)
def test_a_concern_offers_what_its_row_says(concern: table.Concern) -> None:
    assert set(concern.offers("STEPS") or ()) == set(concern.verbs)
    assert any(concern.offers(what) for what in OFFERS), "nobody would ever call it"
    if concern.node or concern.name in ("slices", "devices", "directories", "units"):
        assert concern.offers("observed"), "what it holds is read back"


def test_every_word_of_a_walk_is_one_that_concerns_offer() -> None:
    for what in OFFERS:
        assert what in (table.__doc__ or "") and any(concern.offers(what) for concern in table.CONCERNS)


def test_every_verb_is_carried_out() -> None:
    assert sorted(verb for concern in table.CONCERNS for verb in concern.verbs) == sorted(
        {verb.value for verb in Verb} - {"release", "restore"}
    ), "each by one concern, but for those that walk all of them"
    assert set(step.HANDLERS) == set(step.LIMITS_S) == {verb.value for verb in Verb}


def test_every_value_of_a_nodes_state_belongs_to_one_concern() -> None:
    node = [key for concern in table.CONCERNS for key in concern.node]
    each = [key for concern in table.CONCERNS for key in concern.each]
    assert sorted([*node, "allocations"]) == sorted(NodeState.model_fields)
    assert sorted([*each, "workload"]) == sorted(AllocationState.model_fields)


PATHS = [(path, how.step) for _, how in ENFORCED for path in (*how.at, how.ceiling) if path]


@pytest.mark.parametrize(("path", "verb"), PATHS, ids=[path for path, _ in PATHS])
def test_what_a_resource_enforces_is_kept_by_a_concern(path: str, verb: Verb) -> None:
    section, _, key = path.partition(".")
    (concern,) = (each for each in table.CONCERNS if section in each.each)
    source = ast.parse((HOME / "concerns" / f"{concern.name}.py").read_text())
    named = {node.value for node in ast.walk(source) if isinstance(node, ast.Constant)}
    assert (key or section) in named, f"{concern.name} neither sets nor reads {path}"
    assert not concern.verbs or verb.value in concern.verbs, "no step of that verb sets it"


def test_what_stands_on_something_comes_after_it() -> None:
    """Boot goes down the list; release and restore go up."""

    def before(*names: str) -> bool:
        return [name for name in NAMES if name in names] == list(names)

    assert NAMES[0] == "boot_unit", "given back last"
    assert before("slices", "devices", "directories", "traffic", "units"), "nothing runs any more when its place goes"
    assert before("accounts", "storage", "directories"), "whose files are on a disk outlives the disk"
    assert before("settings", "gpus", "units"), "after a boot the machine is right before anything runs on it"


#: The packages of the program, each above those that it may import.
LAYERS = ("__main__", "program", "exporter", "concerns", "workload", "records", "table", "shape", "device", "machine")


@pytest.mark.parametrize("path", sorted(HOME.rglob("*.py")), ids=lambda path: str(path.relative_to(HOME)))
def test_packages_of_the_node_program_import_one_way(path: Path) -> None:
    inside = path.relative_to(HOME)
    own = inside.parts[0].removesuffix(".py")
    allowed = LAYERS[LAYERS.index(own) :] if own in LAYERS else LAYERS
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == len(inside.parts):
            names = [(node.module or "").split(".")[0]] if node.module else [alias.name for alias in node.names]
            assert set(names) <= set(allowed), f"{inside} imports {names}"


def test_no_folder_of_the_node_program_is_crowded() -> None:
    for folder in (HOME, *(path for path in HOME.iterdir() if path.is_dir())):
        assert len(list(folder.glob("*.py"))) <= 15, folder
