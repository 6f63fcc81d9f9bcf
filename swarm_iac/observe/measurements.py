"""What does each node measure at this moment? Its sampler's values, over ssh.

Not from the exporter's port: that answers its scrapers alone, who need not be us, and over ssh we know who answers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm_iac.observe.observe import each
from swarm_iac.printable import printable
from swarm_iac.reach import ask
from swarm_iac.reach.answer import decode
from swarm_iac.reach.call import call

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Measured:
    """One node. `samples`: family → (labels, value); `rates`: the same of counters, per second. `error`: why there are none."""

    node: str
    samples: Mapping[str, tuple[tuple[Labels, float], ...]]
    rates: Mapping[str, tuple[tuple[Labels, float], ...]]
    error: str = ""

    def of(self, family: str, **labels: str) -> Iterator[tuple[Labels, float]]:
        """Samples of a family that have these labels."""
        return _with(self.samples.get(family, ()), labels)

    def grew(self, family: str, **labels: str) -> Iterator[tuple[Labels, float]]:
        """By how much a counter grows in a second."""
        return _with(self.rates.get(family, ()), labels)


def _with(found: tuple[tuple[Labels, float], ...], labels: Labels) -> Iterator[tuple[Labels, float]]:
    return (one for one in found if all(one[0].get(key) == value for key, value in labels.items()))


def measurements(targets: Mapping[str, str], *, ssh_config: Path | None = None, timeout: float = 20) -> dict[str, Measured]:
    """Ask every node. `targets`: node → address; `timeout` [s] is for each node alone. Never raises for one node."""
    return asyncio.run(each(targets, lambda node, address: _one(node, address, ssh_config), _silent, timeout))


async def _one(node: str, address: str, ssh_config: Path | None) -> Measured:
    code, out, err = await call(ask.installed(address, ssh_config, "metrics", program="current"), b"")
    if code == ask.ABSENT:
        return _silent(node, "nothing is measured there: the node program is not installed")
    if code:
        return _silent(node, err.decode(errors="replace").strip()[-300:] or f"exit status {code}")
    return read(node, out)


def read(node: str, answer: bytes) -> Measured:
    """A node's answer. One that is none becomes an error of that node."""
    try:
        found = decode(answer)
        if not isinstance(found, dict):
            raise ValueError("the node's answer is no mapping")
        if found.get("error"):
            return _silent(node, str(found["error"]))
        return Measured(node, _families(found.get("samples")), _families(found.get("rates")))
    except ValueError as error:
        return _silent(node, str(error))


def _families(found: Any) -> dict[str, tuple[tuple[Labels, float], ...]]:
    """Raises ValueError for what is no list of samples."""
    families: dict[str, list[tuple[Labels, float]]] = {}
    for one in found if isinstance(found, list) else (None,):
        if not (isinstance(one, list) and len(one) == 3):
            raise ValueError("the node's answer is no list of samples")
        name, labels, value = one
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        texts = isinstance(labels, dict) and all(isinstance(each, str) for each in labels.values())
        if not (isinstance(name, str) and texts and number):
            raise ValueError("the node's answer holds what is no sample")
        plain = {printable(key, 80): " ".join(printable(each, 200).split()) for key, each in labels.items()}
        families.setdefault(name, []).append((plain, float(value)))
    return {name: tuple(each) for name, each in families.items()}


def _silent(node: str, words: str) -> Measured:
    return Measured(node, {}, {}, " ".join(printable(words, 500).split()) or "it does not say why")
