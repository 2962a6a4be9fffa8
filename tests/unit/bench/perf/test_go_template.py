"""The part of Go's templates that workloads use, and the words for what is not supported."""

import pytest

from bench.perf.go_template import TemplateError, render


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("bar-{{.Index}}: 1", "bar-7: 1"),
        ("{{ .Index }}/{{.Count}}", "7/10"),
        ("{{AddInt 1 .Index 2}}", "10"),
        ("{{Mod (MultiplyInt .Index 5) 8}}", "3"),
        ("{{SubtractInt .Index 10}}", "-3"),
        ("{{Mod (SubtractInt .Index 10) 2}}", "-1"),
        ("{{DivideInt .Index 2}} {{DivideFloat .Index 2}}", "3 3.5"),
        ('{{AddInt "40" .claims}}', "42"),
        ('{{.zone}}-{{"x y"}}', "moon-x y"),
    ],
)
def test_actions_are_replaced_by_their_value(text: str, shown: str) -> None:
    assert render(text, {"Index": 7, "Count": 10, "claims": 2, "zone": "moon"}, "here") == shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{if .Index}}a{{end}}", "'if' is not supported"),
        ("{{.Index | printf}}", "no pipes"),
        ("{{- .Index}}", "trimming is not supported"),
        ("{{.Other}}", "there is no .Other; known: Count, Index"),
        ("{{}}", "nothing to show"),
        ("{{AddInt (Mod 1 2}}", "a parenthesis is not closed"),
        ("{{DivideInt 1 0}}", "DivideInt of"),
        ("{{Mod 1}}", "Mod of"),
        ('{{AddInt "many"}}', "'many' is no number"),
    ],
)
def test_what_is_not_supported_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(text, {"Index": 7, "Count": 10}, "pod.yaml")
    assert problem in str(caught.value)
    assert str(caught.value).startswith("pod.yaml: ")
