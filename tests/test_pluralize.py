"""Does a noun agree with the number before it, in text for people?"""

from __future__ import annotations

import pytest

from swarm_iac.pluralize import pluralize
from swarm_iac.units import Cpus, GpuCount


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("node",), "0 nodes"),
        (1, ("node",), "1 node"),
        (3, ("replica",), "3 replicas"),
        (1, ("running allocation",), "1 running allocation"),
        (1, ("replica is", "replicas are"), "1 replica is"),
        (2, ("replica is", "replicas are"), "2 replicas are"),
        (1, ("of 4 members fits", "of 4 members fit"), "1 of 4 members fits"),
        (f"{1:,}", ("mistake",), "1 mistake"),
        (f"{1200:,}", ("mistake",), "1,200 mistakes"),
        (GpuCount(1000), ("GPU",), "1 GPU"),
        (GpuCount(500), ("GPU",), "0.5 GPUs"),
        (Cpus(1000), ("vCPU",), "1 vCPU"),
    ],
)
def test_a_noun_agrees_with_its_number(count: int | str, words: tuple[str, ...], text: str) -> None:
    assert pluralize(count, *words) == text
