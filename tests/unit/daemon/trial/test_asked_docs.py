"""The documents say what the commands print."""

import re

import pytest

from tests.support.asked_docs import DOCS, SCENES, as_compared, written_anew


@pytest.mark.parametrize("name", sorted(SCENES))
def test_the_answers_in_the_document_are_those_that_are_given(name: str) -> None:
    now = as_compared((DOCS / name).read_text())
    assert now == as_compared(written_anew(name)), "python -m tests.support.asked_docs"


def test_no_document_has_answers_that_nobody_gives() -> None:
    having = {path.name for path in DOCS.glob("*.md") if re.search(r"(?m)^\$ ", path.read_text())}
    assert having == SCENES.keys()
