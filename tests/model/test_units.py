"""Are quantities read exactly, refused with words, and written so that they read back?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.hardware import gpu_model
from swarm_iac.units import BitsPerSecond, Bytes, BytesPerSecond, Cpus, Hertz, Price, Quantity, Seconds, Watts

KINDS = (Bytes, BitsPerSecond, BytesPerSecond, Watts, Hertz, Seconds, Cpus)


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
        (Watts, "-5 W", "write it like"),
        (Cpus, "0.0001", "not a whole number"),
        (Bytes, True, "expected a size"),
        (Bytes, "9" * 30 + " PB", "too large"),
    ],
)
def test_what_is_wrong_is_said(kind: type[Quantity], text: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kind.parse(text)


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
