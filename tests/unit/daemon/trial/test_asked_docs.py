"""docs/asking.md says what the commands print."""

from tests.support.asked_docs import DOCUMENT, written_anew


def test_the_answers_in_the_document_are_those_that_are_given() -> None:
    assert DOCUMENT.read_text() == written_anew(), "python -m tests.support.asked_docs"
