"""Does a change ever give a GPU two owners, leave a service dark, or run a gang in part? A recorder on the nodes tells.

After test_trunk, on its machines: they have just been given back.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import NODES, Fleet

pytestmark = pytest.mark.e2e

PORT = 8000
#: Clocks of the nodes differ by a little, and a sample takes its time. [s]
BLUR = 1.0
RUN = {"command": "/bin/sleep infinity"}
PLACES = dict(zip(("one", "two", "three"), NODES, strict=True))


def train(user: str, gpus: str, at: str, **more: Any) -> dict[str, Any]:
    each = {"gpus": gpus, "vcpus": 0.25, "memory": "64 MB"}
    return {
        "user": user,
        "kind": "train",
        "each": each,
        "place": {"select": {"at": at}},
        "run": RUN,
        "stop": {"grace": "5 s"},
        **more,
    }


def web(at: str) -> dict[str, Any]:
    each = {"gpus": "2", "vcpus": 1, "memory": "128 MB"}
    return train("cy", "2", at) | {
        "kind": "serve",
        "each": each,
        "run": {"command": f"python3 -m http.server {PORT}", "port": PORT, "healthy": "/"},
    }


@dataclass
class Record:
    """What the recorders of all nodes saw: node → samples."""

    samples: dict[str, list[dict[str, Any]]]

    def owners(self) -> list[tuple[str, float, str, set[str]]]:
        """Every moment at which two allocations were alive with the same GPU."""
        found = []
        for node, samples in self.samples.items():
            for sample in samples:
                holds: dict[str, set[str]] = {}
                for name, (gpus, _) in sample["alive"].items():
                    for gpu in gpus.split(","):
                        holds.setdefault(gpu, set()).add(name)
                found += [(node, sample["t"], gpu, who) for gpu, who in holds.items() if gpu != "-1" and len(who) > 1]
        return found

    def dark(self) -> float:
        """Longest time within the record in which the service answered on no node, although all were asked. [s]"""
        lit = sorted(sample["t"] for samples in self.samples.values() for sample in samples if sample["web"])
        ends = [min(self.times()), *lit, max(self.times())]
        gaps = [(before, after) for before, after in itertools.pairwise(ends) if self._all_asked(before, after)]
        return max((after - before for before, after in gaps), default=0.0)

    def _all_asked(self, begin: float, end: float) -> bool:
        """A recorder that got no time of the processor says nothing about the service."""
        return all(any(begin < sample["t"] < end for sample in samples) for samples in self.samples.values())

    def times(self) -> list[float]:
        return [sample["t"] for samples in self.samples.values() for sample in samples]

    def lives(self, workload: str) -> list[tuple[float, float, str]]:
        """First and last moment of each process of a workload, and its node."""
        seen: dict[tuple[str, int], list[float]] = {}
        for node, samples in self.samples.items():
            for sample in samples:
                for name, (_, pids) in sample["alive"].items():
                    if name.rpartition("-")[0] == workload:
                        for pid in pids:
                            seen.setdefault((node, pid), []).append(sample["t"])
        return sorted((min(times), max(times), node) for (node, _), times in seen.items())


@dataclass
class Stage:
    """The fleet of test_trunk with workloads of our own, and a recorder on each node while a change is made."""

    fleet: Fleet
    text: dict[str, Any]

    def request(self, workloads: dict[str, Any], **nodes: dict[str, Any]) -> None:
        self.text["workloads"] = workloads
        for node, more in nodes.items():
            self.text["nodes"].setdefault(node.replace("_", "-"), {}).update(more)
        self.fleet.stack.write_text(yaml.safe_dump(self.text, sort_keys=False))

    def up(self) -> Record:
        for node in NODES:
            self.fleet.node(
                node,
                f"systemctl -q stop recorder; systemd-run -q --collect --unit=recorder python3 /root/recorder.py /root/record {PORT}",
            )
        try:
            self.fleet.swarm("up", "--yes", "--skip-preview").ok()
        finally:
            lines = {node: self.fleet.node(node, "systemctl -q stop recorder; cat /root/record").splitlines() for node in NODES}
        return Record({node: [json.loads(line) for line in found] for node, found in lines.items()})

    def place(self, name: str) -> str:
        return str(self.fleet.placed()[name]["node"])


@pytest.fixture(scope="module")
def stage(fleet: Fleet) -> Iterator[Stage]:
    script = (Path(__file__).parent / "recorder.py").read_text()
    for node in NODES:
        fleet.node(node, f"cat > /root/recorder.py <<'END'\n{script}\nEND")
    before = fleet.stack.read_text()
    text = yaml.safe_load(before)
    for label, node in PLACES.items():
        text["nodes"].setdefault(node, {})["labels"] = {"at": label}
    yield Stage(fleet, text)
    fleet.stack.write_text(before)


def test_two_trainings_that_fill_two_nodes_trade_places(stage: Stage) -> None:
    stage.request({"left": train("ada", "8 x H100", "one"), "right": train("bo", "8 x H100", "two"), "web": web("three")})
    stage.up()
    stage.request({"left": train("ada", "8 x H100", "two"), "right": train("bo", "8 x H100", "one"), "web": web("three")})
    record = stage.up()
    assert (stage.place("left-0"), stage.place("right-0")) == (PLACES["two"], PLACES["one"])
    assert record.owners() == []
    for workload in ("left", "right"):
        (_, old_end, old), (new_begin, _, new) = record.lives(workload)
        assert old != new and old_end < new_begin + BLUR, "the job never ran twice"
    assert record.dark() < 2 * BLUR, "who has no part in a change never feels it"
    for node, samples in record.samples.items():
        seconds = samples[-1]["t"] - samples[0]["t"]
        print(f"{node}: {len(samples) / seconds:.1f} samples a second over {seconds:.0f} s")


@pytest.mark.slow
def test_a_service_moves_onto_a_place_that_another_leaves_without_a_gap(stage: Stage) -> None:
    stage.request({"left": train("ada", "8 x H100", "two"), "right": train("bo", "8 x H100", "one"), "web": web("three")})
    stage.up()
    pair = {**train("ada", "2", ""), "gang": 2, "place": {"spread": "node"}}
    stage.request({"right": train("bo", "8 x H100", "one"), "web": web("two"), "pair": pair})
    record = stage.up()
    assert stage.place("web-0") == PLACES["two"]
    assert {stage.place("pair-0"), stage.place("pair-1")} == {PLACES["two"], PLACES["three"]}
    assert record.owners() == []
    assert record.dark() < 2 * BLUR
    lives = record.lives("web")
    assert [node for _, _, node in lives] == [PLACES["three"], PLACES["two"]] and lives[0][1] > lives[1][0], "new before old"


@pytest.mark.slow
def test_a_gang_that_moves_one_member_stops_whole_and_starts_whole(stage: Stage) -> None:
    pair = {**train("ada", "2", ""), "gang": 2, "place": {"spread": "node"}}
    stage.request({"web": web("two"), "pair": pair}, gpu_03={"state": "drain", "why": "fan"})
    record = stage.up()
    assert {stage.place("pair-0"), stage.place("pair-1")} == {PLACES["one"], PLACES["two"]}
    assert record.owners() == [] and record.dark() < 2 * BLUR
    lives = record.lives("pair")
    assert len(lives) == 4, "both members stopped, both started again"
    assert max(end for _, end, _ in lives[:2]) < min(begin for begin, _, _ in lives[2:]) + BLUR


@pytest.mark.slow
def test_three_moves_in_a_chain_free_a_place(stage: Stage) -> None:
    def four(user: str, at: str) -> dict[str, Any]:
        return train(user, "4", at)

    first = {
        "a": four("ada", "one"),
        "b": four("ada", "one"),
        "c": four("bo", "two"),
        "d": four("bo", "two"),
        "e": four("cy", "three"),
    }
    stage.request(first, gpu_03={"state": "ready", "why": ""})
    stage.up()
    del first["e"]
    stage.request({**first, "c": four("bo", "three"), "a": four("ada", "two"), "new": four("cy", "one")})
    record = stage.up()
    assert {name: stage.place(f"{name}-0") for name in ("c", "a", "new")} == {
        "c": PLACES["three"], "a": PLACES["two"], "new": PLACES["one"],
    }  # fmt: skip
    assert record.owners() == []
    for untouched in ("b", "d"):
        assert len(record.lives(untouched)) == 1, "who has no part in a change keeps running"
