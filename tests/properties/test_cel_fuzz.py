"""Whatever the text of a selector, CEL answers or raises its own errors."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz import cel
from shared.dra.cel_functions import FUNCTIONS

DEVICE = cel.a_device()


@settings(max_examples=1000)
@given(st.randoms(use_true_random=False), st.booleans())
def test_a_selector_raises_nothing_but_errors_of_its_own(
    source_of: random.Random, is_grown: bool
) -> None:
    source = (cel.grown if is_grown else cel.mutated)(source_of)
    problem = cel.problem_with(source, DEVICE)
    assert problem is None, f"{source}: {problem!r}"


def test_a_run_from_a_seed_finds_nothing() -> None:
    assert cel.fuzz(seed=20_261, count=5_000) == []


def test_selectors_grow_with_every_function_there_is() -> None:
    numbers = random.Random(1)
    text = " ".join(cel.grown(numbers) for _ in range(4_000))
    words = {name for name, _, _ in FUNCTIONS if name.replace(".", "").isalnum()}
    assert {name for name in words if f"{name}(" not in text} == set()
