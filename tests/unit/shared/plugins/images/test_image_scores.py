"""Image scores against plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.table import Interner
from shared.plugins.images.image_locality import (
    nodes_by_image,
    normalized_name,
    set_score,
    spread_size,
)
from tests.support import slow_twins

MEBIBYTE = 1024 * 1024
IMAGES = ("a:1", "b:1", "c:1", "unknown:1")
SIZES = st.one_of(st.integers(0, 50 * MEBIBYTE), st.integers(0, 5000 * MEBIBYTE))


@given(
    st.lists(st.sets(st.sampled_from(IMAGES[:3])), min_size=1, max_size=5),
    st.lists(st.sampled_from(IMAGES), min_size=1, max_size=4),
    st.fixed_dictionaries(dict.fromkeys(IMAGES[:3], SIZES)),
)
def test_images_count_by_size_and_by_how_many_nodes_have_them(
    nodes: list[set[str]], pod_images: list[str], sizes: dict[str, int]
) -> None:
    sets = Interner[frozenset[str]]((frozenset(),))
    ids = np.array([sets.id_of(frozenset(images)) for images in nodes], np.int32)
    known = [image for image in pod_images if image in sizes]
    counts = nodes_by_image(ids, sets.values, known)
    wanted = [
        (image, spread_size(sizes[image], count, len(nodes)))
        for image, count in zip(known, counts, strict=True)
    ]
    for images in nodes:
        got = set_score(frozenset(images), wanted, len(pod_images))
        twin = slow_twins.image_score(
            pod_images, len(pod_images), sorted(images), sizes, [sorted(n) for n in nodes]
        )
        assert got == twin


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        ("app", "app:latest"),
        ("app:v1", "app:v1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:v1", "registry:5000/app:v1"),
        ("app@sha256:ab", "app@sha256:ab"),
    ],
)
def test_a_name_without_tag_means_latest(name: str, normalized: str) -> None:
    assert normalized_name(name) == normalized
