"""Does Prometheus read back what is written, whatever stands in a label, and are names as it wants them?"""

from __future__ import annotations

import math
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarm_node.exporter import families

from tests.exporter.text_format import parse

TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=40) | st.text('\\"\n{}=, #\r\x00\u2028', max_size=12)
NUMBERS = st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=True, allow_infinity=True)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["allocation", "workload", "user", "team"]), TEXTS), NUMBERS)
def test_any_label_and_value_is_read_back(labels: dict[str, str], value: float) -> None:
    read = parse(families.render([("swarm_allocation_processes", dict(labels), value)]))
    if not math.isfinite(value):
        assert not read.series, "what is no number is absent"
        return
    ((name, found),) = read.series
    assert name == "swarm_allocation_processes" and read.series[name, found] == float(value)
    assert dict(found) == {key: text.encode("utf-8", "replace").decode() for key, text in labels.items()}


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*families.FAMILIES, "other"]), st.dictionaries(TEXTS, TEXTS, max_size=2), NUMBERS)))
def test_no_list_of_samples_makes_a_page_that_cannot_be_read(samples: list[tuple[str, dict[str, str], float]]) -> None:
    read = parse(families.render(samples))
    assert {name for name, _ in read.series} == set(read.kinds) == set(read.helps) <= set(families.FAMILIES)
    for name, labels in read.series:
        assert {key for key, _ in labels} <= set(families.FAMILIES[name].labels)


def test_a_series_is_written_once() -> None:
    twice = [
        ("swarm_allocation_processes", {"allocation": "a-0"}, 1.0),
        ("swarm_allocation_processes", {"allocation": "a-0"}, 2.0),
    ]
    assert list(parse(families.render(twice)).series.values()) == [1]


def test_names_are_as_prometheus_wants_them() -> None:
    for name, family in families.FAMILIES.items():
        assert name.startswith("swarm_") and family.text.endswith(".") and "\n" not in family.text and "\\" not in family.text
        assert (family.kind == "counter") == name.endswith("_total"), name
        assert not any(unit in name for unit in ("_ms", "_milli", "_percent", "_mhz", "_kb", "_mb")), "base units alone"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: make promtool")
def test_promtool_has_nothing_against_any_family() -> None:
    every = [(name, {label: "x" for label in family.labels}, 1.0) for name, family in families.FAMILIES.items()]
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=families.render(every), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_rate_is_of_a_counter_that_grew() -> None:
    counter, gauge = "swarm_allocation_cpu_seconds_total", "swarm_allocation_memory_bytes"
    a, b = {"allocation": "a-0", "mode": "user"}, {"allocation": "b-0", "mode": "user"}
    before = [(counter, a, 10.0), (gauge, a, 5.0), (counter, b, 9.0)]
    now = [(counter, a, 15.0), (gauge, a, 50.0), (counter, b, 1.0), (counter, {"allocation": "new-0"}, 7.0)]
    assert families.rates(before, now, 5) == [(counter, a, 1.0)], "b began anew, and who is new has grown by nobody knows what"
    assert families.rates(before, now, 0) == []
