"""Do the commands that need no machine answer as they should, and end with the right code?"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from swarm_iac.cli.application import GROUPS, MODULES, application
from swarm_iac.cli.commands.pull_requests import pr
from swarm_iac.stackfile import schema
from tests.cli.typed import ROOT, swarm


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh fleet repository, as `swarm init` makes it."""
    folder = tmp_path_factory.mktemp("init")
    made = swarm("init", "myfleet", at=folder)
    assert made.code == 0, made.err
    return folder / "myfleet"


def test_validate_says_what_is_in_the_file() -> None:
    ended = swarm("validate", "stacks/dev.yaml", at=ROOT)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "stacks/dev.yaml: 3 nodes, 3 workloads, no mistakes\n"


def test_version_is_the_packages() -> None:
    assert swarm("--version", at=ROOT).out == f"swarm-iac {metadata.version('swarm-iac')}\n"


def test_lock_and_proof_files_beside_a_stack_file_are_passed_over() -> None:
    ended = swarm("validate", "stacks/dev.yaml", "stacks/dev.lock.yaml", "stacks/dev.proof.yaml", at=ROOT)
    assert ended.code == 0 and ended.err.count("no mistakes") == 1


def test_validate_tells_every_mistake_and_ends_with_2() -> None:
    ended = swarm("validate", "stacks/dev.yaml", "examples/05-a-limit-refused/stack.yaml", at=ROOT)
    assert ended.code == 2
    assert "stacks/dev.yaml: 3 nodes" in ended.err
    assert ended.err.count("examples/05-a-limit-refused/stack.yaml:23:18: workloads.pretrain.each.gpus") == 1
    assert "Traceback" not in ended.err


def test_validate_as_json_is_a_list_of_problems() -> None:
    good = swarm("validate", "--json", "stacks/dev.yaml", at=ROOT)
    assert (good.code, json.loads(good.out), good.err) == (0, [], "")
    bad = swarm("validate", "--json", "examples/05-a-limit-refused/stack.yaml", at=ROOT)
    found = json.loads(bad.out)
    assert (bad.code, bad.err) == (2, "")
    assert [one["path"] for one in found][:2] == ["workloads.pretrain.each.gpus", "workloads.embed.each.memory"]
    assert found[0].keys() == {"file", "line", "column", "path", "message", "hint", "severity"}
    assert (found[0]["line"], found[0]["column"]) == (23, 18)


def test_validate_of_a_file_that_is_not_there_names_its_neighbours() -> None:
    ended = swarm("validate", "stacks/dve.yaml", at=ROOT)
    assert ended.code == 2
    assert "no such file or directory" in ended.err
    assert "dev.yaml" in ended.err


def test_schema_is_the_json_schema() -> None:
    ended = swarm("schema", at=ROOT)
    assert ended.code == 0
    assert json.loads(ended.out) == json.loads(json.dumps(schema()))


def test_init_gives_a_repository_that_validates(fleet: Path) -> None:
    ended = swarm("validate", "stacks/dev.yaml", at=fleet)
    assert ended.code == 0, ended.err
    text = (fleet / "stacks" / "dev.yaml").read_text()
    comment = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    assert comment and json.loads((fleet / "stacks" / comment[1]).read_text()) == json.loads(json.dumps(schema()))
    assert "make up" not in text
    assert {path.name for path in fleet.iterdir()} >= {"Pulumi.yaml", "__main__.py", "stacks", "policies", ".gitignore"}
    assert "stacks/*.lock.yaml merge=swarm" in (fleet / ".gitattributes").read_text()


def test_init_gives_a_repository_that_plans(fleet: Path) -> None:
    ended = swarm("plan", "--offline", "--json", at=fleet)
    assert ended.code == 0, ended.err
    plan = json.loads(ended.out)
    assert {step["node"] for step in plan["steps"]} == {"gpu-01", "gpu-02", "gpu-03"}
    assert plan["proof"]["optimal"]


def test_a_plan_of_a_part_names_what_it_leaves(fleet: Path) -> None:
    ended = swarm("plan", "--offline", "--json", "--only", "gpu-03", at=fleet)
    assert ended.code == 0, ended.err
    plan = json.loads(ended.out)
    assert {step["node"] for step in plan["steps"]} == {"gpu-03"}
    assert {left["step"].partition("/")[0] for left in plan["deferred"]} == {"gpu-01", "gpu-02"}
    team = json.loads(swarm("plan", "--offline", "--json", "--only", "product", at=fleet).out)
    assert {step["allocation"] for step in team["steps"]} - {""} == {"chat-0", "chat-1"}
    unknown = swarm("plan", "--offline", "--only", "gpu-9", at=fleet)
    assert unknown.code != 0 and "--only gpu-9: no node and no team of that name" in unknown.err
    assert "teams: product, research" in unknown.err


def test_init_overwrites_nothing(fleet: Path) -> None:
    before = (fleet / "stacks" / "dev.yaml").read_text()
    ended = swarm("init", str(fleet), at=fleet.parent)
    assert ended.code == 1
    assert "is not empty" in ended.err
    assert (fleet / "stacks" / "dev.yaml").read_text() == before


def test_solve_twice_changes_nothing_and_then_nothing_is_left_to_plan(tmp_path: Path) -> None:
    assert swarm("init", "again", at=tmp_path).code == 0
    fleet = tmp_path / "again"
    assert swarm("solve", at=fleet).code == 0
    written = {path.name: path.read_bytes() for path in (fleet / "stacks").iterdir()}
    assert {"dev.lock.yaml", "dev.proof.yaml"} <= written.keys()
    assert swarm("solve", at=fleet).code == 0
    assert {path.name: path.read_bytes() for path in (fleet / "stacks").iterdir()} == written
    assert "since nothing was ever applied here" in swarm("plan", "--offline", at=fleet).out, "a solve applies nothing"
    (fleet / "Pulumi.dev.yaml").write_text("{}\n")
    assert "Nothing to change" in swarm("plan", "--offline", at=fleet).out


def test_a_stack_is_validated_by_its_name_and_all_are_where_none_is_named(fleet: Path) -> None:
    for words in (["dev"], [], ["stacks/dev.yaml"]):
        ended = swarm("validate", *words, at=fleet)
        assert (ended.code, ended.err) == (0, "stacks/dev.yaml: 3 nodes, 3 workloads, no mistakes\n")
    assert swarm("validate", "dve", at=fleet).code == 2


@pytest.mark.parametrize("verb", ["preview", "up", "refresh", "destroy"])
def test_the_engines_commands_take_the_stack_first_as_all_do(fleet: Path, verb: str) -> None:
    ended = swarm(verb, "elsewhere/lab.yaml", "--diff", at=fleet)
    assert ended.code == 1
    assert ended.err.startswith("elsewhere/lab.yaml is not in the stacks/ folder of a fleet repository")


def test_why_of_one_replica_is_why_of_its_workload(fleet: Path) -> None:
    assert swarm("why", "chat-1", at=fleet).out == swarm("why", "chat", at=fleet).out


def test_a_log_of_both_streams_has_the_results_before_the_words_about_them(fleet: Path) -> None:
    both = subprocess.run(
        [sys.executable, "-m", "swarm_iac.cli", "ps", "--offline"], cwd=fleet, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True,
    ).stdout  # fmt: skip
    assert both.index("pretrain-0") < both.index("no machine was asked")


def test_offline_by_the_variable_that_preview_heeds(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = swarm("plan", "--offline", "--json", at=fleet)
    monkeypatch.setenv("SWARM_OFFLINE", "1")
    assert swarm("plan", "--json", at=fleet) == said


def test_why_of_an_unknown_workload_offers_the_nearest(fleet: Path) -> None:
    near = swarm("why", "pretrian", at=fleet)
    assert (near.code, near.err) == (
        1,
        "stacks/dev.yaml has no workload and no node pretrian\n  hint: did you mean pretrain?\n",
    )
    assert "hint:" in swarm("why", "zzz", at=fleet).err


def test_unknown_stack_names_those_that_exist(fleet: Path) -> None:
    for words in (("plan", "--offline"), ("solve",), ("why", "chat")):
        ended = swarm(*words, "--stack", "prod", at=fleet)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == "stacks/prod.yaml: there is no such stack\n  hint: the stacks here: dev\n"


def test_fleet_without_stacks_says_where_to_begin(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: bare\n")
    ended = swarm("plan", "--offline", at=tmp_path)
    assert ended.code == 2
    assert "hint: there is no stack here yet; write stacks/dev.yaml" in ended.err


@pytest.mark.parametrize("words", [("plan",), ("solve",), ("why", "chat"), ("ps",), ("up",)])
def test_outside_a_repository_the_way_in_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = swarm(*words, at=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert "this is not a fleet repository" in ended.err
    assert "hint: create one with: swarm init myfleet" in ended.err


def test_stack_file_elsewhere_is_planned_without_a_repository(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text((ROOT / "examples" / "01-one-gpu" / "stack.yaml").read_text())
    ended = swarm("plan", "--offline", "lab.yaml", at=tmp_path)
    assert ended.code == 0, ended.err
    assert "+ notebook-0" in ended.out
    assert list(tmp_path.iterdir()) == [file]


def test_plan_as_markdown_is_a_comment() -> None:
    stack = "examples/06-a-drained-node/stack.yaml"
    ended = swarm("plan", "--offline", "--markdown", stack, at=ROOT)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("**drained: 2 to move**\n\n### No machine was asked\n")
    assert "| finetune-0 | gpu-02 | gpu-04 | gpu-02: drain (fan) |\n" in ended.out
    both = swarm("plan", "--offline", "--markdown", "--json", stack, at=ROOT)
    assert both.code == 2 and "one of --json and --markdown" in both.err


def test_frozen_refuses_a_stale_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert swarm("init", "frozen", at=tmp_path).code == 0
    monkeypatch.setenv("SWARM_FROZEN", "1")
    ended = swarm("plan", "--offline", at=tmp_path / "frozen")
    assert ended.code == 3
    assert "stacks/dev.lock.yaml is stale" in ended.err


def test_help_shows_every_command_in_one_group() -> None:
    told = swarm("--help", at=ROOT).out
    grouped = [name for names in GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped))
    app = application()
    single = {one.name or str(one.callback.__name__) for one in app.registered_commands if one.callback}
    assert set(grouped) == single | {str(one.name) for one in app.registered_groups}
    positions = [told.index(f"{title}:") for title in GROUPS]
    assert positions == sorted(positions)
    for title, names in GROUPS.items():
        section = told.partition(f"{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(names)


@pytest.mark.parametrize("name", sorted({name for names in MODULES.values() for name in names}))
def test_a_command_whose_name_is_typed_is_the_same_without_all_others(name: str) -> None:
    whole, alone = (typer.main.get_command(application(first)) for first in ("", name))
    assert isinstance(whole, TyperGroup) and isinstance(alone, TyperGroup)
    assert set(alone.commands) == {one for names in MODULES.values() if name in names for one in names} <= set(whole.commands)
    assert list(getattr(alone.commands[name], "commands", ())) == list(getattr(whole.commands[name], "commands", ()))


def test_each_module_is_in_the_table_and_adds_its_commands_once() -> None:
    folder = Path(application.__code__.co_filename).parent / "commands"
    assert set(MODULES) == {file.stem for file in folder.glob("*.py")} - {"__init__"}
    groups = [[str(one.callback) for one in pr.registered_commands] for _ in range(2) if application()]
    assert groups[0] == groups[1] and len(groups[0]) == len({*groups[0]})


def test_no_module_is_loaded_that_the_command_does_not_need() -> None:
    script = (
        "import sys; from swarm_iac.cli.application import application; application('cordon'); print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("swarm_iac.cli.commands.") for name in done.stdout.split()}
    assert "operator" in loaded and not loaded & {"accounts", "inspection", "pull_requests", "web"}


def test_a_digit_that_is_no_number_is_a_mistake_like_any_other(fleet: Path) -> None:
    for code, words in ((2, ("what-if", "workloads[²].replicas=2")), (1, ("why", "chat-²"))):
        ended = swarm(*words, at=fleet)
        assert ended.code == code and "²" in ended.err


def test_in_a_pipe_no_line_ends_in_padding() -> None:
    for words in (("plan", "--offline", "examples/06-a-drained-node/stack.yaml"), ("solve", "--help")):
        ended = swarm(*words, at=ROOT)
        assert ended.out and not [line for line in ended.out.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("way", [("dev",), ("-s", "dev"), ("stacks/dev.yaml",), ("-s", "stacks/dev.yaml"), ()])
def test_a_stack_is_named_one_way_in_all_commands(fleet: Path, way: tuple[str, ...]) -> None:
    """By name or file, as a word or after -s. Where the first word is something else, after -s."""
    assert json.loads(swarm("plan", "--offline", "--json", *way, at=fleet).out)["summary"]["start"]
    assert json.loads(swarm("ps", "--pending", "--json", *way, at=fleet).out) == []
    option = ("-s", way[-1]) if way else ()
    assert "chat: 2 placed" in swarm("why", "chat", *option, at=fleet).out
    assert "tidy-1" in swarm("what-if", "workloads.tidy.replicas=2", *option, at=fleet).out
    assert "state: cordon" in swarm("cordon", "gpu-01", "--dry-run", *option, at=fleet).out


def test_a_file_elsewhere_is_solved_beside_it_and_never_applied(tmp_path: Path, fleet: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text((ROOT / "examples" / "01-one-gpu" / "stack.yaml").read_text())
    assert swarm("solve", str(file), at=fleet).code == 0 and (tmp_path / "lab.lock.yaml").exists()
    ended = swarm("up", "-s", str(file), at=fleet)
    assert ended.code == 1 and "is not in the stacks/ folder of a fleet repository" in ended.err
