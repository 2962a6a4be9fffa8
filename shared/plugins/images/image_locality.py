"""ImageLocality: nodes that have a pod's images already, the more the larger these are.

An image counts by its size times the share of nodes that have it, so that one node with a rare
image is not flooded. Hence a score depends on the images of all nodes and on their number.

Rules: pkg/scheduler/framework/plugins/imagelocality/image_locality.go, v1.36.2.
"""

from typing import ClassVar, Final

import numpy as np

from shared.columns.answer_table import AnswerTable
from shared.columns.rows import row_index
from shared.columns.schema import Int64s, Rows, wrap_int64
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import SCORE_MAX
from shared.framework.plugin_api import Dependence, PreScoreResult, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.plugin_names import IMAGE_LOCALITY

MEBIBYTE: Final = 1024 * 1024
BYTES_MIN: Final = 23 * MEBIBYTE
"""Less than this is not worth a point."""
BYTES_MAX_EACH: Final = 1000 * MEBIBYTE
"""For each container; more counts as this."""
DEFAULT_TAG: Final = "latest"

ImageSet = frozenset[str]


class ImageLocality:
    """Its score never skips, as upstream's: without a known image it is 0."""

    NAME: ClassVar[str] = IMAGE_LOCALITY
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    pre_score_depends: ClassVar[Dependence | None] = Dependence(Reads.IMAGES, Scope.CLUSTER)
    score_depends: ClassVar[Dependence] = Dependence(Reads.IMAGES, Scope.CLUSTER)
    scores_within_range: ClassVar[bool] = True

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        return PreScoreResult(state=_image_scores(pod, cluster))

    def score(
        self, state: AnswerTable[ImageSet] | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Int64s:
        if state is None:
            return np.zeros(len(rows), np.int64)
        nodes = cluster.nodes
        return state.of(nodes.images, nodes.images_id[row_index(rows)])


def _image_scores(pod: PodInfo, cluster: ClusterView) -> AnswerTable[ImageSet] | None:
    """The score of each interned set of images; None: no node has any of the pod's images, as for most
    pods of most clusters. The same image twice counts twice; image volumes count as no container."""
    nodes, spec = cluster.nodes, pod.spec
    containers = [c.image for c in (*(spec.init_containers or ()), *spec.containers)]
    volumes = [v.image.reference for v in spec.volumes or () if v.image is not None]
    names = [normalized_name(name) for name in (*containers, *volumes)]
    known = [name for name in names if name in nodes.image_sizes]
    if not known:
        return None
    ids = nodes.images_id[: nodes.row_count][nodes.present[: nodes.row_count]]
    node_counts = np.bincount(ids, minlength=len(nodes.images.values)).tolist()
    # Each with its size by the share of nodes that have it, truncated as float64 gives it. The one
    # product beyond 64 bits, 2^63, is the lowest number on amd64; sums wrap around.
    wanted: list[tuple[str, int]] = []
    for name in known:
        sets = zip(node_counts, nodes.images.values, strict=True)
        node_count = sum(count for count, images in sets if name in images)
        share = float(node_count) / float(len(ids))
        wanted.append((name, wrap_int64(int(float(nodes.image_sizes[name]) * share))))
    maximum = BYTES_MAX_EACH * len(containers)

    def score_of(images: ImageSet) -> int:
        total = wrap_int64(sum(size for name, size in wanted if name in images))
        total = BYTES_MIN if total < BYTES_MIN else min(total, maximum)
        return SCORE_MAX * (total - BYTES_MIN) // (maximum - BYTES_MIN)

    return AnswerTable(score_of, np.int64)


def normalized_name(name: str) -> str:
    """The name with a tag, as nodes report it."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:{DEFAULT_TAG}"
