"""Quantities against exact fractions."""

from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from shared.kube import quantity
from shared.kube.api.meta_v1 import INT64_MAX

FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}

digits = st.text("0123456789", max_size=18)
suffixes = st.one_of(
    st.sampled_from(sorted(FACTORS)),
    st.builds(
        "{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 30)
    ),
)


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A quantity as text, and what it is worth."""
    sign, whole, suffix = draw(st.sampled_from(["", "+", "-"])), draw(digits), draw(suffixes)
    fraction = draw(st.one_of(st.none(), digits))
    number = whole + ("" if fraction is None else "." + fraction)
    if not number.strip("."):
        number = "0"
    worth = Fraction(int(whole or "0")) + Fraction(int(fraction or "0"), 10 ** len(fraction or ""))
    worth *= FACTORS[suffix] if suffix in FACTORS else Fraction(10) ** int(suffix[1:])
    return sign + number + suffix, -worth if sign == "-" else worth


def away_from_zero(value: Fraction) -> int:
    return ceil(value) if value >= 0 else -ceil(-value)


def clamped(value: int) -> int:
    return max(-INT64_MAX - 1, min(value, INT64_MAX))


@given(written())
def test_values_are_the_exact_ones_rounded_up_away_from_zero(case: tuple[str, Fraction]) -> None:
    text, worth = case
    is_binary = text[-1] == "i"
    if is_binary:
        worth = max(Fraction(-INT64_MAX), min(worth, Fraction(INT64_MAX)))
    # Nothing is kept below 1e-9, and that is rounded up as well.
    kept = Fraction(away_from_zero(worth * 10**9), 10**9)
    assert quantity.nanos(text) == kept * 10**9
    if quantity.parse(text).is_big_negative:
        return  # Kubernetes' own arithmetic is not exact here; the corpus has examples.
    assert quantity.value(text) == clamped(away_from_zero(kept))
    assert quantity.milli_value(text) == clamped(away_from_zero(kept * 1000))


@given(written())
def test_the_canonical_text_means_the_same(case: tuple[str, Fraction]) -> None:
    text, _ = case
    parsed = quantity.parse(text)
    # From 1e21 on upstream itself drops the suffix.
    if abs(parsed.nanos) < 10**21 * 10**9:
        assert quantity.parse(quantity.canonical(parsed)).nanos == parsed.nanos


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    problem = ""
    try:
        quantity.parse(text)
    except quantity.QuantityError as error:
        problem = str(error)
    assert not problem or "quantity" in problem
