"""Does docs/stack-file.md say what the model says?"""

from __future__ import annotations

from swarm_iac.stackfile import schema
from tests.cli.typed import ROOT, swarm


def test_reference_is_up_to_date() -> None:
    ended = swarm("schema", "--markdown", at=ROOT)
    assert ended.code == 0, ended.err
    assert (ROOT / "docs" / "stack-file.md").read_text() == ended.out, "swarm schema --markdown > docs/stack-file.md"


def test_every_key_has_a_row_with_a_meaning() -> None:
    rows = {line.split(" | ")[0]: line for line in swarm("schema", "--markdown", at=ROOT).out.splitlines() if line[:3] == "| `"}
    for shape in (schema(), *schema()["$defs"].values()):
        for key, value in shape["properties"].items():
            assert f"| `{key}`" in rows, key
            assert value["description"], key
