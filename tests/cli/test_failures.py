"""Does a script that asked for JSON find an error there too, once, and the words for people where they always are?"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import STACK
from tests.cli.typed import swarm


def test_a_refusal_is_a_document_too(root: Path) -> None:
    ended = swarm("plan", "lab", "--offline", "--only", "n2", "--json", at=root)
    error = json.loads(ended.out)["error"]
    assert (error["kind"], error["exit_code"], ended.code) == ("Refused", 3, 3)
    assert error["message"] and error["message"] in ended.err and "Traceback" not in ended.err
    assert error["problems"] == []


def test_every_mistake_of_a_stack_file_has_its_place(root: Path) -> None:
    at = root / "stacks" / "lab.yaml"
    at.write_text(STACK.replace("user: ada, each: {gpus: 7}", "user: eve, each: {gpus: 70}"))
    ended = swarm("plan", "lab", "--offline", "--json", at=root)
    error = json.loads(ended.out)["error"]
    assert (error["kind"], error["exit_code"], ended.code) == ("StackFileError", 2, 2)
    assert {(one["path"], one["line"]) for one in error["problems"]} >= {("workloads.b.user", 7)}
    assert all(one["message"] in ended.err for one in error["problems"])


def test_a_document_is_printed_once(root: Path) -> None:
    ended = swarm("validate", "--json", "stacks/nobody.yaml", at=root)
    json.loads(ended.out)  # raises where there are two
    assert ended.code == 2


def test_without_json_there_is_none(root: Path) -> None:
    ended = swarm("plan", "lab", "--offline", "--only", "n2", at=root)
    assert (ended.out, ended.code) == ("", 3)
