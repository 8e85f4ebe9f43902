"""Quantities against a model in decimal arithmetic, and the forms that people write."""

from decimal import ROUND_UP, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.resources import (
    INT64_MAX,
    QuantityError,
    format_bytes,
    format_milli,
    format_units,
    milli,
    nano,
    units,
)

FACTORS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6, "G": Decimal(10) ** 9, "T": Decimal(10) ** 12, "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18, "Ki": Decimal(2) ** 10, "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40, "Pi": Decimal(2) ** 50, "Ei": Decimal(2) ** 60,
}  # fmt: skip


@pytest.mark.parametrize(("text", "as_milli", "as_units"), [
    ("0", 0, 0),
    ("1e3", 1_000_000, 1000),
    ("1E3", 1_000_000, 1000),
    ("1e-3", 1, 1),
    ("0.1", 100, 1),
    ("100m", 100, 1),
    ("1Ki", 1_024_000, 1024),
    ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
    ("12E", INT64_MAX, INT64_MAX),
    ("1E", INT64_MAX, 10**18),
    (".5", 500, 1),
    ("5.", 5000, 5),
    ("+3", 3000, 3),
    ("-3", -3000, -3),
    ("-1.5", -1500, -2),
    ("1n", 1, 1),
    ("0.0000000001", 1, 1),
    ("9Ei", INT64_MAX, INT64_MAX),
    (" 2 ", 2000, 2),
    ("0k", 0, 0),
])  # fmt: skip
def test_forms_that_kubernetes_accepts(text, as_milli, as_units):
    assert milli(text) == as_milli
    assert units(text) == as_units


@pytest.mark.parametrize("text", [
    "", ".", "m", "-", "1K", "1ki", "1 Gi", "1GiB", "0x10", "1e", "e3", "1e3m", "1,5", "nan", "inf", "٣",
    "1" * 500,
])  # fmt: skip
def test_what_is_no_quantity_is_refused_with_the_text(text):
    with pytest.raises(QuantityError) as refusal:
        milli(text)
    assert text[:10] in str(refusal.value)


def test_bare_json_numbers_count_like_their_text():
    assert milli(2) == 2000
    assert milli(0.1) == 100
    assert units(1e3) == 1000
    with pytest.raises(QuantityError):
        units(True)


def test_absurd_exponents_neither_hang_nor_overflow():
    assert units("1e999999999") == INT64_MAX
    assert units("-1e999999999") == -INT64_MAX
    assert nano("1e-999999999") == 1
    assert nano("0e999999999") == 0


@given(
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**20),
    st.one_of(st.none(), st.text("0123456789", max_size=12)),
    st.sampled_from(sorted(FACTORS)),
)
def test_agrees_with_decimal_arithmetic(sign, whole, fraction, suffix):
    text = f"{sign}{whole}" + ("" if fraction is None else f".{fraction}") + suffix
    with localcontext() as context:
        context.prec = 100
        exact = abs(Decimal(f"{whole}.{fraction or 0}") * FACTORS[suffix])
        if suffix.endswith("i"):
            exact = min(exact, Decimal(INT64_MAX))
        exact = exact.quantize(Decimal("1e-9"), rounding=ROUND_UP)
        factor = -1 if sign == "-" else 1
        for measured, step in ((milli(text), 1000), (units(text), 1)):
            rounded = int((exact * step).to_integral_value(rounding=ROUND_UP))
            assert measured == factor * min(rounded, INT64_MAX)


@given(st.integers(-(2**62), 2**62))
def test_what_is_written_reads_back_the_same(amount):
    assert nano(format_milli(amount)) == amount * 10**6
    assert nano(format_units(amount)) == amount * 10**9
    assert units(format_bytes(amount)) == amount
