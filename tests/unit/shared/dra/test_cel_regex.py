"""The linear-time regular expressions, against Python's own where both mean the same."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.dra.cel_regex import compile_regex
from shared.dra.cel_values import CelError


def patterns() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", "x"])
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "*?", "+?"])).map(
                lambda p: f"(?:{p[0]}){p[1]}"
            ),
        ),
        max_leaves=6,
    )


@given(patterns(), st.text("abcx1", max_size=8))
def test_it_finds_what_a_backtracking_matcher_finds_first(pattern: str, text: str) -> None:
    found = re.search(pattern, text)
    assert compile_regex(pattern).search(text) == (found.span() if found else None)


def test_a_pattern_that_makes_others_backtrack_for_ever_ends_at_once() -> None:
    assert compile_regex("(a+)+$").search("a" * 300 + "b") is None


@pytest.mark.parametrize(
    ("pattern", "text", "span"),
    [
        (r"^v\d+$", "v12", (0, 3)),
        (r"(?i)GPU", "a gpu", (2, 5)),
        ("[[:digit:]]+", "ab12c", (2, 4)),
        (r"\bcat\b", "a cat.", (2, 5)),
        ("(?P<n>a)b", "xab", (1, 3)),
        ("[]a]+", "x]a", (1, 3)),
        ("[a-c\\]]+", "xb]c", (1, 4)),
        ("a{2}", "aaa", (0, 2)),
        ("a{,2}", "a{,2}", (0, 5)),
        (r"\x41\x{42}", "AB", (0, 2)),
        ("(?m)^b$", "a\nb", (2, 3)),
        ("", "abc", (0, 0)),
    ],
)
def test_syntax(pattern: str, text: str, span: tuple[int, int]) -> None:
    assert compile_regex(pattern).search(text) == span


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "*", "[a", "a{2000}", r"\q", "[z-a]", "(?=a)", r"\pL", "((((a{99}){99}){99}))"],
)
def test_what_is_no_pattern_is_an_error(pattern: str) -> None:
    with pytest.raises(CelError):
        compile_regex(pattern)
