"""Scores for images that a node already has.

Rules: pkg/scheduler/framework/plugins/imagelocality/image_locality.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from shared.columns.schema import Int32s
from shared.framework.normalize import SCORE_MAX

MEBIBYTE: Final = 1024 * 1024
BYTES_MIN: Final = 23 * MEBIBYTE
"""Less than this is not worth a point."""
BYTES_MAX_EACH: Final = 1000 * MEBIBYTE
"""For each container; more counts as this."""
DEFAULT_TAG: Final = "latest"


def nodes_by_image(
    images_ids: Int32s, image_sets: Sequence[frozenset[str]], names: Sequence[str]
) -> list[int]:
    """How many nodes have each of `names`; `images_ids` holds the set id of each node."""
    counts = np.bincount(images_ids, minlength=len(image_sets)).tolist()
    return [
        sum(count for count, images in zip(counts, image_sets, strict=False) if name in images)
        for name in names
    ]


def spread_size(size_bytes: int, node_count_with: int, node_count: int) -> int:
    """The size scaled by the share of nodes that have the image, truncated as float64 gives it."""
    return int(float(size_bytes) * (float(node_count_with) / float(node_count)))


def locality_score(sum_bytes: int, container_count: int) -> int:
    """Scaled sizes on a node, summed, to 0..100."""
    maximum = BYTES_MAX_EACH * container_count
    if sum_bytes < BYTES_MIN:
        sum_bytes = BYTES_MIN
    elif sum_bytes > maximum:
        sum_bytes = maximum
    return SCORE_MAX * (sum_bytes - BYTES_MIN) // (maximum - BYTES_MIN)


def set_score(
    images: frozenset[str], wanted: Sequence[tuple[str, int]], container_count: int
) -> int:
    """The score of a node with these images; `wanted` holds (image, scaled size) pairs."""
    total = sum(size for name, size in wanted if name in images)
    return locality_score(total, container_count)


def normalized_name(name: str) -> str:
    """The name with a tag, as nodes report it."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:{DEFAULT_TAG}"
