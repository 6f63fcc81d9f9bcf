"""Are quantities read exactly, refused with words, and written so that they read back?"""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.hardware import gpu_model
from swarm_iac.model.workload import Each
from swarm_iac.price import Price
from swarm_iac.units import (
    BandwidthRange,
    BitsPerSecond,
    Bytes,
    BytesPerSecond,
    CpuRange,
    Cpus,
    Hertz,
    Iops,
    IopsRange,
    MemoryRange,
    Quantity,
    Range,
    Seconds,
    ThroughputRange,
    Watts,
)

KINDS = (Bytes, BitsPerSecond, BytesPerSecond, Watts, Hertz, Seconds, Cpus, Iops)


@given(st.sampled_from(KINDS), st.integers(0, 2**62))
def test_what_is_written_reads_back_exactly(kind: type[Quantity], value: int) -> None:
    assert kind.parse(str(kind(value))) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Bytes, "1.5 TB", 1_500_000_000_000),
        (Bytes, "64 MiB", 67_108_864),
        (BitsPerSecond, "100 Gbit/s", 10**11),
        (Cpus, "0.5", 500),
        (Cpus, 24, 24_000),
        (Seconds, "10 min", 600),
        (Hertz, "1410 MHz", 1_410_000_000),
    ],
)
def test_units_are_read(kind: type[Quantity], text: object, value: int) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Bytes, "512", "has no unit"),
        (Bytes, "512 Gbit/s", "is no unit of a size"),
        (Iops, "800k", "'k' is no unit of a number of operations per second; write it like '5000'"),
        (Watts, "-5 W", "write it like"),
        (Cpus, "0.0001", "not a whole number"),
        (Bytes, True, "expected a size"),
        (Bytes, "9" * 30 + " PB", "too large"),
    ],
)
def test_what_is_wrong_is_said(kind: type[Quantity], text: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kind.parse(text)


RANGES = (CpuRange, BandwidthRange, MemoryRange, ThroughputRange, IopsRange)


@given(st.sampled_from(RANGES), st.integers(1, 2**61), st.integers(0, 2**61))
def test_a_range_reads_back_exactly_and_counts_as_its_lower_end(kind: type[Range], least: int, more: int) -> None:
    one = kind.between(least, least + more)
    again = kind.parse(str(one))
    assert (again, hash(again)) == (one, hash(one)) and (int(again), int(again.most)) == (least, least + more)
    assert again.least == least and again.open == (more > 0) and (str(one) == str(kind.of(least))) == (more == 0)
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert kind.of.parse(one) == least and type(kind.of.parse(one)) is kind.of, "where no range is read it is its lower end"


@given(st.sampled_from(RANGES), st.integers(1, 9), st.integers(0, 9), st.integers(1, 9), st.integers(0, 9))
def test_ranges_are_equal_by_both_ends(kind: type[Range], a: int, b: int, c: int, d: int) -> None:
    one, other = kind.between(a, a + b), kind.between(c, c + d)
    assert (one == other) == ((a, b) == (c, d))
    assert (one == kind.of(c)) == (kind.of(c) == one) == (a == c and b == 0)
    assert one != "1"


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        (CpuRange, "2..8", "2..8"),
        (CpuRange, " 500m .. 2 ", "0.5..2"),
        (CpuRange, "2..2", "2"),
        (ThroughputRange, "100..500 MB/s", "100..500 MB/s"),
        (IopsRange, "1000..5000", "1000..5000"),
        (CpuRange, 4, "4"),
        (BandwidthRange, "1..10 Gbit/s", "1..10 Gbit/s"),
        (BandwidthRange, "500 Mbit/s..2 Gbit/s", "500 Mbit/s..2 Gbit/s"),
        (BandwidthRange, "1000..2000 Mbit/s", "1..2 Gbit/s"),
        (BandwidthRange, "0", "0 bit/s"),
        (MemoryRange, "64..128 GB", "64..128 GB"),
        (MemoryRange, "512 MB .. 2 GB", "512 MB..2 GB"),
        (MemoryRange, "4..8 GiB", "4..8 GiB"),
    ],
)
def test_a_range_is_written_in_one_way(kind: type[Range], text: object, written: str) -> None:
    assert str(kind.parse(text)) == written


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (CpuRange, "8..2", "the lower end is above the upper one; write '2..8'"),
        (CpuRange, "2..", "has no upper end; write a range like '2..8'"),
        (CpuRange, "..8", "has no lower end"),
        (CpuRange, "..", "has no lower end"),
        (CpuRange, "1..2..3", "'2..3' is not a number of vCPUs"),
        (CpuRange, "0..8", "guarantees nothing; write a lower end above 0"),
        (CpuRange, "2..8000m", "has a unit at one end; write both alike"),
        (CpuRange, "2..8 GB", "has a unit at one end; write both alike"),
        (CpuRange, "1.." + "9" * 60, "is not a number of vCPUs"),
        (CpuRange, "9" * 60 + "..1m", "has a unit at one end"),
        (BandwidthRange, "1..10", "1 has no unit"),
        (BandwidthRange, "1 Gbit/s..10", "10 has no unit"),
        (BandwidthRange, "1 GB..10 Gbit/s", "'GB' is no unit of a bandwidth"),
        (BandwidthRange, "10..1 Gbit/s", "write '1..10 Gbit/s'"),
        (BandwidthRange, "1 Gbit/s..2 Mbit/s", "write '2 Mbit/s..1 Gbit/s'"),
        (MemoryRange, "64..128", "64 has no unit; write a size like '512 GB'"),
        (Bytes, "64..128 GB", "'64..128 GB' is not a size"),
        (Cpus, "2..8", "'2..8' is not a number of vCPUs"),
    ],
)
def test_what_is_wrong_with_a_range_is_said(kind: type[Quantity], text: object, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        kind.parse(text)


def test_a_lowered_range_keeps_its_ceiling_and_a_single_value_falls_as_a_whole() -> None:
    assert [str(CpuRange.parse("4..8").lowered(n)) for n in (2000, 500, 0)] == ["2..8", "0.5..8", "0"]
    assert str(CpuRange.parse("4").lowered(2000)) == "2"


def test_a_single_value_is_written_as_before_there_were_ranges() -> None:
    plain = {"vcpus": "3"}
    assert Each.model_validate({"vcpus": 3}).model_dump(mode="json", exclude_defaults=True) == plain
    assert Each(vcpus=Cpus(3000)) == Each.model_validate(plain)  # type: ignore[arg-type]
    assert Each.model_validate({"vcpus": 1}).model_dump(mode="json", exclude_defaults=True) == {}
    assert Each.model_validate({"vcpus": "1..2"}).model_dump(mode="json", exclude_defaults=True) == {"vcpus": "1..2"}


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
    ],
)
def test_a_card_is_named_as_in_stack_files(product: str, model: str) -> None:
    assert gpu_model(product) == model


@given(st.integers(0, 9_999_999_990_000), st.sampled_from(["EUR", "USD", "CHF"]))
def test_price_reads_back_exactly(amount: int, currency: str) -> None:
    assert Price.parse(str(Price(amount, currency))) == Price(amount, currency)


@pytest.mark.parametrize("text", ["2.50", 2.5, "2.50 EUR", "2.50 eur/h", "-1 EUR/h", "2.50001 EUR/h", "1e3 EUR/h", None, True])
def test_what_is_no_price_is_said(text: object) -> None:
    with pytest.raises(ValueError, match=r"is no price; write it like '2.50 EUR/h'"):
        Price.parse(text)


def test_prices_of_two_currencies_never_meet() -> None:
    with pytest.raises(ValueError, match="two currencies"):
        Price.parse("1 EUR/h") + Price.parse("1 USD/h")
    assert Price.parse("2 EUR/h") != Price.parse("2 USD/h")
    assert str(Price.parse("1 EUR/h") - Price.parse("2.25 EUR/h")) == "-1.25 EUR/h"


def test_a_price_that_is_too_fine_says_so() -> None:
    with pytest.raises(ValueError, match=r"'2\.12345 EUR/h' is no price; .*, with at most 4 digits after the point"):
        Price.parse("2.12345 EUR/h")
    with pytest.raises(ValueError, match=r"write it like '2\.50 EUR/h'$"):
        Price.parse("2.1234 euros")
