"""One value for each key of `tuning`, other than its default, as a stack file writes it."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from swarm_iac.model.settings import Tuning

_WRITTEN: dict[str, Any] = {
    "gpu_power": "480..500 W", "gpu_power_loss": 8, "gpu_clock": "1410 MHz", "gpu_persistence": True, "hugepages": "2 GiB", "hugepages_1g": "3 GiB", "swappiness": 5,
    "sysctl": {"net.core.somaxconn": 1024},
}  # fmt: skip


def _one_of(key: str) -> str:
    """Of a key that takes one of a few words, the last; any other key needs a value above."""
    (words,) = (kind for kind in get_args(Tuning.model_fields[key].annotation) if get_origin(kind) is Literal)
    return str(get_args(words)[-1])


TUNING = {key: _WRITTEN[key] if key in _WRITTEN else _one_of(key) for key in Tuning.model_fields}
