"""Selectors that grow know every function there is."""

import random

from bench.fuzz import cel
from shared.cel.cel_functions import FUNCTIONS


def test_selectors_grow_with_every_function_there_is() -> None:
    numbers = random.Random(1)
    text = " ".join(cel.grown(numbers) for _ in range(4_000))
    words = {name for name, _, _ in FUNCTIONS if name.replace(".", "").isalnum()}
    assert {name for name in words if f"{name}(" not in text} == set()
