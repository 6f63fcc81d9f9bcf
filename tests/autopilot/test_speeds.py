"""Is a speed measured only while a replica was busy, from enough of it, and suggested only where it differs?"""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from swarm_iac.autopilot.speeds import LEAST, STEP, BusyThresholds, MeasuredSpeed, of_prometheus, speeds
from swarm_iac.errors import Retryable, SwarmError
from swarm_iac.model.service.speed import Rate
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import loads
from swarm_iac.stackfile.editing.speeds import set_speeds
from tests.autopilot.test_reading import Answers, prometheus

__all__ = ["prometheus"]

FILE = """\
fleet: lab
hardware: {h: {gpus: 4 x H100, vcpus: 8, memory: 1 TB}, a: {gpus: 4 x A100, vcpus: 8, memory: 1 TB}}
teams: {t: {users: [cy]}}
nodes: {n1: {hardware: h, ssh: root@n1}, n2: {hardware: a, ssh: root@n2}}
workloads:
  chat:
    user: cy
    kind: serve
    needs: 100 kTok/s
    speed: {H100: 25 kTok/s, A100: 15 kTok/s}   # by hand
    each: {gpus: 1, vcpus: 1, memory: 1 GB}
    run: {command: serve}
"""
TODAY = datetime.date(2026, 11, 1)
LIMITS = BusyThresholds()
Series = dict[str, list[tuple[Mapping[str, str], Mapping[int, float]]]]


def stack(text: str = FILE) -> Stack:
    return loads(text, "lab.yaml", today=TODAY).stack


def series(*moments: tuple[str, str, int, float, float]) -> Series:
    """Of allocation, hardware, moment, rate and how busy."""
    rates: dict[str, dict[int, float]] = {}
    busy: dict[tuple[str, str], dict[int, float]] = {}
    for allocation, hardware, at, rate, part in moments:
        rates.setdefault(allocation, {})[at] = rate
        busy.setdefault((allocation, hardware), {})[at] = part
    return {
        "rate": [({"allocation": one}, values) for one, values in rates.items()],
        "active": [({"allocation": one, "hardware": kind}, values) for (one, kind), values in busy.items()],
    }


def measured(found: Series, text: str = FILE) -> dict[str, MeasuredSpeed]:
    def ask(query: str) -> Iterator[tuple[Mapping[str, str], Mapping[int, float]]]:
        return iter(found["active" if "gpu_active" in query else "rate"])

    return {one.model: one for one in speeds(stack(text), ask, LIMITS)}


def busy(count: int, rate: float = 31_400, who: str = "chat-0", kind: str = "h") -> list[tuple[str, str, int, float, float]]:
    return [(who, kind, STEP * at, rate, 0.95) for at in range(count)]


def test_what_was_measured_while_busy_is_suggested() -> None:
    found = measured(series(*busy(LEAST)))
    one = found["H100"]
    assert (str(one.suggested), one.replicas, one.moments) == ("31.4 kTok/s", (4, 4), LEAST)
    assert found["A100"].suggested is None and found["A100"].verdict == f"too little is known: 0 of {LEAST} busy moments"
    assert measured(series(*busy(LEAST, 60_000)))["H100"].replicas == (4, 2)


def test_too_little_is_no_suggestion() -> None:
    one = measured(series(*busy(LEAST - 1)))["H100"]
    assert one.suggested is one.measured is None and one.replicas == (4, 4)


@pytest.mark.parametrize("rate, suggested", [(27_500, False), (27_600, True), (22_500, False), (22_400, True)])
def test_a_small_difference_is_none(rate: float, suggested: bool) -> None:
    one = measured(series(*busy(LEAST, rate)))["H100"]
    assert (one.suggested is not None) is suggested and one.measured is not None


@pytest.mark.parametrize("seed", range(20))
def test_quiet_moments_and_the_order_of_series_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    much = [(f"chat-{rng.randrange(4)}", "h", STEP * at, rng.uniform(20_000, 60_000), rng.uniform(0.8, 1)) for at in range(80)]
    quiet = [(who, kind, at + 80 * STEP, rng.uniform(0, 90_000), rng.uniform(0, 0.79)) for who, kind, at, _, _ in much]
    first = measured(series(*much))
    mixed = [*much, *quiet]
    rng.shuffle(mixed)
    assert measured(series(*mixed)) == first
    low, middle, high = (first["H100"].low, first["H100"].measured, first["H100"].high)
    assert low and middle and high and low.amount <= middle.amount <= high.amount


@pytest.mark.parametrize("seed", range(20))
def test_a_suggestion_that_was_taken_suggests_nothing_more(seed: int) -> None:
    rng = random.Random(seed)
    rate = 10 ** rng.uniform(2, 9)
    found = series(*[(who, kind, at, value * rng.uniform(0.99, 1.01), part) for who, kind, at, value, part in busy(60, rate)])
    one = measured(found)["H100"]
    if one.suggested is None:
        return
    text = set_speeds(FILE.encode(), "lab.yaml", {("chat", "H100"): one.suggested}, TODAY).decode()
    assert text == FILE.replace("H100: 25 kTok/s", f"H100: {one.suggested}")
    assert measured(found, text)["H100"].suggested is None


def test_a_replica_that_moved_counts_for_the_model_that_it_was_on() -> None:
    moved = [(who, "a", at + LEAST * STEP, 20_000.0, part) for who, _, at, _, part in busy(LEAST)]
    found = measured(series(*busy(LEAST), *moved))
    assert (str(found["H100"].suggested), str(found["A100"].suggested)) == ("31.4 kTok/s", "20 kTok/s")


def test_a_moment_on_two_kinds_of_hardware_or_on_an_unknown_one_does_not_count() -> None:
    both = series(*busy(LEAST))
    both["active"].append(({"allocation": "chat-0", "hardware": "a"}, {STEP * at: 0.9 for at in range(LEAST)}))
    assert {one.moments for one in measured(both).values()} == {0}
    assert {one.moments for one in measured(series(*busy(LEAST, kind="nobody's"))).values()} == {0}


@pytest.mark.parametrize("gpus", ["0.5", "1 x H100/1g.10gb"])
def test_parts_of_cards_are_not_judged_by_what_others_do_on_them(gpus: str) -> None:
    text = FILE.replace("each: {gpus: 1,", f"each: {{gpus: {gpus},").replace(", A100: 15 kTok/s", "")
    one = measured(series(*busy(LEAST)), text)["H100"]
    assert one.suggested is None and one.verdict.startswith("not measured: nothing tells which of those that share")


@pytest.mark.parametrize("count", [1, 4])
def test_only_moments_at_which_all_cards_were_measured_are_asked_for(count: int) -> None:
    asked = []

    def ask(query: str) -> Iterator[tuple[Mapping[str, str], Mapping[int, float]]]:
        asked.append(query)
        return iter(())

    list(speeds(stack(FILE.replace("each: {gpus: 1,", f"each: {{gpus: {count},")), ask, LIMITS))
    active = 'by (allocation, hardware) (swarm:holder_gpu_active:ratio{fleet="lab",workload="chat"})'
    assert asked[1] == f"min {active} and count {active} == {count}"


@pytest.mark.parametrize("rate", [0.0, 1e-9, 1e15])
def test_no_rate_makes_a_speed_that_a_stack_file_refuses(rate: float) -> None:
    one = measured(series(*busy(LEAST, rate)))["H100"]
    assert (one.suggested is None) is (rate < 1) and (rate or one.verdict == "not measured: busy, and nothing was done")
    if one.suggested is not None:
        assert Rate.parse(str(one.suggested)) == one.suggested
        assert set_speeds(FILE.encode(), "lab.yaml", {("chat", "H100"): one.suggested}, TODAY)


@pytest.mark.parametrize("answer", [
    b"", b"[]", b"{}", b'{"status": "success"}', b'{"status": "success", "data": {"resultType": "vector", "result": []}}',
    b"[" * 100_000, b'{"status": "error", "data": {"resultType": "matrix", "result": []}}',
    b'{"status": "success", "data": {"resultType": "matrix", "result": {"metric": {}}}}',
])  # fmt: skip
def test_what_is_no_answer_is_said_to_be(prometheus: Answers, answer: bytes) -> None:
    prometheus.body = answer
    with pytest.raises(SwarmError, match="gives no series"):
        speeds(stack(), of_prometheus(prometheus.url, 0, 9000), LIMITS)


def test_values_that_are_no_measurements_are_left_out(prometheus: Answers) -> None:
    odd: list[Any] = [
        ["x", "1"], [1, 5], [1], None, [1, "NaN"], [2, "-1"], [3, "+Inf"], [4, "1e99"], [float("inf"), "1"], [5, "one"],
    ]  # fmt: skip
    result = [{"metric": {"allocation": "chat-0"}, "values": [*odd, [300, "7"]]}, {"metric": 3, "values": []}, 7]
    prometheus.body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    ask = of_prometheus(prometheus.url, 0, 9000)
    assert [dict(values) for _, values in ask("x")] == [{300: 7.0}]
    assert {one.moments for one in speeds(stack(), ask, LIMITS)} == {0}


def test_nobody_else_is_asked(prometheus: Answers) -> None:
    prometheus.status, prometheus.headers = 302, (("Location", "http://127.0.0.1:1/"),)
    with pytest.raises(Retryable, match="answered 302"):
        speeds(stack(), of_prometheus(prometheus.url, 0, 9000), LIMITS)
    assert [path for path, _ in prometheus.asked] == ["/api/v1/query_range"]


@pytest.mark.parametrize("text", [
    FILE.replace("speed: {H100: 25 kTok/s, A100: 15 kTok/s}", "speed: &s {H100: 25 kTok/s, A100: 15 kTok/s}")
    + "  talk: {user: cy, kind: serve, needs: 1 kTok/s, speed: *s, each: {gpus: 1, vcpus: 1, memory: 1 GB}, run: {command: serve}}\n",
])  # fmt: skip
@pytest.mark.parametrize("name", ["chat", "talk"])
def test_a_speed_of_several_workloads_is_not_changed_for_one(text: str, name: str) -> None:
    with pytest.raises(SwarmError, match=r"cannot be changed from here|for several workloads"):
        set_speeds(text.encode(), "lab.yaml", {(name, "H100"): Rate.parse("31 kTok/s")}, TODAY)
