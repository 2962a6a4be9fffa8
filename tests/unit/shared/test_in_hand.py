"""What a careful process says of the object in hand."""

import pytest

from shared.errors import ObjectError
from shared.in_hand import InHand, number_of


def test_it_says_what_is_in_hand_while_it_is() -> None:
    said: list[int | str] = []
    assert InHand(said.append).do(b"object", lambda: said.append("work"))
    assert said == [number_of(b"object"), "work", 0]


def test_what_is_left_out_is_not_taken_in_hand() -> None:
    said: list[int | str] = []
    hand = InHand(said.append, [number_of(b"deadly")])
    assert not hand.do(b"deadly", lambda: said.append("work"))
    assert said == []
    assert hand.do(b"deadly no more", lambda: None)


@pytest.mark.parametrize(
    ("error", "is_still_in_hand"), [(AssertionError(), True), (ObjectError("here", "bad"), False)]
)
def test_only_the_end_of_the_process_leaves_it_in_hand(
    error: Exception, is_still_in_hand: bool
) -> None:
    said: list[int] = []

    def work() -> None:
        raise error

    hand = InHand(said.append)
    with pytest.raises(type(error)):
        hand.do(b"object", work)
    if is_still_in_hand:
        assert hand.do(b"what another task takes before the end", lambda: None)
    assert (said[-1] != 0) == is_still_in_hand


def test_the_number_is_never_that_of_nothing() -> None:
    assert number_of(b"") != 0


def test_nobody_is_careful_who_is_not_asked_to_be() -> None:
    assert InHand.asked_for(None, lambda _: None) is None
    assert InHand.asked_for(frozenset(), lambda _: None) is not None
