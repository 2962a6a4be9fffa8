"""Quantities against what Kubernetes itself makes of them, and the edges of our own bounds."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bench.conformance.quantities import as_stored
from shared.kube import quantity
from shared.kube.api.meta_v1 import INT64_MAX
from shared.kube.quantity import QuantityError, QuantityFormat

CORPUS = Path(__file__).parents[3] / "conformance" / "quantities.jsonl.gz"


def corpus() -> list[dict[str, Any]]:
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_the_corpus_is_read_as_kubernetes_reads_it() -> None:
    checked = 0
    for row in corpus():
        if "error" in row:
            continue
        parsed = quantity.parse(row["text"])
        assert quantity.canonical(parsed) == row["canonical"], row
        assert as_stored(parsed) == row["stored"], row
        if "value" in row:
            assert quantity.value(row["text"]) == row["value"], row
        if "milli_value" in row:
            assert quantity.milli_value(row["text"]) == row["milli_value"], row
        checked += 1
    assert checked > 700


def test_what_kubernetes_refuses_is_refused_with_the_text_named() -> None:
    refused = [row["text"] for row in corpus() if "error" in row]
    assert len(refused) > 30
    for text in refused:
        with pytest.raises(QuantityError) as caught:
            quantity.parse(text)
        assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["Pi", "+Ei", ".e-10", "-e-300"])
def test_a_suffix_alone_is_refused_where_it_is_beyond_an_integer(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        quantity.parse(text)
    assert caught.value.in_brief == "unable to parse numeric part of quantity"


@pytest.mark.parametrize("text", ["Ti", "-k", ".e-9", "+e300"])
def test_a_suffix_alone_is_nothing_otherwise(text: str) -> None:
    assert quantity.value(text) == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [("-.398070061790864962G", -398070060), ("-9223372036854775808e-9", -9223372035)],
)
def test_a_long_negative_amount_is_cut_as_kubernetes_cuts_it(text: str, value: int) -> None:
    """The zero before the point is a digit too, and the lowest integer has no opposite."""
    assert quantity.value(text) == value


def test_json_numbers_are_quantities_too() -> None:
    assert quantity.value(2) == 2
    assert quantity.milli_value(0.5) == 500
    assert quantity.milli_value(1e-7) == 1
    assert quantity.value(1e21) == INT64_MAX


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_numbers_that_are_none_are_refused(number: float) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(number)


def test_values_stay_within_64_bits() -> None:
    assert quantity.value("10E") == INT64_MAX
    assert quantity.value("-10E") == -INT64_MAX - 1
    assert quantity.milli_value("9E") == INT64_MAX
    assert quantity.value("1000000Ei") == INT64_MAX


@pytest.mark.parametrize("text", ["1e401", "1e-401", "1e99999999999999999999", "9" * 401])
def test_absurd_sizes_are_refused_before_they_cost_anything(text: str) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(text)


def test_the_way_of_writing_is_kept() -> None:
    assert quantity.parse("1Gi").format is QuantityFormat.BINARY_SI
    assert quantity.parse("1G").format is QuantityFormat.DECIMAL_SI
    assert quantity.parse("1e9").format is QuantityFormat.DECIMAL_EXPONENT
    # Below one unit a binary suffix makes no sense any more.
    assert quantity.parse("0.0001Ki").format is QuantityFormat.DECIMAL_SI


def test_digits_of_other_scripts_are_no_digits() -> None:
    with pytest.raises(QuantityError):
        quantity.parse("\N{ARABIC-INDIC DIGIT ONE}")
