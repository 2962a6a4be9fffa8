"""Image scores against plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.plugins.images.image_locality import ImageLocality, normalized_name
from tests.support import slow_twins
from tests.support.builders import make_node
from tests.support.cluster import cluster_of, pod_with, rated, rows_of

MEBIBYTE = 1024 * 1024
IMAGES = ("a:1", "b:1", "c:1", "unknown:1")
SIZES = st.one_of(
    st.integers(0, 50 * MEBIBYTE),
    st.integers(0, 5000 * MEBIBYTE),
    st.integers(2**61, 2**63 - 1),
    st.just(2**63 - 1),
)


@given(
    st.lists(st.sets(st.sampled_from(IMAGES[:3])), min_size=1, max_size=5),
    st.lists(st.sampled_from(IMAGES), min_size=1, max_size=4),
    st.fixed_dictionaries(dict.fromkeys(IMAGES[:3], SIZES)),
)
def test_images_count_by_size_and_by_how_many_nodes_have_them(
    nodes: list[set[str]], pod_images: list[str], sizes: dict[str, int]
) -> None:
    cache = cluster_of(
        [
            make_node(f"n{i}", images=[{"names": [n], "sizeBytes": sizes[n]} for n in images])
            for i, images in enumerate(nodes)
        ]
    )
    pod = pod_with({"containers": [{"name": "c", "image": image} for image in pod_images]})
    scores = rated(ImageLocality(), pod, cache.view, rows_of(*range(len(nodes))))
    for images, score in zip(nodes, scores.tolist(), strict=True):
        twin = slow_twins.image_score(
            pod_images, len(pod_images), sorted(images), sizes, [sorted(n) for n in nodes]
        )
        assert score == twin


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
