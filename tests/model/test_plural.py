"""Does a number stand before its noun as people say it?"""

from __future__ import annotations

import pytest

from swarm_iac.plural import number_of


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (0, ("replica",), "0 replicas"),
        (1, ("replica",), "1 replica"),
        (2, ("replica",), "2 replicas"),
        (1, ("node is", "nodes are"), "1 node is"),
        (3, ("node is", "nodes are"), "3 nodes are"),
    ],
)
def test_one_thing_is_one_and_all_others_are_many(count: int, words: tuple[str, ...], said: str) -> None:
    assert number_of(count, *words) == said
