"""Does `swarm discover` write what it found, as text that adds nothing to the file?"""

from __future__ import annotations

import pytest
import yaml
from pydantic import ValidationError

from swarm_iac import observe
from swarm_iac.cli.machines import discover
from swarm_iac.model.state import Facts, GpuFacts, Observed

CARD = {"pci": "00000000:1b:00.0", "uuid": "GPU-1", "model": "NVIDIA H100 80GB HBM3", "memory": 80 * 2**30, "mig": True}


def facts(*layouts: tuple[str, ...]) -> Facts:
    cards = [GpuFacts.model_validate({**CARD, "index": i, "instances": one}) for i, one in enumerate(layouts)]
    return Facts(cpus=64, memory=512 * 10**9, gpus=tuple(cards))


def test_layouts_that_exist_are_listed_by_node_and_card(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"gpu-01": Observed(node="gpu-01", facts=facts(("1g@0/1", "1g@2/2", "3g@4/4"), (), ("4g@0/4",)))}
    monkeypatch.setattr(observe, "observe", lambda *_, **__: seen)
    text, errors = discover.found(["root@gpu-01.example.org"])
    assert errors == {} and text.endswith(
        f"{discover.LAYOUTS}\n#   gpu-01, GPU 0: 1g.10gb@0/8, 1g.20gb@2-3/8, 3g.40gb@4-7/8\n#   gpu-01, GPU 2: 4g.40gb@0-3/8\n"
    )
    assert yaml.safe_load(text)["hardware"]["h100-1"]["mig"] is True and set(yaml.safe_load(text)) == {"hardware", "nodes"}


def test_cards_that_are_whole_are_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "observe", lambda *_, **__: {"gpu-01": Observed(node="gpu-01", facts=facts((), ()))})
    assert "#" not in discover.found(["root@gpu-01.example.org"])[0]


@pytest.mark.parametrize("bent", ["1g@0/1\nworkloads: {}", "9g@0/1", "1g.10gb", "1g@8/1", ""])
def test_a_node_cannot_write_anything_else_there(bent: str) -> None:
    with pytest.raises(ValidationError):
        facts((bent,))
