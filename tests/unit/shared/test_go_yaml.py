"""YAML as Kubernetes' programs read it: each line is what go-yaml and JSON make of it."""

from typing import Any

import pytest
import yaml

from shared.go_yaml import YAML_FAULTS, composed, dumped, value_of


def read(text: str, *, is_strict: bool = True) -> Any:
    node = composed(text)
    return None if node is None else value_of(node, is_strict=is_strict)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", True),
        ("On", True),
        ("y", True),
        ("N", False),
        ("off", False),
        ("~", None),
        ("Null", None),
        ("16.0", 16),
        ("1e1", 10),
        ("0.5e1", 5),
        ("1e-1", 0.1),
        ("017", 15),
        ("0o17", 15),
        ("08", 8),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("+5", 5),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("99999999999999999999", 10**20),
        ("1e22", 1e22),
        ("1e400", "1e400"),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
        ("=", "="),
        ("0x", "0x"),
        ("_1", "_1"),
        ("'1'", "1"),
        ("!!str yes", "yes"),
        ("!!int '2'", 2),
        ("!!float 2", 2),
        ("!unknown 1", "1"),
        ("!unknown [1]", [1]),
        ("{1: a, true: b}", {"1": "a", "true": "b"}),
    ],
)
def test_a_value_is_what_go_makes_of_it(written: str, value: Any) -> None:
    read_value = read(f"a: {written}\n")["a"]
    assert read_value == value
    assert type(read_value) is type(value)


@pytest.mark.parametrize("written", [".nan", "-.inf", "!!int x", "!!bool 1", "{~: 1}", "*nobody"])
def test_what_json_cannot_say_is_a_fault(written: str) -> None:
    with pytest.raises(YAML_FAULTS):
        read(f"a: {written}\n")


def test_the_first_document_counts() -> None:
    assert read("---\na: 1\n---\na: 2\n") == {"a": 1}
    assert read("a: 1\n---\n]\n") == {"a": 1}


def test_a_tab_parts_a_value_from_its_key() -> None:
    assert read("a:\t1\nb: [1,\t2]\n") == {"a": 1, "b": [1, 2]}
    with pytest.raises(YAML_FAULTS):
        read("a: 1\n\tb: 2\n")


def test_members_of_others_are_taken_over_by_a_merge_key() -> None:
    text = "x: &x {a: 1}\ny: &y {b: 2}\nz: {<<: [*x, *y], c: 3}\n"
    assert read(text)["z"] == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(YAML_FAULTS):
        read("z: {<<: 1}\n")


def test_a_key_stands_once_where_reading_is_strict() -> None:
    for text in ("{a: 1, a: 2}", "x: &x {a: 1}\nz: {<<: *x, a: 2}\n"):
        with pytest.raises(YAML_FAULTS):
            read(text)
    assert read("{a: 1, a: 2}", is_strict=False) == {"a": 2}


@pytest.mark.parametrize(
    "text",
    [
        *("y", "N", "on", "~", "null", "1e1", "0o17", "017", "1_000"),
        *(".inf", "1.e3", "<<", "1:30"),
    ],
)
def test_text_that_is_written_is_text_for_whoever_reads_it(text: str) -> None:
    document = {text: [text, ""], "number": 1, "truth": True, "real": 0.5, "none": None}
    written = dumped(document)
    assert read(written) == document
    assert yaml.safe_load(written) == document
