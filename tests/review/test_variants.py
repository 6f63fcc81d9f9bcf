"""Whose a change of variants and of needs is, also where it does not look like one."""

from __future__ import annotations

import pytest

from tests.review.conftest import Make
from tests.review.fleet import DEV, RIGHTS
from tests.review.test_rights import changed, paths

CHAT = "    each: {gpus: 1, vcpus: 0.5, memory: 200 MB, cache: 200 MB}\n    network: {egress: 10 Mbit/s}\n"
FORMS = """\
    variants:
      bf16: {each: {gpus: 1}}
      int8: {each: {gpus: 0.5}}
"""
VARIED = DEV.read_text().replace(CHAT, CHAT + FORMS) + RIGHTS
NEEDS = (
    DEV.read_text().replace("    replicas: 2\n", "    needs: 100 req/s\n    speed: {H100: 60 req/s, L40S: 20 req/s}\n") + RIGHTS
)


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        pytest.param("int8: {each: {gpus: 0.5}}", "int8: {each: {gpus: 0.25}}", "int8.each.gpus", id="another value"),
        pytest.param(
            "int8: {each: {gpus: 0.5}}", "int8: {each: {gpus: 0.5, memory: 1 GB}}", "int8.each.memory", id="a default"
        ),
        pytest.param("gpus: 0.5}}", "gpus: 0.5, cache: 0 B}}", "int8.each.cache", id="none of it"),
        pytest.param("gpus: 0.5}}", "gpus: 0.5}, replicas: 1}", "int8.replicas", id="fewer, the default"),
        pytest.param("gpus: 0.5}}", "gpus: 0.5}, run: {env: {A: b}}}", "int8.run.env.A", id="environment"),
        pytest.param(FORMS, "", "bf16.each.gpus", id="no variants"),
    ],
)
def test_a_change_of_a_variant_is_its_users(repository: Make, old: str, new: str, path: str) -> None:
    dev = repository(VARIED)
    verdict = dev.check(dev.pull_request((old, new), solve=False), author="bo")
    assert f"workloads.chat.variants.{path}" in paths(verdict, "cy") and not verdict.ok


def test_another_order_of_variants_is_a_change(repository: Make) -> None:
    dev = repository(VARIED)
    other = FORMS.replace("bf16: {each: {gpus: 1}}", "x").replace("int8: {each: {gpus: 0.5}}", "bf16: {each: {gpus: 1}}")
    other = other.replace("x", "int8: {each: {gpus: 0.5}}")
    verdict = dev.check(dev.pull_request((FORMS, other), solve=False), author="bo")
    assert paths(verdict, "cy") == {"workloads.chat.variants"} and not verdict.ok


def test_what_follows_from_needs_is_nobodys_change(repository: Make) -> None:
    """That another model is cheaper, or there at all, changes the ways to meet them, and no line of the workload's user."""
    dev = repository(NEEDS)
    verdict = dev.check(dev.pull_request(("  gpu-03: {hardware: l40s", "  gpu-03: {hardware: h100"), solve=False), author="cy")
    assert changed(verdict) == {"nodes.gpu-03.hardware"}
    verdict = dev.check(dev.pull_request(("L40S: 20 req/s", "L40S: 25 req/s"), solve=False), author="bo")
    assert paths(verdict, "cy") == {"workloads.chat.speed.L40S"}
