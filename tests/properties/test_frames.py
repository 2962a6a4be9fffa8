"""Any message survives the envelope; any damage to it is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import FrameError
from shared.messages.codec import PACKED_BYTES_MAX, seal, unseal

bodies = st.binary(max_size=200)
buffers = st.binary(max_size=100) | st.just(bytes(PACKED_BYTES_MAX))
"""With one of the last, frames travel one by one; without, packed into one."""
buffer_lists = st.lists(buffers, max_size=4)


@given(bodies, buffer_lists)
def test_what_is_sealed_comes_out(body: bytes, buffers: list[bytes]) -> None:
    assert unseal("c", seal(body, buffers)) == (body, buffers)


@given(bodies, buffer_lists, st.data())
def test_a_flipped_bit_anywhere_is_noticed(
    body: bytes, buffers: list[bytes], data: st.DataObject
) -> None:
    frames = [bytearray(frame) for frame in seal(body, buffers)]
    frame = data.draw(st.sampled_from([f for f in frames if f]))
    position = data.draw(st.integers(0, len(frame) * 8 - 1))
    frame[position // 8] ^= 1 << position % 8
    with pytest.raises(FrameError):
        unseal("c", frames)


@given(bodies, buffer_lists, st.data())
def test_a_frame_that_is_missing_doubled_or_cut_is_noticed(
    body: bytes, buffers: list[bytes], data: st.DataObject
) -> None:
    frames = [bytes(frame) for frame in seal(body, buffers)]
    index = data.draw(st.integers(0, len(frames) - 1))
    damage = data.draw(st.sampled_from(["missing", "doubled", "cut"]))
    if damage == "missing":
        del frames[index]
    elif damage == "doubled":
        frames.insert(index, frames[index])
    else:
        frames[index] = frames[index][: data.draw(st.integers(0, max(0, len(frames[index]) - 1)))]
    if frames == [bytes(frame) for frame in seal(body, buffers)]:
        return  # An empty frame cannot be cut.
    with pytest.raises(FrameError):
        unseal("c", frames)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_noise_is_refused_and_never_anything_else(parts: list[bytes]) -> None:
    with pytest.raises(FrameError):
        unseal("c", parts)
